"""Random cases of operators on branches of features, of n-gram hashes and of SparseAttention, for ../contrib.py.

ONNX Runtime's defect that the cases stay away from: SparseAttention takes the weights of a sample whose length is not
total_sequence_length from the wrong place, and rotates new rows of all samples as those of the first: all lengths are
the same.
"""
import numpy as np

from cases.contrib import Case, case, coin, dims, maybe, pick, reals, size, trim


def floating(rng):
    return pick(rng, [np.float32, np.float32, np.float16])


def streams(rng):
    """x as [..., branches, features] or with the last two in one, and the attribute that says so."""
    lead, branches, features = dims(rng, 0, 3, 4), size(rng, 1, 4), size(rng, 1, 9)
    flat = coin(rng) or not lead and coin(rng)
    x = reals(rng, [*lead, branches * features] if flat else [*lead, branches, features], floating(rng))
    return lead, branches, features, x, ({"num_branches": branches} if flat else {})


@case
def BranchwiseRMSNorm(rng):
    lead, branches, features, x, attributes = streams(rng)
    if coin(rng):
        attributes["epsilon"] = 0.01
    shape = pick(rng, [[branches * features], [branches, features], [features]])
    return Case("BranchwiseRMSNorm", trim([x, maybe(rng, reals(rng, shape, floating(rng)), 0.7)]), attributes)


@case
def HyperConnectionPreMix(rng):
    lead, branches, features, x, attributes = streams(rng)
    tails = [[branches], [branches, 1], [branches, features], *([[branches * features]] if attributes else [])]
    if coin(rng):
        attributes["reduction_scale"] = 0.5
    return Case("HyperConnectionPreMix", [x, reals(rng, [*lead, *pick(rng, tails)], floating(rng))], attributes)


@case
def HyperConnectionPostMix(rng):
    lead, branches, features, x, attributes = streams(rng)
    tail, kind = pick(rng, [[branches], [branches, 1], [branches, features]]), floating(rng)
    mix = maybe(rng, reals(rng, [*lead, branches, branches], kind))
    return Case("HyperConnectionPostMix", trim([x, reals(rng, [*lead, features], x.dtype), reals(rng, [*lead, *tail], kind), mix]),
                attributes)


@case
def EngramGate(rng):
    kind = floating(rng)
    batch, length, branches, features = dims(rng, 4, 4, 5)
    features *= size(rng, 1, 4)
    full, scale = [batch, length, branches, features], [branches, features]
    normed = coin(rng)
    attributes = {"epsilon": 0.01} if coin(rng) else {}
    inputs = [reals(rng, full, kind), reals(rng, full, kind), reals(rng, [batch, length, features], kind),
              reals(rng, scale, kind), reals(rng, scale, kind), reals(rng, scale, kind) if normed or coin(rng) else None]
    return Case("EngramGate", trim(inputs), attributes, [True, normed])


@case
def ScaledSiLU(rng):
    x = reals(rng, dims(rng, 0, 4), floating(rng), 2)
    attributes = {"alpha": 1.5} if coin(rng) else {}
    return Case("ScaledSiLU", trim([x, maybe(rng, reals(rng, [], floating(rng)))]), attributes)


def ngrams(rng):
    kind = pick(rng, [np.int32, np.int64])
    longest, heads = size(rng, 2, 5), size(rng, 1, 3)
    attributes = {"max_ngram_size": longest, "n_head_per_ngram": heads, "pad_id": size(rng, 0, 9)}
    if coin(rng):
        attributes["reset_on_eos"] = 1
    big = np.iinfo(kind).max
    multipliers = rng.integers(-big, big, longest + size(rng, 0, 2)).astype(kind)
    sizes = rng.integers(1, 1000, (longest - 1) * heads).astype(kind)
    offsets = maybe(rng, rng.integers(0, 10**6, sizes.shape).astype(kind))
    eos = maybe(rng, np.array(size(rng, 0, 9), kind))
    return kind, longest, attributes, multipliers, sizes, offsets, eos


