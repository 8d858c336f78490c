"""A float32 model in double precision, as an arbiter where two engines differ by rounding."""
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

# Inputs that the standard wants as float32 whatever the data is.
ALWAYS_FLOAT = {"Resize": (2,), "Upsample": (1,)}


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
    del graph.value_info[:]


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
