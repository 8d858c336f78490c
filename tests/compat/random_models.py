#!/usr/bin/env python3
"""Compare the nodes of random models with ONNX Runtime.

    python tests/compat/random_models.py TESSERA [COUNT [FIRST_SEED]] [-v]

random_model_test, which lies beside TESSERA, writes COUNT models (default 60) and all their values. Every node becomes
a model of its own that ONNX Runtime runs on our inputs; its outputs must be ours within a tolerance. Nodes that ONNX
Runtime cannot run are counted by operator; so are the differences that KNOWN lists.
"""
import collections
import concurrent.futures.process
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

RANDOM = {"RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial", "Dropout"}
# Where ONNX Runtime and the standard (or its reference) part ways: operator, when.
KNOWN = {
    "AveragePool": lambda node, feeds: attribute(node, "auto_pad") is not None,  # SAME with dilations
    "AffineGrid": lambda node, feeds: attribute(node, "align_corners") == 1,  # along axes of length 1
    "BatchNormalization": lambda node, feeds: attribute(node, "training_mode") == 1,  # of float16
    "DynamicQuantizeLinear": lambda node, feeds: not any(np.any(f) for f in feeds.values()),  # the scale of zeros
    "MeanVarianceNormalization": lambda node, feeds: True,  # without the epsilon of the standard
    "NonZero": lambda node, feeds: any(f.ndim == 0 for f in feeds.values()),
    "Resize": lambda node, feeds: attribute(node, "antialias") == 1,  # with align_corners
    "StringSplit": lambda node, feeds: any(np.any(f == "") for f in feeds.values()),
}
TOLERANCE = {np.dtype("float32"): (2e-4, 2e-5), np.dtype("float64"): (1e-6, 1e-9), np.dtype("float16"): (1e-2, 1e-2)}


def attribute(node, name):
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)


def known(node, values):
    """Also whatever comes of values that are not finite: ONNX Runtime takes other ways than IEEE's in many operators."""
    arrays = {name: np.asarray(numpy_helper.to_array(values[name])) for name in reads(node)}
    finite = all(np.all(np.isfinite(a)) for a in arrays.values() if a.dtype.kind == "f" and a.dtype in TOLERANCE)
    if node.op_type.startswith("Reduce") and any(a.size == 0 for a in arrays.values()):
        return True  # axes that count from the end, of tensors without elements
    if node.op_type in ("Cast", "Shrink") and any(np.any(np.abs(a) > 1e9) for a in arrays.values() if a.dtype.kind in "fi"):
        return True  # integers out of range
    return not finite or (node.op_type in KNOWN and KNOWN[node.op_type](node, arrays))


def reads(node):
    """Names that a node reads, its bodies' captures among them."""
    out = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {i.name for i in graph.input} | {i.name for i in graph.initializer} | {o for n in graph.node for o in n.output}
            inner = [name for n in graph.node for name in reads(n)] + [o.name for o in graph.output]
            out += [name for name in inner if name not in own]
    return list(dict.fromkeys(out))


def alone(model, node, values):
    """The node as a model, its constants kept as constants; None if it reads or gives what is no tensor."""
    names = reads(node)
    outputs = [o for o in node.output if o]
    if any(n not in values for n in names) or any(o not in values for o in outputs):
        return None
    constants = {t.name for t in model.graph.initializer}
    info = lambda name: helper.make_tensor_value_info(name, values[name].data_type, list(values[name].dims))
    graph = helper.make_graph(
        [node], "alone", [info(n) for n in names if n not in constants],
        [helper.make_tensor_value_info(o, values[o].data_type, None) for o in outputs],
        [values[n] for n in names if n in constants])
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=10)
    return one, {n: numpy_helper.to_array(values[n]) for n in names if n not in constants}, outputs


def difference(got, want):
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if got.dtype != want.dtype and not (got.dtype == object or want.dtype == object):
        return f"type {got.dtype} instead of {want.dtype}"
    if got.size == 0:
        return ""
    if got.dtype in TOLERANCE:
        rtol, atol = TOLERANCE[got.dtype]
        with np.errstate(all="ignore"):
            close = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
            scale = np.nanmax(np.where(np.isfinite(want), np.abs(want), 0))
            close |= np.isfinite(got) & np.isfinite(want) & (np.abs(got - want) <= rtol * scale)
    else:
        close = got == want
    if np.all(close):
        return ""
    at = np.unravel_index(np.argmin(close), got.shape)
    return f"{got[at]!r} instead of {want[at]!r} at {tuple(map(int, at))}; {int(np.sum(~close))} of {got.size} differ"


def compare(path, verbose):
    """Counts of one model's outputs that agree, operators that were not run, known differences; and lines about others."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    same, skipped, excused, lines = 0, collections.Counter(), collections.Counter(), []
    model = onnx.load(path / "model.onnx")
    values = {p.stem: onnx.load_tensor(p) for p in path.glob("*.pb")}
    for node in model.graph.node:
        if node.op_type in RANDOM:
            continue
        try:
            one, feeds, outputs = alone(model, node, values) or (None, None, None)
            if not one:
                skipped["without tensors"] += 1
                continue
            session = ort.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
            got = session.run(outputs, feeds)
        except Exception as error:  # whatever ORT raises: it cannot run this one
            skipped[node.op_type] += 1
            if verbose:
                lines.append(f"skip seed {path.name} {node.op_type}: {str(error)[:200]}")
            continue
        for name, theirs in zip(outputs, got):
            why = difference(np.asarray(numpy_helper.to_array(values[name])), np.asarray(theirs))
            if not why:
                same += 1
            elif known(node, values):
                excused[node.op_type] += 1
            else:
                lines.append(f"FAIL seed {path.name} {node.op_type} {name}: ours {why}\n  {helper.printable_node(node)[:400]}")
                if verbose:
                    lines += [f"    {n} = {numpy_helper.to_array(values[n])!r}"[:1500] for n in reads(node)]
    return same, skipped, excused, lines


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    verbose = "-v" in sys.argv
    program = pathlib.Path(sys.argv[1]).parent / "random_model_test"
    numbers = [a for a in sys.argv[2:] if a.isdigit()]
    count, first = numbers + ["60", "1"][len(numbers):]
    same, bad, skipped, excused = 0, 0, collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "--models", count, "--first", first, "--write", folder], capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-1000:])
        for path in sorted(pathlib.Path(folder).iterdir(), key=lambda p: int(p.name)):
            try:  # ONNX Runtime may crash: each model has a process of its own
                with concurrent.futures.ProcessPoolExecutor(1) as pool:
                    result = pool.submit(compare, path, verbose).result()
            except concurrent.futures.process.BrokenProcessPool:
                skipped["a crash of ONNX Runtime"] += 1
                continue
            same += result[0]
            skipped += result[1]
            excused += result[2]
            bad += sum(line.startswith("FAIL") for line in result[3])
            print(*result[3], sep="\n", end="\n" if result[3] else "")
    print(f"{same} outputs agree, {bad} differ; known differences: {dict(excused)}; not run: {dict(skipped.most_common())}")
    return 1 if bad or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
