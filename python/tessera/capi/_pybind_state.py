"""The names of onnxruntime's native module."""

from .. import *  # noqa: F401,F403
from .._devices import (  # noqa: F401
    ArenaExtendStrategy,
    OrtCompiledModelCompatibility,
    get_hardware_devices,
)
from .._options import SessionOptions
from .._quantize import (  # noqa: F401
    quantize_matmul_2bits,
    quantize_matmul_4bits,
    quantize_matmul_8bits,
    quantize_matmul_bnb4,
    quantize_qdq_matmul_4bits,
)
from .._sparse import SparseBlockSparseView, SparseCooView, SparseCsrView  # noqa: F401
from .._value import OrtValueVector  # noqa: F401

kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy.kNextPowerOfTwo, ArenaExtendStrategy.kSameAsRequested


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


def get_session_initializer() -> None:
    """Nothing to initialize."""


def is_dlpack_uint8_tensor(capsule) -> bool:
    """Whether a DLPack capsule is of a tensor of uint8; the capsule is used up."""
    from .._value import OrtValue

    return OrtValue.from_dlpack(capsule).element_type() == 2
