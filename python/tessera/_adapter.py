"""AdapterFormat: files of LoRA weights, FlatBuffers with the identifier "TORT"."""

from __future__ import annotations

import os
import struct
from typing import Any, Mapping

from . import _types
from ._value import OrtValue

_FORMAT = 1


class AdapterFormat:
    """Parameters by name, with the versions that the file says."""

    def __init__(self, adapter: Any = None):
        self._format, self._adapter, self._model = _FORMAT, 0, 0
        self._parameters: dict[str, OrtValue] = {}
        if adapter is not None:
            self.__dict__.update(vars(adapter))

    @staticmethod
    def read_adapter(file_path: str | os.PathLike) -> AdapterFormat:
        """Reads a file."""
        with open(file_path, "rb") as file:
            return _read(file.read(), os.fspath(file_path))

    def export_adapter(self, file_path: str | os.PathLike) -> None:
        """Writes a file that LoraAdapter.Load reads."""
        data = _written(self)
        with open(file_path, "wb") as file:
            file.write(data)

    def get_format_version(self) -> int:
        return self._format

    def get_adapter_version(self) -> int:
        return self._adapter

    def set_adapter_version(self, adapter_version: int) -> None:
        self._adapter = int(adapter_version)

    def get_model_version(self) -> int:
        return self._model

    def set_model_version(self, model_version: int) -> None:
        self._model = int(model_version)

    def get_parameters(self) -> dict[str, OrtValue]:
        return dict(self._parameters)

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        self._parameters = dict(params)

    format_version = property(get_format_version)
    adapter_version = property(get_adapter_version, set_adapter_version)
    model_version = property(get_model_version, set_model_version)
    parameters = property(get_parameters, set_parameters)


class _Table:
    """A table of a FlatBuffer; fields by number."""

    def __init__(self, data: bytes, at: int):
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def _place(self, field):
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self._data, self._fields + entry)[0] if entry + 2 <= self._size else 0
        return self._at + offset if offset else None

    def number(self, field):
        place = self._place(field)
        return struct.unpack_from("<i", self._data, place)[0] if place else 0

    def elements(self, field, size):
        """Where the elements of a list begin, and how many there are."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + struct.unpack_from("<I", self._data, place)[0]
        count = struct.unpack_from("<I", self._data, start)[0]
        if start + 4 + count * size > len(self._data):
            raise ValueError("the adapter is damaged: a list ends behind the file")
        return start + 4, count

    def tables(self, field):
        start, count = self.elements(field, 4)
        for at in range(start, start + 4 * count, 4):
            yield _Table(self._data, at + struct.unpack_from("<I", self._data, at)[0])


def _read(data, name):
    if data[4:8] != b"TORT":
        raise ValueError(f"{name} is no adapter: the identifier TORT is missing")
    try:
        root = _Table(data, struct.unpack_from("<I", data)[0])
        made = AdapterFormat()
        made._format, made._adapter, made._model = (root.number(i) for i in range(3))
        for table in root.tables(3):
            start, count = table.elements(0, 1)
            dims_at, rank = table.elements(1, 8)
            raw_at, size = table.elements(3, 1)
            shape = list(struct.unpack_from(f"<{rank}q", data, dims_at))
            value = OrtValue.ortvalue_from_shape_and_type(shape, table.number(2))
            if value.tensor_size_in_bytes() != size:
                raise ValueError(f"{size} bytes were given for {value!r}")
            memoryview(value._value).cast("B")[:size] = data[raw_at : raw_at + size]
            made._parameters[data[start : start + count].decode()] = value
        return made
    except struct.error:
        raise ValueError(f"{name} is damaged: an offset leads outside of the file") from None


def _start(out, unit):
    """Room so that what follows the four bytes of a list's length is at a multiple of `unit`."""
    out += bytes(-(len(out) + 4) % unit)
    return len(out)


def _table(out, fields):
    """Writes a table of 32-bit numbers, None where an offset is filled in later; the places of all fields."""
    out += bytes(-len(out) % 4)
    size = 4 + 4 * len(fields)
    out += struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), size, *range(4, size, 4))
    out += bytes(-len(out) % 4)
    at = len(out)
    descriptor = at - (4 + 2 * len(fields) + (-(4 + 2 * len(fields)) % 4))
    out += struct.pack("<i", at - descriptor) + struct.pack(f"<{len(fields)}i", *(f or 0 for f in fields))
    return at, [at + 4 + 4 * i for i in range(len(fields))]


def _list(out, place, count, content, unit):
    """Writes a list and the offset to it at `place`."""
    at = _start(out, unit)
    struct.pack_into("<I", out, place, at - place)
    out += struct.pack("<I", count) + content
    return at + 4


def _written(adapter):
    out = bytearray(b"\0\0\0\0TORT")
    root, places = _table(out, [_FORMAT, adapter._adapter, adapter._model, None])
    struct.pack_into("<I", out, 0, root)
    # Files are read by binary search, so names are in order.
    parameters = sorted(adapter._parameters.items(), key=lambda item: item[0].encode())
    entries = _list(out, places[3], len(parameters), bytes(4 * len(parameters)), 4)
    for i, (name, value) in enumerate(parameters):
        element = _types.BY_NUMBER[value._value.type_and_shape()[0]]
        if element.number == _types.STRING:
            raise ValueError(f"parameter {name!r} is of type STRING, wanted numbers")
        table, fields = _table(out, [None, None, element.onnx_number, None])
        struct.pack_into("<I", out, entries + 4 * i, table - (entries + 4 * i))
        shape = value.shape()
        _list(out, fields[0], len(name.encode()), name.encode() + b"\0", 4)
        _list(out, fields[1], len(shape), struct.pack(f"<{len(shape)}q", *shape), 8)
        raw = memoryview(value._value).cast("B").tobytes() if value.tensor_size_in_bytes() else b""
        _list(out, fields[3], len(raw), raw, 8)
    return bytes(out)
