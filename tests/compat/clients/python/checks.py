"""What the Python programs share: named checks, and answers that one engine writes down and the other has to give again.

A program is called as PROGRAM MODELS ANSWERS. It writes ANSWERS (an .npz) if that file does not exist, else compares."""
import pathlib
import sys

import numpy as np


class Checks:
    def __init__(self):
        self.models, self.path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
        self.known = dict(np.load(self.path, allow_pickle=False)) if self.path.exists() else None
        self.found, self.passed, self.failed = {}, 0, 0

    def check(self, name, work):
        """Runs `work`, which raises where something is wrong."""
        try:
            work()
        except Exception as error:  # whatever it is, the program goes on
            self.failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
        else:
            self.passed += 1
            print(f"ok {name}", flush=True)

    def answer(self, name, value, tolerance=0.0):
        """Numbers within `tolerance` of the largest, texts as they are."""
        self.found[name] = value = np.asarray(value)
        if self.known is None:
            return
        wanted = self.known[name]
        assert value.shape == wanted.shape, f"shape {value.shape} instead of {wanted.shape}"
        if wanted.dtype.kind in "US":
            assert (value == wanted).all(), f"{value} instead of {wanted}"
        else:
            apart = np.abs(value.astype(np.float64) - wanted).max(initial=0)
            assert apart <= tolerance * max(1, np.abs(wanted).max(initial=0)), f"{apart} apart"

    def end(self):
        if self.known is None:
            np.savez(self.path, **self.found)
        print(f"{self.passed} passed, {self.failed} failed")
