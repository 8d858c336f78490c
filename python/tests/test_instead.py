"""Programs written for onnxruntime, unchanged, on Tessera."""

import importlib.metadata
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import onnxruntime
import pytest
import tessera
from models import add, model, one_node, tensor
from onnx import helper
from tessera.as_onnxruntime import write_wheel

HERE = str(pathlib.Path(__file__).parent)


def run(*arguments, **environment):
    import os

    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def instead(code):
    return run("-m", "tessera.as_onnxruntime", "-c", f"import sys; sys.path.insert(0, {HERE!r})\n" + code)


def test_modules_and_code():
    assert run("-m", "tessera.as_onnxruntime", "-m", "json.tool", "--help").startswith("usage")
    assert instead("import onnxruntime; print(onnxruntime.__version__)") == tessera.get_version_string() + "\n"
    assert "python -m tessera.as_onnxruntime" in run("-m", "tessera.as_onnxruntime", "--help")


def test_submodules_are_the_same_objects():
    assert (
        instead(
            """
import importlib.util, onnxruntime, tessera.capi._pybind_state
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
assert C is tessera.capi._pybind_state and state.Fail is tessera.Fail and InferenceSession is tessera.InferenceSession
assert C.__spec__.name == "tessera.capi._pybind_state"
assert importlib.util.find_spec("onnxruntime").origin
assert importlib.util.find_spec("onnxruntime.capi._pybind_state")
assert importlib.util.find_spec("onnxruntime.nothing") is None
print("fine")
"""
        )
        == "fine\n"
    )


def test_install_refuses_to_come_late():
    code = "import onnxruntime, tessera.as_onnxruntime as a\ntry:\n  a.install()\nexcept ImportError as e:\n  print(e)"
    assert "already" in run("-c", code)


def test_quantization_runs_here():
    assert (
        instead(
            """
import tempfile, pathlib, numpy as np, onnx, onnxruntime, tessera
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from models import model, tensor
folder = pathlib.Path(tempfile.mkdtemp())
w = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
source = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [4, 16])], [tensor("y", [4, 8])], [("w", w)])
(folder / "m.onnx").write_bytes(source)
x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
class Reader(CalibrationDataReader):
    rows = iter([{"x": x}])
    def get_next(self):
        return next(self.rows, None)
quantize_dynamic(folder / "m.onnx", folder / "d.onnx", weight_type=QuantType.QInt8)
quantize_static(folder / "m.onnx", folder / "s.onnx", Reader())
for name in ("d.onnx", "s.onnx"):
    session = onnxruntime.InferenceSession(folder / name)
    assert isinstance(session, tessera.InferenceSession)
    assert np.abs(session.run(None, {"x": x})[0] - x @ w).max() < 0.2
print("fine")
"""
        )
        == "fine\n"
    )


def test_tools_run_here():
    assert (
        instead(
            """
import onnx, onnxruntime
from onnxruntime.tools.onnx_model_utils import make_dim_param_fixed
from onnxruntime.transformers.onnx_model import OnnxModel
from models import add
loaded = onnx.load_from_string(add())
make_dim_param_fixed(loaded.graph, "N", 3)
assert onnxruntime.InferenceSession(loaded.SerializeToString()).get_inputs()[0].shape == [3, 2]
print("fine")
"""
        ).splitlines()[-1]
        == "fine"
    )


