"""The session and the binding of onnxruntime's native module: what programs reach for as `_sess` and `_iobinding`. Their
methods take other arguments than those of the classes in Python."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._binding import IOBinding
from ._value import OrtValue, OrtValueVector


class InnerSession:
    """A session as the native module has it; what is not here is as in the session itself."""

    def __init__(self, session: Any):
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._session, name)

    inputs_meta = property(lambda self: self._session.get_inputs())
    outputs_meta = property(lambda self: self._session.get_outputs())
    overridable_initializers = property(lambda self: self._session.get_overridable_initializers())
    model_meta = property(lambda self: self._session.get_modelmeta())
    session_options = property(lambda self: self._session.get_session_options())
    input_meminfos = property(lambda self: self._session.get_input_memory_infos())
    output_meminfos = property(lambda self: self._session.get_output_memory_infos())
    input_epdevices = property(lambda self: self._session.get_input_epdevices())
    get_profiling_start_time_ns = property(lambda self: self._session.get_profiling_start_time_ns())

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return self._session.get_provider_options()

    def run_with_ort_values(
        self, feeds: Mapping[str, OrtValue], output_names: Sequence[str] | None, run_options: Any = None
    ) -> OrtValueVector:
        return OrtValueVector(self._session.run_with_ort_values(output_names, feeds, run_options))

    def run_with_iobinding(self, binding: SessionIOBinding | IOBinding, run_options: Any = None) -> None:
        given = binding._outer if isinstance(binding, SessionIOBinding) else binding
        self._session.run_with_iobinding(given, run_options)


class SessionIOBinding:
    """A binding as the native module has it: devices are OrtDevice objects, and outputs an OrtValueVector."""

    def __init__(self, owner: Any):
        """owner: a session, the `_sess` of one, or an IOBinding."""
        if isinstance(owner, IOBinding):
            self._outer = owner
        else:
            self._outer = IOBinding(owner._session if isinstance(owner, InnerSession) else owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._outer, name)

    def bind_input(self, name: str, source: Any, *memory: Any) -> None:
        """An array; or a device, an element type, a shape and an address."""
        if not memory:
            self._outer.bind_cpu_input(name, source)
        else:
            element_type, shape, address = memory
            self._outer.bind_input(name, source, 0, element_type, shape, address)

    def bind_output(self, name: str, device: Any, *memory: Any) -> None:
        """A device alone, or with an element type, a shape and an address."""
        self._outer.bind_output(name, device, 0, *memory)

    def get_outputs(self) -> OrtValueVector:
        return self._outer.get_outputs_as_ortvaluevector()
