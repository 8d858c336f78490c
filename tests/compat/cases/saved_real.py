"""Real models, saved by one engine at its extended level and run by the other; see ../saved_models.py --models."""
import collections
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


def judge(name, got, wanted, tolerance, row):
    """`wanted`: lists of outputs by name, any of which will do."""
    best = np.inf
    for outputs in wanted:
        worst, wrong = real_models.compare(got, outputs)
        best = min(best, worst)
    row[name] = best
    return "" if best <= tolerance else f"{name}: {wrong or f'differs by {best:.1e}'}"


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
        same, _ = real_models.ort_run(real_models.ort_session(folder / "theirs.onnx", optimise=False)[0], feed, 0)
        got = real_models.tessera_run(program, folder / "theirs.onnx", folder / "in.npz", folder)
        return judge("theirs", got, [same, want, plain], tolerance, row)

    def ours():
        save_by_tessera(program, path, folder / "ours.onnx")
        got, _ = real_models.ort_run(real_models.ort_session(folder / "ours.onnx")[0], feed, 0)
        return judge("ours", got, [want, plain, ours_alone], tolerance, row)

    attempt("saved by ONNX Runtime", theirs)
    attempt("saved by tessera", ours)
    for saved in folder.glob("*.onnx"):
        saved.unlink()
    return row


def text(row):
    contrib = ", ".join(f"{n} {op}" for op, n in row.get("contrib", {}).items())
    numbers = [f"{row[k]:.1e}" if k in row else "-" for k in ("theirs", "ours")]
    return f"{row['model']:44} {numbers[0]:>9} {numbers[1]:>9}  {'; '.join(row['wrong']) or 'ok':4} {contrib and f'({contrib})'}"


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
