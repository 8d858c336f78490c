"""Element types, values of every type, and their protobuf forms.

A value is a numpy array (of an ml_dtypes type where numpy has none), Seq or Opt around arrays, a dict for a map, or None
for an absent argument.
"""
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx import numpy_helper as nh

DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "bool": np.bool_, "string": object, "complex64": np.complex64, "complex128": np.complex128,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu, "float4e2m1": ml_dtypes.float4_e2m1fn,
    "float6e2m3": ml_dtypes.float6_e2m3fn, "float6e3m2": ml_dtypes.float6_e3m2fn,
    "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2,
}  # fmt: skip
CODES = {name: getattr(TensorProto, name.upper()) for name in DTYPES}
NAMES = {np.dtype(d): name for name, d in DTYPES.items()}
NARROW_FLOATS = ("float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0",
                 "float4e2m1", "float6e2m3", "float6e3m2")  # fmt: skip
FLOATS = ("float", "double") + NARROW_FLOATS
SUB_BYTE_INTS = ("int4", "uint4", "int2", "uint2")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64") + SUB_BYTE_INTS
# One unit in the last place, relative.
ULP = {"float": 2.0**-23, "double": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8e4m3fn": 2.0**-3,
       "float8e4m3fnuz": 2.0**-3, "float8e5m2": 2.0**-2, "float8e5m2fnuz": 2.0**-2, "float8e8m0": 1.0,
       "float4e2m1": 0.5, "float6e2m3": 2.0**-3, "float6e3m2": 2.0**-2}  # fmt: skip


class Seq(list):
    """A sequence of tensors of one type, named for when it is empty."""

    def __init__(self, items, element):
        super().__init__(items)
        self.element = element


class Opt:
    """An optional: a value, or None, of the type with that text."""

    def __init__(self, value, inner):
        self.value, self.inner = value, inner


class Map(dict):
    """A map with its type text."""

    def __init__(self, entries, text):
        super().__init__(entries)
        self.text = text


def split_type(text):
    """'seq(tensor(float))' -> ('seq', 'tensor(float)')."""
    head, rest = text.split("(", 1)
    return head, rest[:-1]


def element_of(text):
    """The element type name inside any type text."""
    while "(" in text:
        text = split_type(text)[1]
    return text.split(",")[-1].strip()


def rng(*key):
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def numbers(name, array):
    """An array of any numbers, cast to the type called name as the runtime stores it."""
    array = np.asarray(array)
    if name == "string":
        return np.array([str(v) for v in array.ravel()], dtype=object).reshape(array.shape)
    if name.startswith("uint"):
        array = np.abs(array)
    return array.astype(DTYPES[name])


def sample(name, shape, key=0, low=-4, high=4, step=4, nonzero=False):
    """Values that the type holds exactly: multiples of 1/step for floats, whole numbers for integers."""
    r = rng(name in ("bool", "string"), tuple(shape), key)
    if name == "string":
        words = np.array(["", "a", "bc", "Zebra", "äöü", "x y", "7", "bc"], dtype=object)
        return np.asarray(words[r.integers(0, len(words), shape)], dtype=object)
    if name == "bool":
        return r.integers(0, 2, shape).astype(bool)
    if name in SUB_BYTE_INTS:
        info = ml_dtypes.iinfo(DTYPES[name])
        low, high = max(low, int(info.min)), min(high, int(info.max))
    if name.startswith("uint"):
        low = max(low, 0)
    if name in INTS:
        step = 1
    whole = r.integers(int(low * step), int(high * step) + 1, shape)
    if nonzero:
        whole = np.where(whole == 0, 1, whole)
    if name in INTS:
        return whole.astype(np.int64).astype(DTYPES[name])
    values = whole / step
    if name.startswith("complex"):
        other = r.integers(int(low * step), int(high * step) + 1, shape) / step
        return (values + 1j * other).astype(DTYPES[name])
    if name == "float8e8m0":
        values = 2.0 ** np.round(values)
    if name == "float4e2m1":
        values = np.clip(values, -6, 6)
    return values.astype(DTYPES[name])


