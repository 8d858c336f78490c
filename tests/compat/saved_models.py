#!/usr/bin/env python3
"""Models that tessera saves, ONNX Runtime opens, and the other way round.

    python tests/compat/saved_models.py TESSERA
    python tests/compat/saved_models.py TESSERA --models [NAME ...]

Each model is saved by `tessera optimize`, whole and with its weights and packs in files, and must give ONNX Runtime's
results of the original both there and here. Then ONNX Runtime saves it with its own packed weights, for tessera to run.

With --models the real models of build/models (those whose path contains a NAME) are saved by both instead, each at its
extended level, and run by the other: a table of differences, with the operators of com.microsoft that ONNX Runtime put in.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
import onnx
import onnxruntime as ort
from onnx import parser

ORT_PACKS = {
    "session.optimized_model_external_initializers_file_name": "weights.bin",
    "session.save_external_prepacked_constant_initializers": "1",
}

MODELS = {
    "chain": (17, """(float[M,64] x) => (float[M,64] y)
        { i = Identity (x)  a = MatMul (i, w0)  b = MatMul (a, w1)  y = Add (b, b0) }"""),
    "gelu": (17, """(float[M,64] x) => (float[M,64] y)
        { r = Constant <value = float {1.4142135}> ()  o = Constant <value = float {1.0}> ()
          h = Constant <value = float {0.5}> ()  d = Div (x, r)  e = Erf (d)  p = Add (e, o)  m = Mul (x, p)
          y = Mul (m, h) }"""),
    "gelu_20": (20, """(float[M,64] x) => (float[M,64] y)
        { r = Constant <value = float {1.4142135}> ()  o = Constant <value = float {1.0}> ()
          h = Constant <value = float {0.5}> ()  d = Div (x, r)  e = Erf (d)  p = Add (e, o)  m = Mul (x, p)
          y = Mul (m, h) }"""),
    "branches": (13, """(float[M,64] x, bool flag) => (float[M,64] y)
        { a = MatMul (x, w0)
          y = If (flag) <then_branch = yes () => (float[M,64] t) <float[64,64] own = {OWN}>
                           { k = Identity (a)  p = MatMul (k, own)  t = MatMul (p, w1) },
                         else_branch = no () => (float[M,64] e) { e = MatMul (a, w1) }> }"""),
    "loop": (11, """(float[M,64] x) => (float[M,64] y, float[K,M,64] all)
        { trips = Constant <value = int64 {3}> ()
          y, all = Loop (trips, , x) <body = turn (int64 n, bool go, float[M,64] h) => (bool on, float[M,64] g, float[M,64] s)
                           { on = Identity (go)  q = MatMul (h, w0)  g = Tanh (q)  s = Identity (g) }> }"""),
    "scan": (11, """(float[M,64] x) => (float[64] last, float[M,64] y)
        { zero = Constant <value = float {0.0}> ()  last, y = Scan <num_scan_inputs = 1,
              body = turn (float[64] h, float[64] v) => (float[64] g, float[64] s)
                { u = Unsqueeze <axes = [0]> (v)  p = MatMul (u, w0)  q = Squeeze <axes = [0]> (p)
                  r = Add (q, h)  g = Tanh (r)  s = Identity (g) }> (b0, x) }"""),
    "old_forms": (9, """(float[M,64] x) => (float[A,B] y, float[C] z, float[M,2] t)
        { s = Slice <axes = [1], starts = [1], ends = [33]> (x)  p = Pad <pads = [0,1,0,2], value = 0.5> (s)
          y = Clip <min = -0.5, max = 0.5> (p)  r = ReduceMean <axes = [1], keepdims = 0> (y)
          u = Unsqueeze <axes = [0]> (r)  z = Squeeze <axes = [0]> (u)  t, n = TopK <k = 2> (x) }"""),
    "convolution": (15, """(float[M,64] x) => (float[M,4,N,K] y)
        { q = Constant <value = int64[4] {-1, 1, 8, 8}> ()  i = Reshape (x, q)
          c = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (i, kernel)
          y = BatchNormalization (c, scale, bias, mean, variance) }"""),
    "normalised": (17, """(float[M,64] x) => (float[M,64] y)
        { a = LayerNormalization <axis = -1> (x, b0, b0)  h = HardSwish (a)  y = Softmax <axis = 1> (h) }"""),
}


def model(name):
    opset, text = MODELS[name]
    rng = np.random.default_rng(5)
    text = text.replace("OWN", ", ".join(f"{v:.5f}" for v in rng.standard_normal(64 * 64) / 8))
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> net {text}')
    weights = {"w0": (64, 64), "w1": (64, 64), "b0": (64,), "kernel": (4, 1, 3, 3), "scale": (4,), "bias": (4,),
               "mean": (4,), "variance": (4,)}
    used = made.SerializeToString().decode("latin-1")
    for weight, shape in weights.items():
        array = (rng.standard_normal(shape) / 8).astype(np.float32)
        if f"{weight}" in used:
            made.graph.initializer.append(onnx.numpy_helper.from_array(abs(array) if weight == "variance" else array, weight))
    return made


def feeds(made):
    rng = np.random.default_rng(6)
    given = {"x": rng.standard_normal((3, 64)).astype(np.float32), "flag": np.array(True)}
    return {i.name: given[i.name] for i in made.graph.input}


def by_ort(path, inputs, **config):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    for key, value in config.items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def by_tessera(path, inputs, folder):
    arguments = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    out = folder / "out"
    done = subprocess.run([sys.argv[1], "run", path, *arguments, "--output", out], capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return [np.load(out / f"{o.name}.npy") for o in onnx.load(path, load_external_data=False).graph.output]


def check(name, folder):
    made = model(name)
    onnx.save(made, folder / "model.onnx")
    inputs = feeds(made)
    want = by_ort(folder / "model.onnx", inputs)
    wrong = []

    def compare(way, run):
        try:
            got = run()
        except Exception as e:  # whatever it is, the model did not come through
            wrong.append(f"{way}: {str(e)[:300]}")
            return
        for w, g in zip(want, got):
            if w.shape != g.shape or not np.allclose(w, g, rtol=1e-3, atol=1e-4):
                wrong.append(f"{way}: other results")

    for way, arguments in {"whole": [], "apart": ["--data", "weights.bin", "--packs"]}.items():
        (folder / way).mkdir()
        saved = folder / way / "saved.onnx"
        done = subprocess.run([sys.argv[1], "optimize", *arguments, folder / "model.onnx", saved], capture_output=True)
        if done.returncode:
            wrong.append(f"{way}: {done.stderr.decode().strip()}")
            continue
        onnx.checker.check_model(str(saved))
        compare(f"{way}, ONNX Runtime", lambda: by_ort(saved, inputs))
        compare(f"{way}, tessera", lambda: by_tessera(saved, inputs, folder))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    (folder / "theirs").mkdir()
    options.optimized_model_filepath = str(folder / "theirs" / "saved.onnx")
    for key, value in ORT_PACKS.items():
        options.add_session_config_entry(key, value)
    ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    compare("saved by ONNX Runtime", lambda: by_tessera(folder / "theirs" / "saved.onnx", inputs, folder))
    return wrong


def main():
    if sys.argv[2:3] == ["--models"]:
        from cases import saved_real
        return saved_real.run(sys.argv[1], sys.argv[3:])
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    bad = 0
    for name in MODELS:
        with tempfile.TemporaryDirectory() as temporary:
            for why in check(name, pathlib.Path(temporary)):
                print(f"FAIL {name}: {why}")
                bad += 1
    print(f"{len(MODELS)} models, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
