"""Element types: their numbers in the C ABI, names, and numpy types; and arrays to and from values."""

from __future__ import annotations

import functools

import numpy as np

from . import _native
from ._errors import NotImplemented, error

TENSOR, SEQUENCE, MAP, SPARSE, OPTIONAL = 1, 2, 3, 5, 6
STRING = 8

_copied = 0


def copied_bytes() -> int:
    """Bytes of arrays that were copied on the way into the library or out of it, since the package was imported."""
    return _copied


def _count_copy(array):
    global _copied
    _copied += array.nbytes
    return array


class Element:
    """One element type. `bits` below 8: several elements share a byte in the library, none in numpy."""

    def __init__(self, number, name, dtype, extra=None, bits=None, onnx_number=None):
        self.number, self.name, self.extra = number, name, extra
        self.plain = np.dtype(dtype)
        self.bits = bits or self.plain.itemsize * 8
        self.onnx_number = number if onnx_number is None else onnx_number  # of TensorProto.DataType

    @property
    def dtype(self):
        """The numpy type: one of ml_dtypes, where there is one; without that package, one with the same bits."""
        return extra_types().get(self.number, self.plain) if self.extra else self.plain


ELEMENTS = (
    Element(1, "float", np.float32),
    Element(2, "uint8", np.uint8),
    Element(3, "int8", np.int8),
    Element(4, "uint16", np.uint16),
    Element(5, "int16", np.int16),
    Element(6, "int32", np.int32),
    Element(7, "int64", np.int64),
    Element(STRING, "string", np.object_),
    Element(9, "bool", np.bool_),
    Element(10, "float16", np.float16),
    Element(11, "double", np.float64),
    Element(12, "uint32", np.uint32),
    Element(13, "uint64", np.uint64),
    Element(14, "complex64", np.complex64),
    Element(15, "complex128", np.complex128),
    Element(16, "bfloat16", np.uint16, "bfloat16"),
    Element(17, "float8e4m3fn", np.uint8, "float8_e4m3fn"),
    Element(18, "float8e4m3fnuz", np.uint8, "float8_e4m3fnuz"),
    Element(19, "float8e5m2", np.uint8, "float8_e5m2"),
    Element(20, "float8e5m2fnuz", np.uint8, "float8_e5m2fnuz"),
    Element(21, "uint4", np.uint8, "uint4", bits=4),
    Element(22, "int4", np.int8, "int4", bits=4),
    Element(23, "float4e2m1", np.uint8, "float4_e2m1fn", bits=4),
    Element(24, "uint2", np.uint8, "uint2", bits=2, onnx_number=25),
    Element(25, "int2", np.int8, "int2", bits=2, onnx_number=26),
    Element(26, "float8e8m0", np.uint8, "float8_e8m0fnu", onnx_number=24),
)
BY_NUMBER = {e.number: e for e in ELEMENTS}
BY_ONNX_NUMBER = {e.onnx_number: e for e in ELEMENTS}
BY_DTYPE = {e.plain: e for e in ELEMENTS if not e.extra and e.number != STRING}


@functools.lru_cache(maxsize=None)
def extra_types():
    """The types of ml_dtypes by number; that package is looked for when the first of them is needed."""
    try:
        import ml_dtypes
    except ImportError:
        ml_dtypes = None
    found = {}
    for e in ELEMENTS:
        if e.extra:
            known = getattr(ml_dtypes, e.extra, None)
            if known is not None:
                found[e.number] = np.dtype(known)
                BY_DTYPE[found[e.number]] = e
            if e.bits >= 8:
                _native.add_element_type(found.get(e.number, e.plain), e.number)
    return found


def element_of_dtype(dtype):
    """The Element of a numpy type, or None."""
    found = BY_DTYPE.get(dtype)
    if found is None and dtype.num >= 256:  # a type that numpy got from another package
        extra_types()
        found = BY_DTYPE.get(dtype)
    return found


