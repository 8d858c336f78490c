"""Small models for the tests."""

from onnx import TensorProto, helper, numpy_helper


def tensor(name, shape=None, type_=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type_, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17, **metadata):
    graph = helper.make_graph(
        nodes, "graph", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in initializers]
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=10,
        producer_name="tests",
    )
    helper.set_model_props(made, metadata)
    return made.SerializeToString()


def one_node(op, inputs, outputs, opset=17, **attributes):
    """A model of a single operator; arguments are value infos."""
    domain = attributes.pop("domain", "")
    node = helper.make_node(op, [i.name for i in inputs], [o.name for o in outputs], domain=domain, **attributes)
    return model([node], inputs, outputs, opset=opset)


def add():
    return one_node("Add", [tensor("x", ["N", 2]), tensor("y", [None, 2])], [tensor("z")])
