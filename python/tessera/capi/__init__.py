"""The places where programs look for names of onnxruntime's native module."""