def value_of(text, shape, key=0, **how):
    """A value of any type the specification writes."""
    head, inner = split_type(text)
    if head == "tensor":
        return sample(inner, shape, key, **how)
    if head == "seq" and inner.startswith("tensor"):
        return Seq([value_of(inner, shape, (key, i), **how) for i in range(2)], element_of(inner))
    if head == "optional":
        return Opt(value_of(inner, shape, key, **how), inner)
    raise ValueError(text)


# ---------------------------------------------------------------------------------------- oracle's side


def widened(name):
    """The type in which values of this type are computed by an oracle."""
    return "double" if name in NARROW_FLOATS else "int8" if name in ("int4", "int2") else "uint8" if name in (
        "uint4", "uint2") else name  # fmt: skip


def widen(value, to=widened):
    if value is None or isinstance(value, Map):
        return value
    if isinstance(value, Seq):
        return [widen(v, to) for v in value]
    if isinstance(value, Opt):
        return widen(value.value, to)
    if value.dtype == object or value.dtype.kind in "USO":
        return value.astype(object)
    return value.astype(DTYPES[to(NAMES[value.dtype])])


def round_to(text, value):
    """What an oracle gave, as a value of the type text."""
    head, inner = split_type(text)
    if head == "seq" and inner.startswith("tensor"):
        return Seq([round_to(inner, v) for v in value], element_of(inner))
    if head == "optional":
        return Opt(None if value is None else round_to(inner, value), inner)
    if head in ("map", "seq"):
        return value
    if inner == "string":
        return np.array(value, dtype=object)
    array = np.asarray(value)
    if array.dtype == object:
        array = array.astype(np.float64)
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[inner])


# ---------------------------------------------------------------------------------------- protobuf


def type_proto(text, shape=None):
    head, inner = split_type(text)
    if head == "tensor":
        return helper.make_tensor_type_proto(CODES[inner], shape)
    if head == "seq":
        return helper.make_sequence_type_proto(type_proto(inner, shape))
    if head == "optional":
        return helper.make_optional_type_proto(type_proto(inner, shape))
    if head == "map":
        key, value = (part.strip() for part in inner.split(","))
        return helper.make_map_type_proto(CODES[key], helper.make_tensor_type_proto(CODES[value], shape))
    raise ValueError(text)


def tensor_proto(array, name=""):
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind in "US":
        words = [w.encode() if isinstance(w, str) else bytes(w) for w in array.ravel()]
        return helper.make_tensor(name, TensorProto.STRING, array.shape, words)
    return nh.from_array(array, name)


def value_proto(value, text, name):
    """The message that goes to input_k.pb or output_k.pb."""
    head, inner = split_type(text)
    if head == "tensor":
        return tensor_proto(value, name)
    if head == "seq":
        if inner.startswith("map"):
            out = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.MAP)
            out.map_values.extend(map_proto(v, inner, name) for v in value)
            return out
        out = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR)
        out.tensor_values.extend(tensor_proto(v, name) for v in value)
        return out
    if head == "optional":
        out = onnx.OptionalProto(name=name)
        if value.value is None:
            return out
        if inner.startswith("tensor"):
            out.elem_type = onnx.OptionalProto.TENSOR
            out.tensor_value.CopyFrom(tensor_proto(value.value, name))
        else:
            out.elem_type = onnx.OptionalProto.SEQUENCE
            out.sequence_value.CopyFrom(value_proto(value.value, inner, name))
        return out
    return map_proto(value, text, name)


def map_proto(value, text, name):
    key, kind = (part.strip() for part in split_type(text)[1].split(","))
    out = onnx.MapProto(name=name, key_type=CODES[key])
    keys = sorted(value)
    if key == "string":
        out.string_keys.extend(k.encode() for k in keys)
    else:
        out.keys.extend(keys)
    out.values.elem_type = onnx.SequenceProto.TENSOR
    for k in keys:
        entry = np.array(value[k], dtype=DTYPES[kind])
        out.values.tensor_values.append(tensor_proto(entry, name))
    return out
