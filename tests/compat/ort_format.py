#!/usr/bin/env python3
"""Exchange models in the .ort format with ONNX Runtime.

    python tests/compat/ort_format.py TESSERA [-v]
    python tests/compat/ort_format.py --seeds FOLDER      only write the small .ort files that tests and fuzzers begin with

Every model below is saved as .ort by ONNX Runtime, unoptimised, with its basic and its extended optimisations and with
optimisations saved for run time, and must run here with ONNX Runtime's outputs; it is converted to .ort here, and ONNX
Runtime must load that and give the same outputs; so it must after converting that file back to .onnx, which
onnx.checker must accept too, and after optimising it. So it goes with a model of each operator of com.microsoft.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper, parser

import contrib
from cases import contrib as contrib_cases

LEVELS = {"plain": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "saved": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED}

# Name: graph in ONNX's textual syntax, at operator set 17 unless the name ends in @N.
TEXTS = {
    "add": "(float[2,3] x, float[3] y) => (float[2,3] z) { z = Add(x, y) }",
    "chain": "(float[2,3] x) => (float[N,M] z) { a = Relu(x) b = Neg(a) c = Exp(b) z = Softmax<axis=1>(c) }",
    "symbols": '(float["batch",4] x, float["batch",4] y) => (float["batch",8] z) { z = Concat<axis=1>(x, y) }',
    "variadic_sum": "(float[2] a, float[2] b, float[2] c, float[2] d) => (float[2] z) { z = Sum(a, b, c, d) }",
    "variadic_concat": "(float[2,2] a, float[3,2] b) => (float[N,2] z) { z = Concat<axis=0>(a, b, a) }",
    "variadic_max": "(float[3] a, float[3] b, float[3] c) => (float[3] z, float[3] w) { z = Max(a, b, c) w = Min(c, b) }",
    "optional_clip_low": "(float[4] x, float low) => (float[4] z) { z = Clip(x, low) }",
    "optional_clip_high": "(float[4] x, float high) => (float[4] z) { z = Clip(x, , high) }",
    "optional_outputs": "(float[6] x) => (float[N] y, int64[M] count) { y, , , count = Unique<sorted=1>(x) }",
    "optional_resize": "(float[1,1,2,2] x) => (float[A,B,C,D] y) { s = Constant<value_floats=[1.0, 1.0, 2.0, 2.0]>() y = Resize<mode=\"nearest\">(x, , s) }",
    "constants": "(float[2] x) => (float[2] z) { a = Constant<value_float=2.0>() b = Constant<value_floats=[1.0, 3.0]>() c = Mul(x, a) z = Add(c, b) }",
    "constant_ints": "(float[4] x) => (float[A,B] z) { s = Constant<value_ints=[2, 2]>() z = Reshape(x, s) }",
    "if": "(bool c, float[2] x) => (float[2] z) { z = If(c) <then_branch = t () => (float[2] a) { a = Add(x, x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> }",
    "if_constant": "(bool c) => (float[2] z) { z = If(c) <then_branch = t () => (float[2] a) { a = Constant<value_floats=[1.0, 2.0]>() }, else_branch = e () => (float[2] b) { b = Constant<value_floats=[3.0, 4.0]>() }> }",
    "if_nested": "(bool c, bool d, float[2] x) => (float[2] z) { y = Abs(x) z = If(c) <then_branch = t () => (float[2] a) { a = If(d) <then_branch = tt () => (float[2] aa) { aa = Add(y, x) }, else_branch = te () => (float[2] ab) { ab = Sub(y, x) }> }, else_branch = e () => (float[2] b) { b = Identity(y) }> }",
    "loop": "(int64 n, float[2] x) => (float[2] z, float[K,2] all) { t = Constant<value = bool {1}>() z, all = Loop(n, t, x) <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w, float[2] s) { on = Identity(go) w = Add(v, x) s = Neg(w) }> }",
    "scan": "(float[2] start, float[3,2] xs) => (float[2] last, float[3,2] ys) { last, ys = Scan<num_scan_inputs=1, body = b (float[2] s, float[2] x) => (float[2] t, float[2] y) { t = Add(s, x) y = Mul(t, x) }>(start, xs) }",
    "shape_ops": "(float[2,3,4] x) => (float[A,B] y) { s = Shape(x) i = Constant<value = int64[1] {0}>() d = Gather<axis=0>(s, i) m = Constant<value_ints=[-1]>() t = Concat<axis=0>(d, m) y = Reshape(x, t) }",
    "slice": "(float[5,4] x) => (float[A,B] y) { s = Constant<value_ints=[1]>() e = Constant<value_ints=[4]>() a = Constant<value_ints=[0]>() y = Slice(x, s, e, a) }",
    "split": "(float[6,2] x) => (float[A,2] a, float[B,2] b) { s = Constant<value_ints=[2, 4]>() a, b = Split<axis=0>(x, s) }",
    "topk": "(float[3,5] x) => (float[3,2] v, int64[3,2] i) { k = Constant<value_ints=[2]>() v, i = TopK(x, k) }",
    "reduce": "(float[3,5] x) => (float[3,1] a, float[5] b) { a = ReduceMean<axes=[1]>(x) s = Constant<value_ints=[0]>() b = ReduceSum<keepdims=0>(x, s) }",
    "cast": "(float[4] x) => (int32[4] i, double[4] d, float16[4] h, bool[4] b) { i = Cast<to=6>(x) d = Cast<to=11>(x) h = Cast<to=10>(x) b = Cast<to=9>(x) }",
    "cast_like": "(float[4] x, int64[1] t) => (int64[4] y) { y = CastLike(x, t) }",
    "where": "(bool[3] c, float[3] a, float[3] b) => (float[3] y) { y = Where(c, a, b) }",
    "nonzero": "(float[3,3] x) => (int64[2,N] y) { y = NonZero(x) }",
    "einsum": '(float[2,3] x, float[3,4] y) => (float[2,4] z) { z = Einsum<equation="ij,jk->ik">(x, y) }',
    "sequence": "(float[2] a, float[2] b, int64 i) => (float[2] y, int64 n, seq(float[N]) s) { s = SequenceConstruct(a, b, a) y = SequenceAt(s, i) n = SequenceLength(s) }",
    "sequence_split": "(float[6] x) => (float[N] y) { p = Constant<value_int=2>() s = SplitToSequence(x, p) y = ConcatFromSequence<axis=0>(s) }",
    "sequence_loop": "(int64 n, float[2] x) => (float[N] y) { t = Constant<value = bool {1}>() e = SequenceEmpty<dtype=1>() s = Loop(n, t, e) <body = b (int64 i, bool go, seq(float[M]) v) => (bool on, seq(float[M]) w) { on = Identity(go) w = SequenceInsert(v, x) }> y = ConcatFromSequence<axis=0>(s) }",
    "quantize": "(float[2,4] x) => (uint8[2,4] q, float[2,4] y) { s = Constant<value_float=0.1>() z = Constant<value = uint8 {10}>() q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
    "dynamic_quantize": "(float[2,4] x) => (uint8[2,4] q, float s, uint8 z) { q, s, z = DynamicQuantizeLinear(x) }",
    "matmul_integer": "(uint8[2,3] a, uint8[3,2] b) => (int32[2,2] y) { y = MatMulInteger(a, b) }",
    "layer_norm": "(float[2,4] x, float[4] s, float[4] b) => (float[2,4] y) { y = LayerNormalization<axis=-1>(x, s, b) }",
    "scalar_attributes": "(float[2,3] a, float[3,2] b, float[2] c) => (float[2,2] y) { y = Gemm<alpha=0.5, beta=2.0>(a, b, c) }",
    "strings_in_tensor": '(string[2] x) => (string[4] y) { k = Constant<value_strings=["one", "two words"]>() y = Concat<axis=0>(x, k) }',
    "gather_bool": "(bool[4] x) => (bool[2] y) { i = Constant<value_ints=[3, 0]>() y = Gather(x, i) }",
    "unordered": "(float[2] x) => (float[2] a, float[2] z) { a = Abs(x) b = Neg(a) c = Exp(b) z = Sub(c, a) }",
    "same_input_twice": "(float[2,2] x) => (float[2,2] z) { t = Transpose<perm=[1,0]>(x) z = MatMul(x, t) }",
    "output_is_input": "(float[2] x, float[2] y) => (float[2] x2, float[2] z) { x2 = Identity(x) z = Add(x, y) }",
    "optional_pad": "(float[2,3] x) => (float[A,B] y) { p = Constant<value_ints=[0,1,0,1]>() v = Constant<value_float=7.0>() y = Pad(x, p, v) }",
    "optional_dropout": "(float[4] x) => (float[4] y, bool[4] m) { y, m = Dropout(x) }",
    "optional_slice_steps": "(float[6] x) => (float[N] y) { s = Constant<value_ints=[5]>() e = Constant<value_ints=[-7]>() k = Constant<value_ints=[-2]>() y = Slice(x, s, e, , k) }",
    "loop_of_if": "(int64 n, float[2] x) => (float[2] z) { t = Constant<value = bool {1}>() one = Constant<value_int=1>() z = Loop(n, t, x) <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w) { on = Identity(go) c = Less(i, one) w = If(c) <then_branch = th () => (float[2] p) { p = Add(v, x) }, else_branch = el () => (float[2] q) { q = Sub(v, x) }> }> }",
    "scan_backwards": "(float[2] start, float[3,2] xs) => (float[2] last, float[3,2] ys) { last, ys = Scan<num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1], body = b (float[2] s, float[2] x) => (float[2] t, float[2] y) { t = Add(s, x) y = Identity(t) }>(start, xs) }",
    "if_sequence": "(bool c, float[2] x) => (float[N] y) { s = If(c) <then_branch = t () => (seq(float[A]) a) { a = SequenceConstruct(x, x) }, else_branch = e () => (seq(float[B]) b) { b = SequenceConstruct(x) }> y = ConcatFromSequence<axis=0>(s) }",
    "string_normalizer": '(string[3] x) => (string[N] y) { y = StringNormalizer<case_change_action="UPPER", locale="C", stopwords=["b"]>(x) }',
    "string_equal@19": '(string[3] x) => (bool[3] y) { k = Constant<value_strings=["a"]>() y = Equal(x, k) }',
    "string_concat@20": '(string[3] x) => (string[3] y) { y = StringConcat(x, x) }',
    "tf_idf": '(int64[6] x) => (float[4] y) { y = TfIdfVectorizer<mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2, 3], pool_int64s=[1, 2, 1, 2, 2, 1]>(x) }',
    "qlinear_matmul": "(uint8[2,3] a, uint8[3,2] b) => (uint8[2,2] y) { s = Constant<value_float=0.5>() z = Constant<value = uint8 {1}>() y = QLinearMatMul(a, s, z, b, s, z, s, z) }",
    "conv_integer": "(uint8[1,1,3,3] x, uint8[1,1,2,2] w) => (int32[A,B,C,D] y) { z = Constant<value = uint8 {1}>() y = ConvInteger(x, w, z) }",
    "quantize_axis": "(float[2,3] x) => (int8[2,3] q, float[2,3] y) { s = Constant<value_floats=[0.1, 0.2, 0.3]>() z = Constant<value = int8[3] {0, 1, 2}>() q = QuantizeLinear<axis=1>(x, s, z) y = DequantizeLinear<axis=1>(q, s, z) }",
    "qdq_chain": "(float[2,4] x) => (float[2,4] y) { s = Constant<value_float=0.1>() z = Constant<value = uint8 {128}>() a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = Relu(b) d = QuantizeLinear(c, s, z) e = DequantizeLinear(d, s, z) f = Add(e, e) g = QuantizeLinear(f, s, z) y = DequantizeLinear(g, s, z) }",
    "qdq_matmul": "(float[2,3] x, float[3,2] w) => (float[2,2] y) { s = Constant<value_float=0.1>() z = Constant<value = uint8 {128}>() a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = QuantizeLinear(w, s, z) d = DequantizeLinear(c, s, z) e = MatMul(b, d) f = QuantizeLinear(e, s, z) y = DequantizeLinear(f, s, z) }",
    "gelu_by_hand": "(float[2,4] x) => (float[2,4] y) { r = Constant<value_float=1.4142135381698608>() o = Constant<value_float=1.0>() h = Constant<value_float=0.5>() a = Div(x, r) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h) }",
    "layer_norm_by_hand": "(float[2,4] x, float[4] s, float[4] b) => (float[2,4] y) { two = Constant<value_float=2.0>() e = Constant<value_float=1e-5>() m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes=[-1]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) k = Mul(n, s) y = Add(k, b) }",
    "layer_norm_by_hand@13": "(float[2,4] x, float[4] s, float[4] b) => (float[2,4] y) { two = Constant<value_float=2.0>() e = Constant<value_float=1e-5>() m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes=[-1]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) k = Mul(n, s) y = Add(k, b) }",
    "types_of_all": "(float[2] x) => (int8[2] a, uint8[2] b, int16[2] c, uint16[2] d, uint32[2] e, uint64[2] f, float[2] g) { p = Abs(x) a = Cast<to=3>(p) b = Cast<to=2>(p) c = Cast<to=5>(p) d = Cast<to=4>(p) e = Cast<to=12>(p) f = Cast<to=13>(p) h = Cast<to=16>(p) g = Cast<to=1>(h) }",
    "old_clip@6": "(float[4] x) => (float[4] y) { y = Clip<min=-0.5, max=0.5>(x) }",
    "old_slice@9": "(float[4] x) => (float[N] y) { y = Slice<starts=[1], ends=[3]>(x) }",
    "old_pad@10": "(float[4] x) => (float[N] y) { y = Pad<pads=[1, 2], value=3.0>(x) }",
    "old_topk@9": "(float[3,5] x) => (float[3,2] v, int64[3,2] i) { v, i = TopK<k=2>(x) }",
    "old_squeeze@11": "(float[1,3] x) => (float[3] y) { y = Squeeze<axes=[0]>(x) }",
    "old_softmax@9": "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }",
    "new_gelu@20": "(float[2,3] x) => (float[2,3] y) { y = Gelu(x) }",
    "float8@19": "(float[4] x) => (float[4] y) { s = Constant<value_float=1.0>() z = Cast<to=17>(s) q = Cast<to=17>(x) y = Cast<to=1>(q) }",
}


def from_text(name, text):
    opset = int(name.split("@")[1]) if "@" in name else 17
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')


def of_nodes(nodes, inputs, outputs, initializers=(), sparse=(), domains=()):
    info = lambda args: [helper.make_tensor_value_info(*a) for a in args]
    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs), list(initializers))
    graph.sparse_initializer.extend(sparse)
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(*d) for d in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def built():
    """Models that the textual syntax says badly."""
    f, i64, s = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    random = np.random.default_rng(3)
    weight = lambda name, *shape: numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
    node, ml = helper.make_node, [("ai.onnx.ml", 3)]
    yield "conv", of_nodes([node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
                            node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
                           [("x", f, [1, 3, 8, 8])], [("y", f, None)], [weight("w", 4, 3, 3, 3), weight("b", 4)])
    yield "lstm", of_nodes([node("LSTM", ["x", "w", "r", "", "", "h"], ["y", "", "c"], hidden_size=2)],
                           [("x", f, [3, 1, 2]), ("h", f, [1, 1, 2])], [("y", f, None), ("c", f, None)],
                           [weight("w", 1, 8, 2), weight("r", 1, 8, 2)])
    yield "overridable", of_nodes([node("Add", ["x", "w"], ["y"])], [("x", f, [3]), ("w", f, [3])], [("y", f, [3])],
                                  [weight("w", 3)])
    values = numpy_helper.from_array(np.array([1.5, -2.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1, 4], np.int64), "i")
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    yield "sparse", of_nodes([node("Add", ["x", "w"], ["y"])], [("x", f, [2, 3])], [("y", f, [2, 3])], sparse=[sparse])
    yield "linear_classifier", of_nodes(
        [node("LinearClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", coefficients=[0.5, -1.0, 1.0, 2.0],
              intercepts=[0.1, 0.2], classlabels_ints=[3, 7], post_transform="SOFTMAX")],
        [("x", f, [2, 2])], [("l", i64, [2]), ("p", f, [2, 2])], domains=ml)
    yield "label_encoder", of_nodes(
        [node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[1, 2],
              default_int64=-1)], [("x", s, [3])], [("y", i64, [3])], domains=ml)
    yield "tree", of_nodes(
        [node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
              nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0],
              nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
              target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0])],
        [("x", f, [3, 1])], [("y", f, [3, 1])], domains=ml)
    yield "tree_classifier", of_nodes(
        [node("TreeEnsembleClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", nodes_treeids=[0, 0, 0],
              nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0],
              nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
              class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 2.0],
              classlabels_strings=["no", "yes"])],
        [("x", f, [3, 1])], [("l", s, [3]), ("p", f, [3, 2])], domains=ml)
    yield "svm", of_nodes(
        [node("SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0],
              coefficients=[1.0, -0.5], support_vectors=[0.0, 1.0, 1.0, 0.0], n_supports=2, rho=[0.25])],
        [("x", f, [3, 2])], [("y", f, [3, 1])], domains=ml)
    yield "scaling", of_nodes(
        [node("Scaler", ["x"], ["a"], domain="ai.onnx.ml", offset=[0.5, 1.0], scale=[2.0, 3.0]),
         node("Imputer", ["a"], ["c"], domain="ai.onnx.ml", imputed_value_floats=[1.0], replaced_value_float=0.0),
         node("Binarizer", ["c"], ["y"], domain="ai.onnx.ml", threshold=0.25)],
        [("x", f, [3, 2])], [("y", f, [3, 2])], domains=ml)
    yield "normalizer", of_nodes([node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L2")],
                                 [("x", f, [3, 2])], [("y", f, [3, 2])], domains=ml)
    yield "one_hot_encoder", of_nodes(
        [node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b"], zeros=1)],
        [("x", s, [3])], [("y", f, [3, 2])], domains=ml)
    yield "feature_extractor", of_nodes(
        [node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")],
        [("x", f, [2, 3])], [("y", f, None)],
        [numpy_helper.from_array(np.array([2, 0], np.int64), "i")], domains=ml)
    sparse_constant = helper.make_node("Constant", [], ["k"], sparse_value=helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([3.0], np.float32), "v"), numpy_helper.from_array(np.array([2], np.int64), "n"), [4]))
    yield "sparse_constant", of_nodes([sparse_constant, node("Mul", ["x", "k"], ["y"])], [("x", f, [4])], [("y", f, [4])])
    in_body = [helper.make_graph([node("Add", ["x", name], ["o_" + name])], name, [],
                                 [helper.make_tensor_value_info("o_" + name, f, [3])], [weight(name, 3)]) for name in "tu"]
    yield "weights_in_branches", of_nodes(
        [node("If", ["c"], ["y"], then_branch=in_body[0], else_branch=in_body[1])],
        [("c", TensorProto.BOOL, []), ("x", f, [3])], [("y", f, [3])])
    scale, zero = numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(128), "z")
    byte_weight = numpy_helper.from_array(random.integers(0, 255, (4, 3, 3, 3)).astype(np.uint8), "w")
    quantised = [node("QuantizeLinear", ["x", "s", "z"], ["xq"]), node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
                 node("DequantizeLinear", ["w", "s", "z"], ["wd"]), node("Conv", ["xd", "wd"], ["c"], pads=[1, 1, 1, 1]),
                 node("QuantizeLinear", ["c", "t", "z"], ["q"]), node("DequantizeLinear", ["q", "t", "z"], ["y"])]
    other = numpy_helper.from_array(np.float32(0.0777), "t")  # no sum lies halfway between two steps of this size
    yield "qdq_conv", of_nodes(quantised, [("x", f, [1, 3, 6, 6])], [("y", f, None)], [byte_weight, scale, zero, other])
    qlinear = [node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
               node("QLinearConv", ["xq", "s", "z", "w", "s", "z", "s", "z"], ["q"], pads=[1, 1, 1, 1]),
               node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    yield "qlinear_conv", of_nodes(qlinear, [("x", f, [1, 3, 6, 6])], [("y", f, None)], [byte_weight, scale, zero])
    yield "gru", of_nodes([node("GRU", ["x", "w", "r"], ["y", "h"], hidden_size=2)], [("x", f, [3, 1, 2])],
                          [("y", f, None), ("h", f, None)], [weight("w", 1, 6, 2), weight("r", 1, 6, 2)])
    yield "batch_norm", of_nodes(
        [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", "a", "b", "m", "v"], ["y"])],
        [("x", f, [1, 2, 4, 4])], [("y", f, None)],
        [weight("w", 3, 2, 1, 1), weight("a", 3), weight("b", 3), weight("m", 3),
         numpy_helper.from_array(np.array([0.5, 1.0, 2.0], np.float32), "v")])
    maps = of_nodes([node("LinearClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", coefficients=[0.5, -1.0, 1.0, 2.0],
                          intercepts=[0.1, 0.2], classlabels_ints=[3, 7]),
                     node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[3, 7])],
                    [("x", f, [2, 2])], [("l", i64, [2])], domains=ml)
    element = helper.make_map_type_proto(i64, helper.make_tensor_type_proto(f, None))
    maps.graph.output.append(helper.make_value_info("z", helper.make_sequence_type_proto(element)))
    yield "zip_map", maps
    described = of_nodes([node("Identity", ["x"], ["y"])], [("x", f, [2])], [("y", f, [2])])
    described.producer_name, described.producer_version, described.model_version = "somebody", "1.2", 7
    described.domain, described.doc_string = "org.example", "what it is for"
    helper.set_model_props(described, {"author": "me", "licence": "free"})
    yield "described", described
    function = helper.make_function("local", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
                                    [helper.make_opsetid("", 17)])
    calling = of_nodes([node("Twice", ["x"], ["t"], domain="local"), node("Twice", ["t"], ["y"], domain="local")],
                       [("x", f, [2])], [("y", f, [2])], domains=[("local", 1)])
    calling.functions.append(function)
    yield "function", calling


def feeds_of(session):
    random = np.random.default_rng(1)
    names = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}
    feeds = {}
    for arg in session.get_inputs():
        shape = [d if isinstance(d, int) else 3 for d in arg.shape]
        if arg.type == "tensor(string)":
            feeds[arg.name] = np.array([["a", "b", "cde"][i % 3] for i in range(int(np.prod(shape)))], object).reshape(shape)
        elif arg.type == "tensor(float)":
            feeds[arg.name] = np.asarray(random.standard_normal(shape), np.float32)
        else:
            feeds[arg.name] = np.asarray(random.integers(1, 3, shape), names[arg.type])
    return feeds


def session_of(model, level="plain", save=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    if save:
        options.optimized_model_filepath = str(save)
        if level == "saved":
            options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
        options.add_session_config_entry("session.save_model_format", "ORT")
    return ort.InferenceSession(str(model), options)


def same(got, want, tolerance=0.0):
    if isinstance(want, list):
        return len(got) == len(want) and all(same(g, w, tolerance) for g, w in zip(got, want))
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(same(got[k], want[k], tolerance) for k in want)
    got, want = np.asarray(got), np.asarray(want)
    close = np.allclose(got, want, tolerance, tolerance) if tolerance and want.dtype.kind == "f" else np.array_equal(got, want)
    return got.dtype == want.dtype and got.shape == want.shape and close


def to_proto(value):
    if isinstance(value, list) and value and isinstance(value[0], dict):
        out = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP)
        for entries in value:
            one = out.map_values.add(key_type=TensorProto.INT64)
            one.keys.extend(entries)
            one.values.elem_type = onnx.SequenceProto.TENSOR
            one.values.tensor_values.extend(numpy_helper.from_array(np.asarray(v, np.float32)) for v in entries.values())
        return out
    if isinstance(value, list):
        return numpy_helper.from_list([np.asarray(v) for v in value])
    return numpy_helper.from_array(np.asarray(value))


class Exchange:
    def __init__(self, tessera, folder):
        self.tessera, self.folder = tessera, folder

    def command(self, *arguments):
        done = subprocess.run([self.tessera, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr + done.stdout).strip() or f"signal {-done.returncode}")

    def optimized(self, model, path):
        """False where rewriting raised a node to a form that the model's operator set does not have."""
        try:
            self.command("convert", "--optimize", 99, model, path)
            return True
        except RuntimeError as e:
            if "cannot express the optimised form" in str(e):
                return False
            raise

    def case_folder(self, name, feeds, outputs):
        """A folder for `tessera test` without its model."""
        data = self.folder / name / "test_data_set_0"
        data.mkdir(parents=True)
        for kind, values in (("input", feeds), ("output", outputs)):
            for i, value in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(to_proto(value).SerializeToString())
        return self.folder / name

    def exchange(self, name, model):
        """Yields what went wrong."""
        plain = self.folder / f"{name}.onnx"
        onnx.save(model, plain)
        session = session_of(plain)
        feeds = feeds_of(session)
        want = session.run(None, feeds)
        required = {i.name for i in session.get_inputs()}
        for level in LEVELS:
            case = self.case_folder(f"{name}.{level}", [feeds[n] for n in feeds if n in required], want)
            session_of(plain, level, case / "model.onnx")  # its format is found by content
            try:
                self.command("test", "-v", case)
            except RuntimeError as e:
                yield f"theirs, {level}: {e}"
        ours, back = self.folder / f"{name}.ort", self.folder / f"{name}.back.onnx"
        try:
            self.command("convert", plain, ours)
            if not same(session_of(ours).run(None, feeds), want):
                yield "ours: other outputs"
            self.command("convert", ours, back)
            onnx.checker.check_model(str(back), full_check="sparse" not in name)
            if not same(session_of(back).run(None, feeds), want):
                yield "back to .onnx: other outputs"
            for end in ("ort", "onnx"):
                if self.optimized(plain, optimized := self.folder / f"{name}.optimized.{end}"):
                    if not same(session_of(optimized).run(None, feeds), want, 1e-5):
                        yield f"optimised .{end}: other outputs"
        except Exception as e:  # ONNX Runtime raises many kinds
            yield f"ours: {e}"


