"""What a model's file says beside its graph, read without loading the graph."""

from __future__ import annotations

import mmap
import os
from typing import Any

_METADATA = 14  # the field of ModelProto with entries of a key (1) and a value (2)


def model_metadata(path_or_bytes: Any) -> dict[str, str]:
    """The metadata of a model, of a file or of its bytes; ValueError where it cannot be read."""
    if not isinstance(path_or_bytes, (str, os.PathLike)):
        return _metadata(memoryview(path_or_bytes))
    with open(path_or_bytes, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            return _metadata(view)


def compatibility_info(path_or_bytes: Any, ep_type: str) -> str | None:
    """What the provider that compiled a model wrote of itself; None where there is nothing."""
    if not path_or_bytes or not ep_type:
        raise RuntimeError("a model and the name of a provider are wanted, one of them is empty")
    try:
        return model_metadata(path_or_bytes).get(f"ep_compatibility_info.{ep_type}")
    except (OSError, ValueError) as e:
        raise RuntimeError(f"the model cannot be read: {e}") from e


def _metadata(data):
    found = {}
    for number, content in _fields(data):
        if number == _METADATA and content is not None:
            entry = {n: bytes(c).decode(errors="replace") for n, c in _fields(content) if c is not None}
            found[entry.get(1, "")] = entry.get(2, "")
    return found


def _fields(data):
    """The number of each field of a message and its bytes; None for a field that is a number."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind, content = key >> 3, key & 7, None
        if kind == 0:
            at = _varint(data, at)[1]
        elif kind == 2:
            size, at = _varint(data, at)
            content = data[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind} at byte {at} is no protobuf")
        if number == 0 or at > len(data):
            raise ValueError(f"a field ends at byte {at} of {len(data)}, or has no number")
        yield number, content


def _varint(data, at):
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"the number before byte {at} does not end")