def test_wheel_of_that_name(tmp_path):
    """Installed, it makes the name mean Tessera, also for those who look for the distribution."""
    path = write_wheel(tmp_path)
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "site")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
import onnxruntime, importlib.metadata, tessera
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxruntime import InferenceSession
print(InferenceSession is tessera.InferenceSession, importlib.metadata.version("onnxruntime"), onnxruntime.__version__)
"""
    version = tessera.get_version_string()
    assert run("-c", code).split() == ["True", version, version]


def test_library_in_the_package():
    """Programs that load the C library from the package find it."""
    library = pathlib.Path(tessera.__file__).parent / "capi" / "libonnxruntime.so.1"
    assert run("-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).OrtGetApiBase() != 0)") == "True\n"


@pytest.mark.parametrize("rows, columns, block", [(64, 8, 32), (48, 6, 16)])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_in_blocks_are_those_of_onnxruntime(bits, symmetric, rows, columns, block):
    from tessera.capi import _pybind_state as ours

    w = np.random.default_rng(bits).standard_normal((rows, columns)).astype(np.float32)
    count = rows // block
    results = []
    for module in (ours, onnxruntime.capi._pybind_state):
        codes = np.zeros((columns, count, block * bits // 8), np.uint8)
        scales = np.zeros((columns, count), np.float32)
        zeros = np.zeros((columns, -(-count * bits // 8)), np.uint8)
        getattr(module, f"quantize_matmul_{bits}bits")(codes, w, scales, zeros, block, columns, rows, symmetric)
        results.append((codes, scales, zeros if count * bits % 8 == 0 else None))
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


def test_nf4_weights_are_those_of_onnxruntime():
    from tessera.capi import _pybind_state as ours

    w = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    results = []
    for module in (ours, onnxruntime.capi._pybind_state):
        codes, largest = np.zeros(64 * 8 // 2, np.uint8), np.zeros(64 * 8 // 32, np.float32)
        module.quantize_matmul_bnb4(codes, w, largest, 32, 1, 8, 64)
        results.append((codes, largest))
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


def test_adapters(tmp_path):
    """Files written here are read there, and the other way; active ones change results."""
    source = model(
        [helper.make_node("MatMul", ["x", "a"], ["y"])],
        [tensor("x", [1, 2]), tensor("a", [2, 3])],
        [tensor("y", [1, 3])],
        [("a", np.zeros((2, 3), np.float32))],
    )
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    for runtime, other in ((tessera, onnxruntime), (onnxruntime, tessera)):
        path = str(tmp_path / f"{runtime.__name__}.onnx_adapter")
        made = runtime.AdapterFormat()
        made.set_adapter_version(3)
        made.set_model_version(5)
        made.set_parameters({"a": runtime.OrtValue.ortvalue_from_numpy(weights)})
        made.export_adapter(path)
        read = other.AdapterFormat.read_adapter(path)
        assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (1, 3, 5)
        np.testing.assert_array_equal(read.get_parameters()["a"].numpy(), weights)
        adapter = other.LoraAdapter()
        adapter.Load(path)
        options = other.RunOptions()
        options.add_active_adapter(adapter)
        session = other.InferenceSession(source, providers=["CPUExecutionProvider"])
        feed = {"x": np.ones((1, 2), np.float32)}
        np.testing.assert_array_equal(session.run(None, feed, options)[0], [[3, 5, 7]])
        np.testing.assert_array_equal(session.run(None, feed)[0], [[0, 0, 0]])
    (tmp_path / "bad").write_bytes(b"\xff\xff\xff\x7fTORT")
    with pytest.raises(ValueError):
        tessera.AdapterFormat.read_adapter(tmp_path / "bad")


def test_compiler(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(add())
    compiler = tessera.ModelCompiler(tessera.SessionOptions(), path)
    compiler.compile_to_file()
    pieces = []
    compiler.compile_to_stream(pieces.append)
    x = np.ones((1, 2), np.float32)
    for source in (tmp_path / "model_ctx.onnx", compiler.compile_to_bytes(), b"".join(pieces)):
        np.testing.assert_array_equal(tessera.InferenceSession(source)(x, x), 2)
    flags = tessera.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS
    with pytest.raises(tessera.Fail, match="exists already"):
        tessera.ModelCompiler(tessera.SessionOptions(), path, flags=flags).compile_to_file()
    with pytest.raises(ValueError):
        tessera.ModelCompiler(tessera.SessionOptions(), tmp_path / "nothing.onnx")


def test_devices():
    options = tessera.SessionOptions()
    options.add_provider_for_devices(tessera.get_ep_devices(), {})
    options.set_provider_selection_policy(tessera.OrtExecutionProviderDevicePolicy.PREFER_NPU)
    assert options.has_providers()
    session = tessera.InferenceSession(add(), options)
    assert [i.name for i in session.get_input_memory_infos()] == ["Cpu", "Cpu"]
    with pytest.raises(tessera.NotImplemented):
        tessera.register_execution_provider_library("name", "path")
    assert importlib.metadata.version("onnxruntime")


def test_backend():
    import onnx
    import tessera.backend as backend

    made = onnx.load_from_string(one_node("Relu", [tensor("x", [2])], [tensor("y", [2])]))
    x = np.array([-1, 1], np.float32)
    for inputs in (x, [x], {"x": x}):
        np.testing.assert_array_equal(backend.prepare(made).run(inputs)[0], [0, 1])
    np.testing.assert_array_equal(backend.run(made, x)[0], [0, 1])
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    assert backend.is_compatible(made) and not backend.is_compatible(b"nonsense")
    with pytest.raises(RuntimeError):
        backend.prepare(made, "CUDA")
