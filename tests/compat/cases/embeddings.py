"""Random cases of older operators of com.microsoft, for ../contrib.py.

ONNX Runtime's defects that the cases stay away from: WordConvEmbedding leaves the rows of words without characters as
they were in memory; MatMulFpQ4 takes blk_quant_type 2 for 1.
"""
import numpy as np

from cases.contrib import Case, case, coin, dims, maybe, pick, reals, size, trim


@case
def WordConvEmbedding(rng):
    words, length, characters, width = size(rng, 1, 5), size(rng, 2, 9), size(rng, 3, 12), size(rng, 1, 6)
    window, filters = size(rng, 1, length), size(rng, 1, 6)
    ids = rng.integers(1, characters, [words, length]).astype(np.int32)
    for row in ids:
        row[size(rng, 1, length):] = 0
    attributes = {}
    if coin(rng):
        attributes = {"embedding_size": filters, "conv_window_size": window, "char_embedding_size": width}
    return Case("WordConvEmbedding", [ids, reals(rng, [filters, 1, window, width]), reals(rng, [filters]),
                                      reals(rng, [characters, width])], attributes)


@case
def MatMulFpQ4(rng):
    kind = size(rng, 0, 1)
    k, n = size(rng, 1, 100), size(rng, 1, 40)
    blob = bytearray()
    for _ in range(n * -(-k // 32)):
        blob += np.float32(rng.uniform(-1, 1)).tobytes()
        blob += bytes([size(rng, 0, 15)]) if kind else b""
        blob += rng.integers(0, 256, 16).astype(np.uint8).tobytes()
    a = reals(rng, [*dims(rng, 1, 3, 4), k])
    return Case("MatMulFpQ4", [a, np.frombuffer(bytes(blob), np.uint8).copy(), np.array([k, n], np.int64)],
                {"blk_quant_type": kind} if kind == 0 or coin(rng) else {}, tolerance=(1e-3, 1e-3))


@case
def QEmbedLayerNormalization(rng):
    kind = pick(rng, [np.uint8, np.int8])
    batch, length, hidden = size(rng, 1, 3), size(rng, 1, 6), 4 * size(rng, 1, 4)
    words, places, kinds = size(rng, 1, 9), length + size(rng, 0, 3), size(rng, 1, 3)
    segments = coin(rng)

    def ids(limit):
        return rng.integers(0, limit, [batch, length]).astype(np.int32)

    def table(*shape):
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max + 1, shape).astype(kind)

    def one(value, present=True):
        return np.array(value) if present else None

    has = [True, True, segments, True, True]
    scales = [one(np.float32(rng.uniform(0.001, 0.05)), h) for h in has]
    zeros = [one(table(1)[0], h) for h in has]
    mask = maybe(rng, (np.arange(length) < rng.integers(1, length + 1, [batch, 1])).astype(np.int32))
    inputs = [ids(words), ids(kinds) if segments else None, table(words, hidden), table(places, hidden),
              table(kinds, hidden) if segments else None, table(hidden), table(hidden), mask, *scales, *zeros]
    return Case("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5} if coin(rng) else {}, [True, True],
                tolerance=(1e-3, 1e-4))


@case
def AttnLSTM(rng):
    steps, batch, width, hidden = size(rng, 1, 5), size(rng, 1, 3), size(rng, 1, 5), size(rng, 1, 5)
    slots, depth, attention = size(rng, 1, 5), size(rng, 1, 4), size(rng, 1, 4)
    direction = pick(rng, ["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    layer = coin(rng)
    seen = size(rng, 1, 4) if layer else depth
    attributes = {"hidden_size": hidden, "direction": direction}
    if coin(rng, 0.3):
        attributes["input_forget"] = 1
    if coin(rng, 0.3):
        attributes["clip"] = 0.7
    if coin(rng, 0.3):
        attributes["activations"] = ["HardSigmoid", "Relu", "Softsign"] * d
    y, h, c = coin(rng, 0.8), True, coin(rng)
    # Without the output Y, ONNX Runtime goes on with the state of samples that have ended.
    lengths = maybe(rng, rng.integers(1, steps + 1, [batch]).astype(np.int32)) if y else None
    inputs = [reals(rng, [steps, batch, width]), reals(rng, [d, 4 * hidden, width + seen]),
              reals(rng, [d, 4 * hidden, hidden]), maybe(rng, reals(rng, [d, 8 * hidden])), lengths,
              maybe(rng, reals(rng, [d, batch, hidden])), maybe(rng, reals(rng, [d, batch, hidden])),
              maybe(rng, reals(rng, [d, 3 * hidden])), reals(rng, [d, hidden, attention]),
              reals(rng, [d, depth, attention]), reals(rng, [d, attention]), reals(rng, [batch, slots, depth]),
              maybe(rng, rng.integers(1, slots + 1, [batch]).astype(np.int32)),
              reals(rng, [d, depth + hidden, seen]) if layer else None]
    return Case("AttnLSTM", trim(inputs), attributes, [y, h, c], tolerance=(1e-3, 1e-4))


@case
def Tokenizer(rng):
    letters = list("abcABC012 .,-_ \t") + ["é", "ß", "中", "😀"]
    def text():
        return "".join(letters[int(i)] for i in rng.integers(0, len(letters), size(rng, 0, 15)))
    shape = dims(rng, 1, 2, 4, 0) if coin(rng, 0.1) else dims(rng, 1, 2, 4)
    x = np.array([text() for _ in range(int(np.prod(shape)))], object).reshape(shape)
    attributes = {"mark": int(coin(rng)), "pad_value": pick(rng, ["#", "", "<pad>"]), "mincharnum": pick(rng, [1, 1, 2, 3])}
    kind = size(rng, 0, 3)
    if kind == 0:
        attributes.update(mincharnum=1, **pick(rng, [{"separators": [""]}, {"tokenexp": "."}]))
    elif kind == 1:
        attributes["tokenexp"] = pick(rng, ["[a-z]+", "[a-zA-Z]+|[0-9]+", "\\w+", "a|ab|abc", "é+", "[^ ]*", "\\pL+", "x*", "\\b[a-c]+"])
    else:
        choice = [" ", "\\s+", ",", "[.,]", "-|_", "a", "é", "b*", "\\s", "(ab|a)", "$"]
        attributes["separators"] = [pick(rng, choice) for _ in range(size(rng, 1, 3))]
    return Case("Tokenizer", [x], attributes, variables={0}, output_types={0: 8})
