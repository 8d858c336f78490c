#!/usr/bin/env python3
"""Arrays that NumPy writes, tessera reads, and the other way round.

    python tests/compat/npy_files.py TESSERA

A model of Identity nodes carries one array of each type from .npy, compressed and plain .npz files through tessera and
back into NumPy.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

TYPES = ("float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128 "
         "str").split()


def arrays():
    rng = np.random.default_rng(1)
    out = {}
    for name in TYPES:
        if name == "str":
            out[name] = np.array([["", "a"], ["zwölf", "日本"]])
        else:
            out[name] = (rng.random((2, 3, 4)) * 100).astype(name)
    out["int64"] = np.array([-(2**63), 2**63 - 1])
    out["float32"] = np.asfortranarray(out["float32"])
    out["int32"] = out["int32"].astype(">i4")
    out["float64"] = np.float64(1.5).reshape(())
    out["uint8"] = np.zeros((0, 3), np.uint8)
    return out


def model(values):
    def info(name, array):
        dtype = onnx.TensorProto.STRING if name == "str" else helper.np_dtype_to_tensor_dtype(np.dtype(name))
        return helper.make_tensor_value_info(name, dtype, array.shape)

    nodes = [helper.make_node("Identity", [n], ["out_" + n]) for n in values]
    outputs = [info(n, a) for n, a in values.items()]
    inputs = [info(n, a) for n, a in values.items()]
    for o in outputs:
        o.name = "out_" + o.name
    graph = helper.make_graph(nodes, "identities", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    values, bad = arrays(), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        onnx.save(model(values), folder / "model.onnx")
        np.savez(folder / "plain.npz", **values)
        np.savez_compressed(folder / "packed.npz", **values)
        files = []
        for name, array in values.items():
            np.save(folder / f"{name}.npy", array)
            files += ["--input", f"{name}={folder / name}.npy"]
        ways = {"npy": files, "npz": ["--inputs", folder / "plain.npz"], "packed npz": ["--inputs", folder / "packed.npz"]}
        for way, arguments in ways.items():
            command = [sys.argv[1], "run", folder / "model.onnx", *arguments]
            done = subprocess.run([*command, "--output", folder / "out", "--output", folder / "out.npz"], capture_output=True)
            if done.returncode:
                print(f"FAIL {way}: {done.stderr.decode()}")
                bad += 1
                continue
            archive = np.load(folder / "out.npz")
            for name, array in values.items():
                for got in (np.load(folder / "out" / f"out_{name}.npy"), archive["out_" + name]):
                    if got.shape != array.shape or got.dtype.kind != array.dtype.kind or not np.array_equal(got, array):
                        print(f"FAIL {way} {name}: {got!r} instead of {array!r}")
                        bad += 1
    print(f"{len(values)} types in {len(ways)} ways, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
