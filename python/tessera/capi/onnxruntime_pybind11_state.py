"""The names of onnxruntime's native module."""

from ._pybind_state import *  # noqa: F401,F403
