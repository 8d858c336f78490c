"""Random cases of operators that ONNX Runtime has no CPU kernel for, for ../contrib.py: numpy says what is wanted."""
import math

import numpy as np

from cases.contrib import Case, case, coin, dims, maybe, pick, reals, size, trim


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def given(op, inputs, reference, attributes=None, outputs=None, **more):
    return Case(op, trim(inputs), attributes or {}, outputs or [True] * len(reference), reference=reference, **more)


def single(op, inputs, y, attributes=None, **more):
    return given(op, inputs, [np.asarray(y).astype(np.float32)], attributes, **more)


@case
def BiasAdd(rng):
    shape = dims(rng, 3, 3)
    x, bias, skip = reals(rng, shape), reals(rng, shape[-1:]), reals(rng, shape)
    return single("BiasAdd", [x, bias, skip], x + bias + skip)


@case
def BiasSplitGelu(rng):
    n, s, d = dims(rng, 3, 3)
    x, bias = reals(rng, [n, s, 2 * d]), reals(rng, [2 * d])
    left, right = np.split(x + bias, 2, -1)
    return single("BiasSplitGelu", [x, bias], left * gelu(right))


@case
def BiasSoftmax(rng):
    shape = dims(rng, 2, 4)
    axis = size(rng, 1, len(shape) - 1)
    inner = coin(rng)
    bias = [1 if coin(rng, 0.3) and i < axis else d for i, d in enumerate(shape)]
    x, b = reals(rng, shape), reals(rng, bias)
    rows = (x + b).reshape(int(np.prod(shape[:axis])), -1)
    return single("BiasSoftmax", [x, b], softmax(rows).reshape(shape), {"axis": axis, "is_inner_broadcast": int(inner)})


@case
def GemmFastGelu(rng):
    m, k, n = dims(rng, 3, 3)
    x, w, bias = reals(rng, [2, m, k]), reals(rng, [k, n]), maybe(rng, reals(rng, [n]))
    y = x @ w + (0 if bias is None else bias)
    y = 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y**3)))
    return single("GemmFastGelu", [x, w, bias], y)


@case
def FusedMatMulActivation(rng):
    m, k, n = dims(rng, 3, 3)
    trans = coin(rng)
    a, b = reals(rng, [k, m] if trans else [m, k]), reals(rng, [k, n])
    y = 0.5 * ((a.T if trans else a) @ b)
    name = pick(rng, ["Relu", "LeakyRelu", "Tanh", "Softmax"])
    y = {"Relu": np.maximum(y, 0), "LeakyRelu": np.where(y < 0, 0.2 * y, y), "Tanh": np.tanh(y), "Softmax": softmax(y)}[name]
    attributes = {"alpha": 0.5, "transA": int(trans), "activation": name}
    attributes |= {"LeakyRelu": {"activation_alpha": 0.2}, "Softmax": {"activation_axis": 1}}.get(name, {})
    return single("FusedMatMulActivation", [a, b], y, attributes)


@case
def BiasDropout(rng):
    shape = dims(rng, 1, 3)
    x, bias, residual = reals(rng, shape), reals(rng, shape[-1:]), maybe(rng, reals(rng, shape))
    y = x + bias + (0 if residual is None else residual)
    return given("BiasDropout", [x, bias, residual, maybe(rng, np.array(0.3, np.float32))],
                 [y.astype(np.float32), np.ones(shape, bool)])


@case
def BitmaskDropout(rng):
    x = reals(rng, dims(rng, 1, 3))
    return single("BitmaskDropout", [x], x)


@case
def BitmaskBiasDropout(rng):
    shape = dims(rng, 1, 3)
    x, bias = reals(rng, shape), reals(rng, shape[-1:])
    return single("BitmaskBiasDropout", [x, bias], x + bias)


def group_norm(x, gamma, beta, groups, epsilon, silu):
    """x [n, h, w, c]"""
    n, h, w, c = x.shape
    g = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
    g = (g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + epsilon)
    y = g.reshape(n, h, w, c) * gamma + beta
    return y * sigmoid(y) if silu else y


def norm_case(rng):
    groups = size(rng, 1, 3)
    n, h, w, c = size(rng, 1, 2), size(rng, 1, 4), size(rng, 2, 4), groups * size(rng, 2, 3)
    silu = int(coin(rng))
    attributes = {"groups": groups, "activation": silu, "epsilon": 1e-3}
    return [n, h, w, c], groups, attributes, reals(rng, [c]), reals(rng, [c])


@case
def GroupNorm(rng):
    shape, groups, attributes, gamma, beta = norm_case(rng)
    x = reals(rng, shape)
    y = group_norm(x, gamma, beta, groups, 1e-3, attributes["activation"])
    if coin(rng):
        attributes["channels_last"] = 0
        x, y = np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y.transpose(0, 3, 1, 2)
    return single("GroupNorm", [x, gamma, beta], y, attributes)


