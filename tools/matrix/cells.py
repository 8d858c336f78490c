"""The cells of the matrix, and what a recipe makes of one.

A cell is an operator version with one type of one of its type constraints; the other constraints stand at a type that
fits. A version without constraints forms one cell. Operators whose types meet in one computation have, in their newest
version, a cell for every combination as well.
"""
import dataclasses
import itertools
from typing import Any, Callable

import numpy as np
import onnx
from onnx import defs, helper

from . import values

PREFERRED = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(uint8)", "seq(tensor(float))", "optional(tensor(float))")
# The versions of the operator sets that are newest in the onnx package.
COMBINED = ("Cast CastLike Pow QuantizeLinear DequantizeLinear Attention BatchNormalization LayerNormalization "
            "RMSNormalization LinearAttention EyeLike Bernoulli Dropout Resize GridSample MelWeightMatrix QLinearConv "
            "MatMulInteger ConvInteger LabelEncoder ConstantOfShape CumSum Pad").split()  # fmt: skip
NEWEST = {"": defs.onnx_opset_version(), "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}


@dataclasses.dataclass
class Case:
    """One node with inputs and what says its outputs."""

    inputs: list  # values in the order of the formal inputs; None is absent
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: list | None = None  # type texts ("" for an output that is left out); None: the first formal output
    # How an oracle is asked, where it differs from the node itself: inputs, attrs, version.
    modern: dict = dataclasses.field(default_factory=dict)
    formula: Callable[..., Any] | None = None  # of the widened inputs; gives the list of outputs. Comes before oracles.
    random: bool = False
    rtol: float | None = None
    atol: float = 0.0
    captured: list = dataclasses.field(default_factory=list)  # (name, value): inputs of the graph beside the node's
    nodes: list = dataclasses.field(default_factory=list)  # nodes before it


class Cell:
    def __init__(self, schema, constraint, text, combination=None):
        self.schema, self.constraint, self.text = schema, constraint, text
        self.domain, self.op, self.version = schema.domain, schema.name, schema.since_version
        self.binding = {}
        for c in schema.type_constraints:
            allowed = c.allowed_type_strs
            fit = [t for t in PREFERRED if t in allowed]
            self.binding[c.type_param_str] = fit[0] if fit else sorted(allowed)[0]
        if constraint:
            self.binding[constraint] = text
        self.combination = combination
        self.binding |= combination or {}

    @property
    def name(self):
        kind = f"{self.constraint}_{self.text}" if self.constraint else "any"
        if self.combination:
            kind = "_".join(f"{variable}_{text}" for variable, text in self.combination.items())
        kind = kind.replace("(", "_").replace(")", "").replace(", ", "_").replace("tensor_", "")
        domain = self.domain.replace("ai.onnx.", "") + "_" if self.domain else ""
        return f"{domain}{self.op}_v{self.version}_{kind}"

    def resolve(self, type_text):
        return self.binding.get(type_text, type_text)

    def in_text(self, i):
        """The type of formal input i; past the end, of the last (variadic) one."""
        return self.resolve(self.schema.inputs[min(i, len(self.schema.inputs) - 1)].type_str)

    def out_text(self, o=0):
        return self.resolve(self.schema.outputs[min(o, len(self.schema.outputs) - 1)].type_str)

    def t(self, i=0):
        """The element type of formal input i."""
        return values.element_of(self.in_text(i))

    def u(self, o=0):
        return values.element_of(self.out_text(o))

    def has_attr(self, name):
        return name in self.schema.attributes

    def x(self, shape, i=0, key=None, **how):
        """A sample for formal input i."""
        return values.value_of(self.in_text(i), shape, (self.op, i if key is None else key), **how)

    def of(self, i, array):
        """These numbers as formal input i takes them."""
        return values.numbers(self.t(i), array)


def all_cells():
    """A version that retires its operator is no cell: nothing may use it."""
    history = defs.get_all_schemas_with_history()
    newest = {}
    for schema in history:
        newest[schema.domain, schema.name] = max(newest.get((schema.domain, schema.name), 0), schema.since_version)
    out = []
    for schema in history:
        if schema.deprecated and schema.since_version == newest[schema.domain, schema.name]:
            continue
        if not schema.type_constraints:
            out.append(Cell(schema, "", ""))
        for c in schema.type_constraints:
            out.extend(Cell(schema, c.type_param_str, text) for text in sorted(c.allowed_type_strs))
        if schema.name in COMBINED and schema.since_version == newest[schema.domain, schema.name]:
            out.extend(combinations(schema))
    out.sort(key=lambda c: (c.domain, c.op, c.version, c.constraint, c.text))
    return out


def combinations(schema):
    """Those that the cells of single constraints do not have: two or more types beside the usual ones."""
    usual = Cell(schema, "", "").binding
    names = [c.type_param_str for c in schema.type_constraints]
    for texts in itertools.product(*(sorted(c.allowed_type_strs) for c in schema.type_constraints)):
        chosen = dict(zip(names, texts))
        if sum(chosen[n] != usual[n] for n in names) > 1:
            yield Cell(schema, "", "", chosen)


# ---------------------------------------------------------------------------------------- models


def text_of(value):
    """The type text of a value."""
    if isinstance(value, values.Seq):
        return f"seq(tensor({value.element}))"
    if isinstance(value, values.Opt):
        return f"optional({value.inner})"
    if isinstance(value, values.Map):
        return value.text
    name = "string" if value.dtype == object else values.NAMES[value.dtype]
    return f"tensor({name})"


def shape_of(value):
    return value.shape if isinstance(value, np.ndarray) else None


def make_attribute(key, value):
    if isinstance(value, np.ndarray):
        value = values.tensor_proto(value)
    return helper.make_attribute(key, value)


def make_model(domain, op, version, inputs, attrs, output_texts, texts=None, captured=(), nodes=()):
    """A model of one node. Inputs are named x0, x1 ..., outputs y0, y1 ..."""
    texts = texts or [None if v is None else text_of(v) for v in inputs]
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    results = [f"y{o}" if text else "" for o, text in enumerate(output_texts)]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op, names, results, domain=domain)
    node.attribute.extend(make_attribute(k, v) for k, v in attrs.items())
    given = [(f"x{i}", texts[i], v) for i, v in enumerate(inputs) if v is not None]
    given += [(name, text_of(v), v) for name, v in captured]
    graph = helper.make_graph(
        [*nodes, node],
        f"{op}_{version}",
        [helper.make_value_info(name, values.type_proto(text, shape_of(v))) for name, text, v in given],
        [helper.make_value_info(f"y{o}", values.type_proto(text)) for o, text in enumerate(output_texts) if text],
    )  # fmt: skip
    opsets = [helper.make_opsetid(domain, version)]
    if domain and (nodes or any(isinstance(v, onnx.GraphProto) for v in attrs.values())):
        opsets.append(helper.make_opsetid("", NEWEST[""]))
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = max(4, min(model.ir_version, ir_version(domain, version)))
    return model


def ir_version(domain, version):
    """The newest IR of the time of an operator set, and new enough for every type."""
    try:
        return 10 if domain else max(8, helper.find_min_ir_version_for([helper.make_opsetid("", version)]))
    except ValueError:  # an operator set that no release of onnx had
        return 8