def element_of(element_type):
    """The Element that a numpy type or a number of TensorProto.DataType means."""
    if isinstance(element_type, (int, np.integer)):
        if int(element_type) in BY_ONNX_NUMBER:
            return BY_ONNX_NUMBER[int(element_type)]
    else:
        dtype = np.dtype(element_type)
        found = BY_NUMBER[STRING] if dtype.kind in "OUS" else element_of_dtype(dtype)
        if found is not None:
            return found
    raise TypeError(f"{element_type!r} is no element type of tensors")


def type_text(type_):
    """A type as text, such as 'tensor(float)', from the tuple by which the library describes it."""
    kind = type_[0]
    if kind in ("tensor", "sparse_tensor"):
        return f"{kind}({BY_NUMBER[type_[1]].name})"
    if kind == "sequence":
        return f"seq({type_text(type_[1])})"
    if kind == "optional":
        return f"optional({type_text(type_[1])})"
    if kind == "map":
        return f"map({BY_NUMBER[type_[1]].name},{type_text(type_[2])})"
    return "unknown"


def _pack(array, bits):
    per_byte = 8 // bits
    flat = array.reshape(-1)
    if flat.dtype.itemsize != 1:
        raise TypeError(f"elements of {bits} bits were given as {flat.dtype}")
    codes = flat.astype(np.int8).view(np.uint8) if flat.dtype.name.endswith(("int2", "int4")) else flat.view(np.uint8)
    codes = codes & ((1 << bits) - 1)
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    lanes = padded.reshape(-1, per_byte)
    return np.bitwise_or.reduce(lanes << np.arange(0, 8, bits, dtype=np.uint8), axis=1).astype(np.uint8)