@case
def SkipGroupNorm(rng):
    shape, groups, attributes, gamma, beta = norm_case(rng)
    n, h, w, c = shape
    x, skip = reals(rng, shape), reals(rng, pick(rng, [[n, h, w, c], [n, 1, 1, c], [n, c]]))
    bias = maybe(rng, reals(rng, [c]))
    total = x + (skip.reshape(n, 1, 1, c) if skip.size == n * c and skip.ndim == 2 else skip) + (0 if bias is None else bias)
    y = group_norm(total, gamma, beta, groups, 1e-3, attributes["activation"])
    return given("SkipGroupNorm", [x, gamma, beta, skip, bias], [y.astype(np.float32), total.astype(np.float32)], attributes)


def conv(x, w, bias):
    """x [n, h, w, c], w [m, c, kh, kw]"""
    kh, kw = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (1, 2))
    y = np.einsum("nhwcij,mcij->nhwm", windows, w)
    return y if bias is None else y + bias


@case
def NhwcConv(rng):
    n, h, w, c, m, k = size(rng, 1, 2), size(rng, 3, 6), size(rng, 3, 6), size(rng, 1, 4), size(rng, 1, 4), size(rng, 1, 3)
    x, weights, bias = reals(rng, [n, h, w, c]), reals(rng, [m, c, k, k]), maybe(rng, reals(rng, [m]))
    return single("NhwcConv", [x, weights, bias], conv(x, weights, bias), {"kernel_shape": [k, k]})


@case
def NhwcFusedConv(rng):
    n, h, w, c, m, k = size(rng, 1, 2), size(rng, 3, 6), size(rng, 3, 6), size(rng, 1, 4), size(rng, 1, 4), size(rng, 1, 3)
    x, weights, bias = reals(rng, [n, h, w, c]), reals(rng, [m, c, k, k]), maybe(rng, reals(rng, [m]))
    y = conv(x, weights, bias)
    z = maybe(rng, reals(rng, y.shape))
    return single("NhwcFusedConv", [x, weights, bias, z], np.maximum(y + (0 if z is None else z), 0),
                  {"kernel_shape": [k, k], "activation": "Relu"})


@case
def MulInteger(rng):
    kind = pick(rng, [np.uint8, np.int8])
    info = np.iinfo(kind)
    def some(shape):
        return rng.integers(info.min, info.max + 1, shape).astype(kind)
    a, b = some([3, 1]), some([4])
    za, zb = maybe(rng, some([])), maybe(rng, some([]))
    y = (a.astype(np.int32) - (0 if za is None else int(za))) * (b.astype(np.int32) - (0 if zb is None else int(zb)))
    return given("MulInteger", [a, za, b, zb], [y.astype(np.int32)])


@case
def QLinearReduceMean(rng):
    x = rng.integers(0, 256, dims(rng, 3, 3)).astype(np.uint8)
    axes, keep = pick(rng, [[0], [1], [-1], [0, 2]]), int(coin(rng))
    mean = ((x.astype(np.float64) - 10) * 0.1).mean(tuple(axes), keepdims=bool(keep))
    y = np.clip(np.rint(mean / 0.2) + 3, 0, 255).astype(np.uint8)
    inputs = [x, np.float32(0.1), np.uint8(10), np.float32(0.2), np.uint8(3)]
    return given("QLinearReduceMean", [np.asarray(i) for i in inputs], [y], {"axes": axes, "keepdims": keep}, near=1)


@case
def TorchEmbedding(rng):
    w, at = reals(rng, dims(rng, 2, 2)), dims(rng, 1, 2)
    indices = rng.integers(0, w.shape[0], at).astype(np.int64)
    return single("TorchEmbedding", [w, indices, maybe(rng, np.array(0, np.int64))], w[indices])


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def complex_case(rng, op, conjugate):
    shape = dims(rng, 1, 3)
    a, b = reals(rng, [*shape, 2]), reals(rng, [shape[-1], 2])
    y = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + (-1j if conjugate else 1j) * b[..., 1])
    return single(op, [a, b], pairs(y))


@case
def ComplexMul(rng):
    return complex_case(rng, "ComplexMul", False)


@case
def ComplexMulConj(rng):
    return complex_case(rng, "ComplexMulConj", True)


@case
def Rfft(rng):
    x = reals(rng, [*dims(rng, 1, 2), 2 * size(rng, 1, 9)])
    return single("Rfft", [x], pairs(np.fft.rfft(x)), {"signal_ndim": 1})


