"""Recipes of operators that move, select and make elements."""
import numpy as np

from . import values
from .cells import Case
from .registry import recipe


def i64(*v):
    return np.array(v, np.int64)


@recipe("Identity")
def identity(c):
    return Case([c.x((2, 3))], outputs=[c.in_text(0)], formula=lambda x: [x])


@recipe("Reshape")
def reshape(c):
    x = c.x((2, 3, 4))
    formula = lambda x, *_: x.reshape(4, 6)
    return Case([x], {"shape": [4, -1]}, formula=formula) if c.version < 5 else Case([x, i64(4, -1)], formula=formula)


@recipe("Flatten")
def flatten(c):
    return Case([c.x((2, 3, 4))], {"axis": 2}, formula=lambda x: x.reshape(6, 4))


def with_axes(c, x, axes, formula):
    if c.version < 13:
        return Case([x], {"axes": axes}, formula=formula)
    return Case([x, i64(*axes)], formula=formula)


@recipe("Squeeze")
def squeeze(c):
    return with_axes(c, c.x((2, 1, 3, 1)), [1, 3], lambda x, *_: x.reshape(2, 3))


@recipe("Unsqueeze")
def unsqueeze(c):
    return with_axes(c, c.x((2, 3)), [0, 2], lambda x, *_: x.reshape(1, 2, 1, 3))


@recipe("Slice")
def slice_recipe(c):
    x = c.x((3, 5))
    if c.version < 10:
        return Case([x], {"starts": [1, -3], "ends": [3, 100], "axes": [0, 1]}, formula=lambda x: x[1:3, -3:])
    numbers = lambda *v: c.of(1, np.array(v))
    return Case([x, numbers(1, 4), numbers(3, -100), numbers(0, 1), numbers(1, -2)],
                formula=lambda x, *_: x[1:3, 4::-2])  # fmt: skip


@recipe("Concat")
def concat(c):
    return Case([c.x((2, 3), 0, key=1), c.x((2, 1), 0, key=2)], {"axis": 1},
                formula=lambda a, b: np.concatenate([a, b], 1))  # fmt: skip


@recipe("Split")
def split(c):
    x, outputs = c.x((2, 5)), [c.out_text(0)] * 2
    formula = lambda x, *_: [x[:, :2], x[:, 2:]]
    if c.version == 1:
        return Case([x, c.of(0, np.array([2, 3]))], {"axis": 1}, outputs, formula=formula)
    if c.version < 13:
        return Case([x], {"axis": 1, "split": [2, 3]}, outputs, formula=formula)
    return Case([x, i64(2, 3)], {"axis": 1}, outputs, formula=formula)


@recipe("Gather")
def gather(c):
    index = np.array([[2, 0], [1, 1]])
    return Case([c.x((2, 3)), c.of(1, index)], {"axis": 1}, formula=lambda x, i: np.take(x, i, 1))


@recipe("GatherElements")
def gather_elements(c):
    index = np.array([[2, 0, 1], [1, 1, 0]])
    return Case([c.x((2, 3)), c.of(1, index)], {"axis": 1}, formula=lambda x, i: np.take_along_axis(x, i, 1))


@recipe("GatherND")
def gather_nd(c):
    return Case([c.x((2, 3, 2)), np.array([[0, 2], [1, 0]], np.int64)], formula=lambda x, i: x[i[:, 0], i[:, 1]])


@recipe("ScatterElements", "Scatter")
def scatter_elements(c):
    def formula(x, i, u):
        out = x.copy()
        np.put_along_axis(out, i, u, 1)
        return out

    index = np.array([[2, 0], [1, 0]])
    return Case([c.x((2, 3)), c.of(1, index), c.x((2, 2), 2)], {"axis": 1}, formula=formula)


@recipe("ScatterND")
def scatter_nd(c):
    def formula(x, i, u):
        out = x.copy()
        out[i[:, 0]] = u
        return out

    return Case([c.x((4, 2)), np.array([[2], [0]], np.int64), c.x((2, 2), 2)], formula=formula)


@recipe("TensorScatter")
def tensor_scatter(c):
    def formula(x, u, i):
        out = x.copy()
        for b, at in enumerate(i):
            out[b, :, at : at + 2] = u[b]
        return out

    return Case([c.x((2, 2, 4, 2)), c.x((2, 2, 2, 2), 1), i64(1, 2)], formula=formula)


@recipe("Transpose")
def transpose(c):
    return Case([c.x((2, 3, 4))], {"perm": [2, 0, 1]}, formula=lambda x: x.transpose(2, 0, 1))


@recipe("Expand")
def expand(c):
    return Case([c.x((3, 1)), i64(2, 1, 4)], formula=lambda x, s: np.broadcast_to(x, (2, 3, 4)))


@recipe("Tile")
def tile(c):
    x = c.x((2, 3))
    if c.version < 6:
        return Case([x, c.of(1, np.array(2)), c.of(2, np.array(1))], formula=lambda x, n, a: np.tile(x, (1, 2)))
    return Case([x, i64(2, 1)], formula=lambda x, r: np.tile(x, (2, 1)))


