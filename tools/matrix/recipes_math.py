"""Recipes of element-wise operators and reductions."""
import math

import numpy as np

from . import values
from .cells import Case
from .registry import recipe

vector = np.vectorize


def erf(x):
    return vector(math.erf)(np.asarray(x, np.float64))


SIMPLE = ("Abs Neg Sign Relu Exp Tanh Sigmoid Floor Ceil Sin Cos Tan Atan Sinh Cosh Asinh Softplus Softsign Not "
          "BitwiseNot Mish").split()  # fmt: skip


@recipe(*SIMPLE)
def unary(c):
    return Case([c.x((2, 3, 37))])


@recipe("Log", "Sqrt", "Reciprocal")
def unary_positive(c):
    return Case([c.x((2, 3), low=0.25, high=4)])


@recipe("Acos", "Asin", "Atanh")
def unary_small(c):
    return Case([c.x((2, 3), low=-0.75, high=0.75, step=8)])


@recipe("Acosh")
def acosh(c):
    return Case([c.x((2, 3), low=1, high=6)])


@recipe("Erf")
def erf_recipe(c):
    return Case([c.x((2, 3))], formula=erf)


@recipe("HardSwish")
def hard_swish(c):
    return Case([c.x((2, 3, 37))], formula=lambda x: x * np.clip(x / 6 + 0.5, 0, 1))


@recipe("Round")
def round_half_even(c):
    return Case([c.x((2, 3, 4), step=2)], formula=np.round)


@recipe("Gelu")
def gelu(c):
    return Case([c.x((2, 3))], {"approximate": "none"}, formula=lambda x: x / 2 * (1 + erf(x / math.sqrt(2))))


@recipe("IsNaN", "IsInf")
def specials(c):
    x = np.array([[1, np.nan, -2], [np.inf, 0, -np.inf]])
    x = c.of(0, x)
    test = np.isnan if c.op == "IsNaN" else np.isinf
    return Case([x], formula=lambda x: test(x.astype(np.float64)))


@recipe("LeakyRelu", "Elu", "HardSigmoid", "Selu", "ThresholdedRelu", "Celu", "Swish")
def activation(c):
    attrs = {"alpha": 0.75} if c.has_attr("alpha") else {}
    if c.op == "Selu":
        attrs["gamma"] = 1.5
    return Case([c.x((2, 3, 37))], attrs)


@recipe("SwiGLU")
def swiglu(c):
    return Case([c.x((2, 3)), c.x((2, 3), 1)], {"alpha": 0.75},
                formula=lambda a, b: a / (1 + np.exp(-np.float32(0.75) * a)) * b)  # fmt: skip


@recipe("Shrink")
def shrink(c):
    def formula(x):
        wide = x.astype(np.float64)
        return np.where(wide < -1, wide + 1, np.where(wide > 1, wide - 1, 0))

    return Case([c.x((2, 3, 4))], {"lambd": 1.0, "bias": 1.0}, formula=formula)


@recipe("Clip")
def clip(c):
    x = c.x((3, 4))
    low, high = c.of(0, np.array(1.0)), c.of(0, np.array(2.0))
    formula = lambda x, *_: np.clip(x, x.dtype.type(1), x.dtype.type(2))
    if c.version < 11:
        return Case([x], {"min": 1.0, "max": 2.0}, formula=formula)
    return Case([x, low, high], formula=formula)


# ---------------------------------------------------------------------------------------- two inputs


def divide(a, b):
    return a / b if a.dtype.kind == "f" else np.trunc(a.astype(np.float64) / b).astype(a.dtype)


def modulo(a, b):
    return np.fmod(a, b) if a.dtype.kind == "f" else np.mod(a, b)


def parametric(x, slope):
    return np.where(x < 0, x * slope, x)


BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": divide, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater, "Less": np.less,
    "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "PRelu": parametric, "Mod": modulo,
}  # fmt: skip


@recipe(*BINARY)
def binary(c):
    f = BINARY[c.op]
    a = c.x((2, 3, 37), 0)
    how = {"nonzero": True} if c.op in ("Div", "Mod") else {}
    attrs = {"fmod": 1} if c.op == "Mod" and c.t() in values.FLOATS else {}
    if c.op == "PRelu" and c.version < 7:
        b = c.x((3,), 1)
        return Case([a, b], attrs, formula=lambda a, b: f(a, b.reshape(3, 1)))
    if c.has_attr("broadcast"):
        b = c.x((3,), 1, **how)
        return Case([a, b], {"broadcast": 1, "axis": 1}, formula=lambda a, b: f(a, b.reshape(3, 1)))
    return Case([a, c.x((3, 1), 1, **how)], attrs, formula=f)


