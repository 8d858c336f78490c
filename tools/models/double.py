"""A float32 model in double precision, as an arbiter where two engines differ by rounding. What a model quantizes stays
quantized: values are float32 where they enter and leave integers."""
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

# Inputs that the standard wants as float32 whatever the data is.
ALWAYS_FLOAT = {"Resize": (2,), "Upsample": (1,), "QuantizeLinear": (1,), "DequantizeLinear": (1,)}
# Operators that read or make float32 alone: what is cast before and after them.
FLOAT_INPUT = {"QuantizeLinear", "DynamicQuantizeLinear"}
FLOAT_OUTPUT = {"DequantizeLinear": 0, "DynamicQuantizeLinear": 1}


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen_node(node):
    for attribute in node.attribute:
        if attribute.HasField("t"):
            widen_tensor(attribute.t)
        if attribute.HasField("g"):
            widen_graph(attribute.g)
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            number = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            attribute.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(np.float64(number))))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def widen_graph(graph):
    kept = {n.input[i] for n in graph.node for i in ALWAYS_FLOAT.get(n.op_type, ()) if i < len(n.input)}
    for tensor in graph.initializer:
        if tensor.name not in kept:
            widen_tensor(tensor)
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        if not kept.intersection(node.output):
            widen_node(node)
    with_casts(graph)
    del graph.value_info[:]


def with_casts(graph):
    """Casts around the operators that stay in float32."""
    nodes = []
    for node in graph.node:
        if node.op_type in FLOAT_INPUT:
            narrow = node.output[0] + "/narrow"
            nodes.append(onnx.helper.make_node("Cast", [node.input[0]], [narrow], to=TensorProto.FLOAT))
            node.input[0] = narrow
        nodes.append(node)
        place = FLOAT_OUTPUT.get(node.op_type)
        if place is not None and place < len(node.output):
            wide, node.output[place] = node.output[place], node.output[place] + "/float"
            nodes.append(onnx.helper.make_node("Cast", [node.output[place]], [wide], to=TensorProto.DOUBLE))
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(nodes)


def write(path, out):
    """Writes the model at `path` in double precision."""
    model = onnx.load(path)
    widen_graph(model.graph)
    for function in model.functions:
        for node in function.node:
            widen_node(node)
    onnx.save(model, out)


def widen_feed(feed):
    return {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in feed.items()}
