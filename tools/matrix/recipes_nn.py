"""Recipes of layers: products, convolutions, pools, normalisations, recurrences, attention."""
import math

import numpy as np

from . import values
from .cells import Case
from .registry import recipe
from .recipes_tensor import i64

# Doubles too are normalised in the type that stash_type names: float.
STASHED = 1e-5


@recipe("MatMul")
def matmul(c):
    return Case([c.x((2, 2, 3), 0), c.x((3, 4), 1)], formula=np.matmul)


@recipe("Gemm")
def gemm(c):
    """Integers take factors of one: a float factor of an integer product is nobody's rule."""
    whole = c.t() in values.INTS
    attrs = {"transB": 1, "alpha": 1.0 if whole else 0.5, "beta": 1.0 if whole else 2.0}
    if c.has_attr("broadcast"):
        attrs["broadcast"] = 1

    def formula(a, b, d):
        out = a @ b.T
        return out + d if whole else 0.5 * out + 2 * d

    return Case([c.x((2, 3), 0), c.x((4, 3), 1), c.x((4,), 2)], attrs, formula=formula)


def convolve(x, w, stride=1, pad=1):
    """[1, c, h, w] with [m, c, k, k]."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    k = w.shape[2]
    height = (x.shape[2] - k) // stride + 1
    width = (x.shape[3] - k) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], height, width), dtype=np.result_type(x, w))
    for i in range(height):
        for j in range(width):
            patch = x[:, :, i * stride : i * stride + k, j * stride : j * stride + k]
            out[:, :, i, j] = np.tensordot(patch, w, ([1, 2, 3], [1, 2, 3]))
    return out


@recipe("Conv")
def conv(c):
    return Case([c.x((1, 2, 4, 5), 0), c.x((3, 2, 3, 3), 1), c.x((3,), 2)], {"pads": [1, 1, 1, 1]},
                formula=lambda x, w, b: convolve(x, w) + b.reshape(3, 1, 1))  # fmt: skip


@recipe("ConvTranspose")
def conv_transpose(c):
    def formula(x, w, b):
        out = np.zeros((1, 3, 7, 7), x.dtype)
        for i in range(3):
            for j in range(3):
                out[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum("nc,cmkl->nmkl", x[:, :, i, j], w)
        return out + b.reshape(3, 1, 1)

    return Case([c.x((1, 2, 3, 3), 0), c.x((2, 3, 3, 3), 1), c.x((3,), 2)], {"strides": [2, 2]}, formula=formula)


def windows(x):
    """2 x 2 windows with step 2 of [n, c, 4, 4], as [n, c, 2, 2, 4]."""
    return x.reshape(x.shape[:2] + (2, 2, 2, 2)).transpose(0, 1, 2, 4, 3, 5).reshape(x.shape[:2] + (2, 2, 4))


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(c):
    x = c.x((1, 2, 4, 4))
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    if c.op == "MaxPool" and c.version >= 8:
        def both(x):
            w = windows(x.astype(np.float64))
            index = np.arange(32).reshape(1, 2, 4, 4)
            at = np.argmax(w, -1)[..., None]
            return [w.max(-1), np.take_along_axis(windows(index), at, -1)[..., 0]]

        return Case([x], attrs, [c.out_text(0), c.out_text(1)], formula=both)
    if c.op == "LpPool":
        attrs["p"] = 2 if c.version > 1 else 2.0
    f = {"MaxPool": lambda w: w.max(-1), "AveragePool": lambda w: w.mean(-1),
         "LpPool": lambda w: np.sqrt((w * w).sum(-1))}[c.op]  # fmt: skip
    return Case([x], attrs, formula=lambda x: f(windows(x)))


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(c):
    how = dict(axis=(2, 3), keepdims=True)
    attrs = {"p": 2 if c.version > 1 else 2.0} if c.op == "GlobalLpPool" else {}
    f = {"GlobalAveragePool": lambda x: x.mean(**how), "GlobalMaxPool": lambda x: x.max(**how),
         "GlobalLpPool": lambda x: np.sqrt((x * x).sum(**how))}[c.op]  # fmt: skip
    return Case([c.x((1, 2, 3, 4))], attrs, formula=f)


@recipe("MaxUnpool")
def max_unpool(c):
    def formula(x, i):
        out = np.zeros((1, 1, 4, 4), x.dtype)
        out.ravel()[i.ravel()] = x.ravel()
        return out

    return Case([c.x((1, 1, 2, 2), 0), np.array([[[[5, 7], [13, 15]]]], np.int64)],
                {"kernel_shape": [2, 2], "strides": [2, 2]}, formula=formula)  # fmt: skip


@recipe("BatchNormalization")
def batch_normalization(c):
    inputs = [c.x((2, 3, 2, 2), 0)] + [c.x((3,), i, low=0.5, high=3) for i in range(1, 5)]
    attrs = {"epsilon": 0.125}
    if c.has_attr("is_test"):
        attrs["is_test"] = 1
    if c.version == 1:
        attrs["consumed_inputs"] = [0, 0, 0, 1, 1]

    def formula(x, scale, bias, mean, var):
        s, b, m, v = (p.astype(np.float64).reshape(3, 1, 1) for p in (scale, bias, mean, var))
        return (x - m) / np.sqrt(v + 0.125) * s + b

    return Case(inputs, attrs, formula=formula)


@recipe("InstanceNormalization")
def instance_normalization(c):
    def formula(x, s, b):
        m, v = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
        return (x - m) / np.sqrt(v + 0.125) * s.reshape(2, 1, 1) + b.reshape(2, 1, 1)

    return Case([c.x((2, 2, 3, 3), 0), c.x((2,), 1), c.x((2,), 2)], {"epsilon": 0.125}, formula=formula)


@recipe("GroupNormalization")
def group_normalization(c):
    """Version 18 has one scale per group."""
    size = 2 if c.version < 21 else 4

    def formula(x, s, b):
        g = x.reshape(2, 2, -1)
        y = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 0.125)).reshape(x.shape)
        s, b = (np.repeat(p, 4 // size).reshape(4, 1, 1) for p in (s, b))
        return y * s + b

    return Case([c.x((2, 4, 2, 2), 0), c.x((size,), 1), c.x((size,), 2)], {"num_groups": 2, "epsilon": 0.125},
                formula=formula, atol=STASHED)  # fmt: skip


@recipe("LayerNormalization")
def layer_normalization(c):
    def formula(x, s, b):
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return [(x - m) / np.sqrt(v + 0.125) * s + b, m, 1 / np.sqrt(v + 0.125)]

    stash = c.binding["U"]
    attrs = {"epsilon": 0.125, "stash_type": values.CODES[values.element_of(stash)]}
    return Case([c.x((2, 3, 4), 0), c.x((4,), 1), c.x((4,), 2)], attrs, [c.out_text(0), stash, stash], formula=formula,
                atol=STASHED)  # fmt: skip


@recipe("RMSNormalization")
def rms_normalization(c):
    def formula(x, s):
        x, s = x.astype(np.float64), s.astype(np.float64)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.125) * s

    return Case([c.x((2, 3, 4), 0), c.x((4,), 1)], {"epsilon": 0.125}, formula=formula, atol=STASHED)


@recipe("MeanVarianceNormalization")
def mean_variance_normalization(c):
    def formula(x):
        how = dict(axis=(0, 2, 3), keepdims=True)
        m = x.mean(**how)
        return (x - m) / (np.sqrt((x * x).mean(**how) - m * m) + 1e-9)

    return Case([c.x((2, 2, 2, 3))], formula=formula)


@recipe("LpNormalization")
def lp_normalization(c):
    return Case([c.x((2, 3), low=1)], {"axis": 1, "p": 2},
                formula=lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)))  # fmt: skip


@recipe("LRN")
def lrn(c):
    def formula(x):
        squares = np.zeros_like(x)
        for i in range(5):
            squares[:, i] = (x[:, max(0, i - 1) : i + 2] ** 2).sum(1)
        return x / (1 + 0.5 / 3 * squares) ** 0.75

    return Case([c.x((1, 5, 2, 2))], {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.0}, formula=formula)


@recipe("Dropout")
def dropout(c):
    """Not training: the data, and a mask of ones."""
    x, outputs = c.x((2, 3), 0), [c.out_text(0), c.out_text(1)]
    formula = lambda x, *_: [x, np.ones((2, 3))]
    if c.version < 12:
        attrs = {"ratio": 0.5, **({"is_test": 1} if c.has_attr("is_test") else {})}
        return Case([x], attrs, outputs if c.version >= 10 else outputs[:1], formula=formula)
    return Case([x, c.of(1, np.array(0.5)), np.array(False)], {}, outputs, formula=formula)


# ---------------------------------------------------------------------------------------- recurrences


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def recurrent_inputs(c, gates, hidden=2):
    x = c.x((3, 2, 2), 0, low=-1, high=1)
    w = c.x((1, gates * hidden, 2), 1, low=-1, high=1)
    r = c.x((1, gates * hidden, hidden), 2, low=-1, high=1)
    b = c.x((1, 2 * gates * hidden), 3, low=-1, high=1)
    h = c.x((1, 2, hidden), 5, low=-1, high=1)
    return [x, w, r, b, np.array([3, 2], np.int32), h]


def recurrent_case(c, gates, step, states, extra=()):
    """Runs step(x, state, w, r, wb, rb) over the valid part of each sample; outputs beyond it are zeros."""
    inputs = recurrent_inputs(c, gates) + list(extra)
    attrs = {"hidden_size": 2}
    if c.has_attr("output_sequence"):
        attrs["output_sequence"] = 1

    def formula(x, w, r, b, lengths, h, *more):
        y = np.zeros((3, 1, 2, 2))
        last = [np.zeros((1, 2, 2)) for _ in range(states)]
        for n in range(2):
            state = [h[0, n].astype(np.float64)] + [m[0, n].astype(np.float64) for m in more[: states - 1]]
            for t in range(lengths[n]):
                half = b.shape[1] // 2
                state = step(x[t, n], state, w[0], r[0], b[0, :half], b[0, half:])
                y[t, 0, n] = state[0]
            for k in range(states):
                last[k][0, n] = state[k]
        return [y] + last

    return Case(inputs, attrs, [c.out_text(o) for o in range(1 + states)], formula=formula)


@recipe("RNN")
def rnn(c):
    def step(x, state, w, r, wb, rb):
        return [np.tanh(w @ x + r @ state[0] + wb + rb)]

    return recurrent_case(c, 1, step, 1)


@recipe("GRU")
def gru(c):
    def step(x, state, w, r, wb, rb):
        h = state[0]
        z = sigmoid(w[:2] @ x + r[:2] @ h + wb[:2] + rb[:2])
        reset = sigmoid(w[2:4] @ x + r[2:4] @ h + wb[2:4] + rb[2:4])
        n = np.tanh(w[4:] @ x + r[4:] @ (reset * h) + rb[4:] + wb[4:])
        return [(1 - z) * n + z * h]

    return recurrent_case(c, 3, step, 1)


@recipe("LSTM")
def lstm(c):
    def step(x, state, w, r, wb, rb):
        h, cell = state
        i, o, f, g = ((w @ x + r @ h + wb + rb)[2 * k : 2 * k + 2] for k in range(4))
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(cell), cell]

    return recurrent_case(c, 4, step, 2, [c.x((1, 2, 2), 6, low=-1, high=1)])


# ---------------------------------------------------------------------------------------- attention


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@recipe("Attention")
def attention(c):
    """A mask of whole numbers is added as it is; a boolean one allows the first key at least. Half floats are rounded where
    the standard's body rounds them: after each of its steps."""
    q, k, v = c.x((1, 2, 2, 4), 0), c.x((1, 2, 3, 4), 1), c.x((1, 2, 3, 2), 2)
    mask = c.x((2, 3), 3, low=0, high=1)
    if c.t(3) == "bool":
        mask[:, 0] = True

    half = c.t(0) in ("float16", "bfloat16")

    def step(x):
        return values.widen(values.round_to(f"tensor({c.t(0)})", x)) if half else x

    def formula(q, k, v, m):
        root = step(np.sqrt(0.5))
        q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
        scores = step(step(q * root) @ step(k * root).swapaxes(2, 3))
        scores = step(scores + (np.where(m, 0, -np.inf) if m.dtype == bool else m.astype(np.float64)))
        e = step(np.exp(step(scores - scores.max(-1, keepdims=True))))
        return step(e / step(e.sum(-1, keepdims=True))) @ v

    return Case([q, k, v, mask], formula=formula)