@recipe("Pow")
def power(c):
    x, y = c.x((2, 3), 0, low=1), c.x((2, 3), 1, low=0, high=3, step=1)
    if c.has_attr("broadcast"):
        y = c.x((2,), 1, low=0, high=3, step=1)
        return Case([x, y], {"broadcast": 1, "axis": 0}, formula=lambda x, y: np.power(x, y.reshape(2, 1)))
    return Case([x, y], formula=lambda x, y: np.power(x.astype(np.float64), y.astype(np.float64)))


@recipe("BitShift")
def bit_shift(c):
    def formula(x, y):
        return np.left_shift(x, y) if c.version < 28 else np.right_shift(x, y)

    return Case([c.x((2, 3), 0, low=-100, high=100), c.x((2, 3), 1, low=0, high=3)],
                {"direction": "LEFT" if c.version < 28 else "RIGHT"}, formula=formula)  # fmt: skip


@recipe("Max", "Min", "Sum", "Mean")
def variadic(c):
    shapes = [(2, 3, 37)] * 3 if c.version < 8 else [(2, 3, 37), (3, 1), (1,)]
    f = {"Max": np.maximum, "Min": np.minimum}.get(c.op, np.add)

    def formula(a, b, d):
        out = f(f(a, b), d)
        return out / 3 if c.op == "Mean" else out

    return Case([c.x(s, 0, key=k) for k, s in enumerate(shapes)], formula=formula)


@recipe("Where")
def where(c):
    return Case([c.x((3, 1), 0), c.x((2, 3, 37), 1), c.x((37,), 2)], formula=np.where)


# ---------------------------------------------------------------------------------------- reductions


def log_sum_exp(x, **how):
    return np.log(np.sum(np.exp(x.astype(np.float64)), **how))


REDUCE = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(np.square(x.astype(np.float64)), **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x.astype(np.float64), **how)), "ReduceLogSumExp": log_sum_exp,
    "ReduceSumSquare": lambda x, **how: np.sum(np.square(x), **how),
}  # fmt: skip


@recipe(*REDUCE)
def reduce(c):
    """Integers take values whose means, roots and logarithms are whole."""
    f = REDUCE[c.op]
    if c.t() in values.INTS and c.op in ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        rows = {"ReduceMean": [[1, 3], [2, 6]], "ReduceL2": [[3, 4], [6, 8]], "ReduceLogSum": [[1, 0], [0, 1]],
                "ReduceLogSumExp": [[5, 0], [0, 3]]}[c.op]  # fmt: skip
        x, axes = c.of(0, np.array(rows)), [1]
    else:
        low = 0.25 if c.op == "ReduceLogSum" else -2
        x, axes = c.x((2, 3, 4), low=low, high=2), [0, 2]
    formula = lambda x, *_: f(x, axis=tuple(axes), keepdims=False)
    if any(i.name == "axes" for i in c.schema.inputs):
        return Case([x, np.array(axes, np.int64)], {"keepdims": 0}, formula=formula)
    return Case([x], {"axes": axes, "keepdims": 0}, formula=formula)


@recipe("ArgMax", "ArgMin")
def arg(c):
    f = np.argmax if c.op == "ArgMax" else np.argmin
    return Case([c.x((2, 3, 4))], {"axis": 1, "keepdims": 0}, formula=lambda x: f(x, axis=1).astype(np.int64))


@recipe("CumSum", "CumProd")
def cumulate(c):
    f = np.cumsum if c.op == "CumSum" else np.cumprod
    return Case([c.x((2, 3), 0, low=-2, high=2), c.of(1, np.array(1))],
                formula=lambda x, axis: f(x, axis=1, dtype=x.dtype))  # fmt: skip


@recipe("TopK")
def top_k(c):
    x = c.of(0, np.array([[5, 1, 7, 3], [2, 9, 0, 4]]))
    outputs = [c.out_text(0), c.out_text(1)]

    def formula(x, *_):
        order = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :2]
        return [np.take_along_axis(x, order, 1), order]

    if c.version < 10:
        return Case([x], {"k": 2}, outputs, formula=formula)
    return Case([x, np.array([2], np.int64)], {}, outputs, formula=formula)


