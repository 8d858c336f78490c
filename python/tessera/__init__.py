"""Tessera runs ONNX models on the CPU.

    import tessera
    session = tessera.InferenceSession("model.onnx")
    result = session(x)

The names are those of onnxruntime's Python package, so programs written for it need another import only, or none:
`python -m tessera.as_onnxruntime program.py`.
"""

from __future__ import annotations

import threading as _threading
from typing import Any

from . import _native
from ._adapter import AdapterFormat
from ._compiler import ModelCompiler
from ._devices import (
    OrtAllocatorType,
    OrtArenaCfg,
    OrtCompileApiFlags,
    OrtDevice,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpContextData,
    OrtEpContextDataBuffer,
    OrtEpDevice,
    OrtExecutionProviderDevicePolicy,
    OrtExternalInitializerInfo,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
    OrtSyncStream,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    get_ep_devices,
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from ._errors import (
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
from ._inner import SessionIOBinding
from ._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    LoraAdapter,
    RunOptions,
    SessionOptions,
    set_global_thread_pool_sizes,
)
from ._session import InferenceSession, IOBinding, ModelMetadata, NodeArg
from ._sparse import SparseTensor
from ._types import copied_bytes
from ._value import OrtValue, copy_tensors

__version__ = "0.1.0"
__author__ = "The Tessera authors"

_native.watch_signals(_threading.main_thread().ident or 0)


def get_available_providers() -> list[str]:
    """What models can run on."""
    return _native.providers()


def get_all_providers() -> list[str]:
    """What models can run on."""
    return _native.providers()


def get_device() -> str:
    """Always "CPU"."""
    return "CPU"


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return _native.version()


def get_build_info() -> str:
    """How the library was built."""
    return f"Build Info: {_native.build_info()}"


def set_default_logger_severity(level: int) -> None:
    """0 verbose, 1 info, 2 warning (the default), 3 error, 4 fatal."""
    _native.set_log_severity(level)


def set_default_logger_verbosity(level: int) -> None:
    """Nothing is logged by verbosity."""


def set_seed(seed: int) -> None:
    """Nothing draws from a seed of the process: random operators have their own, or one per run."""


def enable_telemetry_events() -> None:
    """There is no telemetry."""


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def has_collective_ops() -> bool:
    """Always False."""
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """Nothing to load."""


def print_debug_info() -> None:
    """Versions, the machine and where the package is."""
    import platform

    print(f"tessera {__version__} with the interface of ONNX Runtime {get_version_string()}, in {__path__[0]}")
    print(f"library: {get_build_info()}")
    print(f"Python {platform.python_version()} on {platform.platform()}; providers: {', '.join(_native.providers())}")


__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("annotations", "Any"))
