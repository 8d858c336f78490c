"""Random cases of com.microsoft's operators, for ../contrib.py: one function for each operator draws one case."""
import dataclasses

import numpy as np
from onnx import TensorProto

CASES = {}


@dataclasses.dataclass
class Case:
    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: list = dataclasses.field(default_factory=lambda: [True])  # which are wanted
    tolerance: tuple = None
    near: int = 0  # by how much integers may differ
    compare: dict = dataclasses.field(default_factory=dict)  # output: which part of it counts
    output_types: dict = dataclasses.field(default_factory=dict)
    constants: set = dataclasses.field(default_factory=set)  # inputs that are always constants
    variables: set = dataclasses.field(default_factory=set)  # inputs that never are
    domain: str = "com.microsoft"
    reference: list = None  # the outputs that are wanted, of operators that ONNX Runtime's CPU lacks
    shared: dict = dataclasses.field(default_factory=dict)  # input: the output that has to lie where it does


def case(function):
    CASES[function.__name__] = function
    return function


def coin(rng, p=0.5):
    return bool(rng.random() < p)


def size(rng, low, high):
    return int(rng.integers(low, high + 1))


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def dims(rng, low_rank, high_rank, high=5, low=1):
    return [size(rng, low, high) for _ in range(size(rng, low_rank, high_rank))]


