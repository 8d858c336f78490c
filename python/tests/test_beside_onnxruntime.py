"""The same programs with Tessera and with onnxruntime, in one process."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tessera
from models import add, model, tensor
from onnx import TensorProto, helper


def network():
    random = np.random.default_rng(1)
    return model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["g"]),
            helper.make_node("Flatten", ["g"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["l"]),
            helper.make_node("Softmax", ["l"], ["p"]),
            helper.make_node("ArgMax", ["l"], ["i"], axis=1),
        ],
        [tensor("x", ["batch", 3, 8, 8])],
        [tensor("p", ["batch", 4]), tensor("i", ["batch", 1], TensorProto.INT64)],
        [
            ("w", random.standard_normal((5, 3, 3, 3), np.float32)),
            ("m", random.standard_normal((5, 4), np.float32)),
        ],
    )


@pytest.fixture(params=[add, network])
def sessions(request):
    source = request.param()
    return tessera.InferenceSession(source), onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])


def feed_for(session):
    random = np.random.default_rng(2)
    return {
        a.name: random.standard_normal([d if isinstance(d, int) else 2 for d in a.shape], np.float32)
        for a in session.get_inputs()
    }


def test_results(sessions):
    ours, theirs = sessions
    feed = feed_for(theirs)
    for a, b in zip(ours.run(None, feed), theirs.run(None, feed)):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_descriptions(sessions):
    ours, theirs = sessions
    for get in ("get_inputs", "get_outputs"):
        assert [str(a) for a in getattr(ours, get)()] == [str(a) for a in getattr(theirs, get)()]


def test_defaults():
    for name in ("SessionOptions", "RunOptions"):
        ours, theirs = getattr(tessera, name)(), getattr(onnxruntime, name)()
        for key in ours._defaults:
            a, b = getattr(ours, key), getattr(theirs, key)
            assert (int(a), a.name) == (int(b), b.name) if hasattr(a, "name") else a == b, key


@pytest.mark.parametrize(
    "call",
    [
        lambda rt: rt.InferenceSession("no such file"),
        lambda rt: rt.InferenceSession(b"abcdefgh"),
        lambda rt: rt.InferenceSession(add()).run(None, {"x": np.zeros((1, 2), np.float32)}),
        lambda rt: rt.InferenceSession(add()).run(None, dict.fromkeys("xy", np.zeros((1, 2), np.int32))),
        lambda rt: rt.InferenceSession(add()).run(None, dict.fromkeys("xy", np.zeros((1, 3), np.float32))),
        lambda rt: rt.InferenceSession(add()).run(["q"], dict.fromkeys("xy", np.zeros((1, 2), np.float32))),
    ],
)
def test_errors_have_the_same_class(call):
    raised = []
    for runtime in (tessera, onnxruntime):
        with pytest.raises(Exception) as info:
            call(runtime)
        raised.append(info.type.__name__)
    assert raised[0] == raised[1]


PROGRAM = """
import importlib.metadata, sys
import numpy as np
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
import onnxruntime.capi._pybind_state as state
import tessera
assert InferenceSession is tessera.InferenceSession and InvalidArgument is tessera.InvalidArgument
assert ort.__version__ == tessera.get_version_string()
importlib.metadata.version("onnxruntime")
print("ran", sys.argv[1:])
"""


def test_import_as_onnxruntime(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tessera.as_onnxruntime", str(program), "argument"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran ['argument']\n"
