#!/usr/bin/env python3
"""Run random convolutional models that ONNX Runtime optimised and saved in its CPU's layout.

    python tests/compat/nchwc_models.py TESSERA [--cases N] [--seed N]

Every model has to give what ONNX Runtime gives, within 1e-3 of the largest element. At the end the operators of
com.microsoft.nchwc that were met are listed; all eight have to be.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "com.microsoft.nchwc"
OPERATORS = {"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample"}


class Network:
    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.count = rng, [], [], 0
        self.inputs, self.size = int(rng.choice([1, 3, 32])), int(rng.integers(6, 20))
        self.channels = int(rng.choice([16, 20, 32, 48]))
        self.y = self.conv("x", self.inputs, self.channels, 3)
        if rng.random() < 0.5:
            self.y = self.op("Relu", self.y)
        for _ in range(int(rng.integers(1, 5))):
            self.grow()

    def const(self, array):
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), f"c{self.count}"))
        return f"c{self.count}"

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{self.count}"], **attributes))
        return f"v{self.count}"

    def conv(self, x, inputs, outputs, kernel, group=1):
        weights = self.rng.standard_normal([outputs, inputs // group, kernel, kernel]) * 0.3
        bias = [self.const(self.rng.standard_normal(outputs))] if self.rng.random() < 0.7 else []
        return self.op("Conv", x, self.const(weights), *bias, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=group)

    def grow(self):
        y, c = self.y, self.channels
        kind = self.rng.integers(10)
        if kind == 0:
            y = self.op("Add", y, self.op("Relu", self.conv(y, c, c, 1)))
        elif kind == 1:
            y = self.op("Clip", self.conv(y, c, c, 3, group=c), self.const(0), self.const(6))
        elif kind == 2:
            y = self.op("MaxPool", y, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
        elif kind == 3:
            y = self.op("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif kind == 4:  # a factor for each channel
            y = self.op("Mul", y, self.op("Sigmoid", self.conv(self.op("GlobalAveragePool", y), c, c, 1)))
        elif kind == 5:
            y, self.channels = self.op("Concat", y, self.conv(y, c, 32, 1), axis=1), c + 32
        elif kind == 6:
            y = self.op("Resize", y, "", self.const([1, 1, 2, 2]), mode=str(self.rng.choice(["nearest", "linear"])),
                        coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        elif kind == 7:
            y = self.op("LeakyRelu", self.op("Add", self.conv(y, c, c, 3), y), alpha=0.2)
        elif kind == 8:
            y = self.op("Add", y, self.op("GlobalMaxPool", y))
        else:
            y = self.op("Transpose", self.op("Transpose", y, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
        self.y = y

    def model(self):
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, self.inputs, self.size, self.size])
        graph = helper.make_graph(self.nodes, "network", [info], [onnx.ValueInfoProto(name=self.y)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(program, seed, met):
    """What differs, or nothing."""
    rng = np.random.default_rng(seed)
    network = Network(rng)
    x = rng.standard_normal([1, network.inputs, network.size, network.size]).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(folder / "saved.onnx")
        session = ort.InferenceSession(network.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
        want = session.run(None, {"x": x})[0]
        met |= {n.op_type for n in onnx.load(folder / "saved.onnx").graph.node if n.domain == DOMAIN}
        (folder / "x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
        done = subprocess.run([program, "run", folder / "saved.onnx", "--input", f"x={folder}/x.pb", "--output",
                               f"{network.y}={folder}/y.pb"], capture_output=True, text=True, timeout=60)
        if done.returncode:
            return done.stderr.strip()[-400:]
        got = numpy_helper.to_array(onnx.load_tensor(folder / "y.pb"))
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    worst = float(np.max(np.abs(got - want)))
    return "" if worst <= 1e-3 * max(1, float(np.max(np.abs(want)))) else f"differs by {worst}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    args = parser.parse_args()
    failed, met = 0, set()
    for seed in range(args.seed, args.seed + args.cases):
        if why := check(args.program, seed, met):
            failed += 1
            print(f"FAIL seed {seed}: {why}")
    print(f"{args.cases - failed} passed, {failed} failed, seeds {args.seed} to {args.seed + args.cases - 1}; met {sorted(met)}")
    if OPERATORS - met:
        print(f"never met: {sorted(OPERATORS - met)}")
    return 1 if failed or OPERATORS - met else 0


if __name__ == "__main__":
    sys.exit(main())