def reals(rng, shape, dtype=np.float32, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def maybe(rng, value, p=0.5):
    return value if coin(rng, p) else None


def trim(inputs):
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


# ------------------------------------------------------------------------------------------------ activations


@case
def Gelu(rng):
    return Case("Gelu", [reals(rng, dims(rng, 0, 4), scale=3)])


@case
def BiasGelu(rng):
    shape = dims(rng, 1, 4)
    return Case("BiasGelu", [reals(rng, shape, scale=2), reals(rng, shape[-1:])])


@case
def FastGelu(rng):
    shape = dims(rng, 1, 4)
    return Case("FastGelu", trim([reals(rng, shape, scale=2), maybe(rng, reals(rng, shape[-1:]))]))


@case
def QuickGelu(rng):
    attributes = {"alpha": float(rng.uniform(-2, 3))} if coin(rng) else {}
    return Case("QuickGelu", [reals(rng, dims(rng, 0, 4), scale=3)], attributes)


# ------------------------------------------------------------------------------------------------ normalisations


@case
def SimplifiedLayerNormalization(rng):
    shape = dims(rng, 1, 4, high=9)
    axis = size(rng, -len(shape), len(shape) - 1)
    attributes = {"axis": axis, "epsilon": float(rng.uniform(1e-6, 1e-2)), "stash_type": 1}
    dtype = pick(rng, [np.float32, np.float32, np.float64, np.float16])
    return Case("SimplifiedLayerNormalization", [reals(rng, shape, dtype), reals(rng, shape[axis:], dtype)], attributes,
                domain="")


def skip_inputs(rng, dtype):
    b, s, h = size(rng, 1, 3), size(rng, 1, 5), size(rng, 1, 70)
    shape = [b, s, h] if coin(rng, 0.8) else [s, h]
    skip = pick(rng, [shape, [1, s, h] if len(shape) == 3 else shape, [s, h]])
    return [reals(rng, shape, dtype), reals(rng, skip, dtype), reals(rng, [h], dtype)], h


@case
def SkipLayerNormalization(rng):
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    inputs, h = skip_inputs(rng, dtype)
    inputs += [maybe(rng, reals(rng, [h], dtype)), maybe(rng, reals(rng, [h], dtype))]
    attributes = {"epsilon": float(rng.uniform(1e-6, 1e-2))} if coin(rng) else {"epsilon": 1e-5}
    return Case("SkipLayerNormalization", trim(inputs), attributes, [True, False, False, True] if coin(rng) else [True])


@case
def SkipSimplifiedLayerNormalization(rng):
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    inputs, h = skip_inputs(rng, dtype)
    inputs += [maybe(rng, reals(rng, [h], dtype))]
    attributes = {"epsilon": float(rng.uniform(1e-6, 1e-2))} if coin(rng) else {"epsilon": 1e-5}
    return Case("SkipSimplifiedLayerNormalization", trim(inputs), attributes,
                [True, False, False, True] if coin(rng) else [True])


@case
def EmbedLayerNormalization(rng):
    b, s, h, words = size(rng, 1, 3), size(rng, 1, 6), size(rng, 1, 40), size(rng, 1, 20)
    places, segments = s + size(rng, 0, 4), size(rng, 1, 3)
    ids = lambda n, shape: rng.integers(0, n, shape).astype(np.int32)
    segment = coin(rng)
    mask = (rng.random((b, s)) < 0.7).astype(np.int32)
    inputs = [ids(words, (b, s)), ids(segments, (b, s)) if segment else None, reals(rng, [words, h]),
              reals(rng, [places, h]), reals(rng, [segments, h]) if segment else None, reals(rng, [h]), reals(rng, [h]),
              maybe(rng, mask), maybe(rng, ids(places, (pick(rng, [b, 1]), s)))]
    outputs = [True, True, coin(rng)] if coin(rng) else [True, True]
    return Case("EmbedLayerNormalization", trim(inputs), {"epsilon": 1e-5}, outputs)


# ------------------------------------------------------------------------------------------------ attention


@case
def RotaryEmbedding(rng):
    b, s, heads, half = size(rng, 1, 3), size(rng, 1, 5), size(rng, 1, 4), size(rng, 1, 8)
    partial, four = coin(rng, 0.3), coin(rng)
    width = 2 * half + (2 * size(rng, 1, 4) if partial else 0)
    attributes = {"interleaved": int(coin(rng))}
    if partial:
        attributes |= {"rotary_embedding_dim": 2 * half, "num_heads": heads}
    elif coin(rng):
        attributes["num_heads"] = heads
    if coin(rng, 0.2):
        attributes["is_packed_batching"] = 1
    rows = s + size(rng, 0, 5)
    positions = rng.integers(0, rows, (b, s)) if coin(rng) else rng.integers(0, rows - s + 1, (1,))
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    return Case("RotaryEmbedding", [reals(rng, [b, heads, s, width] if four else [b, s, heads * width], dtype),
                                    positions.astype(np.int64), reals(rng, [rows, half], dtype),
                                    reals(rng, [rows, half], dtype)], attributes)


def padding_mask(rng, b, s, total, forms):
    form = pick(rng, forms)
    if form == "lengths":
        return rng.integers(1, total + 1, (b,)).astype(np.int32)
    if form == "ranges":
        ends = rng.integers(1, total + 1, (b,))
        return np.concatenate([ends, [int(rng.integers(0, e)) for e in ends]]).astype(np.int32)
    shape = {"keys": (b, total), "rows": (b, s, total)}.get(form)
    return (rng.random(shape) < 0.7).astype(np.int32)


# Adding -10000 to a score, as masks do, costs it three digits, and masks and biases are added in any order.
MASKED = (3e-3, 1e-5)


# Keys and values are packed where there are more than a few queries: some cases have that many.
def queries(rng):
    return size(rng, 33, 70) if coin(rng, 0.15) else size(rng, 1, 6)


def score_bias(rng, b, heads, s, total):
    return reals(rng, [pick(rng, [1, b]), pick(rng, [1, heads]), s, total])


@case
def MultiHeadAttention(rng):
    b, s, heads, width = size(rng, 1, 3), queries(rng), size(rng, 1, 4), size(rng, 1, 12)
    form = pick(rng, ["apart", "apart", "apart", "cross"])
    length = size(rng, 1, 7)
    v_width = size(rng, 1, 12) if form == "apart" else width
    key = value = past_key = past_value = None
    query = reals(rng, [b, s, heads * width])
    if form == "apart":
        key, value = reals(rng, [b, length, heads * width]), reals(rng, [b, length, heads * v_width])
    elif form == "cross":
        key, value = reals(rng, [b, heads, length, width]), reals(rng, [b, heads, length, width])
    past = 0
    if form == "apart" and coin(rng):
        past, v_width = size(rng, 0, 5), width
        length = s
        key, value = reals(rng, [b, length, heads * width]), reals(rng, [b, length, heads * width])
        past_key, past_value = reals(rng, [b, heads, past, width]), reals(rng, [b, heads, past, width])
    total = past + length
    inputs = [query, key, value, maybe(rng, reals(rng, [heads * (2 * width + v_width)])),
              maybe(rng, padding_mask(rng, b, s, total, ["lengths", "keys", "rows"])),
              maybe(rng, score_bias(rng, b, heads, s, total)), past_key, past_value]
    # Of as many keys as queries: otherwise ONNX Runtime does not mask the last row.
    attributes = {"num_heads": heads, "unidirectional": int(length == s and coin(rng))}
    if coin(rng, 0.3):
        attributes["scale"] = float(rng.uniform(0.1, 1))
    if coin(rng, 0.3):
        attributes["mask_filter_value"] = -1e4 if coin(rng) else -3e4
    present = form != "cross" and (past_key is not None or coin(rng))
    outputs = [True, present, present, coin(rng, 0.3)] if coin(rng) else [True] + [True, True] * present
    return Case("MultiHeadAttention", trim(inputs), attributes, outputs, output_types={3: TensorProto.FLOAT},
                tolerance=MASKED)


@case
def DecoderMaskedMultiHeadAttention(rng):
    b, heads, width = size(rng, 1, 3), size(rng, 1, 4), size(rng, 1, 8)
    room = size(rng, 1, 8)
    past = size(rng, 0, room - 1)
    cross = coin(rng, 0.3)
    query = reals(rng, [b, 1, heads * width])
    inputs = [query] + [None] * 10
    outputs = [True, True, True]
    if cross:
        inputs[1], inputs[2] = reals(rng, [b, heads, room, width]), reals(rng, [b, heads, room, width])
        outputs, total = [True], room
    else:
        inputs[1], inputs[2] = reals(rng, [b, 1, heads * width]), reals(rng, [b, 1, heads * width])
        inputs[5], inputs[6] = reals(rng, [b, heads, room, width]), reals(rng, [b, heads, room, width])
        inputs[7] = np.array([past], np.int32)
        total = past + 1
    inputs[3] = maybe(rng, padding_mask(rng, b, 1, total, ["keys"]))
    inputs[4] = None if cross else maybe(rng, score_bias(rng, b, heads, 1, total))
    inputs[10] = maybe(rng, reals(rng, [3 * heads * width]))
    attributes = {"num_heads": heads, "past_present_share_buffer": int(not cross)}
    used = lambda x: x[:, :, :total]
    return Case("DecoderMaskedMultiHeadAttention", trim(inputs), attributes, outputs, compare={1: used, 2: used})


def attention_sizes(rng):
    return size(rng, 1, 3), queries(rng), size(rng, 1, 4), size(rng, 1, 10), size(rng, 1, 20)


@case
def Attention(rng):
    b, s, heads, width, d = attention_sizes(rng)
    attributes = {"num_heads": heads, "unidirectional": int(coin(rng))}
    has_past, v_width = coin(rng), width
    past = size(rng, 0, 5) if has_past else 0
    if not has_past and coin(rng):
        v_width = size(rng, 1, 8)
        attributes["qkv_hidden_sizes"] = [heads * width, heads * width, heads * v_width]
    total = past + s
    mask = padding_mask(rng, b, s, total, ["lengths", "ranges", "keys", "rows"])
    hidden = heads * (2 * width + v_width)
    inputs = [reals(rng, [b, s, d]), reals(rng, [d, hidden], scale=0.3), reals(rng, [hidden]),
              maybe(rng, mask), reals(rng, [2, b, heads, past, width]) if has_past else None,
              maybe(rng, None if has_past else score_bias(rng, b, heads, s, total), 0.3)]
    if coin(rng, 0.2):
        attributes["scale"] = float(rng.uniform(0.1, 1))
    return Case("Attention", trim(inputs), attributes,
                [True, True] if has_past or (v_width == width and coin(rng)) else [True],
                constants={1} if coin(rng) else set(), tolerance=MASKED)


@case
def QAttention(rng):
    b, s, heads, width, d = attention_sizes(rng)
    hidden = 3 * heads * width
    has_past = coin(rng, 0.3)
    past = size(rng, 0, 5) if has_past else 0
    wtype = pick(rng, [np.int8, np.uint8])
    xtype = np.uint8
    draw = lambda t, shape: rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape).astype(t)
    lines = [] if coin(rng) else [hidden]
    inputs = [draw(xtype, [b, s, d]), draw(wtype, [d, hidden]), reals(rng, [hidden]),
              np.array(rng.uniform(0.005, 0.02), np.float32), rng.uniform(0.001, 0.01, lines).astype(np.float32),
              maybe(rng, padding_mask(rng, b, s, past + s, ["lengths", "keys"])), draw(xtype, []),
              draw(wtype, lines) if coin(rng) else None,
              reals(rng, [2, b, heads, past, width]) if has_past else None]
    return Case("QAttention", trim(inputs), {"num_heads": heads, "unidirectional": int(coin(rng))},
                [True, True] if has_past or coin(rng) else [True], tolerance=MASKED)


