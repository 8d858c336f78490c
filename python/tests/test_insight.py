"""What sessions tell of themselves: times, values inside, where NaN comes from, whether results are right."""

import numpy as np
import pytest
import tessera
from models import add, model, tensor
from onnx import TensorProto, helper


def network():
    random = np.random.default_rng(1)
    return model(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="project"),
            helper.make_node("Add", ["m", "b"], ["a"], name="shift"),
            helper.make_node("Relu", ["a"], ["r"], name="clip"),
            helper.make_node("Log", ["r"], ["l"], name="take_log"),
            helper.make_node("Exp", ["l"], ["y"], name="back"),
        ],
        [tensor("x", ["N", 4])],
        [tensor("y", ["N", 3])],
        [
            ("w", random.random((4, 3), np.float32)),
            ("b", np.ones(3, np.float32)),
        ],
    )


X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def session():
    return tessera.InferenceSession(network())


def test_profile(session):
    profile = session.profile([X], runs=2)
    assert profile.total_us > 0 and len(profile) >= 2
    assert sum(profile.column("%")) == pytest.approx(100)
    assert {row["op"] for row in profile} >= {"Log", "Exp"}
    assert "take_log" in profile.column("node")
    by_op = profile.by_op()
    assert by_op.column("us") == sorted(by_op.column("us"), reverse=True)
    assert sum(by_op.column("count")) == len(profile)
    assert len(profile.top(1)) == 1
    assert str(profile).splitlines()[1].split() == ["node", "op", "us", "%"]
    assert "<td" in profile._repr_html_()


def test_nodes(session):
    nodes = session.nodes()
    assert nodes[-1]["op"] == "Exp" and nodes[-1]["outputs"] == ["y"]
    with pytest.raises(tessera.Fail, match="record_ep_graph_assignment_info"):
        session.get_provider_graph_assignment_info()
    options = tessera.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    infos = tessera.InferenceSession(session._model_bytes, options).get_provider_graph_assignment_info()
    assert {info.ep_name for info in infos} == {"CPUExecutionProvider"}
    assert [[n.op_type for n in info.get_nodes()] for info in infos] == [[n["op"]] for n in nodes]


def test_explain_and_memory(session):
    assert "operators:" in session.explain()
    assert session.memory()["weights"] > 0


def test_tap(session):
    values = session.tap(["m", "r"], {"x": X})
    w = session.tap("m", {"x": np.eye(4, dtype=np.float32)})["m"]
    np.testing.assert_allclose(values["m"], X @ w, rtol=1e-5)
    np.testing.assert_allclose(values["r"], np.maximum(X @ w + 1, 0), rtol=1e-5)
    everything = session.tap(None, [X])
    assert set(everything) == {"m", "a", "r", "l", "y"}
    np.testing.assert_allclose(everything["y"], session(X), rtol=1e-5)
    with pytest.raises(tessera.InvalidArgument, match="nothing_of_that_name"):
        session.tap(["nothing_of_that_name"], [X])
    assert [o.name for o in session.get_outputs()] == ["y"]


def test_nan_guard(session):
    session.run(None, [X], nan_guard=True)
    with pytest.raises(
        FloatingPointError, match="infinity appears first in 'l', computed by Log 'take_log' from 'r' in"
    ):
        log_of_zero().run(None, [X - 4], nan_guard=True)
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="input 'x', which has NaN"):
        session.run(None, [bad], nan_guard=True)
    assert np.isnan(session.run(None, [bad])[0]).any()
    session.nan_guard = True
    with pytest.raises(FloatingPointError, match="output 'y'"):
        session(bad)


def log_of_zero():
    source = model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="clip"),
            helper.make_node("Log", ["r"], ["l"], name="take_log"),
        ],
        [tensor("x", ["N", 4])],
        [tensor("l", ["N", 4])],
    )
    return tessera.InferenceSession(source)


def test_verify(session):
    assert session.verify()
    report = session.verify([X])
    assert report and report[0]["output"] == "y" and "without rewrites" in str(report)
    assert session.verify([X], expected="onnxruntime")
    assert session.verify([X], expected=[session(X)])
    wrong = session(X)
    wrong[1, 2] += 1
    report = session.verify([X], expected={"y": wrong})
    assert not report and report[0]["where"] == "[1, 2]"
    assert report[0]["largest difference"] == pytest.approx(1, rel=1e-3)
    assert not session.verify([X], expected=[wrong[:1]])
    with pytest.raises(ValueError):
        session.verify([X], expected="something else")


def test_verify_compares_sequences_and_maps():
    out_type = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    )
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[1, 2])
    session = tessera.InferenceSession(model([node], [tensor("x", [1, 2])], [helper.make_value_info("z", out_type)]))
    assert session.verify()
    assert not session.verify([np.zeros((1, 2), np.float32)], expected=[[{1: 0.0, 2: 1.0}]])


def test_html(session):
    page = session._repr_html_()
    assert "<table>" in page and "tensor(float)" in page and "N, 4" in page and "weights" in page
    with tessera.InferenceSession(add()) as other:
        pass
    assert "closed" in other._repr_html_()
    assert "&lt;" in tessera._insight.Table(["<"], [["<b>"]])._repr_html_()
