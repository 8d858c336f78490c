#!/usr/bin/env python3
"""Compare the operators of com.microsoft with ONNX Runtime on random cases.

    python tests/compat/contrib.py TESSERA [OPERATOR ...] [--cases N] [--seed N] [-v]

Every operator gets N cases (default 50; --many: 200): shapes, optional inputs, attributes and types are drawn from the
seed that a failing case prints. Cases that ONNX Runtime refuses are counted as skipped.

Tolerances, relative and absolute: float32 1e-4 and 1e-5, float64 1e-9 and 1e-12, float16 and bfloat16 1e-2; integers
that come of a quantisation may differ by one (ties); everything else must be equal.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import contrib_cases

TOLERANCE = {np.dtype("float32"): (1e-4, 1e-5), np.dtype("float64"): (1e-9, 1e-12), np.dtype("float16"): (1e-2, 1e-2)}


def build(case, rng):
    """A model of one node; some of its inputs are constants."""
    names, inputs, constants = [], [], []
    for i, array in enumerate(case.inputs):
        if array is None:
            names.append("")
            continue
        name = f"in{i}"
        names.append(name)
        tensor = array if isinstance(array, TensorProto) else numpy_helper.from_array(array, name)
        tensor.name = name
        if i in case.constants or (i not in case.variables and rng.random() < 0.3):
            constants.append(tensor)
        else:
            inputs.append(tensor)
    outputs = [f"out{i}" if want else "" for i, want in enumerate(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node], "case", [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in inputs],
        [helper.make_tensor_value_info(o, case.output_types.get(i, TensorProto.UNDEFINED), None)
         if i in case.output_types else onnx.ValueInfoProto(name=o) for i, o in enumerate(outputs) if o], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    return model, inputs, [o for o in outputs if o]


def difference(got, want, case):
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype} instead of {want.dtype}"
    if got.size == 0:
        return ""
    if got.dtype in TOLERANCE:
        rtol, atol = case.tolerance or TOLERANCE[got.dtype]
        with np.errstate(all="ignore"):
            close = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
            scale = np.nanmax(np.where(np.isfinite(want), np.abs(want), 0).astype(np.float64))
            close |= np.isfinite(got) & np.isfinite(want) & (np.abs(got.astype(np.float64) - want) <= rtol * scale)
    elif case.near and got.dtype.kind in "iu":
        close = np.abs(got.astype(np.int64) - want.astype(np.int64)) <= case.near
    else:
        close = got == want
    if np.all(close):
        return ""
    at = np.unravel_index(np.argmin(close), got.shape)
    return f"{got[at]!r} instead of {want[at]!r} at {tuple(map(int, at))}; {int(np.sum(~close))} of {got.size} differ"


def run_theirs(model, inputs, outputs):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(outputs, {t.name: numpy_helper.to_array(t) for t in inputs})


def run_ours(program, model, inputs, outputs):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        onnx.save(model, folder / "model.onnx")
        command = [program, "run", folder / "model.onnx", "--threads", "1"]
        for t in inputs:
            (folder / f"{t.name}.pb").write_bytes(t.SerializeToString())
            command += ["--input", f"{t.name}={folder / t.name}.pb"]
        for o in outputs:
            command += ["--output", f"{o}={folder / o}.pb"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[-400:]}")
        return [numpy_helper.to_array(onnx.load_tensor(folder / f"{o}.pb")) for o in outputs]


def one(program, name, seed, verbose):
    """("passed" | "failed" | "skipped", text)"""
    rng = np.random.default_rng([seed, *name.encode()])
    case = contrib_cases.CASES[name](rng)
    model, inputs, outputs = build(case, rng)
    try:
        want = run_theirs(model, inputs, outputs)
    except Exception as error:  # whatever ORT raises: it cannot run this one
        return "skipped", f"skip {name} seed {seed}: {str(error)[:300]}"
    try:
        got = run_ours(program, model, inputs, outputs)
        why = []
        for o, g, w in zip(outputs, got, want):
            i = int(o[3:])
            keep = case.compare.get(i, lambda x: x)
            why += [f"{o}: {d}" for d in [difference(keep(np.asarray(g)), keep(np.asarray(w)), case)] if d]
    except Exception as error:
        why = [str(error)]
    if not why:
        return "passed", ""
    text = f"FAIL {name} seed {seed}: {'; '.join(why)}\n  {helper.printable_node(model.graph.node[0])[:500]}"
    text += "\n  " + ", ".join("-" if a is None else f"{a.dims if isinstance(a, TensorProto) else a.dtype.name + str(list(a.shape))}"
                               for a in case.inputs)
    if verbose:
        for a in case.inputs:
            if a is not None and not isinstance(a, TensorProto) and a.size < 40:
                text += f"\n    {a!r}"
    return "failed", text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    names = args.operators or sorted(contrib_cases.CASES)
    count = 200 if args.many else args.cases
    total = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TESSERA_TEST_JOBS", "2"))) as pool:
        for name in names:
            seeds = range(args.seed, args.seed + count)
            results = list(pool.map(lambda seed: one(args.program, name, seed, args.verbose), seeds))
            counts = collections.Counter(state for state, _ in results)
            total += counts
            print(f"{name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
            for state in ("failed", "skipped"):
                shown = [text for s, text in results if s == state][:3 if state == "failed" else 12 * args.verbose]
                for text in shown:
                    print("  " + text.replace("\n", "\n  "))
            if not counts["passed"]:
                print(f"  no case of {name} could be compared")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped, seeds {args.seed} to "
          f"{args.seed + count - 1}")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
