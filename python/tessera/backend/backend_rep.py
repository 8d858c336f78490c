"""A model that the backend prepared."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import BackendRep

from .._options import RunOptions
from .._session import InferenceSession


# Stopping a run is for the program that started it.
RUN_OPTIONS = frozenset(RunOptions._defaults) - {"terminate"}


def set_permitted(options: Any, given: dict[str, Any], permitted: frozenset[str]) -> None:
    """Sets those of the options that are permitted; one that is not is refused, and an unknown name ignored."""
    for name, value in given.items():
        if name in permitted:
            setattr(options, name, value)
        elif name in options._defaults:
            raise RuntimeError(f"option {name!r} is not permitted here; make an InferenceSession to set it")


class TesseraBackendRep(BackendRep):
    """A session with the interface of onnx.backend."""

    def __init__(self, session: InferenceSession):
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """Inputs as a list in the model's order, by name, or a single one; options of RunOptions by their names."""
        options = RunOptions()
        set_permitted(options, kwargs, RUN_OPTIONS)
        names = [a.name for a in self._session.get_inputs()]
        is_map = len(names) == 1 and self._session.get_inputs()[0].type.startswith("map")
        if isinstance(inputs, dict) and not (is_map and set(inputs) != set(names)):
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
