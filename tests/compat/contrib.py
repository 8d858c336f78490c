#!/usr/bin/env python3
"""Compare the operators of com.microsoft with ONNX Runtime on random cases.

    python tests/compat/contrib.py TESSERA [OPERATOR ...] [--cases N] [--seed N] [--halves | --hostile | --table] [-v]

Every operator gets N cases (default 50; --many: 200): shapes, optional inputs, attributes and types are drawn from the
seed that a failing case prints. Cases that ONNX Runtime refuses are counted as skipped.

--hostile spoils every case instead (inputs left out or of another shape, numbers out of range, odd attributes) and looks
only at how tessera ends: by success or by a message, never by a signal or after a minute.

--halves gives the cases float16 or bfloat16 where ONNX Runtime's schema allows it, whether its kernel does or not, and
compares with its float32 results of the same numbers, to 1e-2 and 5e-2 of the largest number.

--table takes one case of each operator and changes one thing at a time: every attribute to every odd value, every input
to absent, to other ranks and sizes, and its integers to odd values. A line for each operator tells how many of the
models were refused with a message, how many ran, and how many ended otherwise: those fail.

Tolerances, relative and absolute: float32 1e-4 and 1e-5, float64 1e-9 and 1e-12, float16 and bfloat16 1e-2; integers
that come of a quantisation may differ by one (ties); everything else must be equal.
"""
import argparse
import collections
import concurrent.futures
import functools
import os
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from cases import contrib as contrib_cases
from cases import branches, embeddings, generation, group_query, nchwc, other_providers  # noqa: F401: add their cases

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


@functools.cache
def schemas():
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    return {s.name: s for s in state.get_all_operator_schema() if s.domain == "com.microsoft"}


HALVES = {"tensor(float16)": (np.dtype("float16"), 1e-2), "tensor(bfloat16)": (np.dtype(ml_dtypes.bfloat16), 5e-2)}


def argument(arguments, i):
    """The type variable of argument i; the last may be variadic."""
    return arguments[min(i, len(arguments) - 1)].typeStr


def halve(case, schema, seed):
    """Inputs as half floats, the same numbers as float32, and the tolerance; None if the operator has no such type."""
    allowed = {t.type_param_str: set(t.allowed_type_strs) for t in schema.type_constraints}
    kinds = [k for k in sorted(HALVES) if any(k in a for a in allowed.values())]
    if not kinds:
        return None
    kind = kinds[seed % len(kinds)]
    half, tolerance = HALVES[kind]
    narrow, wide = list(case.inputs), list(case.inputs)
    for i, array in enumerate(case.inputs):
        if isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind == "f" and kind in allowed.get(argument(schema.inputs, i), ()):
            narrow[i] = np.asarray(array).astype(half)
            wide[i] = narrow[i].astype(np.float32)
    return (narrow, wide, tolerance) if any(a is not b for a, b in zip(narrow, case.inputs)) else None


def in_halves(program, name, seed, verbose):
    """Like one(), of a case in half floats."""
    case = contrib_cases.CASES[name](np.random.default_rng([seed, *name.encode()]))
    schema = schemas().get(case.op)
    made = halve(case, schema, seed) if schema else None
    if not made or case.reference or any(isinstance(a, TensorProto) for a in case.inputs):
        return "skipped", f"skip {name} seed {seed}: no half floats"
    narrow, wide, tolerance = made
    halves = [dtype for dtype, _ in HALVES.values()]
    types, case.output_types = case.output_types, {}
    case.inputs = wide
    try:
        model, inputs, outputs = build(case, np.random.default_rng(seed))
        want = run_theirs(model, inputs, outputs, case.shared)
    except Exception as error:
        return "skipped", f"skip {name} seed {seed}: {str(error)[:300]}"
    case.inputs, case.output_types = narrow, {i: t for i, t in types.items() if t != TensorProto.FLOAT}
    case.tolerance, case.near = (tolerance, tolerance), max(case.near, 1)
    try:
        model, inputs, outputs = build(case, np.random.default_rng(seed))
        got = run_ours(program, model, inputs, outputs)
        why = []
        for o, g, w in zip(outputs, got, want):
            keep = case.compare.get(int(o[3:]), lambda x: x)
            w = np.asarray(w).astype(g.dtype) if g.dtype in halves else w  # the float result, rounded
            g, w = (np.asarray(a).astype(np.float32) if a.dtype.kind in "fV" else np.asarray(a) for a in (g, w))
            why += [f"{o}: {d}" for d in [difference(keep(g), keep(w), case)] if d]
    except Exception as error:
        why = [str(error)]
    if not why:
        return "passed", ""
    return "failed", f"FAIL {name} seed {seed}: {'; '.join(why)}\n  {helper.printable_node(model.graph.node[0])[:500]}"


