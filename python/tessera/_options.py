"""SessionOptions, RunOptions and the enumerations they use."""
import enum
import os

from . import _native
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

    _defaults = {}

    def __setattr__(self, name, value):
        if name in self._defaults:
            value = _as_type(name, value, type(self._defaults[name]))
        elif not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        object.__setattr__(self, name, value)


def _as_type(name, value, wanted):
    if wanted is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if wanted is int and isinstance(value, bool) or not isinstance(value, (wanted, int)):
        raise TypeError(f"{name} is {value!r}, wanted {wanted.__name__}")
    return wanted(value)


class SessionOptions(_Properties):
    """How sessions are made. `enable_mem_reuse`, `execution_order` and `use_per_session_threads` are kept and ignored."""

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

    def __init__(self):
        self._options = _native.SessionOptions.make()
        self._kept = []  # values that sessions read in place
        self._providers = []
        for name, value in self._defaults.items():
            setattr(self, name, value)

    def add_session_config_entry(self, key, value):
        self._options.add_config(key, value)

    def get_session_config_entry(self, key):
        value = self._options.get_config(key)
        if value is None:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return value

    def add_free_dimension_override_by_name(self, name, size):
        self._options.fix_dimension(name, size)

    def add_free_dimension_override_by_denotation(self, denotation, size):
        self._options.fix_denoted_dimension(denotation, size)

    def add_initializer(self, name, value):
        """The value, an OrtValue, stands in for the model's initializer of that name; it is read in place."""
        native = _value_of(value)
        self._options.add_initializer(name, native)
        self._kept.append(native)

    def add_external_initializers(self, names, values):
        natives = [_value_of(v) for v in values]
        self._options.add_external_initializers(list(names), natives)
        self._kept.extend(natives)

    def add_external_initializers_from_files_in_memory(self, names, buffers, lengths=None):
        """Files of external data under the names the model gives them. `bytes` are used in place."""
        buffers = [b if isinstance(b, bytes) else bytes(b) for b in buffers]
        lengths = [len(b) for b in buffers] if lengths is None else lengths
        if not len(names) == len(buffers) == len(lengths):
            raise ValueError(f"{len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths were given")
        for name, data, size in zip(names, buffers, lengths):
            self._options.add_external_file(os.fspath(name), data, size)

    def register_custom_ops_library(self, path):
        self._options.register_library(os.fspath(path))

    def add_provider(self, name, options):
        self._providers.append((name, dict(options)))

    def has_providers(self):
        return bool(self._providers)

    def _finished(self):
        """Options of the library with all of the above."""
        made = self._options.clone()
        made.set_graph_optimization(self.graph_optimization_level)
        made.set_execution_mode(self.execution_mode)
        made.set_threads(self.intra_op_num_threads, self.inter_op_num_threads)
        made.set_memory(self.enable_cpu_mem_arena, self.enable_mem_pattern)
        made.set_logging(self.logid, self.log_severity_level, self.log_verbosity_level)
        made.set_deterministic(self.use_deterministic_compute)
        if self.optimized_model_filepath:
            made.set_optimized_path(self.optimized_model_filepath)
        if self.enable_profiling:
            made.enable_profiling(self.profile_file_prefix)
        return made


class RunOptions(_Properties):
    """How one run behaves. Setting `terminate` stops the runs that use the options, from any thread."""

    _defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def __init__(self):
        self._options = _native.RunOptions.make()
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

    def add_run_config_entry(self, key, value):
        self._options.add_config(key, value)

    def get_run_config_entry(self, key):
        value = self._options.get_config(key)
        if value is None:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return value


def _value_of(value):
    return (value if isinstance(value, OrtValue) else OrtValue.ortvalue_from_numpy(value))._value