@case
def GroupQueryAttention(rng):
    b, kv_heads, group, half = size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 4)
    heads, width = kv_heads * group, 16 * half
    form = pick(rng, ["prompt", "token", "more"])
    b = 1 if form == "more" else b
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    s = queries(rng) if form == "prompt" else 1 if form == "token" else size(rng, 2, 4)
    if form == "prompt":
        lens = np.full(b, s - 1)
        total, room = s, pick(rng, [0, 0, s, s + 3])
    else:
        lens = rng.integers(s, 12, b)
        total = int(lens.max()) + 1
        room = pick(rng, [total - s, total, total + 4])
    packed = coin(rng, 0.3)
    query = reals(rng, [b, s, (heads + 2 * kv_heads if packed else heads) * width], dtype)
    key, value = [None if packed else reals(rng, [b, s, kv_heads * width], dtype) for _ in range(2)]
    pasts = [reals(rng, [b, kv_heads, room, width], dtype) if room else None for _ in range(2)]
    if form == "prompt" and coin(rng):
        pasts = [None, None]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads}
    rotary = coin(rng, 0.6)
    cos = sin = positions = None
    if rotary:
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(coin(rng))}
        rows = max(16, total)
        cos, sin = [reals(rng, [rows, width // 2], dtype) for _ in range(2)]
        if coin(rng, 0.3):
            positions = rng.integers(0, rows, (b, s)).astype(np.int64)
            if form == "prompt":
                positions[:] = np.arange(s)
    for name, value_of in {"softcap": lambda: float(rng.uniform(1, 20)), "local_window_size": lambda: size(rng, 1, 8),
                           "scale": lambda: float(rng.uniform(0.05, 0.5)), "smooth_softmax": lambda: 1}.items():
        if coin(rng, 0.25):
            attributes[name] = value_of()
    bias = score_bias(rng, b, heads, s, total).astype(dtype) if coin(rng, 0.3) else None
    sink = reals(rng, [heads], dtype) if coin(rng, 0.2) and "smooth_softmax" not in attributes else None
    inputs = [query, key, value, *pasts, lens.astype(np.int32), np.array(total, np.int32), cos, sin, positions, bias, sink]
    outputs = [True, True, True]
    if coin(rng, 0.3) and form != "token":
        attributes["qk_output"] = pick(rng, [1, 2])
        outputs.append(True)

    def used(x):
        x = x.copy()
        for i in range(b):
            x[i, :, int(lens[i]) + 1:] = 0
        return x
    return Case("GroupQueryAttention", trim(inputs), attributes, outputs, compare={1: used, 2: used},
                variables={0, 1, 2, 3, 4, 5, 6}, tolerance=(2e-2, 2e-2) if dtype is np.float16 else None)


# ------------------------------------------------------------------------------------------------ quantised


def integers(rng, dtype, shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))


def scale_of(rng, shape=(), low=0.01, high=0.1):
    return rng.uniform(low, high, shape).astype(np.float32)


def byte_type(rng):
    return pick(rng, [np.uint8, np.int8])


def zero_of(rng, dtype, shape=()):
    info = np.iinfo(dtype)
    return rng.integers(info.min // 4 + info.max // 2 if info.min == 0 else -30, info.max // 4 * 3, shape).astype(dtype)


def broadcast_pair(rng):
    shape = dims(rng, 0, 4)
    other = [d if coin(rng, 0.7) else 1 for d in shape][size(rng, 0, len(shape)):]
    return (shape, other) if coin(rng) else (other, shape)


def quantized_binary(name):
    def draw(rng):
        t = byte_type(rng)
        a, b = broadcast_pair(rng)
        zero = lambda: zero_of(rng, t)
        inputs = [integers(rng, t, a), scale_of(rng), zero(), integers(rng, t, b), scale_of(rng), zero(),
                  scale_of(rng), zero()]
        return Case(name, trim(inputs), near=1)
    CASES[name] = draw


quantized_binary("QLinearAdd")
quantized_binary("QLinearMul")


@case
def QLinearLeakyRelu(rng):
    t = byte_type(rng)
    return Case("QLinearLeakyRelu", [integers(rng, t, dims(rng, 0, 4)), scale_of(rng), zero_of(rng, t), scale_of(rng),
                                     zero_of(rng, t)], {"alpha": float(rng.uniform(0, 1))}, near=1, constants={1, 2, 3, 4})


@case
def QLinearSigmoid(rng):
    t = byte_type(rng)
    return Case("QLinearSigmoid", [integers(rng, t, dims(rng, 0, 4)), scale_of(rng), zero_of(rng, t),
                                   scale_of(rng, (), 0.004, 0.02), zero_of(rng, t)], near=1, constants={1, 2, 3, 4})


@case
def QLinearSoftmax(rng):
    t = byte_type(rng)
    shape = dims(rng, 1, 4)
    # Rows of one element give 1, which ONNX Runtime wraps to 0.
    shape = [max(2, d) for d in shape]
    zero = np.array(np.iinfo(t).min, t)
    return Case("QLinearSoftmax", [integers(rng, t, shape), scale_of(rng), zero_of(rng, t),
                                   np.array(1 / 255, np.float32), zero],
                {"axis": size(rng, -len(shape), len(shape) - 1), "opset": pick(rng, [11, 13, 17])}, near=1,
                constants={1, 2, 3, 4})


@case
def QLinearWhere(rng):
    t = byte_type(rng)
    x, y = broadcast_pair(rng)
    condition = np.asarray(rng.random(np.broadcast_shapes(tuple(x), tuple(y))) < 0.5)
    return Case("QLinearWhere", [condition, integers(rng, t, x), scale_of(rng), zero_of(rng, t), integers(rng, t, y),
                                 scale_of(rng), zero_of(rng, t), scale_of(rng), zero_of(rng, t)], near=1,
                constants={2, 3, 5, 6, 7, 8})


def pool_attributes(rng, rank):
    kernel = [size(rng, 1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": kernel}
    if coin(rng):
        attributes["strides"] = [size(rng, 1, 3) for _ in range(rank)]
    if coin(rng):
        attributes["pads"] = [size(rng, 0, k - 1) for k in kernel + kernel]
    if coin(rng, 0.3):
        attributes["ceil_mode"] = 1
    return attributes


@case
def QLinearAveragePool(rng):
    t, rank, last = byte_type(rng), size(rng, 1, 3), int(coin(rng))
    n, c, spatial = size(rng, 1, 2), size(rng, 1, 4), [size(rng, 3, 8) for _ in range(rank)]
    shape = [n, *spatial, c] if last else [n, c, *spatial]
    attributes = pool_attributes(rng, rank) | {"channels_last": last, "count_include_pad": int(coin(rng))}
    attributes.pop("ceil_mode", None)
    return Case("QLinearAveragePool", [integers(rng, t, shape), scale_of(rng), zero_of(rng, t), scale_of(rng),
                                       zero_of(rng, t)], attributes, near=1)


@case
def QLinearGlobalAveragePool(rng):
    t, rank, last = byte_type(rng), size(rng, 1, 3), int(coin(rng))
    n, c, spatial = size(rng, 1, 3), size(rng, 1, 6), [size(rng, 1, 6) for _ in range(rank)]
    shape = [n, *spatial, c] if last else [n, c, *spatial]
    return Case("QLinearGlobalAveragePool", [integers(rng, t, shape), scale_of(rng), zero_of(rng, t), scale_of(rng),
                                             zero_of(rng, t)], {"channels_last": last}, near=1)


@case
def QLinearConcat(rng):
    t = byte_type(rng)
    shape = dims(rng, 1, 4)
    axis = size(rng, -len(shape), len(shape) - 1)
    inputs = [scale_of(rng), zero_of(rng, t)]
    for _ in range(size(rng, 1, 4)):
        own = list(shape)
        own[axis] = size(rng, 0, 4)
        same = coin(rng, 0.3)
        inputs += [integers(rng, t, own), inputs[0] if same else scale_of(rng), inputs[1] if same else zero_of(rng, t)]
    return Case("QLinearConcat", inputs, {"axis": axis}, near=1)


@case
def QuantizeLinear(rng):
    t = pick(rng, [np.uint8, np.int8, np.uint16, np.int16])
    shape = dims(rng, 1, 4)
    axis = size(rng, -len(shape), len(shape) - 1) if coin(rng) else None
    lines = [] if axis is None else [shape[axis]]
    inputs = [reals(rng, shape, scale=3), scale_of(rng, lines), zero_of(rng, t, lines)]
    if t is np.uint8 and coin(rng):
        inputs.pop()
    return Case("QuantizeLinear", inputs, {} if axis is None else {"axis": axis})


@case
def DequantizeLinear(rng):
    t = pick(rng, [np.uint8, np.int8, np.uint16, np.int16, np.int32])
    shape = dims(rng, 1, 4)
    axis = size(rng, -len(shape), len(shape) - 1) if coin(rng) else None
    lines = [] if axis is None else [shape[axis]]
    zero = np.zeros(lines, t) if t is np.int32 else zero_of(rng, t, lines)
    inputs = [integers(rng, t, shape), scale_of(rng, lines), maybe(rng, zero, 0.7)]
    return Case("DequantizeLinear", trim(inputs), {} if axis is None else {"axis": axis})


BYTE_PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]


def matmul_shapes(rng):
    m, k, n = size(rng, 1, 6), size(rng, 1, 20), size(rng, 1, 20)
    batch = dims(rng, 0, 2, 3)
    return [*batch, m, k], [*(batch if coin(rng, 0.4) else []), k, n]


@case
def MatMulIntegerToFloat(rng):
    a, b = matmul_shapes(rng)
    ta, tb = pick(rng, BYTE_PAIRS)
    lines = [b[-1]] if len(b) == 2 and coin(rng) else []
    inputs = [integers(rng, ta, a), integers(rng, tb, b), scale_of(rng), scale_of(rng, lines),
              maybe(rng, zero_of(rng, ta)), maybe(rng, zero_of(rng, tb, lines)), maybe(rng, reals(rng, [b[-1]]))]
    return Case("MatMulIntegerToFloat", trim(inputs))


@case
def DynamicQuantizeMatMul(rng):
    a, b = matmul_shapes(rng)
    tb = byte_type(rng)
    lines = [b[-1]] if len(b) == 2 and coin(rng) else []
    inputs = [reals(rng, a), integers(rng, tb, b), scale_of(rng, lines), maybe(rng, zero_of(rng, tb, lines)),
              maybe(rng, reals(rng, [b[-1]]))]
    return Case("DynamicQuantizeMatMul", trim(inputs), tolerance=(1e-3, 1e-4))


@case
def QGemm(rng):
    m, k, n = size(rng, 1, 6), size(rng, 1, 20), size(rng, 1, 20)
    ta, tb = pick(rng, BYTE_PAIRS)
    trans_a, trans_b = int(coin(rng)), int(coin(rng))
    lines = [n] if coin(rng) else []
    inputs = [integers(rng, ta, [k, m] if trans_a else [m, k]), scale_of(rng), zero_of(rng, ta),
              integers(rng, tb, [n, k] if trans_b else [k, n]), scale_of(rng, lines), zero_of(rng, tb, lines),
              maybe(rng, rng.integers(-1000, 1000, pick(rng, [[m, n], [n], [1, n], [m, 1], []])).astype(np.int32))]
    if coin(rng):
        inputs += [scale_of(rng, (), 0.5, 2), zero_of(rng, ta)]
    return Case("QGemm", trim(inputs), {"transA": trans_a, "transB": trans_b, "alpha": float(rng.uniform(0.2, 2))},
                near=1, constants=set(range(1, 9)) - {6},
                output_types={0: (TensorProto.UINT8 if ta is np.uint8 else TensorProto.INT8) if len(inputs) > 7 else TensorProto.FLOAT})


@case
def MatMulInteger16(rng):
    a, b = matmul_shapes(rng)
    return Case("MatMulInteger16", [rng.integers(-900, 900, a).astype(np.int16), rng.integers(-900, 900, b).astype(np.int16)])


@case
def GatherBlockQuantized(rng):
    from onnx import helper
    form = pick(rng, ["int4", "uint4", "u8_4", "u8_8"])
    block, rank = pick(rng, [16, 32]), size(rng, 2, 3)
    shape = [size(rng, 1, 5) for _ in range(rank)]
    gather = 0 if form[0] == "u" and form[1] == "8" else size(rng, 0, rank - 1)
    quantize = rank - 1 if form.startswith("u8") else pick(rng, [i for i in range(rank) if i != gather] or [0])
    shape[quantize] = block * size(rng, 1, 3) if form == "u8_4" else size(rng, 1, 3 * block)
    if form == "u8_4" or form in ("int4", "uint4"):
        shape[-1] += shape[-1] % 2
    scales_shape = list(shape)
    scales_shape[quantize] = -(-shape[quantize] // block)
    attributes = {"gather_axis": gather, "quantize_axis": quantize, "block_size": block}
    zeros = coin(rng)

    def nibbles(type_, shape_, low, high):
        return helper.make_tensor("x", type_, shape_, rng.integers(low, high, int(np.prod(shape_))).tolist())
    if form == "int4":
        data, zero = nibbles(TensorProto.INT4, shape, -8, 8), nibbles(TensorProto.INT4, scales_shape, -8, 8)
    elif form == "uint4":
        data, zero = nibbles(TensorProto.UINT4, shape, 0, 16), nibbles(TensorProto.UINT4, scales_shape, 0, 16)
    else:
        attributes["bits"] = int(form[-1])
        each = 8 // attributes["bits"]
        data = integers(rng, np.uint8, [*shape[:-1], shape[-1] // each])
        zero = integers(rng, np.uint8, [*scales_shape[:-1], -(-scales_shape[-1] // each)])
    dtype = pick(rng, [np.float32, np.float16])
    indices = rng.integers(-shape[gather], shape[gather], dims(rng, 0, 2)).astype(pick(rng, [np.int32, np.int64]))
    inputs = [data, indices, scale_of(rng, scales_shape).astype(dtype), zero if zeros else None]
    return Case("GatherBlockQuantized", trim(inputs), attributes, constants={0, 2, 3})


@case
def DynamicQuantizeLSTM(rng):
    length, b, width, hidden = size(rng, 1, 4), size(rng, 1, 3), size(rng, 1, 6), size(rng, 1, 5)
    direction = pick(rng, ["forward", "reverse", "bidirectional"])
    n = 2 if direction == "bidirectional" else 1
    t = byte_type(rng)
    lines = [n, 4 * hidden] if coin(rng) else [n]
    low = np.zeros(lines, t) if t is np.int8 else np.full(lines, 128, t)
    state = lambda: reals(rng, [n, b, hidden], scale=0.5)
    inputs = [reals(rng, [length, b, width]), integers(rng, t, [n, width, 4 * hidden]), integers(rng, t, [n, hidden, 4 * hidden]),
              maybe(rng, reals(rng, [n, 8 * hidden])), maybe(rng, rng.integers(1, length + 1, b).astype(np.int32), 0.3),
              maybe(rng, state()), maybe(rng, state()), None, scale_of(rng, lines, 0.002, 0.01), low,
              scale_of(rng, lines, 0.002, 0.01), low]
    # ONNX Runtime also quantises the activations.
    return Case("DynamicQuantizeLSTM", inputs, {"hidden_size": hidden, "direction": direction}, [True, True, True],
                constants={1, 2, 8, 9, 10, 11}, tolerance=(5e-2, 3e-2))


# ------------------------------------------------------------------------------------------------ fused forms


def fused_matmul(name, batched):
    def draw(rng):
        m, k, n = size(rng, 1, 6), size(rng, 1, 20), size(rng, 1, 20)
        batch = dims(rng, 0, 2, 3)
        attributes = {"alpha": float(rng.uniform(-2, 2)), "transA": int(coin(rng)), "transB": int(coin(rng))}
        dtype = pick(rng, [np.float32, np.float32, np.float64]) if name == "FusedMatMul" else np.float32

        def side(rows, cols, letter, stack):
            if attributes[f"trans{letter}"]:
                rows, cols = cols, rows
            if batched and len(stack) and coin(rng, 0.4):
                attributes[f"transBatch{letter}"] = 1
                return reals(rng, [rows, *stack, cols], dtype)
            return reals(rng, [*stack, rows, cols], dtype)
        stacked = coin(rng)
        a = side(m, k, "A", batch)
        # ONNX Runtime takes a moved stack on both sides or on none.
        attributes |= {"transBatchB": 0} if batched else {}
        if attributes.get("transBatchA"):
            attributes["transBatchB"] = 1
            shape = [n, *batch, k] if attributes["transB"] else [k, *batch, n]
            b = reals(rng, shape, dtype)
        else:
            b = reals(rng, [*(batch if stacked else []), *([n, k] if attributes["transB"] else [k, n])], dtype)
        return Case(name, [a, b], attributes)
    CASES[name] = draw


fused_matmul("FusedMatMul", True)
fused_matmul("TransposeMatMul", False)


@case
def FusedGemm(rng):
    m, k, n = size(rng, 1, 6), size(rng, 1, 20), size(rng, 1, 20)
    trans_a, trans_b = int(coin(rng)), int(coin(rng))
    activation = pick(rng, ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Softplus", "Softsign", "ThresholdedRelu", "HardSigmoid"])
    attributes = {"transA": trans_a, "transB": trans_b, "alpha": float(rng.uniform(0.2, 2)), "activation": activation,
                  "beta": float(rng.uniform(0.2, 2)), "activation_alpha": float(rng.uniform(0.05, 0.5))}
    if activation == "HardSigmoid":
        attributes["activation_beta"] = float(rng.uniform(0.2, 0.6))
    bias = reals(rng, pick(rng, [[m, n], [n], [1, n], [m, 1], []]))
    return Case("FusedGemm", trim([reals(rng, [k, m] if trans_a else [m, k]), reals(rng, [n, k] if trans_b else [k, n]),
                                   maybe(rng, bias)]), attributes)


@case
def FusedConv(rng):
    rank, group = size(rng, 1, 2), size(rng, 1, 2)
    c, m, n = group * size(rng, 1, 3), group * size(rng, 1, 3), size(rng, 1, 2)
    kernel = [size(rng, 1, 3) for _ in range(rank)]
    spatial = [size(rng, 3, 8) for _ in range(rank)]
    name, params = pick(rng, [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4]),
                              ("Tanh", []), ("Sigmoid", [])])
    attributes = {"kernel_shape": kernel, "group": group, "activation": name}
    if params:
        attributes["activation_params"] = params
    added = None
    if coin(rng):
        added = reals(rng, [n, m, *[s - k + 1 for s, k in zip(spatial, kernel)]])
    elif coin(rng):
        attributes["pads"] = [size(rng, 0, 2) for _ in range(2 * rank)]
    return Case("FusedConv", trim([reals(rng, [n, c, *spatial]), reals(rng, [m, c // group, *kernel]),
                                   maybe(rng, reals(rng, [m])), added]), attributes, constants={1} if coin(rng) else set())


@case
def ConvTransposeWithDynamicPads(rng):
    rank, group = size(rng, 1, 2), size(rng, 1, 2)
    c, m, n = group * size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 2)
    kernel = [size(rng, 2, 4) for _ in range(rank)]
    strides = [size(rng, 1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": strides, "group": group}
    if coin(rng, 0.4):
        attributes["output_padding"] = [size(rng, 0, s - 1) for s in strides]
    pads = np.array([size(rng, 0, 1) for _ in range(2 * rank)], np.int64)
    return Case("ConvTransposeWithDynamicPads", trim([reals(rng, [n, c, *[size(rng, 2, 5) for _ in range(rank)]]),
                                                      reals(rng, [c, m, *kernel]), pads, maybe(rng, reals(rng, [m * group]))]), attributes)


@case
def MaxpoolWithMask(rng):
    rank = size(rng, 1, 3)
    shape = [size(rng, 1, 2), size(rng, 1, 3), *[size(rng, 3, 7) for _ in range(rank)]]
    attributes = pool_attributes(rng, rank)
    attributes.pop("ceil_mode", None)
    mask = (rng.random([1, 1, *shape[2:]]) < 0.8).astype(np.int32)
    return Case("MaxpoolWithMask", [reals(rng, shape), mask], attributes)


@case
def NhwcMaxPool(rng):
    rank = size(rng, 1, 3)
    shape = [size(rng, 1, 2), *[size(rng, 3, 7) for _ in range(rank)], size(rng, 1, 4)]
    return Case("NhwcMaxPool", [integers(rng, byte_type(rng), shape)], pool_attributes(rng, rank))


# ------------------------------------------------------------------------------------------------ tensors


@case
def Pad(rng):
    shape = dims(rng, 1, 4, low=2)
    mode = pick(rng, ["constant", "edge", "reflect"])
    pads = np.array([size(rng, 0, 1) for _ in range(2 * len(shape))], np.int64)
    if coin(rng, 0.3):
        pads = pads.reshape(1, -1)
    return Case("Pad", trim([reals(rng, shape), pads, maybe(rng, reals(rng, [1]))]), {"mode": mode})


@case
def GatherND(rng):
    shape = dims(rng, 1, 4)
    width = size(rng, 1, len(shape))
    outer = dims(rng, 0, 2)
    indices = np.stack([rng.integers(-d, d, outer) for d in shape[:width]], -1)
    data = pick(rng, [reals(rng, shape), integers(rng, np.int8, shape), reals(rng, shape).astype(str).astype(object)])
    return Case("GatherND", [data, indices.astype(pick(rng, [np.int32, np.int64]))])


@case
def ExpandDims(rng):
    shape = dims(rng, 0, 4)
    return Case("ExpandDims", [reals(rng, shape), np.array(size(rng, -len(shape) - 1, len(shape)), np.int32)], constants={1})


@case
def Trilu(rng):
    shape = dims(rng, 2, 4)
    return Case("Trilu", trim([reals(rng, shape, pick(rng, [np.float32, np.float64])),
                               maybe(rng, np.array(size(rng, -4, 4), np.int64))]), {"upper": int(coin(rng))})


@case
def Range(rng):
    dtype = pick(rng, [np.float32, np.float64, np.int16, np.int32, np.int64])
    start, delta = size(rng, -5, 5), pick(rng, [1, 2, 3, -1, -2])
    given = coin(rng, 0.7)
    limit = start + size(rng, 0, 12) * (delta if given else 1)
    shape = [] if coin(rng) else [1]
    number = lambda v: np.full(shape, v, dtype)
    return Case("Range", [number(start), number(limit)] + ([number(delta)] if given else []))


@case
def Unique(rng):
    return Case("Unique", [rng.integers(0, 6, size(rng, 1, 20)).astype(np.float32)], {}, [True, True, True])


@case
def GridSample(rng):
    n, c, h, w = size(rng, 1, 2), size(rng, 1, 3), size(rng, 2, 6), size(rng, 2, 6)
    grid = rng.uniform(-1.5, 1.5, [n, size(rng, 1, 5), size(rng, 1, 5), 2]).astype(np.float32)
    attributes = {"mode": pick(rng, ["bilinear", "nearest", "bicubic"]), "align_corners": int(coin(rng)),
                  "padding_mode": pick(rng, ["zeros", "border", "reflection"])}
    if attributes["mode"] == "bicubic" and attributes["padding_mode"] == "border":
        # ONNX Runtime clamps the places of the pixels; the standard clamps the place that they are weighted for.
        attributes["padding_mode"] = "zeros"
    return Case("GridSample", [reals(rng, [n, c, h, w]), grid], attributes)


@case
def UnfoldTensor(rng):
    shape = dims(rng, 1, 4, high=8)
    dim = size(rng, -len(shape), len(shape) - 1)
    attributes = {"dim": dim, "size": size(rng, 1, shape[dim]), "step": size(rng, 1, 3)}
    return Case("UnfoldTensor", [pick(rng, [reals(rng, shape), integers(rng, np.int64, shape)])], attributes)


@case
def SampleOp(rng):
    return Case("SampleOp", [reals(rng, dims(rng, 0, 3))])


@case
def CropAndResize(rng):
    n, rois = size(rng, 1, 3), size(rng, 1, 4)
    corners = rng.uniform(-0.1, 1.1, [rois, 4]).astype(np.float32)
    return Case("CropAndResize", [reals(rng, [n, size(rng, 1, 3), size(rng, 1, 7), size(rng, 1, 7)]), corners,
                                  rng.integers(0, n, rois).astype(np.int32),
                                  np.array([size(rng, 1, 5), size(rng, 1, 5)], np.int32)],
                {"mode": pick(rng, ["bilinear", "nearest"]), "extrapolation_value": float(rng.uniform(-1, 1))})


# ------------------------------------------------------------------------------------------------ others


@case
def Inverse(rng):
    n = size(rng, 1, 6)
    dtype = pick(rng, [np.float32, np.float64, np.float16])
    matrices = reals(rng, [*dims(rng, 0, 2, 3), n, n], np.float64) + 3 * np.eye(n)
    return Case("Inverse", [matrices.astype(dtype)],
                tolerance={np.float32: (1e-3, 1e-4), np.float64: (1e-9, 1e-10), np.float16: (5e-2, 2e-2)}[dtype])


@case
def CDist(rng):
    k = size(rng, 1, 20)
    dtype = pick(rng, [np.float32, np.float64])
    return Case("CDist", [reals(rng, [size(rng, 1, 8), k], dtype), reals(rng, [size(rng, 1, 8), k], dtype)],
                {"metric": pick(rng, ["sqeuclidean", "euclidean"])}, tolerance=(1e-3, 1e-3) if dtype is np.float32 else (1e-7, 1e-7))


@case
def MurmurHash3(rng):
    shape = dims(rng, 0, 3)
    t = pick(rng, [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, str])
    if t is str:
        x = np.array(["".join(chr(size(rng, 32, 300)) for _ in range(size(rng, 0, 9))) for _ in range(int(np.prod(shape)))],
                     object).reshape(shape)
    else:
        x = reals(rng, shape, t) if t in (np.float32, np.float64) else integers(rng, t, shape)
    return Case("MurmurHash3", [x], {"seed": size(rng, 0, 2**31 - 1), "positive": (positive := int(coin(rng)))},
                output_types={0: TensorProto.UINT32 if positive else TensorProto.INT32})


@case
def DynamicTimeWarping(rng):
    shape = [size(rng, 1, 9), size(rng, 1, 9)]
    return Case("DynamicTimeWarping", [reals(rng, [1, *shape] if coin(rng) else shape)])


@case
def NGramRepeatBlock(rng):
    b, words = size(rng, 1, 3), size(rng, 2, 6)
    return Case("NGramRepeatBlock", [rng.integers(0, words, [b, size(rng, 1, 12)]).astype(np.int64), reals(rng, [b, words])],
                {"ngram_size": size(rng, 1, 4)})


@case
def BifurcationDetector(rng):
    words, n = size(rng, 2, 5), size(rng, 1, 8)
    tokens = lambda k: rng.integers(0, words, k).astype(np.int64)
    source, start = tokens(n), size(rng, 0, n)
    predicted = np.concatenate([source[start:], tokens(1)])
    if coin(rng) and len(predicted) > 1:
        predicted[size(rng, 0, len(predicted) - 1)] = 99
    shortest = size(rng, 1, 3)
    attributes = {"min_ngram_size": shortest, "max_ngram_size": shortest + size(rng, 0, 2)} if coin(rng) else {}
    return Case("BifurcationDetector", trim([source, tokens(size(rng, 1, 5)), np.array(start, np.int64),
                                             maybe(rng, predicted, 0.8)]), attributes, [True, True])


@case
def GatedAdd(rng):
    shape = dims(rng, 1, 4)
    dtype = pick(rng, [np.float32, np.float16])
    return Case("GatedAdd", [reals(rng, shape, dtype), reals(rng, shape, dtype), reals(rng, [*shape[:-1], 1], dtype)])


@case
def GatedRMSNorm(rng):
    c, heads = size(rng, 1, 16), size(rng, 1, 3)
    shape = [*dims(rng, 0, 2), c * heads]
    dtype = pick(rng, [np.float32, np.float16])
    attributes = {"activation": pick(rng, ["silu", "swish", "sigmoid"]), "epsilon": float(rng.uniform(1e-6, 1e-2))}
    return Case("GatedRMSNorm", [reals(rng, shape, dtype), reals(rng, [c], dtype), reals(rng, shape, dtype)], attributes)


# ------------------------------------------------------------------------------------------------ large models


@case
def LinearAttention(rng):
    b, length, kv, group, dk, dv = size(rng, 1, 2), size(rng, 1, 5), size(rng, 1, 3), size(rng, 1, 2), size(rng, 1, 6), size(rng, 1, 6)
    rule = pick(rng, ["linear", "gated", "delta", "gated_delta"])
    heads = kv * group
    past = maybe(rng, reals(rng, [b, kv, dk, dv]))
    decay = -np.abs(reals(rng, [b, length, pick(rng, [kv, kv * dk])])) if "gated" in rule else None
    beta = rng.uniform(0, 1, [b, length, kv]).astype(np.float32) if "delta" in rule else None
    attributes = {"q_num_heads": heads, "kv_num_heads": kv, "update_rule": rule}
    if coin(rng):
        attributes["scale"] = float(rng.uniform(0.1, 1))
    return Case("LinearAttention", trim([reals(rng, [b, length, heads * dk]), reals(rng, [b, length, kv * dk], scale=0.4),
                                         reals(rng, [b, length, kv * dv]), past, decay, beta]), attributes, [True, True])


@case
def LinearAttentionGate(rng):
    b, length, heads = size(rng, 1, 3), size(rng, 1, 4), size(rng, 1, 6)
    dtype = pick(rng, [np.float32, np.float16])
    both = coin(rng)
    return Case("LinearAttentionGate", trim([reals(rng, [b, length, heads], dtype), reals(rng, [heads]), -np.abs(reals(rng, [heads])),
                                             reals(rng, [b, length, heads], dtype) if both else None]), {}, [True, True] if both else [True])


@case
def CausalConvWithState(rng):
    b, c, length, k = size(rng, 1, 3), size(rng, 1, 5), size(rng, 1, 7), size(rng, 1, 4)
    attributes = {"activation": pick(rng, ["none", "silu", "swish"])}
    dilation = size(rng, 1, 3) if coin(rng, 0.4) else 1
    if dilation > 1:
        attributes["dilation"] = dilation
    state = (k - 1) * dilation
    x, past = reals(rng, [b, c, length]), maybe(rng, reals(rng, [b, c, state])) if state else None
    if coin(rng, 0.4):
        attributes["channels_last"] = 1
        rest = [c, 1] if coin(rng) else [c]
        x = reals(rng, [b, length, *rest])
        past = reals(rng, [b, state, *rest]) if past is not None else None
    return Case("CausalConvWithState", trim([x, reals(rng, [c, 1, k]), maybe(rng, reals(rng, [c])), past]), attributes,
                [True, True])


@case
def MRotaryEmbedding(rng):
    b, s, heads = size(rng, 1, 3), size(rng, 1, 5), size(rng, 1, 4)
    section = [size(rng, 1, 4) for _ in range(3)] if coin(rng) else [4, 2, 2]
    half, four, partial = sum(section), coin(rng), coin(rng, 0.3)
    width = 2 * half + (2 * size(rng, 1, 4) if partial else 0)
    attributes = {"interleaved": int(coin(rng)), "mrope_section": section, "mrope_layout": int(coin(rng))}
    if partial:
        attributes |= {"rotary_embedding_dim": 2 * half, "num_heads": heads}
    elif not four:
        attributes["num_heads"] = heads
    rows = s + size(rng, 0, 8)
    return Case("MRotaryEmbedding", [reals(rng, [b, heads, s, width] if four else [b, s, heads * width]),
                                     rng.integers(0, rows, (3, b, s)).astype(np.int64), reals(rng, [rows, half]),
                                     reals(rng, [rows, half])], attributes)


@case
def QLinearConv(rng):
    rank, group, last = size(rng, 1, 2), size(rng, 1, 2), int(coin(rng))
    c, m, n = group * size(rng, 1, 3), group * size(rng, 1, 3), size(rng, 1, 2)
    kernel, spatial = [size(rng, 1, 3) for _ in range(rank)], [size(rng, 3, 7) for _ in range(rank)]
    t, tw = pick(rng, BYTE_PAIRS)
    lines = [m] if coin(rng) else []
    zero = np.zeros(lines, tw) if tw is np.int8 else np.full(lines, 128, tw)
    inputs = [integers(rng, t, [n, *spatial, c] if last else [n, c, *spatial]), scale_of(rng), zero_of(rng, t),
              integers(rng, tw, [m, c // group, *kernel]), scale_of(rng, lines), zero, scale_of(rng, (), 0.5, 2),
              zero_of(rng, t), maybe(rng, rng.integers(-500, 500, m).astype(np.int32))]
    return Case("QLinearConv", trim(inputs), {"kernel_shape": kernel, "group": group, "channels_last": last}, near=1)


@case
def MatMulBnb4(rng):
    n, k, block = size(rng, 1, 12), 16 * size(rng, 1, 4), pick(rng, [16, 32, 64])
    return Case("MatMulBnb4", [reals(rng, [*dims(rng, 1, 2), k]), integers(rng, np.uint8, [(n * k + 1) // 2]),
                               scale_of(rng, [-(-n * k // block)], 0.1, 2)],
                {"N": n, "K": k, "block_size": block, "quant_type": size(rng, 0, 1), "transB": 1}, tolerance=(1e-3, 1e-4))


def mixture(rng):
    tokens, experts, hidden, inner = size(rng, 1, 6), size(rng, 1, 5), 16 * size(rng, 1, 2), 16 * size(rng, 1, 2)
    activation = pick(rng, ["relu", "gelu", "silu", "identity", "swiglu"])
    attributes = {"k": size(rng, 1, min(2, experts)), "activation_type": activation, "normalize_routing_weights": int(coin(rng))}
    if activation == "swiglu":
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0}
    return tokens, experts, hidden, inner, inner * (2 if activation == "swiglu" else 1), attributes


@case
def MoE(rng):
    tokens, experts, hidden, inner, wide, attributes = mixture(rng)
    inputs = [reals(rng, [tokens, hidden]), reals(rng, [tokens, experts]), reals(rng, [experts, wide, hidden], scale=0.3),
              maybe(rng, reals(rng, [experts, wide])), reals(rng, [experts, hidden, inner], scale=0.3),
              maybe(rng, reals(rng, [experts, hidden]))]
    return Case("MoE", trim(inputs), attributes, constants={2, 4} if coin(rng) else set())


@case
def QMoE(rng):
    tokens, experts, hidden, inner, wide, attributes = mixture(rng)
    bits, block = pick(rng, [4, 8]), pick(rng, [0, 16])
    attributes |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    each = 8 // bits

    def layer(rows, columns):
        lines = [experts, rows] + ([columns // block] if block else [])
        return integers(rng, np.uint8, [experts, rows, columns // each]), scale_of(rng, lines, 0.01, 0.05) / (1 if bits == 4 else 16)
    w1, s1 = layer(wide, hidden)
    w2, s2 = layer(hidden, inner)
    inputs = [reals(rng, [tokens, hidden]), reals(rng, [tokens, experts]), w1, s1.astype(np.float32), maybe(rng, reals(rng, [experts, wide])),
              w2, s2.astype(np.float32), maybe(rng, reals(rng, [experts, hidden]))]
    # ONNX Runtime rounds activations to 8 bits where weights have 8 in blocks.
    return Case("QMoE", trim(inputs), attributes, constants={2, 3, 5, 6}, tolerance=(3e-2, 3e-2) if bits == 8 else (2e-3, 1e-3))
