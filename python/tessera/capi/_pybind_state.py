"""The names of onnxruntime's native module."""

from __future__ import annotations

from .. import *  # noqa: F401,F403
from .._devices import (  # noqa: F401
    ArenaExtendStrategy,
    OrtCompiledModelCompatibility,
    OrtDeviceEpIncompatibilityReason,
    get_hardware_device_ep_incompatibility_details,
    get_hardware_devices,
    get_model_compatibility_for_ep_devices,
)
from .._options import SessionOptions
from .._protobuf import compatibility_info
from .._quantize import (  # noqa: F401
    quantize_matmul_2bits,
    quantize_matmul_4bits,
    quantize_matmul_8bits,
    quantize_matmul_bnb4,
    quantize_qdq_matmul_4bits,
)
from .._sparse import SparseBlockSparseView, SparseCooView, SparseCsrView  # noqa: F401
from .._value import OrtValueVector, is_dlpack_uint8_tensor  # noqa: F401

kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy.kNextPowerOfTwo, ArenaExtendStrategy.kSameAsRequested


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


def get_session_initializer() -> None:
    """Nothing to initialize."""


def get_compatibility_info_from_model(model_path: str, ep_type: str) -> str | None:
    """What the provider that compiled the model of a file wrote of itself; None where there is nothing."""
    return compatibility_info(model_path, ep_type)


def get_compatibility_info_from_model_bytes(model_data: bytes, ep_type: str) -> str | None:
    """As get_compatibility_info_from_model, of the bytes of a file."""
    return compatibility_info(model_data, ep_type)