class ContribExchange(Exchange):
    """Models of one node of com.microsoft."""

    def exchange(self, name):
        made = self.runnable(name)
        if not made:
            return
        case, model, inputs, outputs, want = made
        plain, theirs, ours = (self.folder / f"{name}.contrib.{end}" for end in ("onnx", "theirs.ort", "ours.ort"))
        onnx.save(model, plain)
        session_of(plain, "plain", theirs)
        try:
            for output, got, wanted in zip(outputs, self.run(theirs, inputs, outputs), want):
                keep = case.compare.get(int(output[3:]), lambda x: x)
                if why := contrib.difference(keep(np.asarray(got)), keep(np.asarray(wanted)), case):
                    yield f"theirs: {output}: {why}"
            self.command("convert", plain, ours)
            feeds = {t.name: numpy_helper.to_array(t) for t in inputs}
            for output, got, wanted in zip(outputs, session_of(ours).run(outputs, feeds), want):
                if not np.array_equal(got, wanted, equal_nan=wanted.dtype.kind == "f"):
                    yield f"ours: {output}: other outputs"
        except Exception as e:  # ONNX Runtime raises many kinds
            yield str(e)

    @staticmethod
    def runnable(name):
        """The first case of the operator that ONNX Runtime runs and can store, with its outputs; None if there is none."""
        for seed in range(20):
            rng = np.random.default_rng([seed, *name.encode()])
            case = contrib_cases.CASES[name](rng)
            model, inputs, outputs = contrib.build(case, rng)
            if any(t.data_type > TensorProto.FLOAT8E5M2FNUZ for t in [*inputs, *model.graph.initializer]):
                continue
            try:
                return case, model, inputs, outputs, contrib.run_theirs(model, inputs, outputs)
            except Exception:
                continue
        return None

    def run(self, model, inputs, outputs):
        arguments = ["run", model, "--threads", 1]
        for t in inputs:
            (self.folder / f"{t.name}.pb").write_bytes(t.SerializeToString())
            arguments += ["--input", f"{t.name}={self.folder / t.name}.pb"]
        for o in outputs:
            arguments += ["--output", f"{o}={self.folder / o}.pb"]
        self.command(*arguments)
        return [numpy_helper.to_array(onnx.load_tensor(self.folder / f"{o}.pb")) for o in outputs]


