"""Who says what the outputs of a case are: a formula, the reference evaluator, or ONNX Runtime.

Narrow floats are computed in double (in float where only that is possible) and rounded once at the end.
"""
import os
import warnings

import numpy as np

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime
from onnx.reference import ReferenceEvaluator

from . import values
from .cells import NEWEST, make_model, text_of

onnxruntime.set_default_logger_severity(4)


class NoOracle(Exception):
    pass


def as_float(name):
    return "float" if name in values.NARROW_FLOATS else values.widened(name)


def wide_text(text, to):
    if not text or text.startswith("map") or text.startswith("seq(map"):
        return text
    element = values.element_of(text)
    return text.replace(f"({element})", f"({to(element)})")


def question(cell, case, to):
    """The inputs, attributes and version an oracle is asked with."""
    given = case.modern.get("inputs", case.inputs)
    attrs = dict(case.modern.get("attrs", case.attrs))
    attrs.pop("consumed_inputs", None)
    attrs = {k: values.widen(v, to) if isinstance(v, np.ndarray) else v for k, v in attrs.items()}
    version = case.modern.get("version", NEWEST[cell.domain])
    texts = [None if v is None else wide_text(text_of(v), to) for v in given]
    return [values.widen(v, to) for v in given], attrs, version, texts


class Widened(values.Seq):
    pass


def model_for(cell, case, inputs, attrs, version, texts, to):
    shaped = [v if isinstance(v, np.ndarray) or v is None else Widened(v, "") if isinstance(v, list) else v for v in inputs]
    op, domain = case.modern.get("op", cell.op), case.modern.get("domain", cell.domain)
    return make_model(domain, op, version, shaped, attrs, [wide_text(t, to) for t in case.outputs], texts)


def from_evaluator(cell, case):
    failures = []
    own = cell.version if cell.version != NEWEST[cell.domain] and not case.modern else None
    for to, at in ((values.widened, None), (as_float, None), (values.widened, own), (as_float, own)):
        try:
            inputs, attrs, version, texts = question(cell, case, to)
            model = model_for(cell, case, inputs, attrs, at or version, texts, to)
            feeds = {f"x{i}": v for i, v in enumerate(inputs) if v is not None or texts[i]}
            feeds = {k: v for k, v in feeds.items() if any(i.name == k for i in model.graph.input)}
            with np.errstate(all="ignore"):
                return ReferenceEvaluator(model).run(None, feeds)
        except Exception as e:  # the evaluator raises whatever its numpy code raises
            failures.append(f"{type(e).__name__}: {e}")
    raise NoOracle("evaluator: " + failures[0])


def from_runtime(cell, case):
    failures = []
    # Its newest operator set is behind the standard's: the node's own version comes first.
    for version in dict.fromkeys((case.modern.get("version", cell.version), cell.version)):
        try:
            inputs, attrs, _, texts = question(cell, case, as_float)
            model = model_for(cell, case, inputs, attrs, version, texts, as_float)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return session.run(None, {i.name: inputs[int(i.name[1:])] for i in model.graph.input})
        except Exception as e:
            failures.append(f"{type(e).__name__}: {e}")
    raise NoOracle("onnxruntime: " + failures[0].splitlines()[0])


def rounded(cell, case, ask):
    wanted = [t for t in case.outputs if t]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = ask(cell, case)
        if len(got) < len(wanted):
            raise NoOracle(f"{len(got)} outputs")
        return [values.round_to(text, v) for text, v in zip(wanted, got)]


def answers(cell, case, disputes):
    """(oracle's name, outputs as values of their types); raises NoOracle.

    Where the recipe has a formula, it must agree with the oracle; if it does not, the formula is believed and the cell
    is added to disputes."""
    case.outputs = case.outputs or [cell.out_text(0)]
    failures, own = [], None
    if case.formula is not None:
        own = rounded(cell, case, from_formula)
    if case.random:
        return "property", own
    for name, ask in (("evaluator", from_evaluator), ("onnxruntime", from_runtime)):
        try:
            outputs = rounded(cell, case, ask)
        except Exception as e:  # whatever a foreign implementation raises
            failures.append(f"{name}: {type(e).__name__}: {e}")
            continue
        if own is None or all(agree(a, b, *tolerance(case)) for a, b in zip(own, outputs)):
            return name, outputs
        disputes.append(f"{cell.name}: the formula differs from {name}")
    if own is not None:
        return "formula", own
    raise NoOracle("; ".join(failures))


def agree(a, b, rtol, atol):
    if a is None or b is None:
        return a is b
    if isinstance(a, values.Opt):
        return agree(a.value, b.value, rtol, atol)
    if isinstance(a, (values.Map, dict)):
        return a == b
    if isinstance(a, list):
        return len(a) == len(b) and all(agree(x, y, rtol, atol) for x, y in zip(a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == object:
        return bool(np.all(a == b))
    if a.dtype.kind == "c":
        return np.allclose(a, b, rtol, atol, equal_nan=True)
    return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol, atol, equal_nan=True)


def from_formula(cell, case):
    if case.formula is None:
        raise NoOracle("no formula")
    inputs = [values.widen(v) for v in case.inputs]
    with np.errstate(all="ignore"):
        got = case.formula(*inputs)
    return got if isinstance(got, (list, tuple)) else [got]


def tolerance(case):
    """(rtol, atol): a few units in the last place of the widest rounding among the outputs."""
    if case.rtol is not None:
        return case.rtol, case.atol
    rtol = atol = 0.0
    for text in case.outputs:
        if not text:
            continue
        name = values.element_of(text)
        name = {"complex64": "float", "complex128": "double"}.get(name, name)
        if name in values.ULP:
            units = {"float": 64, "double": 4096}.get(name, 1.01)
            rtol = max(rtol, units * values.ULP[name])
            atol = max(atol, 1e-6 if name == "float" else 1e-12 if name == "double" else values.ULP[name] / 8)
    return rtol, max(atol, case.atol)
