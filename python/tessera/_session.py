"""InferenceSession: a model, ready to run."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _native, _types
from ._binding import IOBinding
from ._devices import CPU_MEMORY, KNOWN_PROVIDERS, OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpDevice, OrtMemoryInfo
from ._errors import Fail, error
from ._options import RunOptions, SessionOptions
from ._value import OrtValue, OrtValueVector

CPU = "CPUExecutionProvider"


class NodeArg:
    """An input or output of a model: name, type such as 'tensor(float)', and shape of numbers, names and None."""

    def __init__(self, name: str, type_: tuple):
        self._name = name
        self._type = type_

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> str:
        return _types.type_text(self._type)

    @property
    def shape(self) -> list[int | str | None]:
        type_ = self._type[1] if self._type[0] == "optional" else self._type
        return list(type_[2]) if type_[0] in ("tensor", "sparse_tensor") else []

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"

    __repr__ = __str__


class ModelMetadata:
    """What the file says of the model."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    def __init__(self, fields: Mapping[str, Any] | None = None):
        self.__dict__.update(fields or {})

    def __repr__(self) -> str:
        return f"ModelMetadata({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def check_and_normalize_provider_args(
    providers: Iterable[str | tuple[str, dict]] | None,
    provider_options: Sequence[dict] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Names and options of what was asked for and is there; the rest is warned about and left out."""
    chosen: dict[str, dict[str, str]] = {}
    for name, options in _provider_pairs(providers, provider_options):
        if name in chosen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=5)
        elif name in available_provider_names:
            chosen[name] = {str(k): str(v) for k, v in options.items()}
        else:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. "
                f"Available providers: '{', '.join(available_provider_names)}'",
                stacklevel=5,
            )
    return list(chosen), list(chosen.values())


def _provider_pairs(providers, provider_options):
    """Each provider that was asked for, with its options; ValueError where that cannot be read."""
    if providers is None:
        return []
    if not isinstance(providers, Sequence) or isinstance(providers, str):
        raise ValueError(f"providers is {type(providers).__name__}, wanted a sequence")
    pairs = [(entry, {}) if isinstance(entry, str) else entry for entry in providers]
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
            raise ValueError(f"a provider is {pair!r}, wanted a name, or a tuple of a name and a dict")
    if provider_options is None:
        return pairs
    if not isinstance(provider_options, Sequence) or not all(isinstance(o, dict) for o in provider_options):
        raise ValueError("provider_options is no sequence of dicts")
    if len(provider_options) != len(pairs):
        raise ValueError(f"{len(provider_options)} provider_options were given for {len(pairs)} providers")
    if any(options for _, options in pairs):
        raise ValueError("options were given both in providers and in provider_options")
    return [(name, options) for (name, _), options in zip(pairs, provider_options)]


class Session:
    """What all kinds of sessions have. InferenceSession is the one to make."""

    _handle: Any = None  # the session of the library
    _nan_guard = False
    _sess_options: SessionOptions
    _inputs_meta: list[NodeArg]
    _outputs_meta: list[NodeArg]
    _overridable: list[NodeArg]

    @property
    def _sess(self) -> Any:
        from ._inner import InnerSession

        return InnerSession(self)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run takes, in the model's order."""
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        """The outputs that a run can give, in the model's order."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default, which a run may give another value."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        """Producer, names, version, and the custom metadata of the model."""
        return ModelMetadata(self._handle.metadata())

    def get_providers(self) -> list[str]:
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return dict(self._provider_options)

    def set_providers(
        self,
        providers: Iterable[str | tuple[str, dict]] | None = None,
        provider_options: Sequence[dict] | None = None,
    ) -> None:
        """Accepted where onnxruntime knows the names; everything runs on the CPU."""
        for name, _ in _provider_pairs(providers, provider_options):
            if name not in KNOWN_PROVIDERS:
                raise RuntimeError(f"Unknown Provider Type: {name}")
        self._choose_providers(providers, provider_options)

    def _choose_providers(self, providers, provider_options):
        names, options = check_and_normalize_provider_args(providers, provider_options, _native.providers())
        self._provider_options = dict(zip(names, options))
        self._provider_options.setdefault(CPU, {})
        self._providers = list(self._provider_options)

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def enable_fallback(self) -> None:
        """Nothing to fall back from."""

    def disable_fallback(self) -> None:
        """Nothing to fall back from."""

    def _validate_input(self, feed_input_names: Iterable[str]) -> None:
        names = list(feed_input_names)
        missing = [a.name for a in self._inputs_meta if a._type[0] != "optional" and a.name not in names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any] | Sequence[Any],
        run_options: RunOptions | None = None,
        *,
        timeout: float | None = None,
        nan_guard: bool = False,
    ) -> list[Any]:
        """The outputs named, or all where that is None or empty: arrays, lists, dicts or None.

        input_feed: values by name, or a list of them in the model's order. Contiguous arrays are read in place; the
        arrays given back own the library's memory.
        timeout: seconds after which the run is stopped, with TimeoutError.
        nan_guard: whether NaN or infinity in an output is a FloatingPointError that says where it first appears.
        Ctrl-C stops a run. Any number of threads may run one session at once.
        """
        if type(input_feed) is not dict:
            input_feed = self._feed(input_feed)
        results = self._handle.run(output_names, input_feed, run_options and run_options._options, timeout or 0.0)
        if nan_guard or self._nan_guard:
            from ._insight import guard

            guard(self, output_names, input_feed, results)
        return results

    def _feed(self, given):
        if isinstance(given, Mapping):
            return dict(given)
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"inputs are {type(given).__name__}, wanted a dict or a list")
        if len(given) > len(self._inputs_meta):
            raise TypeError(f"{len(given)} inputs were given, the model takes {len(self._inputs_meta)}")
        return {meta.name: data for meta, data in zip(self._inputs_meta, given)}

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> list[OrtValue]:
        """As run, with values instead of arrays."""
        feed, options = self._feed(input_dict_ort_values), run_options and run_options._options
        return [OrtValue(v) for v in self._handle.run_to_values(output_names, feed, options, timeout or 0.0)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any] | None = None,
    ) -> None:
        """As run_with_ort_values; the results are appended to `fetches`."""
        fetches.extend(self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options))

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any] | Sequence[Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Returns at once; later callback(outputs, user_data, error text) is called by another thread."""

        def work():
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as e:  # whatever it was is the callback's to handle
                results, error = [], str(e)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    async def arun(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any] | Sequence[Any],
        run_options: RunOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> list[Any]:
        """As run, for coroutines: other tasks go on meanwhile. Cancelling the task stops the run."""
        import asyncio

        options = run_options or RunOptions()
        work = asyncio.get_running_loop().run_in_executor(
            None, lambda: self.run(output_names, input_feed, options, timeout=timeout)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            options._options.set_terminate(True)
            await asyncio.wait([work])
            work.exception()
            options._options.set_terminate(options.terminate)
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """session(x, y), session([x, y]), session({"x": x}) or session(x=x): one output itself, several as a list."""
        first = self._inputs_meta[0]._type[0] if self._inputs_meta else ""
        if len(args) == 1 and isinstance(args[0], Mapping) and first != "map":
            feed = {**args[0], **kwargs}
        else:
            if len(args) == 1 and first != "sequence" and self._is_list_of_inputs(args[0]):
                args = tuple(args[0])
            feed = {**self._feed(args), **kwargs}
        results = self.run(None, feed)
        return results[0] if len(results) == 1 else results

    def _is_list_of_inputs(self, given):
        """Whether a list is one of inputs; one of numbers, for a model with a single input, is that input."""
        if not isinstance(given, (list, tuple)) or len(given) != len(self._inputs_meta):
            return False
        return len(given) > 1 or hasattr(given[0], "__array__") or isinstance(given[0], OrtValue)

    def io_binding(self) -> IOBinding:
        """Inputs and outputs that stay in place from run to run."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None, *, timeout: float | None = None
    ) -> None:
        """Runs with what is bound."""
        self._handle.run_binding(iobinding._binding, run_options and run_options._options, timeout or 0.0)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def end_profiling(self) -> str:
        """Writes the profile that SessionOptions.enable_profiling asked for; the name of its file."""
        return self._handle.end_profiling()

    def get_profiling_start_time_ns(self) -> int:
        return self._handle.profiling_start()

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo(*CPU_MEMORY) for _ in self._inputs_meta]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo(*CPU_MEMORY) for _ in self._outputs_meta]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        return [OrtEpDevice() for _ in self._inputs_meta]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """The nodes that the CPU runs: all, each by itself. The options must ask for it when the session is made."""
        entry = "session.record_ep_graph_assignment_info"
        if self._sess_options._options.get_config(entry) != "1":
            raise error(Fail, f"Session configuration entry '{entry}' must be set to \"1\" to retrieve this")
        return [OrtEpAssignedSubgraph([OrtEpAssignedNode(n["name"], n["domain"], n["op"])]) for n in self.nodes()]

    def get_tuning_results(self) -> list[dict]:
        """Nothing is tuned."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Nothing is tuned."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """The CPU has no options that change while a session lives."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Nothing is captured."""

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as the session has them, rewritten and in an order in which they can run: dicts with "name", "op",
        "domain", and the names of "inputs" and "outputs"."""
        from ._insight import parse

        return parse(self._handle.nodes())

    def memory(self) -> dict[str, int]:
        """Bytes, by name: weights, mapped, copied, packed, planned_peak, slab, idle."""
        return self._handle.memory()

    def explain(self) -> str:
        """What was loaded and how it runs: text of several lines, for people."""
        return self._handle.explain()

    def profile(self, input_feed: Mapping[str, Any] | Sequence[Any], runs: int = 5) -> Any:
        """Where the time goes: a table of the nodes, each with the shortest of its times. Its by_op() adds them up."""
        from ._insight import profile

        return profile(self, self._feed(input_feed), runs)

    def tap(self, names: Sequence[str] | str | None, input_feed: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Values inside the model, by their names there; all of the main graph's where `names` is None.

        The model is loaded a second time with these values as outputs, so rewrites leave them as they are.
        """
        from ._insight import tap

        return tap(self, names, self._feed(input_feed))

    @property
    def nan_guard(self) -> bool:
        """Whether every run looks for NaN and infinity in its outputs, as run(nan_guard=True) does."""
        return self._nan_guard

    @nan_guard.setter
    def nan_guard(self, value: bool) -> None:
        self._nan_guard = bool(value)

    def verify(
        self,
        input_feed: Mapping[str, Any] | Sequence[Any] | None = None,
        expected: Any = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
    ) -> Any:
        """Compares the outputs of a run with what they should be: a table with a row per output; true if all agree.

        input_feed: without one, numbers are drawn for every input.
        expected: arrays (list or dict); "onnxruntime", to run the model there; another session; or nothing, to compare
        with the model as it is written, without any rewrite.
        """
        from ._insight import verify

        return verify(self, None if input_feed is None else self._feed(input_feed), expected, rtol, atol)


class InferenceSession(Session):
    """A model, ready to run from any number of threads at once.

    path_or_bytes: a file, or the bytes of one, which are used in place.
    sess_options: how the session is made.
    providers, provider_options: accepted for programs that name them; everything runs on the CPU.

    A session is a context manager that closes it, and can be pickled and copied: the copy loads the model again.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike,
        sess_options: SessionOptions | None = None,
        providers: Iterable[str | tuple[str, dict]] | None = None,
        provider_options: Sequence[dict] | None = None,
        **kwargs: Any,
    ):
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options is {type(sess_options).__name__}, wanted SessionOptions")
        for name in kwargs:
            if name not in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
                raise TypeError(f"InferenceSession takes no argument {name!r}")
        self._sess_options = sess_options or SessionOptions()
        self._model_path: str | None = None
        self._model_bytes: bytes | None = None
        self._disabled = kwargs.get("disabled_optimizers") or ()
        self._choose_providers(providers, provider_options)
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._model_bytes = bytes(path_or_bytes)
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
            self._sess_options = self._options_from_model()
        options = self._sess_options._finished()
        self._kept = list(self._sess_options._kept)
        self._handle = self._open(options)
        self._describe()

    def _options_from_model(self):
        """The options, changed by what the model's metadata says under "ort_config"."""
        from ._protobuf import model_metadata

        text = model_metadata(self._model_path if self._model_bytes is None else self._model_bytes).get("ort_config")
        return self._sess_options if text is None else self._sess_options._changed_by(text)

    def _open(self, options):
        if self._disabled:
            options.add_config("optimization.disable_specified_optimizers", ";".join(self._disabled))
        if self._model_bytes is None:
            return _native.Session.open_file(self._model_path, options)
        options.add_config("session.use_ort_model_bytes_directly", "1")
        return _native.Session.open_bytes(self._model_bytes, options)

    def _describe(self):
        self._inputs_meta = [NodeArg(*a) for a in self._handle.inputs()]
        self._outputs_meta = [NodeArg(*a) for a in self._handle.outputs()]
        self._overridable = [NodeArg(*a) for a in self._handle.overridable_initializers()]
        self._types = {a.name: a._type for a in self._inputs_meta + self._overridable}

    def close(self) -> None:
        """Gives back the model's memory. Arrays that runs gave stay; another run is an error."""
        self._handle.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __getstate__(self):
        own = {k: v for k, v in self.__dict__.items() if k not in self._derived}
        own["_model_path"] = self._model_path and os.path.abspath(self._model_path)
        return own

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._kept = list(self._sess_options._kept)
        self._handle = self._open(self._sess_options._finished())
        self._describe()

    # Made again from the model.
    _derived = ("_handle", "_kept", "_inputs_meta", "_outputs_meta", "_overridable", "_types", "_tapped")

    def __repr__(self) -> str:
        source = self._model_path or f"{len(self._model_bytes or b'')} bytes"
        state = "" if self._handle.is_open() else ", closed"
        return f"InferenceSession({source!r}{state})"

    def _repr_html_(self) -> str:
        from ._html import session_html

        return session_html(self)
