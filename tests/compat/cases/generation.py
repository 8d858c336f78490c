"""Random cases of the operators that generate tokens, for ../contrib.py.

The bodies are small networks that look at everything they are given: the token, its position, the mask, and a cache in
which every earlier token counts.

ONNX Runtime's defects that the cases stay away from:
- rows of a batch that end early leave the rest of GreedySearch's and Sampling's output as it was in memory: only what
  was generated is compared;
- BeamSearch without early_stopping decides whether sample b > 0 is done by the scores of other samples (it steps by
  num_beams through a list of 2 * num_beams): more than one sample comes with early_stopping only;
- the steps that BeamSearch did not take leave its output `scores` as it was in memory: wanted only where nothing ends;
- an encoder with scores and max_length 2 (for Whisper: one more than the prompt) runs the decoder without a token;
- BeamSearch takes the optional min_length for the required max_length when it looks for what is missing: always given;
- Sampling subtracts the whole presence penalty from the first score: never drawn;
- a vocab_size below the width of the scores reads rows at the wrong place: one sample and one token at a time only.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from cases.contrib import Case, case, coin, maybe, pick, reals, size, trim

INT, FLOAT = TensorProto.INT32, TensorProto.FLOAT


class Body:
    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.count = rng, [], [], 0

    def op(self, kind, *inputs, out=None, **attributes):
        self.count += 1
        name = out or f"v{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def const(self, array):
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{self.count}"))
        return f"c{self.count}"

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def graph(self, name, inputs, outputs):
        info = helper.make_tensor_value_info
        return helper.make_graph(self.nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs], self.constants)


class Sizes:
    def __init__(self, rng):
        self.vocab, self.heads, self.head = size(rng, 6, 24), size(rng, 1, 3), size(rng, 1, 4)
        self.layers = size(rng, 1, 2)
        self.eos, self.pad = 1, 2
        self.width = 2 * self.heads * self.head
        self.words = reals(rng, [self.vocab, self.width])
        self.places = reals(rng, [64, self.width])
        self.out = reals(rng, [self.width, self.vocab], scale=3)
        self.bias = reals(rng, [self.vocab])
        self.bias[self.pad] = -1000  # padding is never generated: it means that a row has ended
        self.bias[self.eos] += float(rng.choice([-1000, 0, 4]))
        self.half = reals(rng, [self.width, self.width // 2])


def gpt(rng, s, first=False):
    """input_ids, position_ids, attention_mask, past_i -> logits, present_i"""
    b = Body(rng)
    x = b.op("Add", b.op("Gather", b.const(s.words), "input_ids"), b.op("Gather", b.const(s.places), "position_ids"))
    if first:
        x = b.op("Identity", x)
    mask = b.op("Unsqueeze", b.op("Cast", "attention_mask", to=FLOAT), b.ints(0, 2, 4))
    for i in range(s.layers):
        new = b.op("Reshape", b.op("Tanh", x), b.ints(0, 0, 2, s.heads, s.head))
        new = b.op("Transpose", new, perm=[2, 0, 3, 1, 4])
        present = b.op("Concat", f"past_{i}", new, out=f"present_{i}", axis=3)
        seen = b.op("ReduceSum", b.op("Mul", present, mask), b.ints(3), keepdims=0)
        seen = b.op("Reshape", b.op("Transpose", b.op("Sin", seen), perm=[1, 0, 2, 3]), b.ints(0, 1, s.width))
        x = b.op("Add", x, seen)
    b.op("Add", b.op("MatMul", b.op("Tanh", x), b.const(s.out)), b.const(s.bias), out="logits")
    past = [2, "rows", s.heads, "past", s.head]
    present = [2, "rows", s.heads, "total", s.head]
    return b.graph("gpt", [("input_ids", INT, ["rows", "length"]), ("position_ids", INT, ["rows", "length"]),
                           ("attention_mask", INT, ["rows", "all"]),
                           *[(f"past_{i}", FLOAT, past) for i in range(s.layers)]],
                   [("logits", FLOAT, ["rows", "length", s.vocab]),
                    *[(f"present_{i}", FLOAT, present) for i in range(s.layers)]])


def cross(b, s, hidden, i, names):
    """A key and a value of each token that the encoder saw."""
    for name, weight in zip(names, (1.0, -1.0)):
        new = b.op("Reshape", b.op("MatMul", hidden, b.const((s.half * weight * (i + 1)).astype(np.float32))),
                   b.ints(0, 0, s.heads, s.head))
        b.op("Transpose", new, out=name, perm=[0, 2, 1, 3])


def decoder_layers(b, s, x, pasts, mask):
    """x [rows, 1, width] with caches; the names of the inputs of layer i are pasts[i], none for an empty cache."""
    for i in range(s.layers):
        for j, kind in enumerate(("key", "value")):
            new = b.op("Reshape", b.op("MatMul", b.op("Tanh", x), b.const((s.half * (1 + j)).astype(np.float32))),
                       b.ints(0, 0, s.heads, s.head))
            new = b.op("Transpose", new, perm=[0, 2, 1, 3])
            out = f"present_{kind}_self_{i}"
            if pasts:
                b.op("Concat", f"past_{kind}_self_{i}", new, out=out, axis=2)
            else:
                b.op("Identity", new, out=out)
        crossed = [f"{'past' if pasts else 'present'}_{kind}_cross_{i}" for kind in ("key", "value")]
        if mask:
            crossed = [b.op("Mul", c, mask) for c in crossed]
        own = b.op("Concat", f"present_key_self_{i}", f"present_value_self_{i}", axis=3)
        other = b.op("Concat", *crossed, axis=3)
        for both in (own, other):
            seen = b.op("Sin", b.op("ReduceSum", both, b.ints(2), keepdims=0))  # [rows, heads, 2 * head]
            x = b.op("Add", x, b.op("Reshape", seen, b.ints(0, 1, s.width)))
    b.op("Add", b.op("MatMul", b.op("Tanh", x), b.const(s.out)), b.const(s.bias), out="logits")


def present_info(s, kind, length):
    return [(f"present_{part}_{kind}_{i}", FLOAT, ["rows", s.heads, length, s.head])
            for i in range(s.layers) for part in ("key", "value")]


def broadcast_mask(b):
    return b.op("Unsqueeze", b.op("Cast", "encoder_attention_mask", to=FLOAT), b.ints(1, 3))


def encoder(rng, s, full, features=0):
    """With `full` also the first step of the decoder. `features`: of Whisper's input, else there are tokens."""
    b = Body(rng)
    if features:
        turned = b.op("Transpose", "encoder_input_ids", perm=[0, 2, 1])
        hidden = b.op("MatMul", turned, b.const(reals(rng, [features, s.width])))
    else:
        hidden = b.op("Gather", b.const(s.words), "encoder_input_ids")
    hidden = b.op("Identity", hidden, out="encoder_hidden_states") if full else hidden
    for i in range(s.layers):
        cross(b, s, hidden, i, [f"present_{part}_cross_{i}" for part in ("key", "value")])
    mask = None if features else "encoder_attention_mask"
    inputs = [("encoder_input_ids", FLOAT if features else INT, ["rows", features, "frames"] if features else ["rows", "all"])]
    if mask:
        inputs.append((mask, INT, ["rows", "all"]))
    crossed = present_info(s, "cross", "all")
    if not full:
        return b.graph("encoder", inputs, crossed)
    x = b.op("Gather", b.const(s.words), "decoder_input_ids")
    decoder_layers(b, s, x, False, broadcast_mask(b) if mask else None)
    inputs.append(("decoder_input_ids", INT, ["rows", "begin"]))
    return b.graph("encoder", inputs, [("logits", FLOAT, ["rows", "begin", s.vocab]),
                                       ("encoder_hidden_states", FLOAT, ["rows", "all", s.width]),
                                       *present_info(s, "self", "one"), *crossed])


