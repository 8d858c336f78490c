"""Real models, saved by one engine at its extended level and run by the other; see ../saved_models.py --models."""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import real_models
from models import inputs


def contrib_operators(path):
    nodes = real_models.all_nodes(onnx.load(path, load_external_data=False).graph)
    return collections.Counter(n.op_type for n in nodes if n.domain == "com.microsoft")


def save_by_ort(path, to):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(to)
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def save_by_tessera(program, path, to):
    done = subprocess.run([program, "optimize", path, to], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])


class Judge:
    """Compares outputs with what ONNX Runtime gives, by the rules of tools/real_models.py."""

    def __init__(self, program, path, feed, want, plain, tolerance, folder, row):
        self.own = real_models.compare(want, plain)[0] if tolerance == real_models.QUANTIZED else 0
        self.near_double = lambda got: real_models.only_rounding(path, program, feed, got, want, folder)
        self.tolerance, self.row = tolerance, row

    def __call__(self, name, got, wanted):
        """`wanted`: lists of outputs by name, any of which will do. What is wrong, or nothing."""
        found = [real_models.compare(got, outputs) for outputs in wanted]
        best, wrong = min(found, key=lambda f: f[0])
        self.row[name] = best
        if best <= self.tolerance:
            return ""
        if not wrong and self.tolerance == real_models.FLOAT and self.near_double(got):
            self.row["note"] = "as near to double precision"
            return ""
        if not wrong and best <= self.own:
            self.row["note"] = f"nearer than ONNX Runtime's rewrites of the quantized model keep it ({self.own:.1e})"
            return ""
        return f"{name}: {wrong or f'differs by {best:.1e}'}"


def check(program, path, folder):
    """The row of the table: differences, operators, and what is wrong."""
    row = {"model": path.relative_to(real_models.CACHE).with_suffix("").as_posix(), "wrong": []}
    _, tolerance, _ = real_models.describe(path)
    session, _ = real_models.ort_session(path)
    feed = inputs.make(path, real_models.CACHE, session, 0)
    np.savez(folder / "in.npz", **feed)
    want, _ = real_models.ort_run(session, feed, 0)
    del session
    plain, _ = real_models.ort_run(real_models.ort_session(path, optimise=False)[0], feed, 0)
    judge = Judge(program, path, feed, want, plain, tolerance, folder, row)
    ours_alone = real_models.tessera_run(program, path, folder / "in.npz", folder)

    def attempt(what, run):
        try:
            why = run()
        except Exception as error:  # whatever it is, the model did not come through
            why = f"{what}: {str(error).strip()[:300]}"
        if why:
            row["wrong"].append(why)

    def theirs():
        save_by_ort(path, folder / "theirs.onnx")
        row["contrib"] = contrib_operators(folder / "theirs.onnx")
        saved, _ = real_models.ort_session(folder / "theirs.onnx", optimise=False)
        # Initializers of the original that nobody reads any more come back as inputs.
        left = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.int64)
                for i in saved.get_inputs() if i.name not in feed}
        same, _ = real_models.ort_run(saved, feed | left, 0)
        np.savez(folder / "more.npz", **feed, **left)
        got = real_models.tessera_run(program, folder / "theirs.onnx", folder / "more.npz", folder)
        why = judge("theirs", got, [same, want, plain])
        if not why or tolerance != real_models.QUANTIZED:
            return why
        # A tie that rounds the other way in the first layer moves all that follows: other sums, other ties.
        os.environ["TESSERA_TARGET"] = "avx2"
        try:
            got = real_models.tessera_run(program, folder / "theirs.onnx", folder / "more.npz", folder)
        finally:
            del os.environ["TESSERA_TARGET"]
        first = row["theirs"]
        if judge("theirs", got, [same, want, plain]):
            return why
        row["note"] = f"on the target avx2; {first:.1e} on this machine's best, where a tie is rounded the other way"
        return ""

    def ours():
        save_by_tessera(program, path, folder / "ours.onnx")
        got, _ = real_models.ort_run(real_models.ort_session(folder / "ours.onnx")[0], feed, 0)
        why = judge("ours", got, [want, plain, ours_alone])
        if not why or tolerance != real_models.QUANTIZED:
            return why
        # ONNX Runtime's own rewrites may move a quantized model further than this; without them it must agree.
        row["note"] = "without ONNX Runtime's rewrites, which move it by " + f"{real_models.compare(want, plain)[0]:.1e}"
        got, _ = real_models.ort_run(real_models.ort_session(folder / "ours.onnx", optimise=False)[0], feed, 0)
        return judge("ours", got, [plain])

    attempt("saved by ONNX Runtime", theirs)
    attempt("saved by tessera", ours)
    for saved in folder.glob("*.onnx"):
        saved.unlink()
    return row


def text(row):
    contrib = ", ".join(f"{n} {op}" for op, n in row.get("contrib", {}).items())
    numbers = [f"{row[k]:.1e}" if k in row else "-" for k in ("theirs", "ours")]
    verdict = "; ".join(row["wrong"]) or ("ok, " + row["note"] if "note" in row else "ok")
    return f"{row['model']:44} {numbers[0]:>9} {numbers[1]:>9}  {verdict} {contrib and f'({contrib})'}"


def run(program, names):
    paths = [p for p in sorted(real_models.CACHE.glob("*/*.onnx"))
             if not names or any(n in p.relative_to(real_models.CACHE).as_posix() for n in names)]
    print(f"{'model':44} {'ORT->here':>9} {'here->ORT':>9}  largest difference to ONNX Runtime over the largest number", flush=True)
    bad = left = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = check(program, path, pathlib.Path(folder))
            except Exception as error:  # ONNX Runtime does not run the model itself, or no inputs can be made
                print(f"{path.stem:44} left out: {str(error).splitlines()[0][:200]}", flush=True)
                left += 1
                continue
        bad += bool(row["wrong"])
        print(text(row), flush=True)
    print(f"{len(paths) - bad - left} passed, {bad} failed, {left} left out")
    return 1 if bad or not paths else 0
