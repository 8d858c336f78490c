"""Recipes of quantisation. Scales are powers of two and results fit, so that every rule of rounding agrees."""
import numpy as np

from . import values
from .cells import Case
from .registry import recipe
from .recipes_nn import convolve


def limits(name):
    info = values.ml_dtypes.iinfo(values.DTYPES[name])
    return int(info.min), int(info.max)


def saturate(name, x):
    if name not in values.INTS:
        return x
    low, high = limits(name)
    return np.clip(np.round(x), low, high)


def zero_point(name, shape=()):
    """Of floats it is zero; of integers one, where one fits."""
    return values.numbers(name, np.full(shape, 1 if name in values.INTS and name != "int32" else 0))


@recipe("QuantizeLinear")
def quantize_linear(c):
    x_type, scale_type, target = c.t(0), values.element_of(c.in_text(1)), c.u()
    scale = values.numbers(scale_type, np.array(2.0 if scale_type == "int32" else 0.5))
    x = values.numbers(x_type, np.array([[0, 1, 2], [-1, 2, 1]]))
    zero = zero_point(target)

    def formula(x, s, z):
        ratio = x.astype(np.float64) / s.astype(np.float64)
        return saturate(target, (np.round(ratio) if target in values.INTS else ratio) + z.astype(np.float64))

    return Case([x, scale, zero], formula=formula)


@recipe("DequantizeLinear")
def dequantize_linear(c):
    source, scale_type = c.t(0), values.element_of(c.in_text(1))
    x = values.sample(source, (2, 3), "dequantize", low=-2, high=3)
    scale = values.numbers(scale_type, np.array(0.5))
    attrs = {}
    if c.has_attr("output_dtype") and c.binding.get("T3", c.in_text(1)) != c.in_text(1):
        attrs["output_dtype"] = values.CODES[c.u()]

    def formula(x, s, z):
        return (x.astype(np.float64) - z.astype(np.float64)) * s.astype(np.float64)

    return Case([x, scale, zero_point(source)], attrs, formula=formula)


@recipe("DynamicQuantizeLinear")
def dynamic_quantize_linear(c):
    x = np.array([0, 1, 2, -1, 255 / 64 - 1, 0.5], np.float32)
    return Case([x], {}, [c.out_text(o) for o in range(3)])


@recipe("MatMulInteger")
def matmul_integer(c):
    def formula(a, b, az, bz):
        return (a.astype(np.int32) - az.astype(np.int32)) @ (b.astype(np.int32) - bz.astype(np.int32))

    inputs = [c.x((2, 3), 0, low=-9, high=9), c.x((3, 4), 1, low=-9, high=9), c.of(2, np.array(2)), c.of(3, np.array(1))]
    return Case(inputs, formula=formula)


@recipe("ConvInteger")
def conv_integer(c):
    def formula(x, w, xz, wz):
        return convolve(x.astype(np.int32) - xz.astype(np.int32), w.astype(np.int32) - wz.astype(np.int32), pad=0)

    inputs = [c.x((1, 1, 3, 3), 0, low=-9, high=9), c.x((1, 1, 2, 2), 1, low=-9, high=9)]
    return Case(inputs + [c.of(2, np.array(2)), c.of(3, np.array(1))], formula=formula)


def scaled(c, i, value):
    return values.numbers(values.element_of(c.in_text(i)), np.array(value))


@recipe("QLinearMatMul")
def qlinear_matmul(c):
    """The small floats do not meet integers."""
    if "float8" in c.text:
        c.binding |= {"T1": c.text, "T2": c.text, "T3": c.text}

    def formula(a, sa, za, b, sb, zb, sy, zy):
        wide = [v.astype(np.float64) for v in (a, sa, za, b, sb, zb, sy, zy)]
        a, sa, za, b, sb, zb, sy, zy = wide
        return saturate(c.u(), ((a - za) * sa) @ ((b - zb) * sb) / sy + zy)

    a, b = c.x((2, 3), 0, low=-2, high=2), c.x((3, 4), 3, low=-2, high=2)
    return Case([a, scaled(c, 1, 0.5), zero_point(c.t(2)), b, scaled(c, 4, 1.0), zero_point(c.t(5)), scaled(c, 6, 0.5),
                 zero_point(c.t(7))], formula=formula)  # fmt: skip


@recipe("QLinearConv")
def qlinear_conv(c):
    def formula(x, sx, zx, w, sw, zw, sy, zy, b):
        x, w = x.astype(np.float64) - zx, w.astype(np.float64) - zw
        return saturate(c.u(), (convolve(x, w, pad=0) + b) * (sx * sw / sy) + zy)

    x, w = c.x((1, 1, 3, 3), 0, low=-4, high=4), c.x((1, 1, 2, 2), 3, low=-4, high=4)
    scales = [np.array(v, np.float32) for v in (0.5, 1.0, 0.5)]
    return Case([x, scales[0], zero_point(c.t(2)), w, scales[1], zero_point(c.t(5)), scales[2], zero_point(c.t(7)),
                 np.array([3], np.int32)], formula=formula)  # fmt: skip
