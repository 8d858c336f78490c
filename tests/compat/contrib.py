#!/usr/bin/env python3
"""Compare the operators of com.microsoft with ONNX Runtime on random cases.

    python tests/compat/contrib.py TESSERA [OPERATOR ...] [--cases N] [--seed N] [--hostile] [-v]

Every operator gets N cases (default 50; --many: 200): shapes, optional inputs, attributes and types are drawn from the
seed that a failing case prints. Cases that ONNX Runtime refuses are counted as skipped.

--hostile spoils every case instead (inputs left out or of another shape, numbers out of range, odd attributes) and looks
only at how tessera ends: by success or by a message, never by a signal or after a minute.

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

from cases import contrib as contrib_cases
from cases import branches, embeddings, generation, nchwc, other_providers  # noqa: F401: add their cases

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
    domains = sorted({"com.microsoft", case.domain} - {""})
    opsets = [helper.make_opsetid("", 17), *[helper.make_opsetid(d, 1) for d in domains]]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
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


def run_theirs(model, inputs, outputs, shared):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if not shared:
        return session.run(outputs, {t.name: numpy_helper.to_array(t) for t in inputs})
    binding = session.io_binding()
    arrays = {t.name: numpy_helper.to_array(t).copy() for t in inputs}  # the values lie in their memory
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    same = {f"out{o}": values[f"in{i}"] for i, o in shared.items()}
    for name in outputs:
        binding.bind_ortvalue_output(name, same[name]) if name in same else binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [v.numpy().copy() for v in binding.get_outputs()]


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
        want = case.reference or run_theirs(model, inputs, outputs, case.shared)
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


ODD = [-(2**63), -(2**31), -1, 0, 1, 3, 17, 2**31, 2**40, 2**63 - 1]


def spoil(case, rng):
    """Makes one to three changes that a writer of broken models would make."""
    for _ in range(int(rng.integers(1, 4))):
        present = [i for i, a in enumerate(case.inputs) if isinstance(a, (np.ndarray, np.generic))]
        if not present:
            return
        i = present[int(rng.integers(len(present)))]
        array = np.asarray(case.inputs[i])
        kind = int(rng.integers(6))
        if kind == 0:
            case.inputs[i] = None
        elif kind == 1 and array.ndim:
            shape = list(array.shape)
            shape[int(rng.integers(len(shape)))] = int(rng.integers(0, 4))
            case.inputs[i] = np.resize(array, shape)
        elif kind == 2:
            shape = [*array.shape, 1] if rng.random() < 0.5 else list(array.shape)[1:]
            case.inputs[i] = np.resize(array, shape)
        elif kind == 3 and array.dtype.kind in "iu" and array.size:
            array = array.copy()
            info = np.iinfo(array.dtype)
            array.reshape(-1)[int(rng.integers(array.size))] = int(np.clip(ODD[int(rng.integers(len(ODD)))], info.min, info.max))
            case.inputs[i] = array
        elif kind == 4 and array.dtype.kind == "f" and array.size:
            case.inputs[i] = np.full(array.shape, [np.nan, np.inf, -np.inf, 1e38][int(rng.integers(4))]).astype(array.dtype)
        elif case.attributes:
            name = sorted(case.attributes)[int(rng.integers(len(case.attributes)))]
            value = case.attributes[name]
            odd = ODD[int(rng.integers(len(ODD)))]
            if isinstance(value, list) and any(isinstance(v, str) for v in value):
                case.attributes[name] = ["odd" if rng.random() < 0.5 else v for v in value]
            elif isinstance(value, list):
                value = [odd if rng.random() < 0.5 else v for v in value] + [odd] * int(rng.integers(0, 2))
                case.attributes[name] = value if all(isinstance(v, int) for v in value) else [float(v) for v in value]
            elif isinstance(value, int):
                case.attributes[name] = odd
            elif isinstance(value, float):
                case.attributes[name] = float("nan") if rng.random() < 0.5 else float(odd)
            else:
                case.attributes[name] = "odd"
    case.inputs = contrib_cases.trim(case.inputs)


def hostile(program, name, seed, verbose):
    """Like one(), of a spoilt case."""
    rng = np.random.default_rng([seed, *name.encode()])
    case = contrib_cases.CASES[name](rng)
    spoil(case, rng)
    try:
        model, inputs, outputs = build(case, rng)
    except Exception as error:  # no such model can be written
        return "skipped", f"skip {name} seed {seed}: {error}"
    try:
        run_ours(program, model, inputs, outputs)
    except subprocess.TimeoutExpired:
        return "failed", f"FAIL {name} seed {seed}: still running after a minute"
    except RuntimeError as error:
        if "exit -" in str(error) or "Sanitizer" in str(error) or "runtime error" in str(error):
            return "failed", f"FAIL {name} seed {seed}: {error}\n  {helper.printable_node(model.graph.node[0])[:500]}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    names = args.operators or sorted(contrib_cases.CASES)
    count = 200 if args.many else args.cases
    check = hostile if args.hostile else one
    total = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TESSERA_TEST_JOBS", "2"))) as pool:
        for name in names:
            seeds = range(args.seed, args.seed + count)
            results = list(pool.map(lambda seed: check(args.program, name, seed, args.verbose), seeds))
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
