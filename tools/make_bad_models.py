#!/usr/bin/env python3
"""Writes tests/models/bad: models that must be refused, and expect.tsv with the status code and a part of the message.

    python tools/make_bad_models.py tests/models/bad
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

NO_FILE, BAD_WIRE, BAD_GRAPH, FAIL, MISSING_OP, BAD_ARGUMENT = 3, 7, 10, 1, 9, 2


def value(name, dtype=T.FLOAT, shape=(4,)):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, init=(), opset=21, ir=10):
    graph = h.make_graph(nodes, "g", [value("x")] if inputs is None else inputs, [value("y")] if outputs is None else outputs, list(init))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=ir)


def tensor(dims, raw, dtype=T.FLOAT, name="w", **fields):
    return onnx.TensorProto(name=name, dims=dims, data_type=dtype, raw_data=raw, **fields)


def external(location, offset=None, length=None, dims=(4,)):
    t = onnx.TensorProto(name="w", dims=dims, data_type=T.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    entries = {"location": location, "offset": offset, "length": length}
    for key, v in entries.items():
        if v is not None:
            t.external_data.add(key=key, value=str(v))
    return t


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def nested(depth):
    """If inside If inside If ... by hand: no library writes this."""
    node = lambda attr: field(2, b"y") + field(4, b"If") + field(1, b"c") + attr
    graph = field(2, b"leaf")
    for _ in range(depth):
        graph = field(1, node(field(5, field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05")))
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10\x15")


def cases():
    n = h.make_node
    add = [n("Add", ["x", "w"], ["y"], "add")]
    yield "empty", b"", BAD_WIRE, "empty"
    yield "garbage", bytes(range(1, 255)) * 4, BAD_WIRE, "not an ONNX file"
    yield "varint_too_long", b"\x08" + b"\xff" * 11, BAD_WIRE, "not an ONNX file"
    yield "length_too_long", b"\x3a\xff\xff\xff\xff\x07", BAD_WIRE, "not an ONNX file"
    yield "no_graph", b"\x08\x0a" + field(8, b"\x10\x15"), BAD_GRAPH, "no graph"
    yield "ir_version", model([n("Relu", ["x"], ["y"])], ir=2147483647), BAD_GRAPH, "IR version"
    yield "opset_too_new", model([n("Relu", ["x"], ["y"])], opset=999), BAD_GRAPH, "newer than"
    two = model([n("Relu", ["x"], ["y"])])
    two.opset_import.append(h.make_opsetid("", 20))
    yield "two_opsets", two, BAD_GRAPH, "versions 21 and 20"
    yield "nested_200", nested(200), BAD_WIRE, "nested"
    yield "nested_10000", nested(10000), BAD_WIRE, "nested"
    yield "cycle", model([n("Add", ["x", "b"], ["a"], "first"), n("Relu", ["a"], ["b"], "second"), n("Relu", ["a"], ["y"], "third")]), \
        BAD_GRAPH, "cycle: 'first' -> 'second' -> 'first'"
    yield "self_loop", model([n("Add", ["x", "y"], ["y"], "eat")]), BAD_GRAPH, "cycle: 'eat' -> 'eat'"
    yield "output_twice", model([n("Relu", ["x"], ["y"], "a"), n("Sigmoid", ["x"], ["y"], "b")]), BAD_GRAPH, "'b' (Sigmoid): its output 'y'"
    yield "initializer_twice", model(add, init=[tensor([4], b"\0" * 16), tensor([4], b"\0" * 16)]), BAD_GRAPH, "'w' is defined twice"
    yield "input_twice", model([n("Relu", ["x"], ["y"])], inputs=[value("x"), value("x")]), BAD_GRAPH, "'x' is defined twice"
    yield "undefined_input", model([n("Relu", ["ghost"], ["y"], "r")]), BAD_GRAPH, "'r' (Relu): its input 'ghost'"
    yield "undefined_output", model([n("Relu", ["x"], ["z"])]), BAD_GRAPH, "output 'y' is defined nowhere"
    yield "unknown_operator", model([n("Frobnicate", ["x"], ["y"], "f")]), MISSING_OP, "Frobnicate"
    yield "domain_not_imported", model([n("Relu", ["x"], ["y"], "r", domain="somewhere")]), BAD_GRAPH, "'somewhere' is not imported"
    yield "too_few_inputs", model([n("Add", ["x"], ["y"], "a")]), BAD_GRAPH, "1 inputs, wanted 2"
    yield "too_many_inputs", model([n("Relu", ["x", "x"], ["y"], "r")]), BAD_GRAPH, "2 inputs, wanted 1"
    yield "too_many_outputs", model([n("Relu", ["x"], ["y", "z"], "r")]), BAD_GRAPH, "2 outputs, wanted 1"
    yield "unknown_attribute", model([n("Relu", ["x"], ["y"], "r", colour=3)]), BAD_GRAPH, "'colour'"
    yield "attribute_type", model([n("Softmax", ["x"], ["y"], "s", axis="last")]), BAD_GRAPH, "'axis' has the wrong type"
    twice = model([n("Softmax", ["x"], ["y"], "s", axis=0)])
    twice.graph.node[0].attribute.append(h.make_attribute("axis", 0))
    yield "attribute_twice", twice, BAD_GRAPH, "'axis' is given twice"
    lies = model([n("Softmax", ["x"], ["y"], "s", axis=0)])
    lies.graph.node[0].attribute[0].type = onnx.AttributeProto.FLOAT
    yield "attribute_tag_lies", lies, BAD_GRAPH, "'axis' says it is of one type"
    yield "input_without_type", model([n("Relu", ["x"], ["y"])], inputs=[onnx.ValueInfoProto(name="x")]), BAD_GRAPH, "'x' has no type"
    odd = model([n("Relu", ["x"], ["y"])])
    odd.graph.input[0].type.tensor_type.elem_type = 9999
    yield "element_type", odd, BAD_GRAPH, "element type 9999"
    yield "wrong_type", model([n("Add", ["x", "w"], ["y"], "add")], init=[tensor([4], b"\0" * 32, T.INT64)]), MISSING_OP, "'add' (Add)"
    yield "negative_dim", model(add, init=[tensor([-4], b"\0" * 16)]), BAD_GRAPH, "negative dimension"
    yield "absurd_shape", model(add, init=[tensor([1 << 32, 1 << 32], b"")]), BAD_GRAPH, "63 bits"
    yield "absurd_bytes", model(add, init=[tensor([1 << 62], b"")]), BAD_GRAPH, "63 bits"
    yield "no_data", model(add, init=[onnx.TensorProto(name="w", dims=[10**10], data_type=T.FLOAT)]), BAD_GRAPH, "no data"
    yield "raw_short", model(add, init=[tensor([4], b"\0" * 15)]), BAD_GRAPH, "wants 16 bytes, its raw_data has 15"
    yield "raw_long", model(add, init=[tensor([4], b"\0" * 17)]), BAD_GRAPH, "wants 16 bytes, its raw_data has 17"
    yield "float_data_short", model(add, init=[onnx.TensorProto(name="w", dims=[4], data_type=T.FLOAT, float_data=[1, 2, 3])]), BAD_GRAPH, "gives 3"
    yield "data_twice", model(add, init=[tensor([4], b"\0" * 16, float_data=[1, 2, 3, 4])]), BAD_GRAPH, "2 fields at once"
    yield "data_of_another_type", model(add, init=[onnx.TensorProto(name="w", dims=[1], data_type=T.FLOAT, int64_data=[1])]), BAD_GRAPH, "another type"
    yield "tensor_type_0", model(add, init=[tensor([4], b"\0" * 16, 0)]), BAD_GRAPH, "element type 0"
    yield "tensor_type_77", model(add, init=[tensor([4], b"\0" * 16, 77)]), BAD_GRAPH, "element type 77"
    yield "rank_100000", model(add, init=[tensor([1] * 100000, b"\0" * 4)]), BAD_GRAPH, "more than 64 dimensions"
    yield "string_raw", model(add, init=[tensor([4], b"\0" * 4, T.STRING)]), BAD_GRAPH, "raw_data"
    segment = tensor([4], b"\0" * 16)
    segment.segment.begin, segment.segment.end = 0, 4
    yield "segment", model(add, init=[segment]), MISSING_OP, "segments"
    yield "external_missing", model(add, init=[external("nowhere.bin")]), NO_FILE, "nowhere.bin"
    yield "external_parent", model(add, init=[external("../samples/external.bin")]), FAIL, "leaves the model's folder"
    yield "external_parent_inside", model(add, init=[external("sub/../../samples/external.bin")]), FAIL, "sub/../../samples"
    yield "external_absolute", model(add, init=[external("/etc/hostname")]), FAIL, "leaves the model's folder"
    yield "external_empty", model(add, init=[external("")]), FAIL, "no location"
    yield "external_folder", model(add, init=[external(".")]), FAIL, "not a regular file"
    yield "external_backslash", model(add, init=[external("..\\secret")]), FAIL, "plain relative path"
    yield "external_address", model(add, init=[external("*/_ORT_MEM_ADDR_/*", offset=4096)]), NO_FILE, "_ORT_MEM_ADDR_"
    yield "external_offset_past_end", model(add, init=[external("empty.onnx", offset=4)]), FAIL, "wanted 16 at offset 4"
    yield "external_offset_text", model(add, init=[external("empty.onnx", offset="12abc")]), FAIL, "'12abc'"
    yield "external_offset_negative", model(add, init=[external("empty.onnx", offset=-1)]), FAIL, "'-1'"
    yield "external_length", model(add, init=[external("empty.onnx", length=15)]), FAIL, "length 15"
    yield "external_length_overflow", model(add, init=[external("empty.onnx", offset=(1 << 64) - 8)]), FAIL, "empty.onnx"
    sparse = h.make_sparse_tensor(nh.from_array(np.array([1], np.float32), "w"), nh.from_array(np.array([9]), "i"), [4])
    bad_sparse = model(add)
    bad_sparse.graph.sparse_initializer.append(sparse)
    yield "sparse_index", bad_sparse, BAD_GRAPH, "sparse index 9"
    huge = model(add)
    huge.graph.sparse_initializer.append(h.make_sparse_tensor(nh.from_array(np.array([1], np.float32), "w"), nh.from_array(np.array([0]), "i"), [1 << 28]))
    yield "sparse_amplifies", huge, BAD_GRAPH, "more than"
    recursive = model([n("F", ["x"], ["y"], "call", domain="d")])
    recursive.functions.append(h.make_function("d", "F", ["a"], ["b"], [n("F", ["a"], ["b"], domain="d")], [h.make_opsetid("", 21), h.make_opsetid("d", 1)]))
    recursive.opset_import.append(h.make_opsetid("d", 1))
    yield "function_recursion", recursive, BAD_GRAPH, "calls itself"
    doubling = model([n("F28", ["x"], ["y"], "call", domain="d")])
    doubling.opset_import.append(h.make_opsetid("d", 1))
    opsets = [h.make_opsetid("", 21), h.make_opsetid("d", 1)]
    doubling.functions.append(h.make_function("d", "F0", ["a"], ["b"], [n("Relu", ["a"], ["b"])], opsets))
    for i in range(1, 29):
        doubling.functions.append(h.make_function("d", f"F{i}", ["a"], ["b"], [n(f"F{i-1}", ["a"], ["c"], domain="d"), n(f"F{i-1}", ["c"], ["b"], domain="d")], opsets))
    yield "function_doubling", doubling, BAD_GRAPH, "more nodes than allowed"


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, content, code, text in cases():
        data = content if isinstance(content, bytes) else content.SerializeToString(deterministic=True)
        (out / f"{name}.onnx").write_bytes(data)
        rows.append(f"{name}\t{code}\t{text}\n")
    (out / "expect.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tests/models/bad"))
