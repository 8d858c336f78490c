"""SessionOptions, RunOptions, adapters and the enumerations they use."""

from __future__ import annotations

import enum
import os
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._devices import OrtEpDevice, OrtExecutionProviderDevicePolicy
from ._value import OrtValue


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Properties:
    """Attributes with defaults and types; any other name is refused, so that a misspelt option is an error."""

    _defaults: dict[str, Any] = {}

    def __setattr__(self, name, value):
        if name in self._defaults:
            value = _as_type(name, value, type(self._defaults[name]))
        elif not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        changed = [f"{k}={getattr(self, k)!r}" for k, v in self._defaults.items() if getattr(self, k) != v]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _state(self):
        return {name: getattr(self, name) for name in self._defaults}


def _as_type(name, value, wanted):
    if wanted is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if issubclass(wanted, enum.Enum):
        if not isinstance(value, wanted):
            raise TypeError(f"{name} is {value!r}, wanted {wanted.__name__}")
        return value
    if wanted is int and isinstance(value, bool) or not isinstance(value, (wanted, int)):
        raise TypeError(f"{name} is {value!r}, wanted {wanted.__name__}")
    return wanted(value)


_global_threads: list[tuple[int, int]] = []  # the last is in force


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """How many threads the runs of all sessions use that are made afterwards; their options must have
    use_per_session_threads = False."""
    _global_threads.append((intra_op_num_threads, inter_op_num_threads))


class SessionOptions(_Properties):
    """How sessions are made. `enable_mem_reuse` is kept and has no effect."""

    _defaults = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool

    def __init__(self) -> None:
        self._options = _native.SessionOptions.make()
        self._kept: list[Any] = []  # values that sessions read in place
        self._last: Any = None  # options of the session made last
        self._calls: list[tuple] = []  # of the methods below, to make the same options elsewhere
        self._providers: list[tuple[str, dict[str, str]]] = []
        for name, value in self._defaults.items():
            setattr(self, name, value)

    def __getstate__(self):
        return self._state(), self._calls

    def __setstate__(self, state):
        self.__init__()
        fields, calls = state
        for name, value in fields.items():
            setattr(self, name, value)
        for method, *arguments in calls:
            getattr(self, method)(*arguments)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets an entry by its text, such as "session.intra_op.allow_spinning"."""
        self._options.add_config(key, value)
        self._calls.append(("add_session_config_entry", key, value))

    def get_session_config_entry(self, key: str) -> str:
        """The text of an entry; RuntimeError where it was not set."""
        value: Any = self._options.get_config(key)
        if value is None:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return value

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes the dimensions that the model calls by this name."""
        self._options.fix_dimension(name, size)
        self._calls.append(("add_free_dimension_override_by_name", name, size))

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes the dimensions of this denotation."""
        self._options.fix_denoted_dimension(denotation, size)
        self._calls.append(("add_free_dimension_override_by_denotation", denotation, size))

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """The value stands in for the model's initializer of that name; it is read in place."""
        native = _value_of(value)
        self._options.add_initializer(name, native)
        self._kept.append(native)
        self._calls.append(("add_initializer", name, OrtValue(native)))

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Values for initializers that the model keeps in other files; they are read in place."""
        natives = [_value_of(v) for v in values]
        self._options.add_external_initializers(list(names), natives)
        self._kept.extend(natives)
        self._calls.append(("add_external_initializers", list(names), [OrtValue(v) for v in natives]))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[bytes], lengths: Sequence[int] | None = None
    ) -> None:
        """Files of external data under the names the model gives them. `bytes` are used in place."""
        buffers = [b if isinstance(b, bytes) else bytes(b) for b in buffers]
        lengths = [len(b) for b in buffers] if lengths is None else lengths
        if not len(names) == len(buffers) == len(lengths):
            raise ValueError(f"{len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths were given")
        for name, data, size in zip(names, buffers, lengths):
            self._options.add_external_file(os.fspath(name), data, size)
        self._calls.append(("add_external_initializers_from_files_in_memory", list(names), buffers, list(lengths)))

    def register_custom_ops_library(self, path: str | os.PathLike) -> None:
        """Loads operators from a library that exports RegisterCustomOps."""
        self._options.register_library(os.fspath(path))
        self._calls.append(("register_custom_ops_library", os.fspath(path)))

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Accepted; everything runs on the CPU."""
        self._providers.append((name, dict(options)))
        self._calls.append(("add_provider", name, dict(options)))

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]) -> None:
        """Devices of get_ep_devices(), all of one provider."""
        names = {device.ep_name for device in devices}
        if len(names) != 1:
            raise ValueError(f"devices of one provider are wanted, these are of {sorted(names)}")
        self.add_provider(names.pop(), options)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Accepted; there is only the CPU to select."""

    def set_provider_selection_policy_delegate(self, delegate: Callable) -> None:
        """Accepted; there is only the CPU to select."""

    def set_ep_context_data_read_func(self, read_func: Callable) -> None:
        """Accepted; the CPU needs no data of a compiling provider."""

    def clear_ep_context_data_read_func(self) -> None:
        """Accepted."""

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """True: making a session with these options fails with ModelLoadCanceled, also one that is being made."""
        self._options.set_load_cancellation(cancel)
        if self._last is not None:
            self._last.set_load_cancellation(cancel)
        self._calls.append(("set_load_cancellation_flag", cancel))

    def has_providers(self) -> bool:
        return bool(self._providers)

    def _finished(self):
        """Options of the library with all of the above."""
        made = self._options.clone()
        made.set_graph_optimization(self.graph_optimization_level)
        made.set_execution_mode(self.execution_mode)
        made.set_threads(*self._threads())
        made.set_memory(self.enable_cpu_mem_arena, self.enable_mem_pattern)
        made.set_logging(self.logid, self.log_severity_level, self.log_verbosity_level)
        made.set_deterministic(self.use_deterministic_compute)
        if self.execution_order != ExecutionOrder.DEFAULT:
            made.add_config("session.execution_order", str(int(self.execution_order)))
        if self.optimized_model_filepath:
            made.set_optimized_path(self.optimized_model_filepath)
        if self.enable_profiling:
            made.enable_profiling(self.profile_file_prefix)
        self._last = made
        return made

    def _threads(self):
        """How many threads runs use: the session's numbers, or those of the process where they were given."""
        own = (self.intra_op_num_threads, self.inter_op_num_threads)
        if _global_threads and self.use_per_session_threads:
            raise RuntimeError(
                "set_global_thread_pool_sizes() was called; sessions need use_per_session_threads = False"
            )
        return _global_threads[-1] if _global_threads else own

    def _changed_by(self, text: str) -> SessionOptions:
        """A copy with the options that a JSON object gives as "session_options"; RuntimeError where it is none."""
        import json

        try:
            given = json.loads(text).get("session_options", {})
            chosen = {k: type(self._defaults[k])(v) for k, v in given.items() if k in self._in_models}
        except (ValueError, TypeError, AttributeError) as e:
            raise RuntimeError(f"the model's ort_config cannot be used: {e}") from e
        made = self._copy()
        for name, value in chosen.items():
            setattr(made, name, value)
        return made

    # The options that a model may give.
    _in_models = (
        "enable_profiling",
        "execution_mode",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
    )

    def _copy(self) -> SessionOptions:
        """The same options, to be changed; nothing is copied that is read in place."""
        made = SessionOptions()
        made.__setstate__(self.__getstate__())
        return made


