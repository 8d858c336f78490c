import os
import pathlib
import threading

import numpy as np
import onnx
import pytest
import tessera
from models import add, model, one_node, tensor
from onnx import TensorProto, helper


@pytest.fixture
def session():
    return tessera.InferenceSession(add())


X = np.array([[1, 2], [3, 4]], np.float32)


def test_describes_itself(session):
    assert [str(a) for a in session.get_inputs()] == [
        "NodeArg(name='x', type='tensor(float)', shape=['N', 2])",
        "NodeArg(name='y', type='tensor(float)', shape=[None, 2])",
    ]
    assert session.get_outputs()[0].name == "z"
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert set(session.memory()) >= {"weights", "packed", "planned_peak"}
    assert "Add" in session.explain()


def test_metadata():
    meta = tessera.InferenceSession(
        model([helper.make_node("Neg", ["x"], ["y"])], [tensor("x")], [tensor("y")], key="value")
    ).get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.custom_metadata_map) == ("tests", "graph", {"key": "value"})


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run(None, {"x": X, "y": X})[0],
        lambda s: s.run(["z"], {"x": X, "y": X})[0],
        lambda s: s.run([], {"x": X.tolist(), "y": X})[0],
        lambda s: s(X, X),
        lambda s: s([X, X]),
        lambda s: s({"x": X, "y": X}),
        lambda s: s(x=X, y=X),
        lambda s: s(X.T.copy().T, X.astype(">f4")),
    ],
)
def test_ways_to_run(session, call):
    np.testing.assert_array_equal(call(session), X + X)


def test_lists_for_a_single_input():
    session = tessera.InferenceSession(one_node("Relu", [tensor("x", [2])], [tensor("y", [2])]))
    x = np.array([-1, 1], np.float32)
    for given in (x, [x], (x,), [-1, 1], {"x": x}, [tessera.OrtValue.ortvalue_from_numpy(x)]):
        np.testing.assert_array_equal(session(given), [0, 1])
    np.testing.assert_array_equal(session.run(None, [x])[0], [0, 1])


def test_file_and_path(tmp_path, session):
    path = tmp_path / "model.onnx"
    path.write_bytes(add())
    for name in (path, str(path)):
        np.testing.assert_array_equal(tessera.InferenceSession(name)(X, X), X + X)


def test_outputs_own_their_memory(session):
    out = session(X, X)
    again = session(out, X)
    del session
    np.testing.assert_array_equal(out, X + X)
    np.testing.assert_array_equal(again, X * 3)
    out[0, 0] = 7
    assert out[0, 0] == 7 and not np.shares_memory(out, again)


def test_output_is_not_the_input():
    x = np.arange(4, dtype=np.float32)
    out = tessera.InferenceSession(one_node("Identity", [tensor("x", [4])], [tensor("y", [4])]))(x)
    x[:] = 0
    np.testing.assert_array_equal(out, [0, 1, 2, 3])


def test_empty_and_scalar():
    square = tessera.InferenceSession(one_node("Mul", [tensor("x"), tensor("y")], [tensor("z")]))
    assert square(np.zeros((0, 3), np.float32), np.float32(2)).shape == (0, 3)
    assert square(np.float32(3), np.float32(2)).shape == ()


