"""onnxruntime.quantization makes a model smaller, and the result is run: dynamic and static, both formats."""
import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from checks import Checks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 3, 16, 16)).astype(np.float32)


def net(path):
    weights = {"w": RNG.standard_normal((8, 3, 3, 3)), "b": RNG.standard_normal(8), "m": RNG.standard_normal((8, 10)), "c": RNG.standard_normal(10)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
             helper.make_node("MatMul", ["f", "m"], ["p"]), helper.make_node("Add", ["p", "c"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 16, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Reader(CalibrationDataReader):
    def __init__(self):
        self.rows = iter(X)

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {"x": row[None]}


def run(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def quantized(checks, name, make):
    with tempfile.TemporaryDirectory() as folder:
        small = pathlib.Path(folder) / "small.onnx"
        make(small)
        got = run(small)
    assert np.abs(got - plain).max() <= 0.1 * np.abs(plain).max(), "far from the model it was made of"
    checks.answer(name, got, 2e-2)


checks = Checks()
with tempfile.TemporaryDirectory() as temporary:
    path = pathlib.Path(temporary) / "net.onnx"
    net(path)
    plain = run(path)
    checks.check("float", lambda: checks.answer("float", plain, 1e-5))
    checks.check("dynamic", lambda: quantized(checks, "dynamic", lambda to: quantize_dynamic(path, to, op_types_to_quantize=["MatMul"])))
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        for weights in (QuantType.QInt8, QuantType.QUInt8):
            name = f"static {form.name} {weights.name}"
            checks.check(name, lambda: quantized(checks, name, lambda to: quantize_static(
                path, to, Reader(), quant_format=form, activation_type=QuantType.QUInt8, weight_type=weights)))  # fmt: skip
checks.end()