@recipe("FlexAttention", domain="ai.onnx.preview")
def flex_attention(c):
    def formula(q, k, v):
        return soft(q @ k.swapaxes(2, 3) / 2) @ v

    return Case([c.x((1, 2, 2, 4), 0), c.x((1, 2, 3, 4), 1), c.x((1, 2, 3, 2), 2)], formula=formula)


@recipe("LinearAttention")
def linear_attention(c):
    inputs = [c.x((1, 3, 4), i, low=-1, high=1) for i in range(3)]
    inputs += [c.x((1, 2, 2, 2), 3), c.x((1, 3, 2), 4, low=-1, high=0), c.x((1, 3, 2), 5, low=0, high=1)]
    return Case(inputs, {"q_num_heads": 2, "kv_num_heads": 2}, [c.out_text(0), c.out_text(1)])


@recipe("CausalConvWithState")
def causal_conv(c):
    inputs = [c.x((1, 2, 4), 0), c.x((2, 1, 3), 1), c.x((2,), 2), c.x((1, 2, 2), 3)]

    def formula(x, w, b, past):
        row = np.concatenate([past, x], 2)
        y = sum(row[:, :, j : j + 4] * w[:, 0, j].reshape(2, 1) for j in range(3)) + b.reshape(2, 1)
        return [y, row[:, :, -2:]]

    return Case(inputs, {}, [c.out_text(0), c.out_text(1)], formula=formula)


