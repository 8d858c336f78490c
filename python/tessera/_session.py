"""InferenceSession and IOBinding."""
import os
import threading
import warnings

import numpy as np

from . import _native, _types
from ._options import SessionOptions
from ._value import OrtValue, require_cpu

CPU = "CPUExecutionProvider"


class NodeArg:
    """An input or output of a model: name, type such as 'tensor(float)', and shape of numbers, names and None."""

    def __init__(self, name, type_):
        self.name = name
        self._type = type_

    @property
    def type(self):
        return _types.type_text(self._type)

    @property
    def shape(self):
        type_ = self._type[1] if self._type[0] == "optional" else self._type
        return list(type_[2]) if type_[0] == "tensor" else []

    def __str__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"

    __repr__ = __str__


class ModelMetadata:
    """producer_name, graph_name, domain, description, graph_description, version, custom_metadata_map."""

    def __init__(self, fields):
        self.__dict__.update(fields)


def _provider_names(providers, provider_options):
    """Names and options of what was asked for; what is not there is warned about and left out."""
    available = _native.providers()
    chosen = {}
    for i, entry in enumerate(providers or ()):
        name, options = (entry, {}) if isinstance(entry, str) else entry
        if provider_options:
            options = provider_options[i]
        if name in available:
            chosen[name] = {str(k): str(v) for k, v in options.items()}
        else:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(available)}'",
                stacklevel=4,
            )
    chosen.setdefault(CPU, {})
    return chosen


class InferenceSession:
    """A model, ready to run from any number of threads at once.

    path_or_bytes: a file, or the bytes of one, which are used in place.
    providers: accepted for programs that name them; everything runs on the CPU.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options is {type(sess_options).__name__}, wanted SessionOptions")
        for name in kwargs:
            if name not in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
                raise TypeError(f"InferenceSession takes no argument {name!r}")
        self._sess_options = sess_options or SessionOptions()
        self._model_path = None
        self._set_providers(providers, provider_options)
        options = self._sess_options._finished()
        self._kept = list(self._sess_options._kept)
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fspath(path_or_bytes)
            self._sess = _native.Session.open_file(self._model_path, options)
        elif isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            options.add_config("session.use_ort_model_bytes_directly", "1")
            self._sess = _native.Session.open_bytes(bytes(path_or_bytes), options)
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._describe()

    def _set_providers(self, providers, provider_options):
        self._provider_options = _provider_names(providers, provider_options)
        self._providers = list(self._provider_options)

    def _describe(self):
        self._inputs_meta = [NodeArg(*a) for a in self._sess.inputs()]
        self._outputs_meta = [NodeArg(*a) for a in self._sess.outputs()]
        self._overridable = [NodeArg(*a) for a in self._sess.overridable_initializers()]
        self._types = {a.name: a._type for a in self._inputs_meta + self._overridable}
        self._required = [a.name for a in self._inputs_meta if a._type[0] != "optional"]
        self._output_names = [a.name for a in self._outputs_meta]

    def get_inputs(self):
        return self._inputs_meta

    def get_outputs(self):
        return self._outputs_meta

    def get_overridable_initializers(self):
        return self._overridable

    def get_modelmeta(self):
        return ModelMetadata(self._sess.metadata())

    def get_providers(self):
        return list(self._providers)

    def get_provider_options(self):
        return dict(self._provider_options)

    def set_providers(self, providers=None, provider_options=None):
        self._set_providers(providers, provider_options)

    def get_session_options(self):
        return self._sess_options

    def enable_fallback(self):
        """Nothing to fall back from."""

    def disable_fallback(self):
        """Nothing to fall back from."""

    def _validate_input(self, names):
        missing = [name for name in self._required if name not in names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(names)}).")

    def _run(self, output_names, feed, run_options):
        self._validate_input(feed)
        names, values = [], []
        for name, data in feed.items():
            type_ = self._types.get(name)
            if type_ is None:
                raise _native.InvalidArgument(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: {name}")
            if data is None and type_[0] == "optional":
                continue
            names.append(name)
            values.append(_types.from_python(data, type_))
        outputs = list(output_names) if output_names else self._output_names
        return self._sess.run(names, values, outputs, run_options and run_options._options)

    def run(self, output_names, input_feed, run_options=None):
        """The outputs named, or all where that is None or empty: arrays, lists, dicts or None.

        Contiguous arrays are read in place; the arrays given back own the library's memory.
        """
        return [_types.to_python(v) for v in self._run(output_names, input_feed, run_options)]

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        return [OrtValue(v) for v in self._run(output_names, input_dict_ort_values, run_options)]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Returns at once; later callback(outputs, user_data, error text) is called by another thread."""

        def work():
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as e:  # whatever it was is the callback's to handle
                results, error = [], str(e)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def __call__(self, *args, **kwargs):
        """session(x, y), session([x, y]), session({"x": x}) or session(x=x): one output itself, several as a list."""
        if len(args) == 1 and isinstance(args[0], dict):
            feed = {**args[0], **kwargs}
        else:
            if len(args) == 1 and isinstance(args[0], (list, tuple)) and len(args[0]) == len(self._inputs_meta):
                args = args[0]
            if len(args) > len(self._inputs_meta):
                raise TypeError(f"{len(args)} inputs were given, the model takes {len(self._inputs_meta)}")
            feed = {**{meta.name: data for meta, data in zip(self._inputs_meta, args)}, **kwargs}
        results = self.run(None, feed)
        return results[0] if len(results) == 1 else results

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        self._sess.run_binding(iobinding._binding, run_options and run_options._options)

    def create_ortvalue_from_shape_and_type(self, shape, element_type, device_type, device_id=0, vendor_id=-1):
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def end_profiling(self):
        """The name of the profile's file."""
        return self._sess.end_profiling()

    def get_profiling_start_time_ns(self):
        return self._sess.profiling_start()

    def memory(self):
        """Bytes, by name: weights, mapped, copied, packed, planned_peak, slab, idle."""
        return self._sess.memory()

    def explain(self):
        """What was loaded and how it runs: text of several lines, for people."""
        return self._sess.explain()


