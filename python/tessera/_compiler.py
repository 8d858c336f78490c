"""ModelCompiler: writes a model as the session would run it."""

from __future__ import annotations

import os
from typing import Any, Callable

from ._devices import OrtCompileApiFlags
from ._errors import Fail, error
from ._options import GraphOptimizationLevel, SessionOptions
from ._session import InferenceSession


class ModelCompiler:
    """Writes a model with its rewrites done, so that loading it later takes less time."""

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable | None = None,
    ):
        if isinstance(input_model_path_or_bytes, (str, os.PathLike)):
            if not os.path.isfile(input_model_path_or_bytes):
                raise ValueError(f"Input model path does not exist: {os.fspath(input_model_path_or_bytes)}")
        elif not isinstance(input_model_path_or_bytes, bytes):
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        elif not input_model_path_or_bytes:
            raise ValueError("Input model bytes are empty")
        if get_initializer_location_func and external_initializers_file_path:
            raise ValueError("give external_initializers_file_path or get_initializer_location_func, not both")
        self._options, self._model, self._flags = sess_options, input_model_path_or_bytes, flags
        self._level = graph_optimization_level
        self._external = external_initializers_file_path
        self._threshold = external_initializers_size_threshold

    def compile_to_file(self, output_model_path: str | os.PathLike | None = None) -> None:
        """Writes the model; without a path, beside the one it comes from, as NAME_ctx.onnx."""
        if output_model_path is None:
            if isinstance(self._model, bytes):
                raise ValueError("a model of bytes needs an output_model_path")
            output_model_path = os.path.splitext(os.fspath(self._model))[0] + "_ctx.onnx"
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and os.path.exists(output_model_path):
            raise error(Fail, f"{os.fspath(output_model_path)} exists already")
        if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
            raise error(Fail, "Unable to compile any nodes: the CPU runs nodes without compiling them")
        options = self._options._copy()
        options.optimized_model_filepath = os.fspath(output_model_path)
        options.graph_optimization_level = self._level
        if self._external:
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", os.fspath(self._external)
            )
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_min_size_in_bytes", str(self._threshold)
            )
        InferenceSession(self._model, options)

    def compile_to_bytes(self) -> bytes:
        """The model as the bytes of a file."""
        import tempfile  # it loads much that nobody else needs

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "compiled.onnx")
            self.compile_to_file(path)
            with open(path, "rb") as file:
                return file.read()

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Gives the bytes of the model to a function, piece by piece."""
        data = self.compile_to_bytes()
        for start in range(0, len(data), 1 << 16):
            try:
                write_function(data[start : start + (1 << 16)])
            except Exception as e:
                raise error(Fail, f"the function that writes raised {type(e).__name__}: {e}") from e

    def set_ep_context_data_write_func(self, write_func: Callable) -> None:
        """Accepted; the CPU has no data of a compiling provider."""

    def clear_ep_context_data_write_func(self) -> None:
        """Accepted."""