@case
def Irfft(rng):
    x = reals(rng, [*dims(rng, 1, 2), 2 * size(rng, 1, 9)])
    spectrum = np.fft.rfft(x)
    return single("Irfft", [pairs(spectrum).astype(np.float32)], x, {"signal_ndim": 1})


@case
def IsAllFinite(rng):
    inputs = [reals(rng, dims(rng, 0, 3)) for _ in range(size(rng, 1, 3))]
    only = pick(rng, [None, None, "isinf_only", "isnan_only"])
    inputs[0] = np.array(inputs[0])
    odd = pick(rng, [None, np.inf, -np.inf, np.nan])
    if odd is not None:
        inputs[0].reshape(-1)[-1:] = odd
    bad = odd is not None and (only is None or (only == "isnan_only") == bool(np.isnan(odd)))
    return given("IsAllFinite", inputs, [np.array(not bad)], {only: 1} if only else {})


@case
def GemmaRotaryEmbedding(rng):
    b, n, s, d = dims(rng, 4, 4)
    emb = reals(rng, [b, s, d])
    q, q_rot, k, k_rot = (reals(rng, [b, n, s, d], np.float16) for _ in range(4))
    cos, sin = np.cos(emb)[:, None], np.sin(emb)[:, None]
    return given("GemmaRotaryEmbedding", [emb, q, q_rot, k, k_rot],
                 [(q * cos + q_rot * sin).astype(np.float16), (k * cos + k_rot * sin).astype(np.float16)])


# ------------------------------------------------------------------------------------------------ quantised products


def quantised(rng, n, k, block):
    """Weights [n, k] of four bits and the floats that they stand for."""
    blocks = k // block
    numbers = rng.integers(0, 16, [n, k])
    scales = rng.uniform(0.01, 0.1, [n, blocks]).astype(np.float32)
    packed = (numbers[:, 0::2] | numbers[:, 1::2] << 4).astype(np.uint8).reshape(n, blocks, block // 2)
    return packed, scales, (numbers - 8) * np.repeat(scales, block, 1)


def rms(x, scale, epsilon):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + epsilon) * scale


def product_case(rng, epsilon, norm):
    k, block = 32 * size(rng, 1, 2), 16
    a = reals(rng, [size(rng, 1, 3), k])
    scale = reals(rng, [k]) if norm else None
    skip = maybe(rng, reals(rng, a.shape)) if norm else None
    total = a if skip is None else a + skip
    return k, block, a, skip, scale, total, rms(total, scale, epsilon) if norm else a


@case
def MatMulNBitsMlp(rng):
    k, block, a, skip, scale, total, x = product_case(rng, 1e-5, coin(rng, 0.7))
    n = size(rng, 1, 9)
    gate_b, gate_s, gate = quantised(rng, n, k, block)
    up_b, up_s, up = quantised(rng, n, k, block)
    bias = [maybe(rng, reals(rng, [n])) for _ in range(2)]
    g, u = (x @ w.T + (0 if b is None else b) for w, b in zip((gate, up), bias))
    outputs = [(g * sigmoid(g) * u).astype(np.float32)] + ([total.astype(np.float32)] if skip is not None else [])
    return given("MatMulNBitsMlp", [a, skip, scale, gate_b, gate_s, bias[0], up_b, up_s, bias[1]], outputs,
                 {"K": k, "N": n, "block_size": block, "bits": 4, "activation": "silu"}, constants={3, 4, 6, 7},
                 tolerance=(1e-3, 1e-3))


@case
def MatMulNBitsQkv(rng):
    k, block, a, skip, scale, total, x = product_case(rng, 1e-6, True)
    nq, nkv = size(rng, 1, 9), size(rng, 1, 9)
    inputs, outputs = [a, skip, scale], []
    for n in (nq, nkv, nkv):
        b, s, w = quantised(rng, n, k, block)
        bias = maybe(rng, reals(rng, [n]))
        inputs += [b, s, bias]
        outputs.append((x @ w.T + (0 if bias is None else bias)).astype(np.float32))
    if skip is not None:
        outputs.append(total.astype(np.float32))
    return given("MatMulNBitsQkv", inputs, outputs, {"K": k, "Nq": nq, "Nkv": nkv, "block_size": block, "bits": 4},
                 constants={3, 4, 6, 7, 9, 10}, tolerance=(1e-3, 1e-3))


# ------------------------------------------------------------------------------------------------ without padding


def packing(rng):
    batch, length = size(rng, 1, 3), size(rng, 1, 5)
    counts = rng.integers(1, length + 1, [batch]).astype(np.int32)
    real = np.arange(length) < counts[:, None]
    flat = real.reshape(-1)
    offsets = np.concatenate([np.flatnonzero(flat), np.flatnonzero(~flat)]).reshape(batch, length).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return batch, length, counts, flat, offsets, ends