def decoder(rng, s, sees, whole=False):
    """`sees`: which of encoder_input_ids, encoder_attention_mask, encoder_hidden_states it is given."""
    b = Body(rng)
    ids = "input_ids"
    if whole:  # the last token counts, and how many there are
        last = b.op("Slice", "input_ids", b.ints(-1), b.ints(2**31 - 1), b.ints(1))
        total = b.op("ReduceSum", "input_ids", b.ints(1), keepdims=1)
        ids = b.op("Mod", b.op("Add", last, total), b.const(np.array(s.vocab, np.int32)))
    x = b.op("Gather", b.const(s.words), ids)
    if "encoder_input_ids" in sees:
        other = b.op("Gather", b.const(s.words), "encoder_input_ids")
        x = b.op("Add", x, b.op("ReduceMean", other, axes=[1]))
    if "encoder_hidden_states" in sees and "encoder_attention_mask" in sees:
        x = b.op("Add", x, b.op("ReduceMean", "encoder_hidden_states", axes=[1]))
    decoder_layers(b, s, x, True, broadcast_mask(b) if "encoder_attention_mask" in sees else None)
    kinds = {"encoder_input_ids": (INT, ["rows", "all"]), "encoder_attention_mask": (INT, ["rows", "all"]),
             "encoder_hidden_states": (FLOAT, ["rows", "all", s.width])}
    pasts = [(f"past_{part}_{kind}_{i}", FLOAT, ["rows", s.heads, length, s.head])
             for kind, length in (("self", "past"), ("cross", "all")) for i in range(s.layers) for part in ("key", "value")]
    return b.graph("decoder", [("input_ids", INT, ["rows", "length" if whole else 1]),
                               *[(name, *kinds[name]) for name in sees], *pasts],
                   [("logits", FLOAT, ["rows", 1, s.vocab]), *present_info(s, "self", "total")])


