#!/usr/bin/env python3
"""Compare SparseToDenseMatMul with ONNX Runtime on random cases.

    python tests/compat/sparse.py TESSERA [--cases N] [--seed N]

ONNX Runtime gets the sparse matrix as an input, tessera as a sparse constant of the model. Tolerances, relative and
absolute: float32 1e-5, float64 1e-12; whole numbers are equal. ONNX Runtime's defect that the cases stay away from:
alpha counts for float32 alone.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper


def draw(rng):
    kind = np.dtype(rng.choice(["float32", "float64", "int32", "int64", "uint32", "uint64"]))
    m, k, n = (int(rng.integers(1, 9)) for _ in range(3))
    attributes = {name: int(rng.random() < 0.5) for name in ("transA", "transB")}
    if kind == np.float32 and rng.random() < 0.5:
        attributes["alpha"] = 0.5
    a_shape = (k, m) if attributes["transA"] else (m, k)
    b_shape = (n, k) if attributes["transB"] else (k, n)
    count = int(rng.integers(0, m * k + 1))
    places = np.sort(rng.choice(m * k, count, replace=False)).astype(np.int64)
    def numbers(shape):
        return rng.standard_normal(shape).astype(kind) if kind.kind == "f" else rng.integers(0, 100, shape).astype(kind)
    return attributes, a_shape, places, numbers(count), numbers(b_shape)


def model(kind, attributes, initializers):
    kind = helper.np_dtype_to_tensor_dtype(kind)
    # Shapes are not told: ONNX Runtime's inference forgets transA and transB.
    inputs = [] if initializers else [helper.make_sparse_tensor_value_info("a", kind, ["m", "k"])]
    inputs.append(helper.make_tensor_value_info("b", kind, ["l", "n"]))
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "case", inputs, [helper.make_tensor_value_info("y", kind, None)],
                              sparse_initializer=initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def theirs(attributes, a_shape, places, values, b):
    device = ort.OrtValue.ortvalue_from_numpy(b)._ortvalue.device_name()
    pairs = np.stack(np.unravel_index(places, a_shape), axis=1).astype(np.int64)
    a = ort.SparseTensor.sparse_coo_from_numpy(np.array(a_shape, np.int64), values, pairs.reshape(-1),
                                               ort.OrtDevice.make(device.lower(), 0))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model(b.dtype, attributes, []).SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    return session.run(None, {"a": ort.OrtValue.ort_value_from_sparse_tensor(a), "b": b})[0]


def ours(program, attributes, a_shape, places, values, b):
    constant = helper.make_sparse_tensor(numpy_helper.from_array(values, "a"), numpy_helper.from_array(places, "places"),
                                         a_shape)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        onnx.save(model(b.dtype, attributes, [constant]), folder / "model.onnx")
        (folder / "b.pb").write_bytes(numpy_helper.from_array(b, "b").SerializeToString())
        done = subprocess.run([program, "run", folder / "model.onnx", "--input", f"b={folder}/b.pb", "--output",
                               f"y={folder}/y.pb"], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-400:])
        return numpy_helper.to_array(onnx.load_tensor(folder / "y.pb"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    args = parser.parse_args()
    failed = 0
    for seed in range(args.seed, args.seed + args.cases):
        case = draw(np.random.default_rng(seed))
        want = theirs(*case)
        got = ours(args.program, *case)
        tolerance = {"float32": 1e-5, "float64": 1e-12}.get(want.dtype.name, 0)
        if got.dtype != want.dtype or got.shape != want.shape or not np.allclose(got, want, tolerance, tolerance):
            failed += 1
            print(f"FAIL seed {seed}: {case[0]}, {want.dtype}{list(want.shape)}\n{got}\ninstead of\n{want}")
    print(f"{args.cases - failed} passed, {failed} failed, seeds {args.seed} to {args.seed + args.cases - 1}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