@case
def NGramHashMapping(rng):
    kind, longest, attributes, multipliers, sizes, offsets, eos = ngrams(rng)
    batch, length = size(rng, 1, 3), size(rng, 1, 9)
    past = maybe(rng, rng.integers(0, 10, [batch, longest - 1]).astype(kind))
    segments = maybe(rng, np.sort(rng.integers(0, 3, [batch, length]), axis=1).astype(np.int32))
    inputs = [rng.integers(0, 10, [batch, length]).astype(kind), multipliers, sizes, past, offsets, eos, segments]
    return Case("NGramHashMapping", trim(inputs), attributes, [True, coin(rng)])


@case
def VarlenNGramHashMapping(rng):
    kind, longest, attributes, multipliers, sizes, offsets, eos = ngrams(rng)
    lengths = dims(rng, 1, 3, 5)
    batch, total = len(lengths), sum(lengths)
    bounds = np.array([0, *np.cumsum(lengths)], np.int32)
    past = maybe(rng, rng.integers(0, 10, [batch, longest - 1]).astype(kind))
    segments = maybe(rng, rng.integers(0, 3, [total]).astype(np.int32))
    past_segments, capture = None, None
    if segments is not None and past is not None:
        past_segments = maybe(rng, rng.integers(0, 3, [batch, longest - 1]).astype(np.int32))
    if coin(rng, 0.4):
        attributes["state_update_capacity"] = size(rng, 1, 8)
        capture = rng.integers(-1, 7, [batch]).astype(np.int32)
    inputs = [rng.integers(0, 10, [total]).astype(kind), multipliers, sizes, bounds, past, offsets, eos, segments,
              past_segments, capture]
    return Case("VarlenNGramHashMapping", trim(inputs), attributes,
                [True, coin(rng), segments is not None and coin(rng), capture is not None and coin(rng)])


# ------------------------------------------------------------------------------------------------ SparseAttention


def layouts(rng, count, blocks):
    """Blocks that each block of queries sees: itself, and some before it."""
    rows, cols = [], []
    for _ in range(count):
        density = rng.random()
        seen = [[c for c in range(r) if rng.random() < density] + [r] for r in range(blocks)]
        rows.append([0, *np.cumsum([len(s) for s in seen])])
        cols.append([c for s in seen for c in s])
    width = max(map(len, cols))
    return (np.array(rows, np.int32),
            np.array([c + [-1] * (width - len(c)) for c in cols], np.int32))


@case
def SparseAttention(rng):
    kind = floating(rng)
    kv_heads, factor, head, block = size(rng, 1, 2), size(rng, 1, 3), 8 * size(rng, 1, 3), pick(rng, [16, 32])
    heads, batch, blocks = kv_heads * factor, size(rng, 1, 2), size(rng, 1, 4)
    room = block * blocks
    prompt = coin(rng)
    length = size(rng, 1, room) if prompt else size(rng, 1, 3)
    total = length if prompt else size(rng, length, room - 1) + 1 if length < room else length
    total = min(total, room)
    lengths = np.full([batch], total, np.int32)
    rotary = coin(rng)
    if rotary:
        head = 16 * size(rng, 1, 2)
    rows, cols = layouts(rng, pick(rng, [1, heads]), blocks)
    packed = coin(rng)
    query = reals(rng, [batch, length, (heads + 2 * kv_heads if packed else heads) * head], kind)
    key, value = (None, None) if packed else (reals(rng, [batch, length, kv_heads * head], kind) for _ in range(2))
    caches = [reals(rng, [batch, kv_heads, room, head], kind) for _ in range(2)]
    tables = [reals(rng, [room + size(rng, 0, 3), head // 2], kind) for _ in range(2)] if rotary else []
    if rotary:
        tables[1] = tables[1][:len(tables[0])] if len(tables[1]) >= len(tables[0]) else reals(rng, tables[0].shape, kind)
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "sparse_block_size": block, "do_rotary": int(rotary)}
    if rotary and coin(rng):
        attributes["rotary_interleaved"] = 1
    if coin(rng):
        attributes["scale"] = 0.3
    return Case("SparseAttention", [query, key, value, *caches, rows, cols, np.array([total], np.int32), lengths, *tables],
                attributes, [True, True, True], shared={3: 1, 4: 2},
                tolerance=(2e-2, 2e-2) if kind == np.float16 else None, variables=set(range(11)))