def prompt(rng, s, batch, length):
    ids = rng.integers(3, s.vocab, [batch, length]).astype(np.int32)
    for row in ids:
        if coin(rng, 0.3):
            row[:size(rng, 0, length - 1)] = s.pad
    return ids


def scalar(value, dtype=np.int32):
    return np.array([value], dtype)


def masks(rng, s, batch):
    """Masks of words that leave some, and never allow padding."""
    def one(*shape):
        mask = (rng.random(shape) < 0.8).astype(np.int32)
        mask[..., 3:5] = 1
        return mask
    return maybe(rng, one(s.vocab), 0.3), maybe(rng, one(batch, s.vocab), 0.3)


def until_padding(prompt_length, pad):
    """Behind the last padding that is needed to say that all rows have ended, memory is as it was."""
    def keep(y):
        ends = [int(np.argmax(row[prompt_length:] == pad)) if (row[prompt_length:] == pad).any() else y.shape[1] for row in y]
        return y[:, :prompt_length + max(ends) + 1]
    return keep


def greedy(rng, op):
    s = Sizes(rng)
    batch, length = size(rng, 1, 3), size(rng, 1, 5)
    attributes = {"eos_token_id": s.eos, "pad_token_id": s.pad, "decoder": gpt(rng, s)}
    if coin(rng, 0.3):
        attributes["init_decoder"] = gpt(rng, s, first=True)
    if coin(rng, 0.3):
        attributes["no_repeat_ngram_size"] = size(rng, 1, 3)
    if coin(rng, 0.3):
        attributes["vocab_size"] = s.vocab
    longest = length + size(rng, 1, 8)
    vocab_mask, prefix_mask = masks(rng, s, batch)
    attention = maybe(rng, (rng.random([batch, length]) < 0.8).astype(np.int32), 0.3)
    inputs = [prompt(rng, s, batch, length), scalar(longest), maybe(rng, scalar(size(rng, 0, longest))),
              maybe(rng, scalar(rng.uniform(0.5, 2), np.float32)), vocab_mask, prefix_mask, attention]
    return Case(op, trim(inputs), attributes, compare={0: until_padding(length, s.pad)}, output_types={0: INT})


@case
def GreedySearch(rng):
    return greedy(rng, "GreedySearch")