@case
def RemovePadding(rng):
    batch, length, counts, flat, offsets, ends = packing(rng)
    x = reals(rng, [batch, length, size(rng, 1, 5)])
    return given("RemovePadding", [x, counts], [x.reshape(-1, x.shape[2])[flat], offsets, ends,
                                               np.array([counts.max()], np.int32)])


@case
def RestorePadding(rng):
    batch, length, counts, flat, offsets, ends = packing(rng)
    x = reals(rng, [int(flat.sum()), size(rng, 1, 5)])
    y = np.zeros([batch * length, x.shape[1]], np.float32)
    y[flat] = x
    return single("RestorePadding", [x, offsets], y.reshape(batch, length, -1))


def attend(q, k, v, heads, ends, bias, scale):
    """Tokens [tokens, width] of several sequences; bias [batch or 1, heads or 1, length, length]."""
    out = []
    for b, (first, last) in enumerate(zip(ends[:-1], ends[1:])):
        n = last - first
        def part(x):
            return x[first:last].reshape(n, heads, -1).transpose(1, 0, 2)
        scores = part(q) @ part(k).transpose(0, 2, 1) * scale
        if bias is not None:
            scores = scores + np.broadcast_to(bias, (len(ends) - 1, heads, *bias.shape[2:]))[b, :, :n, :n]
        out.append((softmax(scores) @ part(v)).transpose(1, 0, 2).reshape(n, -1))
    return np.concatenate(out)


def score_bias(rng, batch, heads, length):
    return maybe(rng, reals(rng, [pick(rng, [1, batch]), pick(rng, [1, heads]), length, length]))


@case
def PackedAttention(rng):
    batch, length, counts, flat, offsets, ends = packing(rng)
    heads, head, width = size(rng, 1, 3), size(rng, 1, 4), size(rng, 1, 6)
    hidden = heads * head
    x, w, bias = reals(rng, [int(flat.sum()), width]), reals(rng, [width, 3 * hidden]), reals(rng, [3 * hidden])
    extra = score_bias(rng, batch, heads, length)
    q, k, v = np.split(x @ w + bias, 3, 1)
    scale = 0.4 if coin(rng) else None
    y = attend(q, k, v, heads, ends, extra, scale or 1 / math.sqrt(head))
    return single("PackedAttention", [x, w, bias, offsets, ends, extra], y,
                  {"num_heads": heads} | ({"scale": scale} if scale else {}), tolerance=(1e-3, 1e-3))


@case
def PackedMultiHeadAttention(rng):
    batch, length, counts, flat, offsets, ends = packing(rng)
    heads, head, tokens = size(rng, 1, 3), 4 * size(rng, 1, 2), int(flat.sum())
    hidden = heads * head
    extra = score_bias(rng, batch, heads, length)
    if coin(rng):
        x = reals(rng, [tokens, heads, 3, head])
        q, k, v = (x[:, :, i].reshape(tokens, hidden) for i in range(3))
        inputs, bias = [x, None, None], None
    else:
        q, k, v = (reals(rng, [tokens, hidden]) for _ in range(3))
        inputs, bias = [q, k, v], maybe(rng, reals(rng, [3 * hidden]))
    if bias is not None:
        q, k, v = (t + b for t, b in zip((q, k, v), np.split(bias, 3)))
    y = attend(q, k, v, heads, ends, extra, 1 / math.sqrt(head))
    return single("PackedMultiHeadAttention", [*inputs, bias, offsets, ends, extra], y, {"num_heads": heads},
                  tolerance=(1e-3, 1e-3))


@case
def GatedRelativePositionBias(rng):
    batch, length, counts, flat, offsets, ends = packing(rng)
    heads, head, d = size(rng, 1, 3), size(rng, 1, 4), 2 * size(rng, 1, 3)
    packed = coin(rng)
    x = reals(rng, [int(flat.sum()) if packed else batch * length, heads * head])
    full = np.zeros([batch * length, heads * head], np.float32)
    full[flat if packed else slice(None)] = x
    bias, rel, w, b = reals(rng, [heads * head]), reals(rng, [1, heads, length, length]), reals(rng, [head, d]), reals(rng, [d])
    eco = reals(rng, [1, heads, 1, 1])
    q = (full + bias).reshape(batch, length, heads, head).transpose(0, 2, 1, 3)
    gate = sigmoid((q @ w + b).reshape(batch, heads, length, 2, d // 2).sum(-1))
    u, r = gate[..., :1], gate[..., 1:]
    query = x if packed else x.reshape(batch, length, -1)
    return single("GatedRelativePositionBias", [query, bias, rel, w, b, eco, offsets if packed else None],
                  (u * (r * eco - 1) + 2) * rel, {"num_heads": heads})
