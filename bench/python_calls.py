#!/usr/bin/env python3
"""What a call from Python and the import cost, beside onnxruntime in the same run: CPU time, least of several.

    PYTHONPATH=build/python_stage build/venv/bin/python bench/python_calls.py        (./dev bench python)
"""
import os
import pathlib
import subprocess
import sys
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np
import onnxruntime
import tessera

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"))
from models import add

IMPORT = "import time, numpy; start = time.process_time(); import {}; print(time.process_time() - start)"


def caller(runtime):
    """A run of a model with one Add of two numbers."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(add(), options, providers=["CPUExecutionProvider"])
    x = np.ones((1, 2), np.float32)
    feed = {"x": x, "y": x}
    return lambda: session.run(None, feed)


def per_call(call, times=1000):
    start = time.thread_time_ns()
    for _ in range(times):
        call()
    return (time.thread_time_ns() - start) / times


def of_import(name):
    done = subprocess.run([sys.executable, "-c", IMPORT.format(name)], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def line(what, unit, rounds):
    ours, peer = (min(column) for column in zip(*rounds))
    print(f"{what:28} {ours:9.1f} {unit} {peer:9.1f} {unit} {ours / peer:7.2f}")


def main():
    print(f"{'':28} {'ours':>12} {'onnxruntime':>12} {'ratio':>7}")
    calls = caller(tessera), caller(onnxruntime)
    line("run of one Add", "ns", [[per_call(c) for c in calls] for _ in range(15)])
    line("import, above numpy", "ms", [[of_import(n) for n in ("tessera", "onnxruntime")] for _ in range(5)])


if __name__ == "__main__":
    main()
