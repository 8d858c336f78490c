#!/usr/bin/env python3
"""Compare our textual syntax with that of the onnx package, both ways.

    python tests/compat/text_syntax.py TESSERA [COUNT]

For COUNT models of ONNX's backend tests (default 400) and a few of our own:
  - what `tessera inspect --text --full` prints, onnx.parser reads as the same model;
  - what onnx.printer prints, tessera reads as the same model.
Models that onnx's own printer or parser cannot carry are counted, with the reason; anything else is a failure.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import TensorProto, helper, numpy_helper

warnings.filterwarnings("ignore")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LISTS_PARSER_DROPS = (onnx.AttributeProto.TENSORS, onnx.AttributeProto.GRAPHS, onnx.AttributeProto.TYPE_PROTOS)
SPARSE = (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)
PRINTER_CANNOT = {
    getattr(TensorProto, name)
    for name in ("COMPLEX64", "COMPLEX128", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2")
    if hasattr(TensorProto, name)
}


def all_graphs(graph):
    yield graph
    for node in graph.node:
        yield from subgraphs(node)


def subgraphs(node):
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from all_graphs(graph)


def all_nodes(model):
    for graph in all_graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for graph in subgraphs(node):
                yield from graph.node


def all_tensors(model):
    for graph in all_graphs(model.graph):
        yield from graph.initializer
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def limit_of_parser(model):
    """Why onnx.parser cannot read the model in any spelling; None if it can."""
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.type in LISTS_PARSER_DROPS and not attribute.ref_attr_name:
                return "the parser drops lists of tensors, graphs and types"
            if attribute.type in SPARSE:
                return "the syntax has no sparse constants"
            if attribute.HasField("g") and not IDENTIFIER.fullmatch(attribute.g.name):
                return "the parser takes no quoted name for a subgraph"
            if not IDENTIFIER.fullmatch(attribute.name):
                return "the parser takes no quoted name for an attribute"
    for graph in all_graphs(model.graph):
        if graph.sparse_initializer:
            return "the syntax has no sparse constants"
    return None


def limit_of_printer(model):
    """Why onnx.printer loses something; None if it does not."""
    for tensor in all_tensors(model):
        if tensor.data_type in PRINTER_CANNOT:
            return "the printer has no form for " + TensorProto.DataType.Name(tensor.data_type)
        if tensor.data_type == TensorProto.STRING and not tensor.string_data:
            return "the printer writes no opening brace for an empty list of strings"
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.STRINGS and not attribute.strings and not attribute.ref_attr_name:
                return "the printer writes no opening bracket for an empty list of strings"
    for function in model.functions:
        if function.attribute_proto:
            return "the printer loses the defaults of function attributes"
    return None


def canonical_type(t):
    kind = t.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(t, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        if not inner.elem_type:
            return None
        dims = None
        if inner.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?" for d in inner.shape.dim]
        return kind, inner.elem_type, dims
    if kind == "map_type":
        return kind, inner.key_type, canonical_type(inner.value_type)
    if kind == "opaque_type":
        return kind
    return kind, canonical_type(inner.elem_type)


def canonical_tensor(t):
    if t.data_location == TensorProto.EXTERNAL:
        return t.data_type, list(t.dims), {e.key: e.value for e in t.external_data}
    array = numpy_helper.to_array(t)
    if array.dtype.kind in "fc":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return t.data_type, list(t.dims), array.tolist() if t.data_type == TensorProto.STRING else array.tobytes()


def canonical_attribute(a):
    if a.ref_attr_name:
        return a.name, "@" + a.ref_attr_name
    value = helper.get_attribute_value(a)
    if a.type == onnx.AttributeProto.TENSOR:
        value = canonical_tensor(value)
    elif a.type == onnx.AttributeProto.GRAPH:
        value = canonical_graph(value)
    elif a.type == onnx.AttributeProto.TYPE_PROTO:
        value = canonical_type(value)
    elif a.type in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS):
        value = np.asarray(value, np.float32).tobytes()
    elif isinstance(value, (list, tuple)) or hasattr(value, "append"):
        value = list(value)
    return a.name, a.type, value


def canonical_node(n):
    domain = "" if n.domain == "ai.onnx" else n.domain
    return n.name, n.op_type, domain, n.overload, list(n.input), list(n.output), [canonical_attribute(a) for a in n.attribute]


def canonical_graph(g):
    made = {o for n in g.node for o in n.output}
    outputs = {o.name for o in g.output}
    types = {v.name: canonical_type(v.type) for v in g.value_info if v.name in made and v.name not in outputs}
    return {
        "name": g.name,
        "inputs": [(v.name, canonical_type(v.type)) for v in g.input],
        "outputs": [(v.name, canonical_type(v.type)) for v in g.output],
        "types": {name: t for name, t in types.items() if t is not None},
        "initializers": {t.name: canonical_tensor(t) for t in g.initializer},
        "nodes": [canonical_node(n) for n in g.node],
    }


def canonical_opsets(opsets):
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in opsets}


def canonical(m):
    imports = canonical_opsets(m.opset_import)
    return {
        "header": (m.ir_version, m.producer_name, m.producer_version, m.domain, m.model_version, m.doc_string),
        "opsets": imports,
        "metadata": [(e.key, e.value) for e in m.metadata_props],
        "graph": canonical_graph(m.graph),
        "functions": [
            (f.name, f.domain, f.overload, imports | canonical_opsets(f.opset_import), list(f.input), list(f.output),
             list(f.attribute), [canonical_attribute(a) for a in f.attribute_proto], [canonical_node(n) for n in f.node])
            for f in m.functions
        ],
    }


def first_difference(a, b, where="model"):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=str):
            if a.get(key) != b.get(key):
                return first_difference(a.get(key), b.get(key), f"{where}.{key}")
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{where}[{i}]")
    return f"{where}: {str(a)[:300]} is now {str(b)[:300]}"


def own_models():
    texts = [
        '<ir_version: 10, opset_import: ["" : 17], producer_name: "p \\"q\\"", model_version: 3, doc_string: "d", '
        'metadata_props: ["k": "v", "l": ""]> "g 1" (float[N,"a b",?,3] "x y", int64 i = {3}) => (float[] z) '
        '<float16[2] h = {15360, 31744}, bool b = {1}, string[2] s = {"a\\\\", ""}> '
        '{ [n] z, "" = Foo.bar.Op:v1 <a = [1, 2], f: float = 1, e: strings = [], t = float {-inf}, '
        'tp = seq(optional(float[2]))> ("x y", "", i) }'
        '<domain: "Foo.bar", overload: "v1", opset_import: ["" : 17]> Op <a, f> (x, y, w) => (o, p) '
        "{ c = Constant <value_float: float = @f> () o = Mul(x, c) p = Identity(w) }",
        '<ir_version: 9, opset_import: ["" : 19]> g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = '
        "t () => (float[2] a) <float[2] w = {1e-45, 3.4028235e38}> { a = Add(x, w) }, else_branch = e () => (float[2] b) "
        "{ b = Neg(x) }> }",
        '<ir_version: 10, opset_import: ["" : 21]> g () => (float[2] y) <float[2] w = ["location": "w.bin", '
        '"offset": "0", "length": "8"]> { y = Identity(w) }',
    ]
    for i, text in enumerate(texts):
        yield f"own_{i}", onnx.parser.parse_model(text)
    rest = [("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4), ("complex64", TensorProto.COMPLEX64)]
    for name, dtype in rest:
        array = np.array([1, 2, 3]).astype(helper.tensor_dtype_to_np_dtype(dtype))
        node = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(array))
        graph = helper.make_graph([node], name, [], [helper.make_tensor_value_info("y", dtype, [3])])
        yield f"own_{name}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def backend_models(count):
    from onnx.backend.test.loader import load_model_tests

    cases = load_model_tests(kind="node")
    for case in cases[:: max(1, len(cases) // count)]:
        yield case.name, case.model


class Comparison:
    def __init__(self, tessera, folder):
        self.tessera, self.folder = tessera, pathlib.Path(folder)
        self.passed, self.failed, self.limits = 0, 0, {}

    def tessera_text(self, path):
        done = subprocess.run([self.tessera, "inspect", "--text", "--full", path], capture_output=True)
        return (None, done.stderr.decode()) if done.returncode else (done.stdout.decode(), None)

    def note(self, name, problem, limit):
        if problem is None:
            self.passed += 1
        elif limit:
            self.limits[limit] = self.limits.get(limit, 0) + 1
        else:
            self.failed += 1
            print(f"FAIL {name}: {problem}")

    def ours_to_onnx(self, model, text):
        try:
            got = onnx.parser.parse_model(text)
            wanted, seen = canonical(model), canonical(got)
        except Exception as e:  # whatever onnx raises is the answer
            return f"onnx.parser: {e}"
        return None if wanted == seen else first_difference(wanted, seen)

    def onnx_to_ours(self, model, text):
        path = self.folder / "model.onnxtxt"
        path.write_text(onnx.printer.to_text(model))
        again, error = self.tessera_text(path)
        if error:
            return f"tessera: {error}"
        if again == text:
            return None
        return "".join(f"\n- {a}\n+ {b}" for a, b in zip(text.split("\n"), again.split("\n")) if a != b)[:600]

    def compare(self, name, model):
        path = self.folder / "model.onnx"
        # Weights of external files are read when a model is opened.
        (self.folder / "w.bin").write_bytes(bytes(8))
        path.write_bytes(model.SerializeToString())
        text, error = self.tessera_text(path)
        if error:
            self.note(name, f"tessera: {error}", None)
            return
        self.note(name + " ours to onnx", self.ours_to_onnx(model, text), limit_of_parser(model))
        limit = limit_of_parser(model) or limit_of_printer(model)
        self.note(name + " onnx to ours", self.onnx_to_ours(model, text), limit)


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(sys.argv[1], folder)
        for source in (own_models(), backend_models(count)):
            for name, model in source:
                comparison.compare(name, model)
    for limit, times in sorted(comparison.limits.items()):
        print(f"{times} not compared: {limit}")
    print(f"{comparison.passed} passed, {comparison.failed} failed")
    return 1 if comparison.failed or not comparison.passed else 0


if __name__ == "__main__":
    sys.exit(main())
