"""The classes that onnxruntime has in Python."""

from .._adapter import AdapterFormat  # noqa: F401
from .._compiler import ModelCompiler  # noqa: F401
from .._devices import OrtDevice, OrtDeviceVendorId, kind_of_device  # noqa: F401
from .._session import (  # noqa: F401
    InferenceSession,
    IOBinding,
    Session,
    check_and_normalize_provider_args,
)
from .._sparse import SparseTensor  # noqa: F401
from .._value import OrtValue, copy_tensors  # noqa: F401


def get_ort_device_type(device_type: str) -> int:
    """The number of a kind of device."""
    return kind_of_device(device_type)[0]


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId:
    return kind_of_device(device_type)[1]
