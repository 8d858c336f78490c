"""OrtValue: a tensor, sequence or map in memory of the library or of numpy."""

from __future__ import annotations

import ctypes
from typing import Any, Sequence

import numpy as np

from . import _native, _types
from ._devices import require_cpu


class OrtValue:
    """A tensor, sequence, map or optional.

    Made by the class methods and by runs. `numpy()` and DLPack show the value's own memory, without a copy.
    """

    def __init__(self, value, numpy_obj: np.ndarray | None = None):
        self._value: Any = value._value if isinstance(value, OrtValue) else value
        self._numpy_obj = numpy_obj

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Reads a contiguous array in place, so later changes of it are seen."""
        require_cpu(device_type)
        array = np.asarray(numpy_obj)
        return cls(_types.tensor_from_array(array), array)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """An array whose bits are elements of another type, given by its number in TensorProto.DataType."""
        element = _types.element_of(onnx_element_type)
        if data.dtype.itemsize * 8 < element.bits or (element.bits >= 8 and data.dtype.itemsize * 8 != element.bits):
            raise ValueError(f"elements of {data.dtype} cannot be read as {element.name}")
        return cls(_types.tensor_from_array(data, element), data)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> OrtValue:
        """A new tensor, its elements not set."""
        require_cpu(device_type)
        return cls(_native.Value.empty_tensor(_types.element_of(element_type).number, list(shape)))

    @classmethod
    def ortvalue_from_shape_and_onnx_type(
        cls, shape: Sequence[int], onnx_element_type: int, device: Any = None
    ) -> OrtValue:
        """A new tensor, its elements not set, of a type given by its number in TensorProto.DataType."""
        return cls.ortvalue_from_shape_and_type(shape, onnx_element_type)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        """A SparseTensor as a value, read in place."""
        return cls(sparse_tensor._value)

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> OrtValue:
        """Memory of another library, through DLPack: an object with the protocol, or a capsule. Contiguous memory is
        used in place."""
        value = _types.value_from_dlpack(data, is_bool_tensor)
        if value is None:
            array = np.from_dlpack(data) if hasattr(data, "__dlpack__") else np.from_dlpack(_Capsule(data))
            value = _types.tensor_from_array(array)
        return cls(value)

    def numpy(self) -> np.ndarray:
        """The tensor as an array over the same memory; strings, and elements of less than a byte, are copied."""
        if not self.is_tensor():
            raise RuntimeError("only a tensor has a numpy array; sequences and maps are read with to_python()")
        return _types.array_from_tensor(self._value)

    def to_python(self) -> Any:
        """An array, a list, a dict, or None."""
        return _types.to_python(self._value)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.numpy(), dtype) if copy else np.asarray(self.numpy(), dtype)

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the value's memory."""
        return _native.to_dlpack(self._value)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"the tensor is on the CPU, wanted device {tuple(dl_device)}")
        if copy:
            return OrtValue.ortvalue_from_numpy(self.numpy().copy()).to_dlpack()
        return self.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __reduce__(self):
        if self.is_tensor():
            return _restore_tensor, (self.element_type(), self.shape(), _plain(self.numpy()))
        return _restore_other, (self._value.type(), self.to_python())

    def update_inplace(self, data: np.ndarray) -> None:
        """Copies an array of the same type and size into the value's memory."""
        own, given = self.numpy(), np.asarray(data)
        if own.dtype != given.dtype or own.nbytes != given.nbytes:
            raise ValueError(f"{given.dtype}{list(given.shape)} was given, wanted {own.dtype}{list(own.shape)}")
        np.copyto(own, given.reshape(own.shape))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._value.address()

    def data_type(self) -> str:
        """Such as 'tensor(float)'."""
        return _types.type_text(self._value.type())

    def element_type(self) -> int:
        """The number in TensorProto.DataType."""
        return _types.BY_NUMBER[self._value.type_and_shape()[0]].onnx_number

    def shape(self) -> list[int]:
        return self._value.type_and_shape()[1]

    def tensor_size_in_bytes(self) -> int:
        return self._value.byte_count()

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._value.has_value()

    def is_tensor(self) -> bool:
        return self._value.kind() == _types.TENSOR

    def is_sparse_tensor(self) -> bool:
        return self._value.kind() == _types.SPARSE

    def is_tensor_sequence(self) -> bool:
        return self._value.kind() == _types.SEQUENCE

    def as_sparse_tensor(self) -> Any:
        """The value as a SparseTensor over the same memory."""
        from ._sparse import SparseTensor

        return SparseTensor._read(self._value)

    def __repr__(self) -> str:
        return (
            f"OrtValue({self.data_type()}, shape={self.shape()})"
            if self.is_tensor()
            else f"OrtValue({self.data_type()})"
        )


class OrtValueVector(list):
    """Values in a row, with the names of the list type that onnxruntime's binding has for them."""

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """An OrtValue, or a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def reserve(self, count: int) -> None:
        """Nothing to do."""

    def shrink_to_fit(self) -> None:
        """Nothing to do."""

    def dlpack_at(self, index: int) -> Any:
        return self[index].to_dlpack()

    def element_type_at(self, index: int) -> int:
        return self[index].element_type()

    def bool_tensor_indices(self) -> list[int]:
        return [i for i, value in enumerate(self) if value.element_type() == 9]

    def to_dlpacks(self, to_tensor=None) -> list:
        capsules = [value.to_dlpack() for value in self]
        return [to_tensor(capsule) for capsule in capsules] if to_tensor else capsules


class _Capsule:
    """A bare DLPack capsule as an object with the protocol."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


class _DlpackTensor(ctypes.Structure):
    """The beginning of what a DLPack capsule holds."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
    ]


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a DLPack capsule is of a tensor of uint8. The capsule stays as it is."""
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DlpackTensor.from_address(address(capsule, b"dltensor"))
    return (tensor.kind, tensor.bits) == (1, 8)


def _plain(array):
    """An array whose type any Python can read."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype.num >= 256 else np.ascontiguousarray(array)


def _restore_tensor(onnx_number, shape, array):
    element = _types.element_of(onnx_number)
    if element.number == _types.STRING or not element.extra:
        return OrtValue(_types.tensor_from_array(array.reshape(shape)))
    typed = array.view(element.dtype).reshape(shape)
    return OrtValue(_types.tensor_from_array(typed, element))


def _restore_other(type_, data):
    return OrtValue(_types.from_python(data, type_))


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each tensor of `src` into the one at the same place of `dst`, which has its type and size."""
    if len(src) != len(dst):
        raise ValueError(f"{len(src)} tensors were given for {len(dst)}")
    for source, target in zip(src, dst):
        target.update_inplace(source.numpy())
