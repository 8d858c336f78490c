"""What programs reach in onnxruntime's native module, and what is refused in its words."""

import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import onnx
import pytest
import tessera
import tessera.backend
from models import add, model, one_node, tensor
from onnx import TensorProto, helper
from tessera.capi import _pybind_state as native
from tessera.capi.onnxruntime_inference_collection import check_and_normalize_provider_args

X = np.array([[1, 2], [3, 4]], np.float32)
CPU = native.OrtDevice(native.OrtDevice.cpu(), native.OrtDevice.default_memory(), 0)


def with_metadata(**metadata):
    return model([helper.make_node("Add", ["x", "x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])], **metadata)


def test_inner_session():
    inner = tessera.InferenceSession(add())._sess
    value = tessera.OrtValue.ortvalue_from_numpy(X)
    vector = inner.run_with_ort_values({"x": value, "y": value}, ["z"], tessera.RunOptions())
    assert isinstance(vector, native.OrtValueVector) and (vector[0].numpy() == 2 * X).all()
    assert (inner.run(["z"], {"x": X, "y": X}, None)[0] == 2 * X).all()
    assert [a.name for a in inner.inputs_meta] == ["x", "y"] and inner.model_meta.producer_name == "tests"


def test_inner_binding():
    session, out = tessera.InferenceSession(add()), np.zeros_like(X)
    binding = native.SessionIOBinding(session._sess)
    binding.bind_input("x", CPU, TensorProto.FLOAT, X.shape, X.ctypes.data)
    binding.bind_input("y", X)
    binding.bind_output("z", CPU, np.float32, X.shape, out.ctypes.data)
    session._sess.run_with_iobinding(binding, None)
    assert (out == 2 * X).all()
    outer = session.io_binding()
    outer._iobinding.bind_input("x", X)
    outer._iobinding.bind_input("y", X)
    outer._iobinding.bind_output("z", CPU)
    session.run_with_iobinding(outer)
    assert isinstance(outer._iobinding.get_outputs(), native.OrtValueVector)
    assert (outer.get_outputs()[0].numpy() == 2 * X).all()
    for type_ in (TensorProto.STRING, np.dtype("U1"), np.dtype(object)):
        with pytest.raises(RuntimeError, match="Only binding non-string Tensors"):
            outer.bind_input("x", "cpu", 0, type_, [1], X.ctypes.data)


def test_devices_are_descriptions():
    cuda = tessera.OrtDevice.make("cuda", 1)
    assert (cuda.device_type(), cuda.device_id()) == (1, 1)
    assert cuda.device_vendor_id() == tessera.OrtDeviceVendorId.NVIDIA
    assert (tessera.OrtValue.ortvalue_from_numpy(X, CPU).numpy() == X).all()
    for device in (cuda, "cuda"):
        with pytest.raises(RuntimeError, match="wanted 'cpu'"):
            tessera.OrtValue.ortvalue_from_numpy(X, device)
    with pytest.raises(ValueError, match="Unsupported device type: abacus"):
        tessera.OrtDevice.make("abacus", 0)


def test_provider_arguments():
    def check(providers, options=None):
        return check_and_normalize_provider_args(providers, options, ["a", "b"])

    assert check(None) == ([], [])
    assert check([("a", {1: 2}), "b"]) == (["a", "b"], [{"1": "2"}, {}])
    assert check(["a", "b"], [{1: 2}, {}]) == (["a", "b"], [{"1": "2"}, {}])
    with pytest.warns(UserWarning, match="Duplicate"):
        assert check(["a", "b", "a"], [{"x": 1}, {}, {"x": 2}]) == (["a", "b"], [{"x": "1"}, {}])
    for bad in ((3,), ("a",), ([3],), (["a"], 3), (["a"], ["x"]), (["a", "b"], [{}]), ([("a", {1: 2})], [{3: 4}])):
        with pytest.raises(ValueError):
            check(*bad)


def test_unknown_providers():
    session = tessera.InferenceSession(add())
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Abacus"):
        session.set_providers(["Abacus"])
    with pytest.warns(UserWarning, match="not in available"):
        session.set_providers(["CUDAExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_options_from_the_model(monkeypatch, tmp_path):
    config = {"session_options": {"intra_op_num_threads": 2, "graph_optimization_level": 1, "enable_profiling": 0}}
    data = with_metadata(ort_config=json.dumps(config))
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert tessera.InferenceSession(data).get_session_options().intra_op_num_threads == 0
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    for source in (data, path):
        options = tessera.InferenceSession(source).get_session_options()
        assert options.intra_op_num_threads == 2
        assert options.graph_optimization_level == tessera.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with pytest.raises(RuntimeError, match="ort_config"):
        tessera.InferenceSession(with_metadata(ort_config="{"))


def test_compatibility_info(tmp_path):
    data = with_metadata(**{"ep_compatibility_info.Some": "v1"})
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert native.get_compatibility_info_from_model_bytes(data, "Some") == "v1"
    assert native.get_compatibility_info_from_model(str(path), "Some") == "v1"
    assert native.get_compatibility_info_from_model_bytes(data, "Other") is None
    for bad in (b"", b"text", data[:-1], b"\x72\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(RuntimeError):
            native.get_compatibility_info_from_model_bytes(bad, "Some")
    with pytest.raises(RuntimeError):
        native.get_compatibility_info_from_model(str(tmp_path / "none.onnx"), "Some")
    devices = native.get_ep_devices()
    status = native.get_model_compatibility_for_ep_devices(devices, "v1")
    assert status == native.OrtCompiledModelCompatibility.EP_NOT_APPLICABLE
    with pytest.raises(RuntimeError):
        native.get_model_compatibility_for_ep_devices([], "v1")
    details = native.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", devices[0].device)
    assert details == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    with pytest.raises(tessera.InvalidArgument):
        native.get_hardware_device_ep_incompatibility_details("", devices[0].device)


def test_looking_at_a_capsule_leaves_it():
    capsule = tessera.OrtValue.ortvalue_from_numpy(X).to_dlpack()
    assert not native.is_dlpack_uint8_tensor(capsule)
    assert (tessera.OrtValue.from_dlpack(capsule).numpy() == X).all()
    assert native.is_dlpack_uint8_tensor(tessera.OrtValue.ortvalue_from_numpy(np.zeros(2, np.uint8)).to_dlpack())


def test_void_is_text_of_a_fixed_size():
    given = np.array([b"ab", b"c\0"], np.void)
    session = tessera.InferenceSession(
        one_node("Identity", [tensor("x", [2], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)])
    )
    assert session(given).tolist() == ["ab", "c\0"]


def test_sparse_parts_are_read_only():
    made = tessera.SparseTensor.sparse_coo_from_numpy([3, 3], np.ones(2, np.float32), np.array([1, 4]), CPU)
    assert made.dense_shape() == [3, 3]
    for part in (made.values(), made.as_coo_view().indices()):
        assert not part.flags.writeable
    with pytest.raises(RuntimeError):
        made.to_cuda(tessera.OrtDevice.make("cuda", 0))


def test_adapters_hold_no_strings(tmp_path):
    adapter, path = tessera.AdapterFormat(), tmp_path / "a.onnx_adapter"
    adapter.set_parameters({"names": tessera.OrtValue.ortvalue_from_numpy(np.array(["a", "b"]))})
    with pytest.raises(ValueError, match="STRING"):
        adapter.export_adapter(path)
    assert not path.exists()


def test_compiling_says_what_it_cannot(tmp_path):
    def compiler(flags):
        return tessera.ModelCompiler(tessera.SessionOptions(), add(), flags=flags)

    path = tmp_path / "out.onnx"
    with pytest.raises(tessera.Fail, match="Unable to compile any nodes"):
        compiler(tessera.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED).compile_to_file(path)
    assert not path.exists()
    once = compiler(tessera.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS)
    once.compile_to_file(path)
    with pytest.raises(tessera.Fail, match="exists already"):
        once.compile_to_file(path)

    def refuse(piece):
        raise KeyError("disk")

    with pytest.raises(tessera.Fail, match="KeyError.*disk"):
        compiler(tessera.OrtCompileApiFlags.NONE).compile_to_stream(refuse)


def test_backend_writes_no_files_for_others(tmp_path):
    for option in ({"optimized_model_filepath": str(tmp_path / "m")}, {"enable_profiling": True}):
        with pytest.raises(RuntimeError, match="not permitted"):
            tessera.backend.prepare(add(), **option)
    rep = tessera.backend.prepare(add(), intra_op_num_threads=1, unknown=1)
    with pytest.raises(RuntimeError, match="not permitted"):
        rep.run([X, X], terminate=True)
    with pytest.raises(RuntimeError, match="not permitted"):
        tessera.backend.run(add(), [X, X], terminate=True)
    assert (tessera.backend.run(add(), [X, X], only_execute_path_to_fetches=True, unknown=1)[0] == 2 * X).all()


def test_backend_takes_a_map():
    type_ = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    input_ = helper.make_value_info("x", type_)
    data = one_node("CastMap", [input_], [tensor("y")], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="DENSE")
    rep = tessera.backend.prepare(data)
    assert rep.run({0: 1.5, 1: 2.5})[0].tolist() == rep.run({"x": {0: 1.5, 1: 2.5}})[0].tolist() == [[1.5, 2.5]]
    with pytest.raises(RuntimeError, match="Unexpected key type"):
        rep.run({"x": {"a": 1.0}})


def test_build_info():
    assert tessera.get_build_info().startswith("Build Info")


def test_known_providers_only_warn():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tessera.InferenceSession(add(), providers=["Abacus", "CPUExecutionProvider"])
    assert ["Abacus" in str(w.message) for w in seen] == [True]


def test_threads_of_the_process():
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from models import add
import tessera
tessera.set_global_thread_pool_sizes(1, 1)
options = tessera.SessionOptions()
try:
    tessera.InferenceSession(add(), options)
except RuntimeError as e:
    print(e)
options.use_per_session_threads = False
print(tessera.InferenceSession(add(), options).explain())
"""
    folder = pathlib.Path(__file__).parent
    made = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True)
    assert "use_per_session_threads = False" in made.stdout and "threads: 1" in made.stdout


@pytest.mark.parametrize("ir_version", [3, 10])
def test_defaults_of_another_size(ir_version):
    """A value that stands in for a default has the shape that the model declares, not that of the default."""
    data = onnx.load_from_string(
        model(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [tensor("x", ["n", "k"]), tensor("w", ["k", 2])],
            [tensor("y", ["n", 2])],
            [("w", np.zeros((0, 2), np.float32))],
        )
    )
    data.ir_version = ir_version
    session = tessera.InferenceSession(data.SerializeToString())
    assert (session.run(None, {"x": np.ones((1, 0), np.float32)})[0] == 0).all()
    if ir_version < 4:  # there, defaults are constants
        assert session.get_overridable_initializers() == []
        return
    assert session.get_overridable_initializers()[0].shape == ["k", 2]
    assert (session.run(None, {"x": X, "w": X})[0] == X @ X).all()
    with pytest.raises(tessera.InvalidArgument, match="wanted float"):
        session.run(None, {"x": X, "w": np.ones((2, 3), np.float32)})
