"""The backend: models from onnx to sessions."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto
from onnx.backend.base import Backend
from onnx.checker import check_model  # noqa: F401  programs import it from here

from .._errors import NotImplemented, error
from .._options import SessionOptions
from .._session import InferenceSession
from .backend_rep import OnnxRuntimeBackendRep, TesseraBackendRep, set_permitted  # noqa: F401

# Options that name no file: arguments of the backend may come from others than the program.
_SESSION_OPTIONS = frozenset(SessionOptions._defaults) - {
    "enable_profiling",
    "optimized_model_filepath",
    "profile_file_prefix",
}


class TesseraBackend(Backend):
    """Runs models of onnx with Tessera."""

    allowReleasedOpsetsOnly = False

    @classmethod
    def is_opset_supported(cls, model: Any) -> tuple[bool, str]:
        """Every released operator set is; the second is a reason where one is not."""
        return True, ""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether the model can run here."""
        device = device or "CPU"
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device, **kwargs)
        except Exception:  # whatever the reason is, it cannot
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU is supported."""
        return device.split(":")[0].upper() == "CPU"

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> TesseraBackendRep:
        """A model, its bytes, a path or a session, ready to run. Options of SessionOptions are given by their names."""
        if isinstance(model, TesseraBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return TesseraBackendRep(model)
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"Incompatible device expected '{device}', got 'CPU'")
        if isinstance(model, ModelProto):
            model = model.SerializeToString()
        if not isinstance(model, (str, bytes)):
            raise TypeError(f"Unexpected type {type(model)}")
        options = SessionOptions()
        set_permitted(options, kwargs, _SESSION_OPTIONS)
        return TesseraBackendRep(InferenceSession(model, options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """Loads a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any):
        """Not there: a node alone does not say the types of its outputs."""
        raise error(NotImplemented, "a node cannot be run alone; make a model of it")


OnnxRuntimeBackend = TesseraBackend

is_compatible = TesseraBackend.is_compatible
prepare = TesseraBackend.prepare
run = TesseraBackend.run_model
supports_device = TesseraBackend.supports_device
run_model = TesseraBackend.run_model
run_node = TesseraBackend.run_node
