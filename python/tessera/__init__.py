"""Tessera runs ONNX models on the CPU.

    import tessera
    session = tessera.InferenceSession("model.onnx")
    result = session(x)

The names are those of onnxruntime's Python package, so programs written for it need another import only, or none:
`python -m tessera.as_onnxruntime program.py`.
"""
from . import _native
from ._native import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import InferenceSession, IOBinding, ModelMetadata, NodeArg
from ._value import OrtDevice, OrtDeviceVendorId, OrtValue

__version__ = "0.1.0"

SessionIOBinding = IOBinding


def get_available_providers():
    return _native.providers()


def get_all_providers():
    return _native.providers()


def get_device():
    return "CPU"


def get_version_string():
    """The version of ONNX Runtime whose interface this is."""
    return _native.version()


def get_build_info():
    return _native.build_info()


def set_default_logger_severity(level):
    """0 verbose, 1 info, 2 warning (the default), 3 error, 4 fatal."""
    _native.set_log_severity(level)


def set_default_logger_verbosity(level):
    """Nothing is logged by verbosity."""


def enable_telemetry_events():
    """There is no telemetry."""


def disable_telemetry_events():
    """There is no telemetry."""


def has_collective_ops():
    return False


def get_ep_devices():
    return []


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """Nothing to load."""


__all__ = [name for name in globals() if not name.startswith("_")]