class IOBinding:
    """Inputs and outputs of a session that stay in place from run to run."""

    def __init__(self, session):
        self._session = session
        self._binding = session._sess.bind()
        self._inputs, self._outputs = {}, {}  # memory that is bound

    @property
    def _iobinding(self):
        return self

    def bind_cpu_input(self, name, arr_on_cpu):
        type_ = self._session._types.get(name)
        if type_ is None:
            raise _native.InvalidArgument(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: {name}")
        self._bind_input(name, _types.from_python(arr_on_cpu, type_))

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory at an address, which the caller keeps alive."""
        require_cpu(device_type)
        self._bind_input(name, _tensor_at(element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name, ortvalue):
        self._bind_input(name, ortvalue._value)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Memory at an address, which the caller keeps alive; without one, each run allocates the output."""
        require_cpu(device_type)
        if buffer_ptr is None:
            self._binding.leave_output(name)
            self._outputs.pop(name, None)
        else:
            self._bind_output(name, _tensor_at(element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name, ortvalue):
        self._bind_output(name, ortvalue._value)

    def _bind_input(self, name, value):
        self._binding.bind_input(name, value)
        self._inputs[name] = value

    def _bind_output(self, name, value):
        self._binding.bind_output(name, value)
        self._outputs[name] = value

    def synchronize_inputs(self):
        """Nothing to wait for."""

    def synchronize_outputs(self):
        """Nothing to wait for."""

    def get_outputs(self):
        """Values of the last run, in the order they were bound."""
        return [OrtValue(v) for v in self._binding.outputs()]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self):
        return [_types.to_python(v) for v in self._binding.outputs()]

    def clear_binding_inputs(self):
        self._binding.clear_inputs()
        self._inputs.clear()

    def clear_binding_outputs(self):
        self._binding.clear_outputs()
        self._outputs.clear()


def _tensor_at(element_type, shape, address):
    if element_type is None or shape is None:
        raise ValueError("memory at an address needs its element type and shape")
    element = _types.element_of(element_type)
    if element.number == _types.STRING:
        raise TypeError("strings cannot be bound by address")
    shape = list(shape)
    bits = int(np.prod(shape, dtype=np.int64)) * element.bits
    return _native.Value.tensor_at(element.number, shape, address, -(-bits // 8), None)
