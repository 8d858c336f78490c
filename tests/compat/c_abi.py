#!/usr/bin/env python3
"""The tests of the C ABI that any library of it can do, run with ours and with the onnxruntime package's.

usage: c_abi.py TESSERA    the path of the tessera command; the tests stand beside it
"""
import os
import pathlib
import re
import subprocess
import sys

TESTS = ["c_abi_editor_test", "c_abi_sparse_test", "c_abi_report_test"]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    import onnxruntime
    found = sorted(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.1.*"))
    if not found:
        sys.exit("c_abi.py: the onnxruntime package has no libonnxruntime.so")
    folder, failed = pathlib.Path(sys.argv[1]).resolve().parent, 0
    env = dict(os.environ, TESSERA_OTHER_LIBRARY=str(found[-1]), ORT_DISABLE_TELEMETRY="1")
    for test in TESTS:
        if not (folder / test).exists():
            sys.exit(f"c_abi.py: build the target {test} first")
        done = subprocess.run([str(folder / test)], env=env, capture_output=True, text=True)
        good = {kind: len(re.findall(rf"\[       OK \] \S+/{kind} ", done.stdout)) for kind in ("ours", "other")}
        print(f"{test}: {good['ours']} passed with our library, {good['other']} with {found[-1].name}")
        if done.returncode or not good["other"]:
            print(done.stdout + done.stderr)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
