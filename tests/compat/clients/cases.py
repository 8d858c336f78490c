"""Models and data for the clients: FOLDER/cases.txt and the files it names. ONNX Runtime's Python package gives the answers.

cases.txt is read by programs in four languages, so it is plain: a line "model NAME FILE", then "input NAME TYPE DIMS FILE"
and "output ..." lines, in the models' order. TYPE is ONNX Runtime's name of the element type, DIMS is d,d,d or - for a
scalar, FILE holds the elements as they lie in memory (little endian)."""
import os
import pathlib
import shutil

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, parser

from models import inputs

# Real models out of wheels, small enough to be run by every client.
REAL = ("silero_vad/silero_vad.onnx", "rapidocr/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "basic_pitch/nmp.onnx",
        "openwakeword/hey_mycroft_v0.1.onnx", "openwakeword/melspectrogram.onnx",
        "rapidocr_onnxruntime/ch_PP-OCRv4_rec_infer.onnx")  # fmt: skip
HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
# Small ones for what the interfaces have to carry over.
SMALL = {
    "add": "(float[N,3] x, float[3] w) => (float[N,3] y) { y = Add(x, w) }",
    "three": "(float[2] x) => (float[2] a, float[2] b, float[2] c) { a = Neg(x) b = Abs(x) c = Exp(x) }",
    "longs": "(int64[4] x) => (int64[4] y) { y = Mul(x, x) }",
    "bools": "(bool[4] x) => (bool[4] y) { y = Not(x) }",
    "doubles": "(double[3] x) => (double[3] y) { y = Sqrt(x) }",
    "bytes": "(uint8[5] x) => (uint8[5] y) { y = Identity(x) }",
    "halves": "(float16[4] x) => (float16[4] y) { y = Add(x, x) }",
    "scalar": "(float x) => (float y) { y = Neg(x) }",
    "empty": "(float[0,4] x) => (float[0,4] y) { y = Relu(x) }",
    "strings": "(string[3] x) => (string[3] y) { y = Identity(x) }",
    "sequence": "(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }",
}


def small(name, text):
    model = parser.parse_model(f"{HEAD} {name} {text}")
    model.producer_name, model.doc_string = "tessera", f"the model {name}"
    model.metadata_props.add(key="colour", value="green")
    return model


def zipmap():
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[10, 20, 30])
    made = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    output = helper.make_value_info("y", helper.make_sequence_type_proto(made))
    graph = helper.make_graph([node], "zipmap", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
                             ir_version=8)  # fmt: skip


def feed(value, rng):
    shape = [2 if isinstance(d, str) else d for d in value.shape]
    dtype = inputs.NUMPY[value.type]
    if dtype == np.bool_ or np.issubdtype(dtype, np.integer):
        return rng.integers(0, 2 if dtype == np.bool_ else 100, shape).astype(dtype)
    return np.asarray(rng.random(shape), dtype)


def write(folder, lines, name, model, feeds, outputs):
    lines.append(f"model {name} {model}")
    for kind, values in (("input", feeds), ("output", outputs)):
        for key, value in values.items():
            file = f"{name}.{kind}.{len(lines)}.bin"
            (folder / file).write_bytes(np.ascontiguousarray(value).tobytes())
            dims = ",".join(map(str, value.shape)) or "-"
            lines.append(f"{kind} {key} {value.dtype} {dims} {file}")


def make(folder, models):
    """Fills `folder` from `models`, a folder with what tools/real_models.py downloads."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines, rng = [], np.random.default_rng(0)
    for path in REAL:
        name = pathlib.PurePath(path).stem
        shutil.copy(models / path, folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(str(models / path))
        feeds = inputs.make(models / path, models, session, 0)
        names = [o.name for o in session.get_outputs()]
        write(folder, lines, name, f"{name}.onnx", feeds, dict(zip(names, session.run(None, feeds))))
    for name, text in SMALL.items():
        onnx.save(small(name, text), folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))
        if name in ("strings", "sequence"):  # the programs know the answers
            continue
        feeds = {v.name: feed(v, rng) for v in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        write(folder, lines, name, f"{name}.onnx", feeds, dict(zip(names, session.run(None, feeds))))
    onnx.save(zipmap(), folder / "zipmap.onnx")
    (folder / "bad.onnx").write_bytes(b"this is no model")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")