class LoraAdapter:
    """Weights that take the place of a model's inputs while the adapter is active."""

    def __init__(self) -> None:
        self._adapter: Any = None

    def Load(self, path: str | os.PathLike) -> None:
        """Reads a file that AdapterFormat.export_adapter wrote."""
        self._adapter = _native.LoraAdapter.load(os.fspath(path))


class RunOptions(_Properties):
    """How one run behaves. Setting `terminate` stops the runs that use the options, from any thread."""

    _defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool

    def __init__(self) -> None:
        self._options = _native.RunOptions.make()
        self._kept: list[Any] = []
        self._config: dict[str, str] = {}
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "terminate":
            self._options.set_terminate(self.terminate)
        elif name == "logid":
            self._options.set_tag(self.logid)
        elif name == "log_severity_level":
            self._options.set_severity(self.log_severity_level)
        elif name == "log_verbosity_level":
            self._options.set_verbosity(self.log_verbosity_level)

    def __getstate__(self):
        return self._state(), self._config

    def __setstate__(self, state):
        self.__init__()
        fields, config = state
        for name, value in fields.items():
            setattr(self, name, value)
        for key, value in config.items():
            self.add_run_config_entry(key, value)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets an entry by its text."""
        self._options.add_config(key, value)
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The text of an entry; RuntimeError where it was not set."""
        value: Any = self._options.get_config(key)
        if value is None:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return value

    def add_active_adapter(self, adapter: LoraAdapter) -> None:
        """Runs with these options use the weights of the adapter."""
        if adapter._adapter is None:
            raise ValueError("the adapter has no weights yet; Load() reads them")
        self._options.add_adapter(adapter._adapter)
        self._kept.append(adapter)


def _value_of(value):
    return (value if isinstance(value, OrtValue) else OrtValue.ortvalue_from_numpy(value))._value
