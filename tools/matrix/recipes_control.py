"""Recipes of sequences, optionals, operators with bodies, and random numbers."""
import numpy as np
from onnx import helper

from . import values
from .cells import Case
from .registry import recipe
from .recipes_tensor import i64
from .values import Opt, Seq


def tensor_inside(text):
    return f"tensor({values.element_of(text)})"


# ---------------------------------------------------------------------------------------- sequences


def element_text(c):
    """The tensor type that S and T, bound to each other, stand for: the varied one decides."""
    varied = c.text if c.constraint in ("S", "T") else c.binding.get("S", c.binding.get("T"))
    return tensor_inside(varied)


def some(c, key, shape=(2,)):
    return values.value_of(element_text(c), shape, (c.op, key))


def sequence(c, sizes=(2, 2, 3)):
    element = values.element_of(element_text(c))
    return Seq([some(c, k, (n,)) for k, n in enumerate(sizes)], element)


@recipe("SequenceConstruct")
def sequence_construct(c):
    items = [some(c, 0), some(c, 1)]
    return Case(items, {}, [f"seq({element_text(c)})"], formula=lambda *x: [list(x)])


@recipe("SequenceEmpty")
def sequence_empty(c):
    element = values.element_of(c.out_text())
    return Case([], {"dtype": values.CODES[element]}, formula=lambda: [[]])


@recipe("SequenceAt")
def sequence_at(c):
    return Case([sequence(c), c.of(1, np.array(-1))], {}, [element_text(c)], formula=lambda s, i: [s[-1]])


@recipe("SequenceErase")
def sequence_erase(c):
    return Case([sequence(c), c.of(1, np.array(1))], formula=lambda s, i: [[s[0], s[2]]])


@recipe("SequenceInsert")
def sequence_insert(c):
    return Case([sequence(c), some(c, 9), c.of(2, np.array(1))], {}, [f"seq({element_text(c)})"],
                formula=lambda s, x, i: [[s[0], x, s[1], s[2]]])  # fmt: skip


@recipe("SequenceLength")
def sequence_length(c):
    return Case([sequence(c)], formula=lambda s: np.array(len(s)))


@recipe("ConcatFromSequence")
def concat_from_sequence(c):
    return Case([sequence(c)], {"axis": 0}, [element_text(c)], formula=np.concatenate)


@recipe("SplitToSequence")
def split_to_sequence(c):
    x = some(c, 0, (5, 2))
    return Case([x, c.of(1, np.array([2, 3]))], {"axis": 0}, [f"seq({element_text(c)})"],
                formula=lambda x, n: [[x[:2], x[2:]]])  # fmt: skip


@recipe("Optional")
def optional(c):
    """O is the optional of V."""
    inner = c.text if c.constraint == "V" else values.split_type(c.text)[1]
    return Case([values.value_of(inner, (2, 3), c.op)], {}, [f"optional({inner})"], formula=lambda x: [x])


@recipe("OptionalGetElement")
def optional_get_element(c):
    """O is the optional of V, or V itself."""
    text = c.text if c.constraint == "O" else f"optional({c.text})"
    inner = values.split_type(text)[1] if text.startswith("optional") else text
    return Case([values.value_of(text, (2, 3), c.op)], {}, [inner], formula=lambda x: [x])


@recipe("OptionalHasElement")
def optional_has_element(c):
    """An optional holds nothing in half of the types."""
    text = c.in_text(0)
    x = values.value_of(text, (2, 3), c.op)
    if isinstance(x, Opt) and len(text) % 2:
        x = Opt(None, x.inner)
    return Case([x], {}, ["tensor(bool)"], formula=lambda x: np.array(x is not None))


# ---------------------------------------------------------------------------------------- bodies


def info(name, text):
    return helper.make_value_info(name, values.type_proto(text))


@recipe("If")
def if_recipe(c):
    """The branches hand on a captured value through a loop of no rounds: any type passes through one."""
    text = c.binding["V"]
    chosen, other = (values.value_of(text, (2, 3), key) for key in ("then", "else"))

    def branch(name):
        body = helper.make_graph(
            [], "pass", [info("i", "tensor(int64)"), info("go", "tensor(bool)"), info("v", text)],
            [info("go", "tensor(bool)"), info("v", text)])  # fmt: skip
        rounds = helper.make_node("Constant", [], ["rounds"], value=values.tensor_proto(np.array(0, np.int64)))
        loop = helper.make_node("Loop", ["rounds", "", name], [f"out_{name}"], body=body)
        return helper.make_graph([rounds, loop], f"branch_{name}", [], [info(f"out_{name}", text)])

    # An optional of nothing tells a branch as well as one of something.
    return Case([np.array(True)], {"then_branch": branch("chosen"), "else_branch": branch("other")}, [text],
                captured=[("chosen", chosen), ("other", other)], formula=lambda *_: [values.widen(chosen)])  # fmt: skip


