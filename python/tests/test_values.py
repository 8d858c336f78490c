import ml_dtypes
import numpy as np
import pytest
import tessera
from models import one_node, tensor
from onnx import TensorProto, helper

T = TensorProto
TYPES = [
    (T.FLOAT, np.float32),
    (T.DOUBLE, np.float64),
    (T.FLOAT16, np.float16),
    (T.INT8, np.int8),
    (T.INT16, np.int16),
    (T.INT32, np.int32),
    (T.INT64, np.int64),
    (T.UINT8, np.uint8),
    (T.UINT16, np.uint16),
    (T.UINT32, np.uint32),
    (T.UINT64, np.uint64),
    (T.BOOL, np.bool_),
    (T.COMPLEX64, np.complex64),
    (T.BFLOAT16, ml_dtypes.bfloat16),
    (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    (T.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    (T.INT4, ml_dtypes.int4),
    (T.UINT4, ml_dtypes.uint4),
    (T.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
]


@pytest.mark.parametrize("onnx_type, dtype", TYPES)
def test_every_type_goes_through(onnx_type, dtype):
    data = np.array([0, 1, 1, 0, 1], np.int8).astype(dtype)
    if np.dtype(dtype) == ml_dtypes.int4:
        data = np.array([-8, 7, -1, 0, 3], np.int8).astype(dtype)
    source = one_node("Identity", [tensor("x", [5], onnx_type)], [tensor("y", [5], onnx_type)], opset=23)
    out = tessera.InferenceSession(source)(data)
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out, data)


def test_strings():
    source = one_node("Identity", [tensor("x", None, T.STRING)], [tensor("y", None, T.STRING)])
    session = tessera.InferenceSession(source)
    for texts in (["a", "", "häßlich", "zero\0inside"], ["a", "b"]):
        for data in (np.array(texts, object), np.array(texts), texts):
            assert session({"x": data}).tolist() == texts
    assert session({"x": np.array([[b"a"], [b"b"]])}).tolist() == [["a"], ["b"]]


def test_value_shows_the_arrays_memory():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = tessera.OrtValue.ortvalue_from_numpy(array)
    assert (value.shape(), value.data_type(), value.element_type(), value.device_name()) == (
        [2, 3],
        "tensor(float)",
        T.FLOAT,
        "cpu",
    )
    assert value.data_ptr() == array.ctypes.data and np.shares_memory(value.numpy(), array)
    value.update_inplace(np.zeros((2, 3), np.float32))
    assert not array.any()
    with pytest.raises(ValueError):
        value.update_inplace(np.zeros(5, np.float32))


def test_memory_outlives_the_value():
    array = tessera.OrtValue.ortvalue_from_shape_and_type([1000], np.int64).numpy()
    array[:] = 3
    assert array.sum() == 3000


def test_dlpack():
    value = tessera.OrtValue.ortvalue_from_numpy(np.arange(4, dtype=np.int32))
    assert value.__dlpack_device__() == (1, 0)
    view = np.from_dlpack(value)
    assert view.ctypes.data == value.data_ptr()
    back = tessera.OrtValue.from_dlpack(np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(back.numpy(), [0, 1, 2, 3])
    capsule = np.arange(4, dtype=np.int32).__dlpack__()
    np.testing.assert_array_equal(tessera.OrtValue.from_dlpack(capsule).numpy(), [0, 1, 2, 3])


def test_bits_of_another_type():
    value = tessera.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3F80], np.uint16), T.BFLOAT16)
    assert value.data_type() == "tensor(bfloat16)" and value.numpy()[0] == 1
    with pytest.raises(ValueError):
        tessera.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(1, np.float32), T.BFLOAT16)


def sequence(name):
    return helper.make_tensor_sequence_value_info(name, T.FLOAT, None)


def test_sequences():
    session = tessera.InferenceSession(one_node("SequenceInsert", [sequence("s"), tensor("x", [2])], [sequence("out")]))
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    a, b = np.ones(2, np.float32), np.zeros(3, np.float32)
    out = session.run(None, {"s": [b, a], "x": a})[0]
    assert [o.tolist() for o in out] == [b.tolist(), a.tolist(), a.tolist()]
    assert [o.tolist() for o in session.run(None, {"s": [], "x": a})[0]] == [a.tolist()]
    value = session.run_with_ort_values(None, {"s": [b], "x": tessera.OrtValue.ortvalue_from_numpy(a)})[0]
    assert value.is_tensor_sequence() and len(value.to_python()) == 2


def test_maps_come_out():
    out_type = helper.make_sequence_type_proto(
        helper.make_map_type_proto(T.INT64, helper.make_tensor_type_proto(T.FLOAT, None))
    )
    source = one_node(
        "ZipMap",
        [tensor("x", [2, 2])],
        [helper.make_value_info("z", out_type)],
        domain="ai.onnx.ml",
        classlabels_int64s=[10, 20],
    )
    session = tessera.InferenceSession(source)
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    assert session.run(None, {"x": np.array([[1, 2], [3, 4]], np.float32)})[0] == [{10: 1, 20: 2}, {10: 3, 20: 4}]