def odd_attributes(value):
    if isinstance(value, bool) or isinstance(value, int):
        return [o for o in ODD if o != value]
    if isinstance(value, float):
        return [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e38]
    if isinstance(value, list) and all(isinstance(v, int) for v in value):
        return [[], [0], [-1] * max(1, len(value)), [2**62] * max(1, len(value)), value + value, [2**63 - 1, *value]]
    return ["odd", ""] if isinstance(value, str) else []


def odd_inputs(array):
    """What an input may be replaced by, with a word for it."""
    yield "absent", None
    yield "one more dimension", array[None]
    if array.ndim:
        yield "one dimension less", np.resize(array, array.shape[1:])
        for d in range(array.ndim):
            for n in (0, array.shape[d] + 1, 2 * array.shape[d]):
                shape = list(array.shape)
                shape[d] = n
                yield f"dimension {d} of {n}", np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
    if array.dtype.kind in "iu" and array.size:
        info = np.iinfo(array.dtype)
        for n in sorted({int(np.clip(o, info.min, info.max)) for o in ODD}):
            yield f"all {n}", np.full(array.shape, n, array.dtype)
    if array.dtype.kind == "f" and array.size:
        yield "NaN", np.full(array.shape, np.nan, array.dtype)


def table(program, name, pool, verbose):
    """(refused, ran, what failed) of all models that differ in one thing from a good case with many inputs."""
    draw = lambda seed: contrib_cases.CASES[name](np.random.default_rng([seed, *name.encode()]))
    seed = max(range(1, 21), key=lambda s: sum(a is not None for a in draw(s).inputs))
    changes = [(f"{a} = {odd}", a, odd) for a, v in sorted(draw(seed).attributes.items()) for odd in odd_attributes(v)]
    for i, array in enumerate(draw(seed).inputs):
        if isinstance(array, (np.ndarray, np.generic)):
            changes += [(f"input {i}: {word}", i, odd) for word, odd in odd_inputs(np.asarray(array))]

    def attempt(change):
        word, place, odd = change
        case = draw(seed)
        if isinstance(place, int):
            case.inputs[place] = odd
        else:
            case.attributes[place] = odd
        case.inputs = contrib_cases.trim(case.inputs)
        try:
            model, inputs, outputs = build(case, np.random.default_rng(seed))
        except Exception:  # no such model can be written
            return "refused", ""
        try:
            run_ours(program, model, inputs, outputs)
        except subprocess.TimeoutExpired:
            return "failed", f"{word}: still running after a minute"
        except RuntimeError as error:
            text = str(error)
            wrong = "exit -" in text or "Sanitizer" in text or "runtime error" in text or not text.split(":", 1)[1].strip()
            return ("failed", f"{word}: {text}") if wrong else ("refused", "")
        return "ran", ""

    results = list(pool.map(attempt, changes))
    counts = collections.Counter(state for state, _ in results)
    print(f"{name:36} seed {seed:2}  {len(changes):4} models: {counts['refused']:4} refused, {counts['ran']:4} ran, "
          f"{counts['failed']:2} ended otherwise", flush=True)
    for text in [t for s, t in results if s == "failed"][:5]:
        print("  FAIL " + text)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    names = args.operators or sorted(contrib_cases.CASES)
    count = 200 if args.many else args.cases
    check = hostile if args.hostile else in_halves if args.halves else one
    total = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TESSERA_TEST_JOBS", "2"))) as pool:
        if args.table:
            for name in names:
                total += table(args.program, name, pool, args.verbose)
            print(f"{total.total()} models: {total['refused']} refused, {total['ran']} ran, {total['failed']} ended otherwise")
            return 1 if total["failed"] else 0
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
            if not counts["passed"] and not args.halves:
                print(f"  no case of {name} could be compared")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped, seeds {args.seed} to "
          f"{args.seed + count - 1}")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
