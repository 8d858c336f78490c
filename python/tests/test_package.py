"""The package itself: what it costs, what it copies, what can be pickled, what its types say."""

import copy
import inspect
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tessera
from models import add, model, one_node, tensor
from onnx import helper

X = np.ones((2, 2), np.float32)


def test_context_manager():
    with tessera.InferenceSession(add()) as session:
        out = session(X, X)
        binding = session.io_binding()
    np.testing.assert_array_equal(out, 2)
    for call in (lambda: session(X, X), session.memory, lambda: session.run_with_iobinding(binding)):
        with pytest.raises(tessera.Fail, match="closed"):
            call()
    assert "closed" in repr(session)


@pytest.mark.parametrize("again", [lambda o: pickle.loads(pickle.dumps(o)), copy.deepcopy, copy.copy])
def test_sessions_can_be_copied(again, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(
        model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [tensor("x", ["N"])],
            [tensor("y", ["N"])],
            [("w", np.zeros(2, np.float32))],
        )
    )
    options = tessera.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_free_dimension_override_by_name("N", 2)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_initializer("w", tessera.OrtValue.ortvalue_from_numpy(np.array([7, 8], np.float32)))
    for source in (str(path), path.read_bytes()):
        other = again(tessera.InferenceSession(source, options))
        assert other.get_inputs()[0].shape == [2]
        assert other.get_session_options().intra_op_num_threads == 1
        np.testing.assert_array_equal(other(np.zeros(2, np.float32)), [7, 8])


def test_values_and_options_can_be_pickled():
    import ml_dtypes

    for array in (
        X,
        np.array(["a", "b"], object),
        np.ones((0, 3)),
        np.ones(3, ml_dtypes.bfloat16),
        np.array([-8, 7, 3], ml_dtypes.int4),
    ):
        value = pickle.loads(pickle.dumps(tessera.OrtValue.ortvalue_from_numpy(array)))
        assert value.numpy().dtype == array.dtype
        np.testing.assert_array_equal(value.numpy(), array)
    options = tessera.RunOptions()
    options.logid = "a run"
    options.add_run_config_entry("key", "value")
    options = pickle.loads(pickle.dumps(options))
    assert (options.logid, options.get_run_config_entry("key")) == ("a run", "value")
    error = pickle.loads(pickle.dumps(tessera.InvalidArgument("text")))
    assert isinstance(error, tessera.InvalidArgument)


def test_nothing_is_copied():
    session = tessera.InferenceSession(add())
    before = tessera.copied_bytes()
    big = np.ones((100_000, 2), np.float32)
    out = session.run(None, {"x": big, "y": big})[0]
    session(out[:10], out[10:20])  # slices of rows are contiguous
    value = tessera.OrtValue.ortvalue_from_numpy(big)
    session.run_with_ort_values(None, {"x": value, "y": value})[0].numpy()
    assert tessera.copied_bytes() == before
    assert value.data_ptr() == big.ctypes.data == value.numpy().ctypes.data
    assert out.flags.writeable and not out.flags.owndata and out.flags.aligned
    session(big[::2], big[::2])
    assert tessera.copied_bytes() == before + 2 * big[::2].nbytes


def test_inputs_are_read_in_place():
    """A run over more memory than may be used twice: the peak grows by the output alone."""
    program = """
import resource, numpy as np, tessera, sys
sys.path.insert(0, sys.argv[1])
from models import one_node, tensor
session = tessera.InferenceSession(one_node("ReduceSum", [tensor("x", ["N"])], [tensor("y", [1])]))
x = np.ones(64 << 20, np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
session(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    folder = str(pathlib.Path(__file__).parent)
    grown = int(subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True).stdout)
    assert grown < 64 << 10, f"{grown} KiB more for an input of {256 << 10} KiB"


def test_needs_numpy_alone():
    """No module outside of the standard library but numpy is loaded."""
    program = "import numpy, sys; before = set(sys.modules); import tessera; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
    roots = {name.split(".")[0] for name in loaded}
    assert "tessera" in roots
    assert not roots - {"tessera", "numpy"} - set(sys.stdlib_module_names)


def test_beside_the_real_packages():
    """Sessions of both in one process, onnx loaded too, in both orders of import."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2].split(","):
    __import__(name)
import numpy as np, onnx, onnxruntime, tessera
from models import add
x = np.ones((1, 2), np.float32)
sessions = [tessera.InferenceSession(add()), onnxruntime.InferenceSession(add(), providers=["CPUExecutionProvider"])]
for _ in range(3):
    assert all((s.run(None, {"x": x, "y": x})[0] == 2).all() for s in sessions)
try:
    tessera.InferenceSession(b"nonsense")
except tessera.InvalidProtobuf:
    print("fine")
"""
    folder = str(pathlib.Path(__file__).parent)
    for order in ("tessera,onnxruntime,onnx", "onnx,onnxruntime,tessera"):
        done = subprocess.run([sys.executable, "-c", program, folder, order], capture_output=True, text=True)
        assert done.stdout == "fine\n", done.stderr


def public(module):
    return {name: getattr(module, name) for name in module.__all__}


def test_everything_public_is_documented():
    missing = []
    for name, item in public(tessera).items():
        if inspect.isclass(item) or inspect.isfunction(item):
            if not item.__doc__ and not issubclass_of_enum(item):
                missing.append(name)
    assert not missing


def issubclass_of_enum(item):
    import enum

    return inspect.isclass(item) and issubclass(item, enum.Enum)


def test_everything_public_has_types():
    """Type checkers read the sources (py.typed); the native module has a stub."""
    folder = pathlib.Path(tessera.__file__).parent
    assert (folder / "py.typed").exists()
    assert "class Session" in (folder / "_native.pyi").read_text()
    untyped = []
    for name, item in public(tessera).items():
        if inspect.isfunction(item):
            functions = {name: item}
        elif inspect.isclass(item) and item.__module__.startswith("tessera."):
            members = {k: v for c in item.__mro__ if c.__module__.startswith("tessera.") for k, v in vars(c).items()}
            functions = {f"{name}.{k}": getattr(v, "__func__", v) for k, v in members.items() if not k.startswith("_")}
        else:
            continue
        for full, function in functions.items():
            if inspect.isfunction(function) and function.__annotations__.get("return") is None:
                untyped.append(full)
    assert untyped == []


def test_a_checker_accepts_a_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
import tessera

options = tessera.SessionOptions()
options.intra_op_num_threads = 2
session = tessera.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
outputs = session.run(None, {"x": np.zeros(3)}, timeout=1.0)
names: list[str] = [a.name for a in session.get_inputs()]
value: tessera.OrtValue = tessera.OrtValue.ortvalue_from_numpy(np.zeros(3))
shape: list[int] = value.shape()
text: str = session.explain()
"""
    )
    folder = pathlib.Path(tessera.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(program)],
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert "program.py:" not in done.stdout, done.stdout


def test_debug_info(capsys):
    tessera.print_debug_info()
    assert "tessera" in capsys.readouterr().out


def test_identity_of_big_outputs():
    session = tessera.InferenceSession(one_node("Relu", [tensor("x", ["N"])], [tensor("y", ["N"])]))
    outs = [session(np.full(1000, k, np.float32)) for k in range(20)]
    for k, out in enumerate(outs):
        assert (out == k).all()