@case
def Sampling(rng):
    c = greedy(rng, "Sampling")
    c.inputs += [None] * (8 - len(c.inputs))
    c.inputs.append(scalar(size(rng, 0, 1000)))
    c.attributes["top_p"] = float(np.float32(rng.uniform(0.1, 0.95)))
    if coin(rng):
        c.attributes["temperature"] = float(np.float32(rng.uniform(0.5, 2)))
    if coin(rng):
        c.attributes["custom"] = 1
    if coin(rng, 0.3):
        c.attributes["min_tokens_to_keep"] = size(rng, 0, 3)
    if coin(rng, 0.3):
        c.attributes["filter_value"] = -1000.0
    return c


def beam(rng, op, model):
    s = Sizes(rng)
    batch, beams = size(rng, 1, 3), size(rng, 1, 4)
    length = size(rng, 1, 5)
    attributes = {"eos_token_id": s.eos, "pad_token_id": s.pad, "model_type": model}
    begin = length if model == 0 else 1
    attention = maybe(rng, (rng.random([batch, length]) < 0.8).astype(np.int32), 0.3)
    ids = prompt(rng, s, batch, length)
    start_ids = None
    if model == 0:
        attributes["decoder"] = gpt(rng, s)
        if coin(rng, 0.3):
            attributes["init_decoder"] = gpt(rng, s, first=True)
    elif model == 1:
        full = coin(rng)
        sees = [name for name, p in (("encoder_input_ids", 0.3), ("encoder_attention_mask", 1.1),
                                     ("encoder_hidden_states", 0.5 if full else 0)) if coin(rng, p)]
        whole = full and coin(rng, 0.2)
        attributes.update(encoder=encoder(rng, s, full), decoder=decoder(rng, s, sees, whole), decoder_start_token_id=3)
    else:
        features, frames = size(rng, 1, 4), size(rng, 1, 5)
        ids, attention = reals(rng, [batch, features, frames]), None
        attributes.update(encoder=encoder(rng, s, True, features), decoder_start_token_id=3,
                          decoder=decoder(rng, s, ["encoder_hidden_states"]))
        if coin(rng, 0.4):
            begin = size(rng, 1, 3)
            start_ids = rng.integers(3, s.vocab, [batch, begin]).astype(np.int32)
    attributes["early_stopping"] = int(batch > 1 or coin(rng))
    if coin(rng, 0.3):
        attributes["no_repeat_ngram_size"] = size(rng, 1, 3)
    longest = begin + size(rng, 2, 8)
    vocab_mask, prefix_mask = masks(rng, s, batch)
    inputs = [ids, scalar(longest), scalar(size(rng, 0, longest - 1)), scalar(beams),
              scalar(size(rng, 1, beams)), scalar(rng.uniform(0.5, 2), np.float32),
              maybe(rng, scalar(rng.uniform(0.5, 2), np.float32)), vocab_mask, prefix_mask, attention, start_ids]
    endless = s.bias[s.eos] < -900 and "no_repeat_ngram_size" not in attributes
    return Case(op, trim(inputs), attributes, [True, coin(rng), bool(endless and coin(rng))], tolerance=(1e-3, 1e-4),
                output_types={0: INT, 1: FLOAT, 2: FLOAT})


@case
def BeamSearch(rng):
    return beam(rng, "BeamSearch", int(rng.choice([0, 0, 1, 1, 2])))


@case
def WhisperBeamSearch(rng):
    c = beam(rng, "WhisperBeamSearch", 2)
    words = c.attributes["decoder"].output[0].type.tensor_type.shape.dim[2].dim_value
    c.inputs += [None] * (15 - len(c.inputs))
    if coin(rng, 0.4):  # rules for timestamps
        c.inputs[11] = scalar(1)
        c.attributes.update(beginning_timestamp_token_id=size(rng, 4, words - 1))
        for name in ("translate_token_id", "transcribe_token_id", "start_of_lm_token_id", "no_timestamps_token_id"):
            if coin(rng):
                c.attributes[name] = size(rng, 3, words - 1)
    c.inputs[14] = maybe(rng, scalar(rng.uniform(0.5, 2), np.float32))
    c.inputs = trim(c.inputs)
    return c