@recipe("RotaryEmbedding")
def rotary_embedding(c):
    def formula(x, cos, sin, at):
        cos, sin = cos[at][:, None], sin[at][:, None]
        a, b = x[..., :2], x[..., 2:]
        return np.concatenate([cos * a - sin * b, sin * a + cos * b], -1)

    inputs = [c.x((1, 2, 3, 4), 0), c.x((5, 2), 1, low=-1, high=1), c.x((5, 2), 2, low=-1, high=1)]
    return Case(inputs + [np.array([[0, 3, 4]], np.int64)], formula=formula)


@recipe("Einsum")
def einsum(c):
    return Case([c.x((2, 3), 0, key=0), c.x((3, 4), 0, key=1)], {"equation": "ij,jk->ik"},
                formula=lambda a, b: np.einsum("ij,jk->ik", a, b))  # fmt: skip


@recipe("Det")
def det(c):
    return Case([c.x((2, 3, 3))], formula=lambda x: np.linalg.det(x.astype(np.float64)))


# ---------------------------------------------------------------------------------------- losses and boxes


@recipe("NegativeLogLikelihoodLoss")
def nll(c):
    def formula(x, t, w):
        picked = -x[np.arange(3), t] * w[t]
        return picked.sum() / w[t].sum()

    return Case([c.x((3, 4), 0), c.of(1, np.array([1, 3, 0])), c.x((4,), 2, low=0.5, high=2)], formula=formula)


