"""The exceptions, by the codes of the C ABI. They derive from Exception alone, as programs expect."""

from __future__ import annotations

from . import _native


class Fail(Exception):
    """What has no code of its own; also a run that its options ended."""


class InvalidArgument(Exception):
    """An input, output, option or attribute that cannot be."""


class NoSuchFile(Exception):
    """There is no such file, or it cannot be read."""


class NoModel(Exception):
    """No model was given."""


class EngineError(Exception):
    """Something is wrong inside the library."""


class RuntimeException(Exception):
    """An operator failed."""


class InvalidProtobuf(Exception):
    """The bytes are no model."""


class ModelLoaded(Exception):
    """A model is loaded already."""


class NotImplemented(Exception):
    """Not there; the message says what to use."""


class InvalidGraph(Exception):
    """A model that contradicts the standard or itself."""


class EPFail(Exception):
    """A provider failed."""


class ModelLoadCanceled(Exception):
    """Loading was cancelled by the options."""


class ModelRequiresCompilation(Exception):
    """A model for a provider that compiles."""


class NotFound(Exception):
    """What was asked for is not there."""


class DeviceReset(Exception):
    """A device was reset."""


# The code, as the C ABI numbers it, its name there, and the exception.
ERRORS = (
    (1, "FAIL", Fail),
    (2, "INVALID_ARGUMENT", InvalidArgument),
    (3, "NO_SUCHFILE", NoSuchFile),
    (4, "NO_MODEL", NoModel),
    (5, "ENGINE_ERROR", EngineError),
    (6, "RUNTIME_EXCEPTION", RuntimeException),
    (7, "INVALID_PROTOBUF", InvalidProtobuf),
    (8, "MODEL_LOADED", ModelLoaded),
    (9, "NOT_IMPLEMENTED", NotImplemented),
    (10, "INVALID_GRAPH", InvalidGraph),
    (11, "EP_FAIL", EPFail),
    (12, "MODEL_LOAD_CANCELED", ModelLoadCanceled),
    (13, "MODEL_REQUIRES_COMPILATION", ModelRequiresCompilation),
    (14, "NOT_FOUND", NotFound),
    (15, "DEVICE_RESET", DeviceReset),
)

for _code, _label, _class in ERRORS:
    _class.__module__ = "tessera"
    _native.add_error(_code, f"[ONNXRuntimeError] : {_code} : {_label} : ", _class)


def error(class_: type[Exception], message: str) -> Exception:
    """An exception with the text that the library gives its own."""
    code, label = next((c, name) for c, name, known in ERRORS if known is class_)
    return class_(f"[ONNXRuntimeError] : {code} : {label} : {message}")
