"""Every name of onnxruntime that programs use is there, under onnxruntime's own name."""

import pathlib
import subprocess
import sys

import pytest

NAMES = pathlib.Path(__file__).parent / "data" / "used_names.txt"

# What is not there, and why.
ABSENT = {
    "onnxruntime.capi._pybind_state.get_shape_inference_function": "no released version of onnxruntime has it",
    "onnxruntime.quantization.matmul_4bits_quantizer.quantize_matmul_4bits": "only older versions have the module",
    "onnxruntime.quantization.quantize.__producer__": "only older versions of onnxruntime have it",
    "onnxruntime.training": "training is another package",
    "onnxruntime.training.ortmodule": "training is another package",
    "onnxruntime.transformers.onnx_model_bert.BertOptimizationOptions": "only older versions of onnxruntime have it",
}

PROGRAM = """
import importlib, sys, warnings
import numpy as np
import tessera.as_onnxruntime
tessera.as_onnxruntime.install()
import onnxruntime as ort
sys.path.insert(0, sys.argv[2])
from models import add
warnings.simplefilter("ignore")

def resolve(name):
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError as e:
            if not e.name.startswith("onnxruntime"):
                return "needs " + e.name
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return None
    raise AttributeError(name)

session = ort.InferenceSession(add())
objects = [session, session.io_binding(), ort.OrtValue.ortvalue_from_numpy(np.zeros(1)), session.get_modelmeta(),
           ort.RunOptions(), ort.SessionOptions(), session.get_inputs()[0]]

def there(name):
    kind, _, what = name.replace(":", " ", 1).rpartition(" ")
    if name.startswith("method:"):
        return None if any(hasattr(o, name[7:]) for o in objects) else "no object has it"
    if name.startswith("SessionOptions:"):
        return None if hasattr(ort.SessionOptions(), name[15:]) else "no such option"
    if name.startswith("config_entry "):
        options = ort.SessionOptions()
        options.add_session_config_entry(name[13:], "0")
        return None
    if name.startswith("provider_string "):
        ort.InferenceSession(add(), providers=[name[16:]])
        return None
    if name.startswith("InferenceSession kw:"):
        argument = name[20:]
        values = {"path_or_bytes": add(), "sess_options": ort.SessionOptions(), "providers": None}
        ort.InferenceSession(**{"path_or_bytes": add(), argument: values.get(argument)})
        return None
    if name.startswith("run kw:"):
        x = np.zeros((1, 2), np.float32)
        arguments = {"output_names": None, "input_feed": {"x": x, "y": x}, "run_options": ort.RunOptions()}
        assert name[7:] in arguments
        session.run(**arguments)
        return None
    return resolve(name)

for line in open(sys.argv[1]):
    name = line.strip()
    if name and name[0] != "#":
        try:
            problem = there(name)
        except Exception as e:
            problem = f"{type(e).__name__}: {e}".splitlines()[0]
        print(name, problem, sep="\\t")
"""


@pytest.fixture(scope="module")
def results():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(NAMES), str(NAMES.parent.parent)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)


def test_used_names(results):
    missing = {name: why for name, why in results.items() if why != "None" and not why.startswith("needs ")}
    print(f"{len(results)} names, {len(missing)} missing")
    assert len(results) > 200
    assert missing.keys() == ABSENT.keys(), "\n".join(f"{n}: {w}" for n, w in missing.items() if n not in ABSENT)
