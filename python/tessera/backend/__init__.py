"""The interface of onnx.backend: prepare(), run() and what they need. Needs the onnx package."""

from .backend import is_compatible, prepare, run, supports_device

__all__ = ["is_compatible", "prepare", "run", "supports_device"]