@recipe("Loop")
def loop(c):
    text = c.binding["V"]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"])], "body",
        [info("i", "tensor(int64)"), info("go", "tensor(bool)"), info("v", text)],
        [info("on", "tensor(bool)"), info("v", text)])  # fmt: skip
    return Case([np.array(2, np.int64), np.array(True), values.value_of(text, (2, 3), c.op)], {"body": body}, [text],
                formula=lambda m, k, v: [v])  # fmt: skip


@recipe("Scan")
def scan(c):
    """The state becomes the element, the element goes out."""
    text = c.binding["V"]
    body = helper.make_graph([], "body", [info("s", text), info("x", text)], [info("x", text), info("x", text)])
    batch = (1,) if c.version == 8 else ()
    state, x = (values.value_of(text, batch + shape, shape) for shape in ((2,), (3, 2)))
    inputs = [None, state, x] if c.version == 8 else [state, x]
    formula = lambda *v: [v[-1][:, -1] if batch else v[-1][-1], v[-1]]
    return Case(inputs, {"body": body, "num_scan_inputs": 1}, [text, text], formula=formula)


@recipe("SequenceMap")
def sequence_map(c):
    """Hands each element on; an additional input comes along."""
    text = c.binding["S"]
    element, other = tensor_inside(text), c.binding["V"]
    body = helper.make_graph([helper.make_node("Identity", ["a"], ["y"])], "body",
                             [info("a", element), info("b", tensor_inside(other))], [info("y", element)])  # fmt: skip
    return Case([values.value_of(text, (2,), 1), values.value_of(other, (2,), 2)], {"body": body}, [text],
                formula=lambda s, b: [list(s)])  # fmt: skip


# ---------------------------------------------------------------------------------------- random numbers


def expected(c, shape, value):
    """What is compared is the form and, for zeros and ones, the range."""
    return lambda *_: np.full(shape, value)


@recipe("RandomNormal", "RandomUniform")
def random_shape(c):
    return Case([], {"shape": [2, 3], "dtype": values.CODES[c.u()], "seed": 7.0}, random=True,
                formula=expected(c, (2, 3), 0.5))  # fmt: skip


@recipe("RandomNormalLike", "RandomUniformLike")
def random_like(c):
    return Case([c.x((2, 3))], {"dtype": values.CODES[c.u()], "seed": 7.0}, random=True,
                formula=expected(c, (2, 3), 0.5))  # fmt: skip


@recipe("Bernoulli")
def bernoulli(c):
    return Case([c.x((2, 3), low=0, high=1)], {"dtype": values.CODES[c.u()], "seed": 7.0}, random=True,
                formula=expected(c, (2, 3), 1))  # fmt: skip


@recipe("Multinomial")
def multinomial(c):
    return Case([c.x((2, 3), low=-1, high=0)], {"dtype": values.CODES[c.u()], "sample_size": 4, "seed": 7.0},
                random=True, formula=expected(c, (2, 4), 2))  # fmt: skip


# ---------------------------------------------------------------------------------------- training


def training(c, attrs, inputs, formula):
    rate, count = c.of(0, np.array(0.5)), np.array(0, np.int64)
    floats = [values.sample(values.element_of(c.in_text(2)), (2, 3), (c.op, k), low=0.25, high=2) for k in range(inputs)]
    text = c.in_text(2)
    return Case([rate, count, *floats], attrs, [text] * (inputs - 1), formula=formula)


@recipe("Adagrad", domain="ai.onnx.preview.training")
def adagrad(c):
    def formula(r, t, x, g, h):
        h = h + g * g
        return [x - 0.5 * g / (np.sqrt(h) + 0.125), h]

    return training(c, {"epsilon": 0.125, "norm_coefficient": 0.0, "decay_factor": 0.0}, 3, formula)


@recipe("Momentum", domain="ai.onnx.preview.training")
def momentum(c):
    def formula(r, t, x, g, v):
        v = 0.5 * v + 1.0 * g
        return [x - 0.5 * v, v]

    attrs = {"alpha": 0.5, "beta": 0.25, "norm_coefficient": 0.0, "mode": "standard"}
    return training(c, attrs, 3, formula)


@recipe("Adam", domain="ai.onnx.preview.training")
def adam(c):
    def formula(r, t, x, g, v, h):
        v, h = 0.5 * v + 0.5 * g, 0.25 * h + 0.75 * g * g
        return [x - 0.5 * v / (np.sqrt(h) + 0.125), v, h]

    attrs = {"alpha": 0.5, "beta": 0.25, "epsilon": 0.125, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}
    return training(c, attrs, 4, formula)


@recipe("Gradient", domain="ai.onnx.preview.training")
def gradient(c):
    """Of x * x; the varied type is that of a second input, by which nothing is derived."""
    x = values.sample(c.u(), (), "gradient", low=1)
    square = helper.make_node("Mul", ["x0", "x0"], ["square"])
    other = values.value_of(c.binding["T1"], (2,), "other")
    return Case([x, other], {"xs": ["x0"], "zs": ["x1"], "y": "square"}, nodes=[square], formula=lambda x, z: 2 * x)
