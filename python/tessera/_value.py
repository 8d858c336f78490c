"""OrtValue: a tensor, sequence or map in memory of the library or of numpy."""
import enum

import numpy as np

from . import _native, _types


class OrtDeviceVendorId(enum.IntEnum):
    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtDevice:
    """Where memory is; there is only the CPU."""

    def __init__(self, device_type=0, mem_type=0, device_id=0):
        self._id = device_id

    @staticmethod
    def make(name, device_id, vendor_id=-1):
        require_cpu(name)
        return OrtDevice(device_id=device_id)

    @staticmethod
    def cpu():
        return 0

    @staticmethod
    def cuda():
        return 1

    @staticmethod
    def default_memory():
        return 0

    def device_id(self):
        return self._id

    def device_type(self):
        return "cpu"


def require_cpu(name):
    if name != "cpu":
        raise RuntimeError(f"device {name!r} is not there, wanted 'cpu'")


class _Capsule:
    """A bare DLPack capsule as an object with the protocol."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


class OrtValue:
    """Made by the class methods and by runs. `numpy()` and DLPack show the value's own memory, without a copy."""

    def __init__(self, value, numpy_obj=None):
        self._value = value._value if isinstance(value, OrtValue) else value
        self._numpy_obj = numpy_obj

    @property
    def _ortvalue(self):
        return self

    def _get_c_value(self):
        return self

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, /, device_type="cpu", device_id=0, vendor_id=-1):
        """Reads a contiguous array in place, so later changes of it are seen."""
        require_cpu(device_type)
        array = np.asarray(numpy_obj)
        return cls(_types.tensor_from_array(array), array)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data, /, onnx_element_type):
        """An array whose bits are elements of another type, given by its number in TensorProto.DataType."""
        element = _types.element_of(onnx_element_type)
        if data.dtype.itemsize * 8 < element.bits or (element.bits >= 8 and data.dtype.itemsize * 8 != element.bits):
            raise ValueError(f"elements of {data.dtype} cannot be read as {element.name}")
        return cls(_types.tensor_from_array(data, element), data)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape, element_type, device_type="cpu", device_id=0, vendor_id=-1, memory_info=None
    ):
        require_cpu(device_type)
        return cls(_native.Value.empty_tensor(_types.element_of(element_type).number, list(shape)))

    @classmethod
    def from_dlpack(cls, data, /):
        array = np.from_dlpack(data if hasattr(data, "__dlpack__") else _Capsule(data))
        return cls(_types.tensor_from_array(array), array)

    def numpy(self):
        if not self.is_tensor():
            raise RuntimeError("only a tensor has a numpy array; sequences and maps are read with to_python()")
        return _types.array_from_tensor(self._value)

    def to_python(self):
        """An array, a list, a dict, or None."""
        return _types.to_python(self._value)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.numpy(), dtype) if copy else np.asarray(self.numpy(), dtype)

    def __dlpack__(self, **arguments):
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return (1, 0)

    def update_inplace(self, data):
        """Copies an array of the same type and size into the value's memory."""
        own, given = self.numpy(), np.asarray(data)
        if own.dtype != given.dtype or own.nbytes != given.nbytes:
            raise ValueError(f"{given.dtype}{list(given.shape)} was given, wanted {own.dtype}{list(own.shape)}")
        np.copyto(own, given.reshape(own.shape))

    def data_ptr(self):
        return self._value.address()

    def data_type(self):
        return _types.type_text(self._value.type())

    def element_type(self):
        """The number in TensorProto.DataType."""
        return _types.BY_NUMBER[self._value.type_and_shape()[0]].onnx_number

    def shape(self):
        return self._value.type_and_shape()[1]

    def tensor_size_in_bytes(self):
        return self._value.byte_count()

    def device_name(self):
        return "cpu"

    def has_value(self):
        return self._value.has_value()

    def is_tensor(self):
        return self._value.kind() == _types.TENSOR

    def is_sparse_tensor(self):
        return self._value.kind() == _types.SPARSE

    def is_tensor_sequence(self):
        return self._value.kind() == _types.SEQUENCE
