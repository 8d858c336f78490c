"""Random cases of com.microsoft's operators, for contrib.py: one function for each operator draws one case."""
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


def score_bias(rng, b, heads, s, total):
    return reals(rng, [pick(rng, [1, b]), pick(rng, [1, heads]), s, total])


@case
def MultiHeadAttention(rng):
    b, s, heads, width = size(rng, 1, 3), size(rng, 1, 6), size(rng, 1, 4), size(rng, 1, 12)
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
    return Case("MultiHeadAttention", trim(inputs), attributes, outputs, output_types={3: TensorProto.FLOAT})


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
    return size(rng, 1, 3), size(rng, 1, 6), size(rng, 1, 4), size(rng, 1, 10), size(rng, 1, 20)


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
                [True, True] if has_past or (v_width == width and coin(rng)) else [True], constants={1} if coin(rng) else set())


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
                [True, True] if has_past or coin(rng) else [True])


@case
def GroupQueryAttention(rng):
    b, kv_heads, group, half = size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 4)
    heads, width = kv_heads * group, 16 * half
    form = pick(rng, ["prompt", "token", "more"])
    b = 1 if form == "more" else b
    dtype = pick(rng, [np.float32, np.float32, np.float16])
    s = size(rng, 1, 6) if form == "prompt" else 1 if form == "token" else size(rng, 2, 4)
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
