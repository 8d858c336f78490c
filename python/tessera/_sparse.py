"""SparseTensor: elements that are not zero, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._devices import OrtSparseFormat, not_there
from ._types import BY_NUMBER, STRING, array_from_tensor, element_of


class SparseTensor:
    """A sparse tensor in memory of numpy. Runs read it in place; to_dense() makes an array of it."""

    _format: OrtSparseFormat
    _shape: np.ndarray
    _values: np.ndarray
    _indices: tuple[np.ndarray, ...]

    def __init__(self, sparse_tensor: Any):
        self.__dict__.update(vars(sparse_tensor))

    @classmethod
    def _of(cls, format_, dense_shape, values, indices):
        made = cls.__new__(cls)
        made._format, made._shape = format_, np.asarray(dense_shape, np.int64)
        made._values, made._indices = np.asarray(values), indices
        return made

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape, values, coo_indices, ort_device: Any = None) -> SparseTensor:
        """Indices into the flat tensor, or one row of them per element."""
        indices = np.asarray(coo_indices, np.int64)
        if indices.size not in (len(values), len(values) * len(dense_shape)):
            raise ValueError(f"{indices.size} indices were given for {len(values)} elements")
        return cls._of(OrtSparseFormat.ORT_SPARSE_COO, dense_shape, values, (indices,))

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape, values, inner_indices, outer_indices, ort_device: Any = None
    ) -> SparseTensor:
        """Columns of the elements, and where in them each row begins and the last one ends."""
        inner, outer = np.asarray(inner_indices, np.int64), np.asarray(outer_indices, np.int64)
        if len(dense_shape) != 2 or inner.size != len(values) or outer.size != dense_shape[0] + 1:
            raise ValueError(f"{inner.size} columns and {outer.size} rows do not fit {len(values)} elements")
        return cls._of(OrtSparseFormat.ORT_SPARSE_CSRC, dense_shape, values, (inner, outer))

    @classmethod
    def blocksparse_from_numpy(cls, dense_shape, values, indices, ort_device: Any = None) -> SparseTensor:
        return cls._of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, dense_shape, values, (np.asarray(indices, np.int32),))

    @classmethod
    def _read(cls, value) -> SparseTensor:
        """Of a value of the library, which it keeps alive."""
        format_, type_, dense, shape, address, count, indices = _native.sparse_parts(value)
        element = BY_NUMBER[type_]
        if element.number == STRING:
            raise not_there("sparse tensors of strings cannot be read", "make them dense in the model")
        data = _native.Value.tensor_at(type_, shape, address, count * element.bits // 8, value)
        kind = np.int32 if format_ == OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE else np.int64
        lists = tuple(np.frombuffer(part, kind) for part in indices)
        if format_ == OrtSparseFormat.ORT_SPARSE_COO and lists[0].size == 2 * count:
            lists = (lists[0].reshape(-1, 2),)
        return cls._of(OrtSparseFormat(format_), dense, array_from_tensor(data), lists)

    @property
    def _value(self):
        """The value that runs take."""
        values = np.ascontiguousarray(self._values)
        element = element_of(values.dtype)
        source = values.reshape(-1).view(np.uint8) if values.size else values
        lists = [np.ascontiguousarray(part).reshape(-1) for part in self._indices]
        return _native.sparse_tensor(
            element.number, self._format, self._shape.tolist(), list(values.shape), source, lists
        )

    def _as_input(self) -> SparseTensor:
        """With a row of indices per element, the form in which the library computes."""
        if self._format == OrtSparseFormat.ORT_SPARSE_CSRC:
            inner, outer = self._indices
            pairs = np.stack([np.repeat(np.arange(len(outer) - 1), np.diff(outer)), inner], 1)
        elif self._format == OrtSparseFormat.ORT_SPARSE_COO and self._indices[0].size == self._values.size:
            pairs = np.stack(np.unravel_index(self._indices[0].reshape(-1), tuple(self._shape)), 1)
        else:
            return self
        return self._of(OrtSparseFormat.ORT_SPARSE_COO, self._shape, self._values, (pairs.astype(np.int64),))

    def _get_c_tensor(self) -> SparseTensor:
        return self

    def values(self) -> np.ndarray:
        return _read_only(self._values)

    def dense_shape(self) -> list[int]:
        return self._shape.tolist()

    def data_type(self) -> str:
        return f"sparse_tensor({element_of(self._values.dtype).name})"

    def device_name(self) -> str:
        return "cpu"

    def format(self) -> OrtSparseFormat:
        return self._format

    def as_coo_view(self) -> SparseCooView:
        return SparseCooView(self._parts(OrtSparseFormat.ORT_SPARSE_COO)[0])

    def as_csrc_view(self) -> SparseCsrView:
        return SparseCsrView(*self._parts(OrtSparseFormat.ORT_SPARSE_CSRC))

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        return SparseBlockSparseView(self._parts(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)[0])

    get_coo_data, get_csrc_data, get_blocksparse_data = as_coo_view, as_csrc_view, as_blocksparse_view

    def _parts(self, wanted):
        if self._format != wanted:
            raise ValueError(f"the tensor is {self._format.name}, wanted {wanted.name}")
        return tuple(_read_only(part) for part in self._indices)

    def to_dense(self) -> np.ndarray:
        """All elements, zeros included."""
        out = np.zeros(self._shape, self._values.dtype)
        if self._format == OrtSparseFormat.ORT_SPARSE_CSRC:
            inner, outer = self._indices
            out[np.repeat(np.arange(len(outer) - 1), np.diff(outer)), inner] = self._values
        elif self._format == OrtSparseFormat.ORT_SPARSE_COO:
            indices = self._indices[0]
            if indices.size == self._values.size:
                out.reshape(-1)[indices.reshape(-1)] = self._values
            else:
                out[tuple(indices.reshape(self._values.size, -1).T)] = self._values
        else:
            raise not_there("blocks cannot be made dense", "use COO or CSR")
        return out

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        raise RuntimeError("there is no CUDA; the tensor can be used where it is")


def _read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


class SparseCooView:
    """Where the elements of a tensor in COO form are."""

    def __init__(self, indices: np.ndarray):
        self._indices = indices

    def indices(self) -> np.ndarray:
        return self._indices


class SparseBlockSparseView(SparseCooView):
    """Where the blocks are."""


class SparseCsrView:
    """Where the elements of a tensor in CSR form are."""

    def __init__(self, inner: np.ndarray, outer: np.ndarray):
        self._inner, self._outer = inner, outer

    def inner(self) -> np.ndarray:
        return self._inner

    def outer(self) -> np.ndarray:
        return self._outer
