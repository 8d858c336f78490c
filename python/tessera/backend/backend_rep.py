"""A model that the backend prepared."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import BackendRep

from .._options import RunOptions
from .._session import InferenceSession


class TesseraBackendRep(BackendRep):
    """A session with the interface of onnx.backend."""

    def __init__(self, session: InferenceSession):
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """Inputs as a list in the model's order, by name, or a single one; options of RunOptions by their names."""
        options = RunOptions()
        for name, value in kwargs.items():
            if name in options._defaults:
                setattr(options, name, value)
        names = [a.name for a in self._session.get_inputs()]
        if isinstance(inputs, dict):
            feed = inputs
        elif isinstance(inputs, (list, tuple)):
            if len(inputs) > len(names):
                names += [a.name for a in self._session.get_overridable_initializers()]
            feed = dict(zip(names, inputs))
        elif len(names) == 1:
            feed = {names[0]: inputs}
        else:
            raise RuntimeError(f"Model expect {len(names)} inputs")
        return self._session.run(None, feed, options)


OnnxRuntimeBackendRep = TesseraBackendRep
