"""What happens inside a model: times, values, and whether they are right."""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ._options import GraphOptimizationLevel


class Table:
    """Rows of equal columns: a sequence of dicts that prints as text and, in notebooks, as HTML."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = ""):
        self.columns, self.title = list(columns), title
        self._rows = [tuple(row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(zip(self.columns, self._rows[index]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row)) for row in self._rows)

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        i = self.columns.index(name)
        return [row[i] for row in self._rows]

    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[_shown(cell) for cell in row] for row in self._rows]

    def __str__(self) -> str:
        lines = [self.columns, *self.texts()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        numeric = [all(isinstance(row[i], (int, float)) for row in self._rows) for i in range(len(self.columns))]
        texts = [
            "  ".join(cell.rjust(w) if n else cell.ljust(w) for cell, w, n in zip(line, widths, numeric)).rstrip()
            for line in lines
        ]
        return "\n".join(([self.title] if self.title else []) + texts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from ._html import table_html

        return table_html(self.columns, self.texts(), self.title)


def _shown(cell):
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.4g}" if cell and (abs(cell) < 1e-3 or abs(cell) >= 1e6) else f"{cell:.3f}"
    return str(cell)


def parse(text: bytes) -> Any:
    """The library's JSON; names come from the model and may be any bytes."""
    return json.loads(text.decode("utf-8", "replace"))


class Profile(Table):
    """The times of the nodes of a model in microseconds, in the order they ran."""

    def __init__(self, steps: list[tuple[str, str, float]], total: float):
        spent = sum(us for _, _, us in steps)
        self.total_us = total
        rows = [(name, op, us, 100 * us / spent if spent else 0.0) for name, op, us in steps]
        super().__init__(["node", "op", "us", "%"], rows, f"{total:.1f} us, {len(rows)} steps")

    def by_op(self) -> Table:
        """Times added up by operator, longest first."""
        sums: dict[str, list] = {}
        for _, op, us, share in self._rows:
            entry = sums.setdefault(op, [0, 0.0, 0.0])
            entry[0] += 1
            entry[1] += us
            entry[2] += share
        rows = sorted(([op, *entry] for op, entry in sums.items()), key=lambda row: -row[2])
        return Table(["op", "count", "us", "%"], rows, self.title)

    def top(self, count: int = 10) -> Table:
        """The steps that took longest."""
        rows = sorted(self._rows, key=lambda row: -row[2])[:count]
        return Table(self.columns, rows, self.title)


def profile(session, feed, runs):
    best: list[tuple[str, str, float]] = []
    total = float("inf")
    session._handle.run_timed(feed)  # what only the first run does is not shown
    for _ in range(max(1, runs)):
        whole, *steps = parse(session._handle.run_timed(feed))
        total = min(total, whole["duration"] / 1e3)
        times = [(s["name"], s["op"], s["duration"] / 1e3) for s in steps]
        if len(times) != len(best):
            best = times  # branches and loops may run other steps
        else:
            best = [(n, o, min(us, old[2])) for (n, o, us), old in zip(times, best)]
    return Profile(best, total)


def _again(session, change: Callable):
    """The model loaded a second time, with options that `change` changes."""
    from ._session import InferenceSession

    options = session._sess_options._copy()
    options.enable_profiling = False
    options.optimized_model_filepath = ""
    change(options)
    source = session._model_path if session._model_bytes is None else session._model_bytes
    return InferenceSession(source, options)


def _tapped(session, names: str):
    kept = session.__dict__.setdefault("_tapped", {})
    if names not in kept:
        kept.clear()  # one at a time: each is a model of its own

        def change(options):
            options.add_session_config_entry("session.tapped_values", names)
            if names == "*":
                options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL

        kept[names] = _again(session, change)
    return kept[names]


def tap(session, names, feed):
    names = [names] if isinstance(names, str) else names
    other = _tapped(session, "*" if names is None else "\n".join(names))
    wanted = [o.name for o in other.get_outputs()] if names is None else list(names)
    return dict(zip(wanted, other.run(wanted, feed)))


