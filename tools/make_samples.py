#!/usr/bin/env python3
"""Writes the small sample models of tests/models/samples: one per corner of the format. Needs the onnx package.

    python tools/make_samples.py tests/models/samples
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

FLOAT, INT64, BOOL = T.FLOAT, T.INT64, T.BOOL


def value(name, dtype=FLOAT, shape=("N", 4)):
    return h.make_tensor_value_info(name, dtype, shape)


def weights(name, *shape):
    seed = sum(map(ord, name))
    return nh.from_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), name)


def save(out, name, nodes, inputs, outputs, init=(), opset=21, functions=(), sparse=(), extra_opsets=()):
    graph = h.make_graph(nodes, name, inputs, outputs, list(init), sparse_initializer=list(sparse))
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, v) for d, v in extra_opsets]
    model = h.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions), producer_name="tessera samples")
    h.set_model_props(model, {"about": name})
    onnx.checker.check_model(model)
    onnx.save(model, out / f"{name}.onnx")
    return model


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    n = h.make_node
    save(out, "mlp", [n("MatMul", ["x", "w1"], ["a"], "first"), n("Add", ["a", "b1"], ["b"], "bias"), n("Relu", ["b"], ["c"], "act"),
                      n("MatMul", ["c", "w2"], ["y"], "second")],
         [value("x")], [value("y", shape=("N", 3))], [weights("w1", 4, 8), weights("b1", 8), weights("w2", 8, 3)])
    save(out, "reshape", [n("Shape", ["x"], ["s"]), n("Gather", ["s", "zero"], ["batch"]), n("Unsqueeze", ["batch", "axis"], ["b1"]),
                          n("Concat", ["b1", "rest"], ["shape"], axis=0), n("Reshape", ["x", "shape"], ["y"])],
         [value("x")], [value("y", shape=("N", 2, 2))],
         [nh.from_array(np.array(0), "zero"), nh.from_array(np.array([0]), "axis"), nh.from_array(np.array([2, 2]), "rest")])
    then = h.make_graph([n("Relu", ["x"], ["t"], "then_relu")], "then", [], [value("t")])
    other = h.make_graph([n("Sigmoid", ["x"], ["e"], "else_sigmoid")], "else", [], [value("e")])
    save(out, "if", [n("If", ["c"], ["y"], "branch", then_branch=then, else_branch=other)], [value("c", BOOL, ()), value("x")], [value("y")])
    body = h.make_graph([n("Add", ["v_in", "x"], ["v_out"]), n("Identity", ["v_out"], ["scan"]), n("Identity", ["cond_in"], ["cond_out"])],
                        "body", [value("i", INT64, ()), value("cond_in", BOOL, ()), value("v_in", shape=(4,))],
                        [value("cond_out", BOOL, ()), value("v_out", shape=(4,)), value("scan", shape=(4,))])
    save(out, "loop", [n("Loop", ["trips", "", "x"], ["last", "all"], "repeat", body=body)], [value("trips", INT64, ()), value("x", shape=(4,))],
         [value("last", shape=(4,)), value("all", shape=("T", 4))])
    twice = h.make_function("sample", "ScaleTwice", ["a"], ["r"], [n("Constant", [], ["k"], value_float=2.0), n("Mul", ["a", "k"], ["m"]),
                            n("LeakyRelu", ["m"], ["r"])], [h.make_opsetid("", 21)])
    twice.node[2].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    twice.attribute.append("slope")
    save(out, "function", [n("ScaleTwice", ["x"], ["h"], domain="sample", slope=0.1), n("ScaleTwice", ["h"], ["y"], domain="sample", slope=0.5)],
         [value("x")], [value("y")], functions=[twice], extra_opsets=[("sample", 1)])
    sparse = h.make_sparse_tensor(nh.from_array(np.array([1.5, -2.0], np.float32), "w"), nh.from_array(np.array([1, 6]), "w_indices"), [4, 2])
    save(out, "sparse", [n("MatMul", ["x", "w"], ["y"])], [value("x")], [value("y", shape=("N", 2))], sparse=[sparse])
    save(out, "strings", [n("StringConcat", ["s", "suffix"], ["y"])], [value("s", T.STRING, ("N",))], [value("y", T.STRING, ("N",))],
         [nh.from_array(np.array(["!"], dtype=object), "suffix")])
    packed = h.make_tensor("q", T.INT4, [4, 4], np.arange(-8, 8, dtype=np.int8))
    save(out, "int4", [n("DequantizeLinear", ["q", "scale"], ["w"]), n("MatMul", ["x", "w"], ["y"])], [value("x")], [value("y")],
         [packed, nh.from_array(np.array(0.5, np.float32), "scale")])
    save(out, "sequence", [n("SequenceConstruct", ["x", "x"], ["s"]), n("SequenceInsert", ["s", "x"], ["s2"]),
                           n("ConcatFromSequence", ["s2"], ["y"], axis=0)], [value("x")], [value("y", shape=("M", 4))])
    save(out, "unique", [n("Unique", ["x"], ["u", "", "", "count"], sorted=1), n("NonZero", ["u"], ["z"])], [value("x", INT64, ("N",))],
         [value("u", INT64, ("U",)), value("count", INT64, ("U",)), value("z", INT64, (1, "Z"))])
    external = save(out, "external", [n("MatMul", ["x", "w"], ["y"])], [value("x")], [value("y", shape=("N", 8))], [weights("w", 4, 8)])
    (out / "external.onnx").unlink()
    onnx.save(external, out / "external.onnx", save_as_external_data=True, location="external.bin", size_threshold=0)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tests/models/samples"))
