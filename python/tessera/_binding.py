"""IOBinding: inputs and outputs that stay where they are from run to run."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import _native, _types
from ._devices import require_cpu
from ._errors import InvalidArgument, error
from ._value import OrtValue, OrtValueVector


class IOBinding:
    """Inputs and outputs of a session that stay in place from run to run."""

    def __init__(self, session):
        self._session = session
        self._binding = session._handle.bind()
        self._inputs, self._outputs = {}, {}  # memory that is bound

    @property
    def _iobinding(self) -> Any:
        from ._inner import SessionIOBinding

        return SessionIOBinding(self)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """An array, read in place where it is contiguous."""
        type_ = self._session._types.get(name)
        if type_ is None:
            raise error(InvalidArgument, f"Invalid input name: {name}")
        self._bind_input(name, _types.from_python(arr_on_cpu, type_))

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Memory at an address, which the caller keeps alive."""
        require_cpu(device_type)
        self._bind_input(name, _tensor_at(element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_input(name, ortvalue._value)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Memory at an address, which the caller keeps alive; without one, each run allocates the output."""
        require_cpu(device_type)
        if buffer_ptr is None:
            self._binding.leave_output(name)
            self._outputs.pop(name, None)
        else:
            self._bind_output(name, _tensor_at(element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind_output(name, ortvalue._value)

    def _bind_input(self, name, value):
        self._binding.bind_input(name, value)
        self._inputs[name] = value

    def _bind_output(self, name, value):
        self._binding.bind_output(name, value)
        self._outputs[name] = value

    def synchronize_inputs(self) -> None:
        """Nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for."""

    def get_outputs(self) -> list[OrtValue]:
        """Values of the last run, in the order they were bound."""
        return [OrtValue(v) for v in self._binding.outputs()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays."""
        return [_types.to_python(v) for v in self._binding.outputs()]

    def clear_binding_inputs(self) -> None:
        self._binding.clear_inputs()
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._binding.clear_outputs()
        self._outputs.clear()


def _tensor_at(element_type, shape, address):
    if element_type is None or shape is None:
        raise ValueError("memory at an address needs its element type and shape")
    element = _types.element_of(element_type)
    if element.number == _types.STRING:
        raise RuntimeError("Only binding non-string Tensors is supported by address; bind_ortvalue_input takes strings")
    shape = list(shape)
    bits = int(np.prod(shape, dtype=np.int64)) * element.bits
    return _native.Value.tensor_at(element.number, shape, address, -(-bits // 8), None)
