#!/usr/bin/env python3
"""Compare the nodes of random models with ONNX Runtime.

    python tests/compat/random_models.py TESSERA [COUNT [FIRST_SEED]]

random_model_test, which lies beside TESSERA, writes COUNT models (default 60) and all their values. Every node becomes
a model of its own that ONNX Runtime runs on our inputs; its outputs must be ours within a tolerance. Nodes that ONNX
Runtime cannot run are counted by operator; so are differences of operators in KNOWN, each with the reason.
"""
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

RANDOM = {"RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial", "Dropout"}
KNOWN = {}
TOLERANCE = {np.dtype("float32"): (2e-4, 2e-5), np.dtype("float64"): (1e-6, 1e-9), np.dtype("float16"): (1e-2, 1e-2)}


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


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    program = pathlib.Path(sys.argv[1]).parent / "random_model_test"
    count, first = (sys.argv[2:] + ["60", "1"][len(sys.argv) - 2:])[:2]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    same, skipped, excused, bad = 0, collections.Counter(), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "--models", count, "--first", first, "--write", folder], capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-1000:])
        for path in sorted(pathlib.Path(folder).iterdir(), key=lambda p: int(p.name)):
            model = onnx.load(path / "model.onnx")
            values = {p.stem: onnx.load_tensor(p) for p in path.glob("*.pb")}
            for node in model.graph.node:
                if node.op_type in RANDOM:
                    continue
                try:
                    one, feeds, outputs = alone(model, node, values) or (None, None, None)
                    if not one:
                        skipped["no tensors"] += 1
                        continue
                    got = ort.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(outputs, feeds)
                except Exception as error:  # whatever ORT raises: it cannot run this one
                    skipped[node.op_type] += 1
                    if "-v" in sys.argv:
                        print(f"skip seed {path.name} {node.op_type}: {str(error)[:200]}")
                    continue
                for name, theirs in zip(outputs, got):
                    why = difference(np.asarray(numpy_helper.to_array(values[name])), np.asarray(theirs))
                    if not why:
                        same += 1
                    elif node.op_type in KNOWN:
                        excused[node.op_type] += 1
                    else:
                        bad += 1
                        print(f"FAIL seed {path.name} {node.op_type} {name}: ours {why}\n  {helper.printable_node(node)[:400]}")
    print(f"{same} outputs agree, {bad} differ; known differences: {dict(excused)}; not run: {dict(skipped.most_common())}")
    return 1 if bad or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