def _unpack(packed, element, shape):
    per_byte = 8 // element.bits
    lanes = (packed[:, None] >> np.arange(0, 8, element.bits, dtype=np.uint8)) & ((1 << element.bits) - 1)
    codes = lanes.reshape(packed.size * per_byte)[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    if element.name.startswith("float"):
        return codes.view(element.dtype)
    if element.name.startswith("int"):
        half = 1 << (element.bits - 1)
        codes = (codes.astype(np.int8) ^ half) - half
    return codes.astype(element.dtype)


def tensor_from_array(array, element=None):
    """A value that reads a contiguous array in place; strings, sub-byte elements and strided arrays are copied."""
    if element is None:
        value = _native.Value.of_array(array)
        if value is not None:
            return value
    dtype = array.dtype
    if element is None:
        element = element_of_dtype(dtype)
    if element is None:
        if dtype.kind in "OUST" or (dtype.kind == "V" and dtype.names is None and dtype.subdtype is None):
            _count_copy(array)
            return _native.Value.string_tensor(array.shape, [_text(s) for s in array.reshape(-1).tolist()])
        if not dtype.isnative:
            return tensor_from_array(_count_copy(array.astype(dtype.newbyteorder("="))))
        raise TypeError(f"arrays of {dtype} are not supported")
    if element.bits < 8:
        return _native.Value.tensor(element.number, array.shape, _pack(_count_copy(array), element.bits))
    source = array if array.flags.c_contiguous and array.flags.aligned else _count_copy(array.copy(order="C"))
    if dtype.num >= 256:  # numpy exports no buffer of types that are not its own
        source = source.reshape(-1).view(np.uint8)
    return _native.Value.tensor(element.number, array.shape, source)


def _text(s):
    return s if isinstance(s, (str, bytes)) else str(s)


def array_from_tensor(value):
    """The elements as an array over the value's own memory, which it keeps alive; strings are copied."""
    number, shape = value.type_and_shape()
    if number == STRING:
        out = np.empty(len(flat := value.strings()), object)
        out[:] = flat
        return _count_copy(out.reshape(shape))
    element = BY_NUMBER[number]
    if element.bits < 8:
        return _count_copy(_unpack(np.frombuffer(value, np.uint8), element, shape))
    return np.ndarray(shape, element.dtype, value)


def to_python(value):
    """What a program gets of a value: an array, a list of them, a dict, or None."""
    kind = value.kind()
    if not value.has_value():
        return None
    if kind == TENSOR:
        return array_from_tensor(value)
    if kind == SEQUENCE:
        return [to_python(part) for part in value.parts()]
    if kind == MAP:
        keys, values = value.parts()
        return dict(zip(array_from_tensor(keys).tolist(), array_from_tensor(values).tolist()))
    if kind == SPARSE:
        from ._sparse import SparseTensor

        return SparseTensor._read(value)
    raise error(NotImplemented, f"values of kind {kind} cannot be given to Python")


def _field(number, content):
    """A field of a protobuf message: a number below 128, or text, or a message."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


@functools.lru_cache(maxsize=None)
def _empty_sequence(onnx_number):
    # The C ABI makes sequences of values only; a model of one SequenceEmpty makes one of none.
    attribute = _field(1, b"dtype") + _field(3, onnx_number) + _field(20, 2)
    node = _field(2, b"s") + _field(4, b"SequenceEmpty") + _field(5, attribute)
    tensor = _field(1, _field(1, onnx_number))
    output = _field(1, b"s") + _field(2, _field(4, _field(1, tensor)))
    graph = _field(1, node) + _field(2, b"empty") + _field(12, output)
    model = _field(1, 10) + _field(7, graph) + _field(8, _field(2, 17))
    session = _native.Session.open_bytes(model, _native.SessionOptions.make())
    return session.run_to_values(None, {}, None, 0.0)[0]


def empty_sequence(element):
    """A value without elements of a type, as the library describes it."""
    if element[0] != "tensor":
        raise error(NotImplemented, f"empty sequences of {type_text(element)} cannot be made")
    return _empty_sequence(BY_NUMBER[element[1]].onnx_number)


def from_python(data, type_):
    """The value that `data` means for an argument of a type, as the library describes it."""
    kind = type_[0]
    if kind == "sparse_tensor":
        from ._sparse import SparseTensor

        given = data if isinstance(data, SparseTensor) else SparseTensor._read(data._value)
        return given._as_input()._value
    native = getattr(data, "_value", None)
    if native is not None:
        return native
    if kind == "tensor":
        return _tensor(data, BY_NUMBER[type_[1]])
    if kind == "optional":
        return from_python(data, type_[1])
    if kind == "sequence":
        if not len(data):
            return empty_sequence(type_[1])
        return _native.Value.container(SEQUENCE, [from_python(item, type_[1]) for item in data])
    if kind == "map":
        return _map(data, type_)
    raise error(NotImplemented, f"inputs of type {type_text(type_)} cannot be given")


def _tensor(data, element):
    if not isinstance(data, np.ndarray):
        if hasattr(data, "__dlpack__"):
            value = value_from_dlpack(data)
            if value is not None:
                return value
        if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
            data = np.asarray(data)
        elif hasattr(data, "__dlpack__"):
            data = np.from_dlpack(data)
        else:
            data = _count_copy(np.array(data, element.dtype))
            return tensor_from_array(data, None if element.number == STRING else element)
    if element.extra and data.dtype == element.plain:
        return tensor_from_array(data, element)  # integers with the bits of the elements
    return tensor_from_array(data)


def value_from_dlpack(data, is_bool=False):
    """A value over the memory of an object with the protocol, or of a bare capsule; None where it must be copied."""
    try:
        capsule = data.__dlpack__() if hasattr(data, "__dlpack__") else data
    except (BufferError, RuntimeError, TypeError, AttributeError):
        return None  # read-only memory, and what else its owner does not give
    return _native.from_dlpack(capsule, is_bool)


def _map(data, type_):
    key, item = BY_NUMBER[type_[1]], type_[2]
    wanted, c_type = (str, "std::string") if key.number == STRING else ((int, np.integer), "int64_t")
    for k in data:
        if not isinstance(k, wanted):
            raise RuntimeError(f"Unexpected key type  {type(k)}, it cannot be linked to C type {c_type}")
    keys = from_python(list(data.keys()), ("tensor", key.number, []))
    values = from_python(list(data.values()), item)
    return _native.Value.container(MAP, [keys, values])


_native.set_conversions(from_python, to_python)