@recipe("Pad")
def pad(c):
    x = c.x((2, 3))
    fill = c.x((), 0, key=9, low=1)
    if c.version < 11:
        name = "paddings" if c.version < 2 else "pads"
        formula = lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=x.dtype.type(1.5))
        return Case([x], {name: [1, 0, 0, 2], "value": 1.5}, formula=formula)

    def with_fill(x, pads, fill, *_):
        out = np.full((3, 5), fill, dtype=x.dtype)
        out[1:, :3] = x
        return out

    inputs = [x, i64(1, 0, 0, 2), fill]
    if c.version >= 18:
        inputs.append(c.of(3, np.array([0, 1])))
    return Case(inputs, formula=with_fill)


@recipe("CenterCropPad")
def center_crop_pad(c):
    def formula(x, *_):
        blank = "" if x.dtype == object else x.dtype.type(0)
        out = np.full((2, 5), blank, dtype=x.dtype)
        out[:, 1:4] = x[1:3]
        return out

    return Case([c.x((4, 3)), c.of(1, np.array([2, 5]))], formula=formula)


@recipe("Trilu")
def trilu(c):
    keep = np.triu(np.ones((3, 4), bool), 1)

    def formula(x, k):
        blank = "" if x.dtype == object else x.dtype.type(0)
        return np.where(keep, x, blank)

    return Case([c.x((2, 3, 4)), np.array(1, np.int64)], {"upper": 1}, formula=formula)


@recipe("EyeLike")
def eye_like(c):
    return Case([c.x((3, 4))], {"k": 1, "dtype": values.CODES[c.u()]}, formula=lambda x: np.eye(3, 4, 1))


@recipe("OneHot")
def one_hot(c):
    def formula(i, depth, v):
        hot = np.arange(4) == i.astype(np.int64)[:, None]
        return np.where(hot, v[1], v[0])

    return Case([c.of(0, np.array([1, 0, 3])), c.of(1, np.array(4)), c.x((2,), 2, nonzero=True)], formula=formula)


@recipe("Compress")
def compress(c):
    return Case([c.x((2, 3)), np.array([False, True, True])], {"axis": 1}, formula=lambda x, k: x[:, 1:])


@recipe("ReverseSequence")
def reverse_sequence(c):
    def formula(x, n):
        out = x.copy()
        for b, k in enumerate(n):
            out[:k, b] = x[:k, b][::-1]
        return out

    return Case([c.x((4, 2)), i64(3, 2)], {"time_axis": 0, "batch_axis": 1}, formula=formula)


@recipe("DepthToSpace")
def depth_to_space(c):
    def formula(x):
        return x.reshape(1, 2, 2, 1, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 6)

    return Case([c.x((1, 4, 2, 3))], {"blocksize": 2}, formula=formula)


@recipe("SpaceToDepth")
def space_to_depth(c):
    crd = c.has_attr("mode")

    def formula(x):
        blocks = x.reshape(1, 1, 2, 2, 3, 2)
        order = (0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)
        return blocks.transpose(order).reshape(1, 4, 2, 3)

    return Case([c.x((1, 1, 4, 6))], {"blocksize": 2, **({"mode": "CRD"} if crd else {})}, formula=formula)


@recipe("Shape")
def shape(c):
    return Case([c.x((2, 3, 4))], formula=lambda x: np.array(x.shape))


@recipe("Size")
def size(c):
    return Case([c.x((2, 3, 4))], formula=lambda x: np.array(x.size))


@recipe("Constant")
def constant(c):
    v = values.sample(c.u(), (2, 3), "constant")
    return Case([], {"value": v}, formula=lambda: v)


@recipe("ConstantOfShape")
def constant_of_shape(c):
    v = values.sample(c.u(), (1,), "fill", low=1)
    return Case([i64(2, 3)], {"value": v}, formula=lambda s: np.full((2, 3), v[0], dtype=v.dtype))


@recipe("Range")
def range_recipe(c):
    numbers = [c.of(0, np.array(v)) for v in (1, 10, 2)]
    return Case(numbers, formula=lambda a, b, d: np.arange(1, 10, 2).astype(a.dtype))


@recipe("Resize", "Upsample")
def resize(c):
    x = c.x((1, 1, 2, 3))
    scales = np.array([1, 1, 2, 2], np.float32)
    formula = lambda x, *_: x.repeat(2, 2).repeat(2, 3)
    if c.op == "Upsample" and c.version == 1:
        return Case([x], {"height_scale": 2.0, "width_scale": 2.0}, formula=formula)
    if c.op == "Upsample" and c.version < 9:
        return Case([x], {"scales": [1.0, 1.0, 2.0, 2.0]}, formula=formula)
    if c.op == "Upsample" or c.version < 11:
        return Case([x, scales], {"mode": "nearest"}, formula=formula)
    roi = c.of(1, np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    return Case([x, roi, scales], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}, formula=formula)


@recipe("Col2Im")
def col2im(c):
    def formula(x, *_):
        out = np.full((1, 1, 4, 4), "" if x.dtype == object else x.dtype.type(0), x.dtype)
        for column in range(4):
            top, left = column // 2 * 2, column % 2 * 2
            out[0, 0, top : top + 2, left : left + 2] = x[0, :, column].reshape(2, 2)
        return out

    return Case([c.x((1, 4, 4)), i64(4, 4), i64(2, 2)], {"strides": [2, 2]}, formula=formula)
