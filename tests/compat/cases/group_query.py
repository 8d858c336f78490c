"""Random cases of attention with other caches, for ../contrib.py: of small integers, of a window alone, shared by beams."""
import numpy as np

from cases.contrib import CASES, Case, coin, pick, reals, size, trim


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


@case("GroupQueryAttention.integers")
def integers(rng):
    """ONNX Runtime rounds queries to eight bits on some CPUs where it multiplies them with keys of eight."""
    c = CASES["GroupQueryAttention"](rng)
    c.inputs += [None] * (14 - len(c.inputs))
    kv_heads, heads = c.attributes["kv_num_heads"], c.attributes["num_heads"]
    packed = c.inputs[1] is None
    width = c.inputs[0].shape[2] // (heads + 2 * kv_heads if packed else heads)
    bits = pick(rng, [4, 8])
    c.attributes |= {"kv_cache_bit_width": bits, "k_quant_type": pick(rng, ["PER_TENSOR", "PER_CHANNEL"])}
    c.attributes["v_quant_type"] = c.attributes["k_quant_type"]
    for i in (3, 4):
        rows = 0 if c.inputs[i] is None else c.inputs[i].shape[2]
        shape = [c.inputs[0].shape[0], kv_heads, rows, width]
        if bits == 8:
            c.inputs[i] = rng.integers(-128, 128, shape).astype(np.int8)
        else:
            c.inputs[i] = rng.integers(0, 256, [*shape[:3], width // 2]).astype(np.uint8)
    for i in (12, 13):
        shape = [1] if c.attributes["k_quant_type"] == "PER_TENSOR" else [1, kv_heads, 1, width]
        c.inputs[i] = rng.uniform(0.02, 0.05, shape).astype(np.float32) * (1 if bits == 8 else 8)
    c.tolerance = (5e-2, 5e-2)
    if bits == 4:  # two numbers in a byte, each of which may be one off
        used = c.compare[1]
        def nibbles(x):
            x = used(x)
            return np.stack([x & 15, x >> 4], -1)
        c.compare = {1: nibbles, 2: nibbles}
    c.near = 1
    kind = 3 if bits == 8 else 2
    c.output_types = {1: kind, 2: kind}
    c.variables |= {12, 13}
    return c


def resident(tokens, room, window):
    if tokens <= room:
        return tokens
    step = room - window + 1
    return tokens - step * -(-(tokens - room) // step)


@case("GroupQueryAttention.window")
def window(rng):
    b, kv_heads, group, width = size(rng, 1, 2), size(rng, 1, 2), size(rng, 1, 2), 16 * size(rng, 1, 2)
    heads = kv_heads * group
    dtype = pick(rng, [np.float32, np.float16])
    reach = size(rng, 1, 6)
    room = reach + size(rng, 0, 4)
    prompt = coin(rng)
    s = size(rng, 1, 9) if prompt else 1
    total = s if prompt else size(rng, 2, 20)
    lens = np.full(b, total - 1, np.int32)
    packed = coin(rng, 0.3)
    query = reals(rng, [b, s, (heads + 2 * kv_heads if packed else heads) * width], dtype)
    key, value = [None if packed else reals(rng, [b, s, kv_heads * width], dtype) for _ in range(2)]
    pasts = [reals(rng, [b, kv_heads, room, width], dtype) for _ in range(2)]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "sliding_window_cache": 1, "local_window_size": reach}
    cos = sin = None
    if coin(rng):
        attributes["do_rotary"] = 1
        cos, sin = [reals(rng, [32, width // 2], dtype) for _ in range(2)]
    left = resident(total, room, reach)
    def used(x):
        return x[:, :, :left]
    return Case("GroupQueryAttention", trim([query, key, value, *pasts, lens, np.array(total, np.int32), cos, sin]), attributes,
                [True, True, True], compare={1: used, 2: used}, variables=set(range(9)),
                tolerance=(2e-2, 2e-2) if dtype is np.float16 else None)


def beams_case(rng, op):
    """Beams that share a cache: for each of them and each token, in whose part of it the token is."""
    b, width, heads, head = size(rng, 1, 2), size(rng, 1, 4), size(rng, 1, 3), 8 * size(rng, 1, 2)
    room = size(rng, 2, 9)
    past = size(rng, 1, room - 1)
    rows, hidden = b * width, heads * head
    q, k, v = (reals(rng, [rows, 1, hidden]) for _ in range(3))
    caches = [reals(rng, [rows, heads, room, head]) for _ in range(2)]
    beams = rng.integers(0, width, [b, width, room]).astype(np.int32)
    length = np.array([past], np.int32)
    attributes = {"num_heads": heads} | ({"scale": 0.3} if coin(rng) else {})
    if op == "MultiHeadAttention":
        inputs = [q, k, v, None, None, None, *caches, length, beams]
    else:
        attributes["past_present_share_buffer"] = 1
        inputs = [q, k, v, None, None, *caches, length, np.array([width], np.int32), beams]
    def used(x):
        return x[:, :, :past + 1]
    i = 6 if op == "MultiHeadAttention" else 5
    return Case(op, inputs, attributes, [True, True, True], compare={1: used, 2: used}, variables=set(range(11)),
                shared={i: 1, i + 1: 2})


@case("MultiHeadAttention.beams")
def many_beams(rng):
    return beams_case(rng, "MultiHeadAttention")


@case("DecoderMaskedMultiHeadAttention.beams")
def decoder_beams(rng):
    return beams_case(rng, "DecoderMaskedMultiHeadAttention")
