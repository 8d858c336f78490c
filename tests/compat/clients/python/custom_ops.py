"""onnxruntime-extensions: a published library of custom operators, registered as its users do."""
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime_extensions import get_library_path

from checks import Checks

TEXT = np.array(["Hello World", "grüße aus Köln", "", "a,b;c"])


def session_of(node, inputs, outputs):
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                              [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="ai.onnx.contrib", **attributes)


STRING, FLOAT, LONG = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64


def text_op(checks, op):
    session = session_of(node(op, ["x"], ["y"]), [("x", STRING, ["N"])], [("y", STRING, ["N"])])
    checks.answer(op, np.array(session.run(None, {"x": TEXT})[0], dtype=str))


def length(checks):
    session = session_of(node("StringLength", ["x"], ["y"]), [("x", STRING, ["N"])], [("y", LONG, ["N"])])
    checks.answer("StringLength", session.run(None, {"x": TEXT})[0])


def replace(checks):
    session = session_of(node("StringRegexReplace", ["x", "p", "r"], ["y"]),
                         [("x", STRING, ["N"]), ("p", STRING, [1]), ("r", STRING, [1])], [("y", STRING, ["N"])])  # fmt: skip
    feed = {"x": TEXT, "p": np.array(["[aeiou]"]), "r": np.array(["_"])}
    checks.answer("StringRegexReplace", np.array(session.run(None, feed)[0], dtype=str))


def hashes(checks):
    session = session_of(node("StringToHashBucketFast", ["x", "n"], ["y"]),
                         [("x", STRING, ["N"]), ("n", LONG, [1])], [("y", LONG, ["N"])])  # fmt: skip
    checks.answer("hash", session.run(None, {"x": TEXT, "n": np.array([97])})[0])


def negative(checks):
    session = session_of(node("NegPos", ["x"], ["a", "b"]), [("x", FLOAT, ["N"])], [("a", FLOAT, ["N"]), ("b", FLOAT, ["N"])])
    for name, value in zip("ab", session.run(None, {"x": np.array([-1, 2, 0, -3], np.float32)})):
        checks.answer(f"NegPos {name}", value)


def unknown():
    try:
        session_of(node("NoSuchOperator", ["x"], ["y"]), [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    except Exception as error:
        assert "NoSuchOperator" in str(error)
        return
    raise AssertionError("an unknown operator was taken")


checks = Checks()
for op in ("StringUpper", "StringLower"):
    checks.check(op, lambda: text_op(checks, op))
checks.check("StringLength", lambda: length(checks))
checks.check("StringRegexReplace", lambda: replace(checks))
checks.check("StringToHashBucketFast", lambda: hashes(checks))
checks.check("NegPos", lambda: negative(checks))
checks.check("an unknown operator is named", unknown)
checks.end()