@recipe("SoftmaxCrossEntropyLoss")
def cross_entropy(c):
    def formula(x, t, w):
        logs = np.log(soft(x))
        return [(-logs[np.arange(3), t] * w[t]).sum() / w[t].sum(), logs]

    return Case([c.x((3, 4), 0), c.of(1, np.array([1, 3, 0])), c.x((4,), 2, low=0.5, high=2)], {},
                [c.out_text(0), c.out_text(1)], formula=formula)  # fmt: skip


@recipe("NonMaxSuppression")
def non_max_suppression(c):
    boxes = np.array([[[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, 2, 1, 3]]], np.float32)
    scores = np.array([[[0.5, 0.75, 0.25]]], np.float32)
    return Case([boxes, scores, np.array([3], np.int64), np.array([0.5], np.float32), np.array([0.0], np.float32)],
                formula=lambda *_: np.array([[0, 0, 1], [0, 0, 2]], np.int64))  # fmt: skip


@recipe("MaxRoiPool")
def max_roi_pool(c):
    def formula(x, rois):
        return x[0, 0, :4, :4].reshape(1, 1, 2, 2, 2, 2).max((3, 5))

    return Case([c.x((1, 1, 5, 5), 0), c.of(1, np.array([[0, 0, 0, 3, 3]]))], {"pooled_shape": [2, 2]},
                formula=formula)  # fmt: skip


@recipe("RoiAlign")
def roi_align(c):
    attrs = {"output_height": 2, "output_width": 2, "sampling_ratio": 1}
    if c.has_attr("coordinate_transformation_mode"):
        attrs["coordinate_transformation_mode"] = "output_half_pixel"
    # The oracles know the newest version: what was implied before 16 is said there.
    modern = {"attrs": {**attrs, "coordinate_transformation_mode": "output_half_pixel"}}
    return Case([c.x((1, 1, 7, 7), 0), c.of(1, np.array([[1, 1, 5, 5]])), np.array([0], np.int64)], attrs, modern=modern)