SEEDS = {"variadic_sum": "plain", "optional_clip_high": "plain", "if_nested": "plain", "loop": "plain", "scan": "plain",
         "sequence_loop": "plain", "strings_in_tensor": "plain", "lstm": "plain", "sparse": "plain", "zip_map": "plain",
         "tree": "plain", "described": "plain", "qdq_conv": "saved", "layer_norm_by_hand@13": "extended",
         "gelu_by_hand": "extended", "float8@19": "plain"}


def write_seeds(folder, models):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name, level in SEEDS.items():
            plain = pathlib.Path(temporary) / "model.onnx"
            onnx.save(models[name], plain)
            session_of(plain, level, folder / f"{name.split('@')[0]}.ort")


def table_is_current():
    tool = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/contrib_types.py"
    return subprocess.run([sys.executable, tool, "--check"]).returncode == 0


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    ort.set_default_logger_severity(4)
    models = {name: from_text(name, text) for name, text in TEXTS.items()} | dict(built())
    if sys.argv[1] == "--seeds":
        write_seeds(pathlib.Path(sys.argv[2]), models)
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        exchange = Exchange(sys.argv[1], pathlib.Path(temporary))
        of_contrib = ContribExchange(sys.argv[1], pathlib.Path(temporary))
        jobs = {name: (exchange.exchange, name, model) for name, model in models.items()}
        jobs |= {f"com.microsoft.{name}": (of_contrib.exchange, name) for name in sorted(contrib_cases.CASES)}
        for name, (job, *arguments) in jobs.items():
            wrong = list(job(*arguments))
            failed += bool(wrong)
            for reason in wrong:
                print(f"FAIL {name}: {reason}")
            if not wrong and "-v" in sys.argv:
                print(f"ok   {name}")
    if not table_is_current():
        failed += 1
    print(f"{len(models)} models and {len(contrib_cases.CASES)} operators of com.microsoft, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