@recipe("NonZero")
def non_zero(c):
    x = c.x((2, 3, 2), low=-1, high=1, step=1)

    def formula(x):
        return np.array(np.nonzero(x != "" if x.dtype == object else x))

    return Case([x], formula=formula)


@recipe("Unique")
def unique(c):
    def formula(x):
        y, indices, inverse, counts = np.unique(x.ravel(), return_index=True, return_inverse=True, return_counts=True)
        return [y, indices, inverse.ravel(), counts]

    return Case([c.x((2, 3), low=0, high=1)], {"sorted": 1}, [c.out_text(o) for o in range(4)], formula=formula)


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(c):
    """Before version 13 the dimensions from the axis on are one."""
    x = c.of(0, np.arange(24).reshape(2, 3, 4) * 5 % 7 / 2)

    def formula(x):
        flat = x.reshape(2, 12) if c.version < 13 else x
        if c.op == "Hardmax":
            out = np.zeros_like(flat)
            np.put_along_axis(out, np.argmax(flat, -1)[..., None] if flat.ndim == 3 else np.argmax(flat, -1)[:, None],
                              1, -1)  # fmt: skip
            return out.reshape(x.shape)
        e = flat - flat.max(-1, keepdims=True)
        total = np.exp(e).sum(-1, keepdims=True)
        return (np.exp(e) / total if c.op == "Softmax" else e - np.log(total)).reshape(x.shape)

    return Case([x], {"axis": 1} if c.version < 13 else {"axis": -1}, formula=formula)


# ---------------------------------------------------------------------------------------- conversions


def cast_values(source, target):
    """Numbers both types hold, so that no rule of rounding or saturation matters."""
    if {source, target} == {"string", "float8e8m0"}:
        return np.ones(6, int)
    if source == "string" or target == "string":
        narrow = ("bool",) + values.SUB_BYTE_INTS + ("float4e2m1", "float8e8m0", "float6e2m3", "float6e3m2")
        return np.array([0, 1, 1, 1, 0, 1]) if source in narrow or target in narrow else np.array([0, 1, 2, 4, 3, 1])
    if "float8e8m0" in (source, target):
        return np.array([1, 2, 1, 4, 2, 1]) if not {source, target} & {"bool", "int2", "uint2", "int4"} else np.ones(6)
    if {source, target} & {"bool", "int2", "uint2"}:
        return np.array([0, 1, 1, 0, 1, 0])
    fraction = source in values.FLOATS and target in values.FLOATS
    signed = not (source.startswith("uint") or target.startswith("uint"))
    return np.array([0, 1, 2, 4, -3 if signed else 3, 1.5 if fraction else 6])


def cast_result(x, target, source):
    if target == "string":
        if source == "bool":
            return np.array(["1" if v else "0" for v in x.ravel()], dtype=object).reshape(x.shape)
        if x.dtype == object:
            return x
        return np.array([str(int(v)) for v in x.ravel()], dtype=object).reshape(x.shape)
    if source == "string":
        return np.array([float(v) for v in x.ravel()]).reshape(x.shape)
    return x


@recipe("Cast", "CastLike")
def cast(c):
    source, target = c.t(0), c.u(0)
    numbers = cast_values(source, target).reshape(2, 3)
    x = values.numbers(source, numbers.astype(int) if source == "string" else numbers)
    formula = lambda x, *_: cast_result(x, target, source)
    if c.op == "CastLike":
        return Case([x, values.sample(target, (1,))], formula=formula)
    to = target.upper() if c.version < 6 else values.CODES[target]
    return Case([x], {"to": to}, formula=formula)


@recipe("BitCast")
def bit_cast(c):
    """The varied type goes to a type of the same width."""
    same = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    varied = values.element_of(c.text)
    other = varied
    if varied not in values.SUB_BYTE_INTS + ("float4e2m1", "bool"):
        other = same[np.dtype(values.DTYPES[varied]).itemsize]
    elif varied in ("int4", "float4e2m1"):
        other = "uint4"
    elif varied == "int2":
        other = "uint2"
    source, target = (varied, other) if c.constraint == "T1" else (other, varied)
    x = values.sample(source, (2, 4), 1, low=0, high=1, step=1)

    def formula(*_):
        if source == "complex128" or source == target:
            return x
        return x.view(values.DTYPES[target])

    return Case([x], {"to": values.CODES[target]}, [f"tensor({target})"], formula=formula)