@recipe("GridSample")
def grid_sample(c):
    """Points in the middle of pixels."""
    linear = "linear" if c.version >= 20 else "bilinear"
    nearest = c.t(0) not in values.FLOATS
    grid = np.array([[[[-0.75, -0.5], [0.25, 0.5]], [[0.75, -0.5], [-0.25, 0.5]]]])

    def formula(x, g):
        out = np.empty((1, 1, 2, 2), x.dtype)
        for i in range(2):
            for j in range(2):
                px, py = int((g[0, i, j, 0] + 1) * 2), int(g[0, i, j, 1] + 1)
                out[0, 0, i, j] = x[0, 0, py, px]
        return out

    return Case([c.x((1, 1, 2, 4), 0), c.of(1, grid)], {"mode": "nearest" if nearest else linear}, formula=formula)


@recipe("AffineGrid")
def affine_grid(c):
    def formula(theta, size):
        xs, ys = (2 * np.arange(3) + 1) / 3 - 1, (2 * np.arange(2) + 1) / 2 - 1
        base = np.stack([np.broadcast_to(xs, (2, 3)), np.broadcast_to(ys[:, None], (2, 3)), np.ones((2, 3))], -1)
        return np.einsum("hwk,njk->nhwj", base, theta)

    return Case([c.x((1, 2, 3), 0), i64(1, 1, 2, 3)], {"align_corners": 0}, formula=formula)


@recipe("DeformConv")
def deform_conv(c):
    """Offsets of nothing: the plain convolution under a mask of ones."""
    x, w = c.x((1, 1, 3, 3), 0), c.x((1, 1, 2, 2), 1)
    offset, mask = c.of(2, np.zeros((1, 8, 2, 2))), c.of(4, np.ones((1, 4, 2, 2)))
    return Case([x, w, offset, c.x((1,), 3), mask], {"kernel_shape": [2, 2]},
                formula=lambda x, w, o, b, m: convolve(x, w, pad=0) + b)  # fmt: skip


# ---------------------------------------------------------------------------------------- signals


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(c):
    def formula(n):
        a = 2 * np.pi * np.arange(int(n)) / int(n)
        if c.op == "HannWindow":
            return 0.5 - 0.5 * np.cos(a)
        if c.op == "HammingWindow":
            return 25 / 46 - 21 / 46 * np.cos(a)
        return 0.42 - 0.5 * np.cos(a) + 0.08 * np.cos(2 * a)

    attrs = {"output_datatype": values.CODES[c.u()], "periodic": 1}
    return Case([c.of(0, np.array(5))], attrs, formula=formula, atol=1e-6)


@recipe("MelWeightMatrix")
def mel_weight_matrix(c):
    inputs = [c.of(0, np.array(8)), c.of(1, np.array(16)), c.of(2, np.array(8192)), c.of(3, np.array(0)),
              c.of(4, np.array(4096 if c.t(4) != "float16" else 4096))]  # fmt: skip
    return Case(inputs, {"output_datatype": values.CODES[c.u()]}, atol=1e-6)


@recipe("DFT")
def dft(c):
    def formula(x, *_):
        y = np.fft.fft(x[..., 0].astype(np.float64), axis=1)
        return np.stack([y.real, y.imag], -1)

    x, length = c.x((1, 4, 1), 0), c.of(1, np.array(4))
    if c.version < 20:
        return Case([x, length], {"axis": 1}, formula=formula, atol=1e-5)
    return Case([x, length, np.array(1, np.int64)], formula=formula, atol=1e-5)


@recipe("STFT")
def stft(c):
    def formula(x, step, w, n):
        frames = np.stack([x[0, k : k + 4, 0] * w for k in (0, 2, 4)])
        y = np.fft.rfft(frames.astype(np.float64), axis=1)
        return np.stack([y.real, y.imag], -1)[None]

    inputs = [c.x((1, 8, 1), 0), c.of(1, np.array(2)), c.x((4,), 2), c.of(3, np.array(4))]
    return Case(inputs, {"onesided": 1}, formula=formula, atol=1e-5)