def _not_finite(data) -> str:
    """What is wrong with the numbers of an array, a list or a dict: "NaN", "infinity" or nothing."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return next((found for item in data if (found := _not_finite(item))), "")
    if not isinstance(data, (np.ndarray, float)):
        return ""
    array = np.asarray(data)
    if array.dtype.num >= 256 and array.dtype.kind in "Vf":
        array = array.astype(np.float32)
    if array.dtype.kind not in "fc" or np.isfinite(array).all():
        return ""
    return "NaN" if np.isnan(array).any() else "infinity"


def guard(session, output_names, feed, results):
    names = list(output_names) if output_names else [o.name for o in session.get_outputs()]
    for name, result in zip(names, results):
        if found := _not_finite(result):
            raise FloatingPointError(f"output '{name}' has {found}; {_first(session, feed)}")


def _first(session, feed) -> str:
    """Where a number that is not finite appears first."""
    for name, data in feed.items():
        if found := _not_finite(data):
            return f"it comes from input '{name}', which has {found}"
    values = tap(session, None, feed)
    for node in _tapped(session, "*").nodes():
        for name in node["outputs"]:
            if name and (found := _not_finite(values.get(name))):
                inputs = ", ".join(f"'{i}' {_range(values.get(i, feed.get(i)))}" for i in node["inputs"] if i)
                return f"{found} appears first in '{name}', computed by {node['op']} '{node['name']}' from {inputs}"
    return "it appears only with the rewrites of the model; verify() compares the two"


def _range(data) -> str:
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiu" or not data.size:
        return "(not shown)" if data is not None else "(a weight)"
    return f"in [{data.min():.4g}, {data.max():.4g}]"


class Verification(Table):
    """How outputs differ from what they should be; true if all agree."""

    def __init__(self, rows, title):
        super().__init__(["output", "type", "agrees", "largest difference", "relative", "where"], rows, title)

    def __bool__(self) -> bool:
        return all(self.column("agrees"))


def verify(session, feed, expected, rtol, atol):
    feed = drawn(session) if feed is None else feed
    names = [o.name for o in session.get_outputs()]
    wanted, against = _expected(session, feed, expected, names)
    results = dict(zip(names, session.run(None, feed)))
    rows = [_compare(name, results[name], wanted[name], rtol, atol) for name in names if name in wanted]
    return Verification(rows, f"against {against}, tolerance {rtol:g} relative and {atol:g} absolute")


def _expected(session, feed, expected, names):
    if expected is None:

        def change(options):
            options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1

        return dict(zip(names, _again(session, change).run(None, feed))), "the model without rewrites"
    if isinstance(expected, str):
        if expected != "onnxruntime":
            raise ValueError(f"expected is {expected!r}, wanted arrays, a session or 'onnxruntime'")
        import onnxruntime

        source = session._model_path if session._model_bytes is None else session._model_bytes
        expected = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    if hasattr(expected, "run"):
        return dict(zip(names, expected.run(names, feed))), type(expected).__module__.split(".")[0]
    return (expected if isinstance(expected, dict) else dict(zip(names, expected))), "the arrays given"


def drawn(session) -> dict[str, Any]:
    """Numbers for every input, the same each time; dimensions without a size get 1."""
    from ._types import BY_NUMBER, STRING

    random = np.random.default_rng(0)
    feed = {}
    for argument in session.get_inputs():
        if argument._type[0] != "tensor":
            raise ValueError(f"input '{argument.name}' is a {argument.type}; give an input_feed")
        element = BY_NUMBER[argument._type[1]]
        shape = [d if isinstance(d, int) else 1 for d in argument.shape]
        if element.number == STRING:
            feed[argument.name] = np.full(shape, "a", object)
        elif element.plain.kind in "fc" or element.name.startswith(("bfloat", "float")):
            feed[argument.name] = random.standard_normal(shape).astype(element.dtype)
        else:
            feed[argument.name] = random.integers(0, 2, shape).astype(element.dtype)
    return feed


def _compare(name, got, wanted, rtol, atol):
    if isinstance(got, (list, dict)) or got is None:
        same = _equal(got, wanted, rtol, atol)
        return (name, type(got).__name__, same, 0.0 if same else float("inf"), 0.0, "")
    wanted = np.asarray(wanted)
    kind = f"{got.dtype}{list(got.shape)}"
    if got.shape != wanted.shape or got.dtype.kind not in "fciub" or not got.size:
        same = got.shape == wanted.shape and bool((got == wanted).all())
        return (name, kind, same, 0.0 if same else float("inf"), 0.0, "" if same else f"wanted {list(wanted.shape)}")
    a, b = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (got, wanted))
    both = np.isnan(a) & np.isnan(b) | (a == b)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where(both, 0, np.abs(a - b))
        relative = np.where(both, 0, difference / np.maximum(np.abs(b), np.finfo(np.float64).tiny))
    difference = np.where(np.isnan(difference), np.inf, difference)
    at = np.unravel_index(int(difference.argmax()), difference.shape)
    agrees = bool((difference <= atol + rtol * np.abs(np.where(np.isnan(b), 0, b))).all())
    return (name, kind, agrees, float(difference[at]), float(relative[at]), str([int(i) for i in at]))


def _equal(a, b, rtol, atol) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[k], b[k], rtol, atol) for k in a)
    if isinstance(a, list):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(_equal(x, y, rtol, atol) for x, y in zip(a, b))
    if a is None or isinstance(a, str):
        return a == b
    return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol, atol, equal_nan=True))
