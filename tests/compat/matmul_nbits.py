#!/usr/bin/env python3
"""Compare com.microsoft.MatMulNBits with ONNX Runtime.

    python tests/compat/matmul_nbits.py TESSERA [-v]

Bits, block sizes, kinds of zero points, accuracy levels and row counts, with weights as constants and as inputs. The
exact levels must agree within 1e-5 of a row's norm of products; level 4, in which both round A to 8 bits in blocks of
their own, within 1 %. What ONNX Runtime refuses is counted.
"""
import collections
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

MODES = ("none", "packed", "float")


def pack(codes, bits):
    """Codes side by side from the low bits of a byte on, along the last axis."""
    per = 8 // bits
    pad = -codes.shape[-1] % per
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, pad)])
    parts = codes.reshape(*codes.shape[:-1], -1, per).astype(np.uint8)
    return np.bitwise_or.reduce([parts[..., i] << np.uint8(bits * i) for i in range(per)])


def make(rng, bits, block, mode, level, m, n, k, dtype, bias, g_idx):
    blocks = -(-k // block)
    codes = rng.integers(0, 1 << bits, (n, blocks, block))
    arrays = {
        "A": rng.standard_normal((m, k)).astype(dtype),
        "B": pack(codes, bits),
        "scales": (rng.random((n, blocks)) * 0.1 + 0.01).astype(dtype),
    }
    zeros = np.full((n, blocks), 1 << (bits - 1), np.float64)
    if mode == "packed":
        zeros = rng.integers(0, 1 << bits, (n, blocks))
        arrays["zero_points"] = pack(zeros, bits)
    elif mode == "float":
        arrays["zero_points"] = (rng.random((n, blocks)) * (1 << bits)).astype(dtype)
        zeros = arrays["zero_points"].astype(np.float64)
    index = np.arange(blocks * block) // block
    if g_idx:
        index = rng.integers(0, blocks, blocks * block)
        arrays["g_idx"] = index[:k].astype(np.int32)
    if bias:
        arrays["bias"] = rng.standard_normal(n).astype(dtype)
    flat = codes.reshape(n, -1)
    weights = (flat - zeros[:, index]) * arrays["scales"].astype(np.float64)[:, index]
    norm = np.linalg.norm(arrays["A"].astype(np.float64), axis=1)[:, None] * np.linalg.norm(weights, axis=1)[None, :]
    names = ["A", "B", "scales", "zero_points", "g_idx", "bias"]
    inputs = [name if name in arrays else "" for name in names]
    while not inputs[-1]:
        inputs.pop()
    attributes = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=level)
    return arrays, helper.make_node("MatMulNBits", inputs, ["Y"], domain="com.microsoft", **attributes), norm


def model_of(arrays, node, constants):
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    fed = ["A"] if constants else list(arrays)
    initializers = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed]
    element = helper.np_dtype_to_tensor_dtype(arrays["A"].dtype)
    output = helper.make_tensor_value_info("Y", element, None)
    graph = helper.make_graph([node], "g", [info(n, arrays[n]) for n in fed], [output], initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {n: arrays[n] for n in fed}


def run_peer(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)[0]


def run_ours(tessera, folder, model, feeds):
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "in.npz", **feeds)
    command = [tessera, "run", folder / "model.onnx", "--inputs", folder / "in.npz", "--output", folder / "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return np.load(folder / "out.npz")["Y"]


def cases():
    """Every pair of bits, block, zero points and level; the rest is drawn at random."""
    rng = np.random.default_rng(20)
    grid = itertools.product((2, 4, 8), (16, 32, 64, 128, 256), MODES, (0, 1, 2, 3, 4))
    for bits, block, mode, level in grid:
        if level in (1, 2, 3) and rng.random() < 0.7:
            continue
        m, n, k = int(rng.choice([1, 2, 3, 5, 17, 40])), int(rng.choice([1, 16, 33, 100])), int(rng.choice([block, 100, 512]))
        dtype = np.float16 if rng.random() < 0.25 else np.float32
        yield (rng, bits, block, mode, level, m, n, k, dtype, bool(rng.random() < 0.5), False), bool(rng.random() < 0.8)
    # With g_idx, ONNX Runtime takes 4 bits alone, and packed zero points not as they are described.
    for mode, constants in itertools.product(("none", "float"), (True, False)):
        yield (rng, 4, 32, mode, 0, 3, 20, 100, np.float32, True, True), constants


def main():
    verbose = "-v" in sys.argv
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    bad, refused, worst = 0, collections.Counter(), collections.defaultdict(float)
    with tempfile.TemporaryDirectory() as temporary:
        count = 0
        for arguments, constants in cases():
            _, bits, block, mode, level, m, n, k, dtype, bias, g_idx = arguments
            name = f"{bits} bits, block {block}, zeros {mode}, level {level}, {m}x{n}x{k} {dtype.__name__}"
            name += " bias" * bias + " g_idx" * g_idx + " constants" * constants
            arrays, node, norm = make(*arguments)
            model, feeds = model_of(arrays, node, constants)
            try:
                theirs = run_peer(model, feeds)
            except Exception as e:  # noqa: BLE001: whatever it refuses with
                refused[f"{bits} bits, zeros {mode}: {str(e).splitlines()[0][:120]}"] += 1
                theirs = None
            ours = run_ours(sys.argv[1], pathlib.Path(temporary), model, feeds)
            count += 1
            if theirs is None:
                continue
            error = float(np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) / (norm + 1e-6)))
            limit = 1e-2 if level == 4 else 2e-3 if dtype == np.float16 else 1e-5
            key = ("level 4" if level == 4 else "exact") + f" {dtype.__name__}"
            worst[key] = max(worst[key], error)
            bad += error > limit
            if verbose or error > limit:
                print(f"{'differs' if error > limit else 'ok'} {error:.2e}: {name}")
    for what, times in refused.items():
        print(f"refused {times}: {what}")
    print(f"{count} cases, {bad} differ; worst {dict(worst)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