def test_maps_go_in():
    in_type = helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(T.FLOAT, None))
    source = one_node(
        "DictVectorizer",
        [helper.make_value_info("m", in_type)],
        [tensor("y", None)],
        domain="ai.onnx.ml",
        string_vocabulary=["a", "b", "c"],
    )
    assert tessera.InferenceSession(source).run(None, {"m": {"c": 3.0, "a": 1.0}})[0].reshape(-1).tolist() == [1, 0, 3]


def optional(name):
    return helper.make_value_info(name, helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT, [2])))


def test_optionals():
    session = tessera.InferenceSession(
        one_node("OptionalHasElement", [optional("o")], [tensor("has", [], T.BOOL)], opset=18)
    )
    assert (session.get_inputs()[0].type, session.get_inputs()[0].shape) == ("optional(tensor(float))", [2])
    assert session.run(None, {"o": np.ones(2, np.float32)})[0]
    assert not session.run(None, {"o": None})[0]
    content = helper.make_tensor_type_proto(T.FLOAT, [2])
    assert tessera.InferenceSession(one_node("Optional", [], [optional("o")], opset=18, type=content))() is None


class Strided:
    """An object with DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint64, np.bool_, np.complex64])
def test_dlpack_both_ways_without_copies(dtype):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    value = tessera.OrtValue.from_dlpack(Strided(array))
    assert value.data_ptr() == array.ctypes.data and value.shape() == [2, 3]
    back = np.from_dlpack(value)
    assert back.ctypes.data == array.ctypes.data and back.dtype == array.dtype
    del value, array
    assert back[1, 0] == 1


def test_dlpack_of_a_value_that_is_gone():
    session = tessera.InferenceSession(one_node("Relu", [tensor("x", [3])], [tensor("y", [3])]))
    value = session.run_with_ort_values(None, {"x": tessera.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))})[0]
    capsule = value.to_dlpack()
    unused = value.to_dlpack()
    del value, session, unused
    np.testing.assert_array_equal(tessera.OrtValue.from_dlpack(capsule).numpy(), 1)
    with pytest.raises(ValueError):
        tessera.OrtValue.from_dlpack(capsule)  # used up


def test_dlpack_as_an_input():
    session = tessera.InferenceSession(one_node("Relu", [tensor("x", [2, 3])], [tensor("y", [2, 3])]))
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(session(Strided(array)), array)
    np.testing.assert_array_equal(session(Strided(array.T.copy().T)), array)  # not contiguous: copied
    frozen = array.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(session(frozen), array)


def test_dlpack_of_bfloat16():
    value = tessera.OrtValue.ortvalue_from_numpy(np.array([1, 2], ml_dtypes.bfloat16))
    again = tessera.OrtValue.from_dlpack(value.to_dlpack())
    assert again.data_type() == "tensor(bfloat16)" and again.data_ptr() == value.data_ptr()


def test_bool_in_uint8():
    value = tessera.OrtValue.from_dlpack(np.array([1, 0], np.uint8).__dlpack__(), True)
    assert value.data_type() == "tensor(bool)"


def test_integers_with_the_bits_of_an_extra_type():
    session = tessera.InferenceSession(
        one_node("Identity", [tensor("x", [2], T.BFLOAT16)], [tensor("y", [2], T.BFLOAT16)])
    )
    np.testing.assert_array_equal(session(np.array([0x3F80, 0x4000], np.uint16)).astype(np.float32), [1, 2])


def test_value_vectors():
    session = tessera.InferenceSession(one_node("Relu", [tensor("x", [3])], [tensor("y", [3])]))
    feeds, fetches = tessera._value.OrtValueVector(), tessera._value.OrtValueVector()
    feeds.push_back(np.ones(3, np.float32).__dlpack__())
    session.run_with_ortvaluevector(None, ["x"], feeds, ["y"], fetches, None)
    assert len(fetches) == 1 and fetches.element_type_at(0) == T.FLOAT
    np.testing.assert_array_equal(tessera.OrtValue.from_dlpack(fetches.dlpack_at(0)).numpy(), 1)


def test_copy_tensors():
    source = [tessera.OrtValue.ortvalue_from_numpy(np.arange(3.0))]
    target = [tessera.OrtValue.ortvalue_from_numpy(np.zeros(3))]
    tessera.copy_tensors(source, target)
    np.testing.assert_array_equal(target[0].numpy(), [0, 1, 2])


def test_sparse_tensors():
    coo = tessera.SparseTensor.sparse_coo_from_numpy([3, 3], np.array([1.0, 2]), np.array([1, 8]))
    csr = tessera.SparseTensor.sparse_csr_from_numpy(
        [3, 3], np.array([1.0, 2]), np.array([1, 2]), np.array([0, 1, 1, 2])
    )
    np.testing.assert_array_equal(coo.to_dense(), csr.to_dense())
    np.testing.assert_array_equal(coo.as_coo_view().indices(), [1, 8])
    assert csr.format() == tessera.OrtSparseFormat.ORT_SPARSE_CSRC and csr.data_type() == "sparse_tensor(double)"
    with pytest.raises(tessera.NotImplemented):
        tessera.OrtValue.ort_value_from_sparse_tensor(coo)