@pytest.mark.parametrize(
    "error, call",
    [
        (ValueError, lambda s: s.run(None, {"x": X})),
        (tessera.InvalidArgument, lambda s: s.run(None, {"x": X, "y": X, "q": X})),
        (tessera.InvalidArgument, lambda s: s.run(["q"], {"x": X, "y": X})),
        (tessera.InvalidArgument, lambda s: s.run(None, {"x": X.astype(np.float64), "y": X})),
        (tessera.InvalidArgument, lambda s: s.run(None, {"x": np.zeros((1, 3), np.float32), "y": X})),
        (tessera.NoSuchFile, lambda s: tessera.InferenceSession("no such file")),
        (tessera.InvalidProtobuf, lambda s: tessera.InferenceSession(b"abcdefgh")),
        (TypeError, lambda s: tessera.InferenceSession(3)),
        (TypeError, lambda s: s(X, X, X)),
        (AttributeError, lambda s: setattr(tessera.SessionOptions(), "intra_op_threads", 1)),
        (TypeError, lambda s: setattr(tessera.SessionOptions(), "intra_op_num_threads", "1")),
        (tessera.Fail, lambda s: tessera.SessionOptions().register_custom_ops_library("no such library")),
        (ValueError, lambda s: s.io_binding().bind_output("z", buffer_ptr=X.ctypes.data)),
        (
            ValueError,
            lambda s: tessera.SessionOptions().add_external_initializers_from_files_in_memory(["a"], [b"x"], [2]),
        ),
        (RuntimeError, lambda s: tessera.SessionOptions().get_session_config_entry("none")),
    ],
)
def test_errors(session, error, call):
    with pytest.raises(error):
        call(session)


def test_unknown_providers_warn():
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = tessera.InferenceSession(add(), providers=["CUDAExecutionProvider", ("CPUExecutionProvider", {})])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_options(tmp_path):
    options = tessera.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = tessera.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.execution_mode = tessera.ExecutionMode.ORT_SEQUENTIAL
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.add_free_dimension_override_by_name("N", 2)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    session = tessera.InferenceSession(add(), options)
    assert session.get_inputs()[0].shape == [2, 2]
    session(X, X)
    assert os.path.exists(session.end_profiling())
    onnx.load(tmp_path / "optimized.onnx")


def with_external_data():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], np.zeros(2, np.float32).tobytes(), raw=True)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "8")):
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "graph", [tensor("x", [2])], [tensor("y", [2])], [weight]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def test_external_files_in_memory():
    options = tessera.SessionOptions()
    data = np.array([5, 6], np.float32).tobytes()
    options.add_external_initializers_from_files_in_memory(["weights.bin"], [data], [len(data)])
    session = tessera.InferenceSession(with_external_data(), options)
    del options, data
    np.testing.assert_array_equal(session(np.zeros(2, np.float32)), [5, 6])


def test_initializer_from_options():
    options = tessera.SessionOptions()
    options.add_initializer("w", tessera.OrtValue.ortvalue_from_numpy(np.array([7, 8], np.float32)))
    source = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [tensor("x", [2])],
        [tensor("y", [2])],
        [("w", np.zeros(2, np.float32))],
    )
    session = tessera.InferenceSession(source, options)
    del options
    np.testing.assert_array_equal(session(np.zeros(2, np.float32)), [7, 8])


def test_io_binding(session):
    binding = session.io_binding()
    out = np.zeros((2, 2), np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, X + X)
    binding.clear_binding_outputs()
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + X)
    value = tessera.OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32)
    binding.bind_ortvalue_output("z", value)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(value.numpy(), X + X)


def test_terminate(session):
    options = tessera.RunOptions()
    options.terminate = True
    with pytest.raises(tessera.Fail):
        session.run(None, {"x": X, "y": X}, options)
    options.terminate = False
    session.run(None, {"x": X, "y": X}, options)


def test_threads(session):
    failures = []

    def work(k):
        x = np.full((2, 2), k, np.float32)
        for _ in range(50):
            if not (session(x, x) == 2 * k).all():
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_run_async(session):
    done = threading.Event()
    seen = []

    def callback(outputs, user_data, error):
        seen.append((outputs, user_data, error))
        done.set()

    session.run_async(None, {"x": X, "y": X}, callback, "tag")
    assert done.wait(10)
    ((outputs, user_data, error),) = seen
    assert (user_data, error) == ("tag", "")
    np.testing.assert_array_equal(outputs[0], X + X)


def test_package():
    assert tessera.get_device() == "CPU"
    assert "CPUExecutionProvider" in tessera.get_available_providers()
    assert tessera.get_version_string().count(".") == 2
    tessera.set_default_logger_severity(3)
    assert pathlib.Path(tessera.__file__).name == "__init__.py"
