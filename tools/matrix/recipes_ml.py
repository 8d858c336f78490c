"""Recipes of the operators of ai.onnx.ml, and of text and images."""
import struct

import numpy as np

from . import values
from .cells import Case
from .registry import recipe
from .values import Map

ML = "ai.onnx.ml"


def ml(*names):
    return recipe(*names, domain=ML)


@ml("ArrayFeatureExtractor")
def array_feature_extractor(c):
    return Case([c.x((2, 4)), np.array([0, 2, 2], np.int64)], formula=lambda x, y: x[:, [0, 2, 2]])


@ml("Binarizer")
def binarizer(c):
    return Case([c.x((2, 3))], {"threshold": 1.0}, formula=lambda x: (x > 1).astype(np.float64))


@ml("CastMap")
def cast_map(c):
    """Dense: the values in the order of their keys."""
    text, target = c.in_text(0), c.u()
    names = values.split_type(text)[1].endswith("string")
    entries = Map({0: "1", 2: "3"} if names else {0: 1.0, 2: 3.0}, text)
    attrs = {"cast_to": {"float": "TO_FLOAT", "string": "TO_STRING", "int64": "TO_INT64"}[target]}
    text = np.array([["1", "3"]] if names else [["1.000000", "3.000000"]], dtype=object)
    return Case([entries], attrs, formula=lambda m: text if target == "string" else np.array([[1, 3]]))


@ml("CategoryMapper")
def category_mapper(c):
    cats = {"cats_strings": ["a", "bc", "x y"], "cats_int64s": [1, 2, 3], "default_int64": -1, "default_string": "none"}
    if c.t() == "string" or c.constraint == "T2" and c.u() == "int64":
        x = np.array(["a", "x y", "zz"], dtype=object)
        return Case([x], cats, ["tensor(int64)"], formula=lambda x: np.array([1, 3, -1]))
    return Case([np.array([3, 1, 9], np.int64)], cats, ["tensor(string)"],
                formula=lambda x: np.array(["x y", "a", "none"], dtype=object))  # fmt: skip


@ml("DictVectorizer")
def dict_vectorizer(c):
    """The output has the type of the map's values."""
    text = c.in_text(0)
    key, kind = (p.strip() for p in values.split_type(text)[1].split(","))
    if c.constraint == "T2" and c.u() != kind:
        kind = c.u()
        fitting = {t for k in c.schema.type_constraints if k.type_param_str == "T1" for t in k.allowed_type_strs}
        text = next(t for t in sorted(fitting) if t.endswith(f", {kind})"))
        key = values.split_type(text)[1].split(",")[0].strip()
    names = ["a", "b", "c"] if key == "string" else [5, 2, 9]
    held = {names[2]: "w" if kind == "string" else 2, names[0]: "v" if kind == "string" else 1}
    attrs = {"string_vocabulary": names} if key == "string" else {"int64_vocabulary": names}
    blank = "" if kind == "string" else 0
    result = np.array([[held.get(n, blank) for n in names]], dtype=object if kind == "string" else np.float64)
    return Case([Map(held, text)], attrs, [f"tensor({kind})"], formula=lambda m: result)


@ml("FeatureVectorizer")
def feature_vectorizer(c):
    a, b = c.x((2, 2), 0, key=0), c.x((2, 3), 0, key=1)
    return Case([a, b], {"inputdimensions": [2, 3]}, formula=lambda a, b: np.concatenate([a, b], 1).astype(np.float64))


@ml("Imputer")
def imputer(c):
    x = c.of(0, np.array([[1, 2], [2, 3]]))
    whole = c.t() in values.INTS
    attrs = ({"imputed_value_int64s": [7], "replaced_value_int64": 2} if whole else
             {"imputed_value_floats": [7.0], "replaced_value_float": 2.0})  # fmt: skip
    return Case([x], attrs, formula=lambda x: np.where(x == 2, 7, x))


@ml("LabelEncoder")
def label_encoder(c):
    """From a type to itself unless the other one is varied."""
    source, target = c.t(), c.u()
    if c.version == 1:
        classes = {"classes_strings": ["a", "bc"], "default_int64": -1, "default_string": "none"}
        if c.constraint == "T1" and source == "string" or c.constraint == "T2" and target == "int64":
            x = np.array(["bc", "zz", "a"], dtype=object)
            return Case([x], classes, ["tensor(int64)"], formula=lambda x: np.array([1, -1, 0]))
        return Case([np.array([1, 5, 0], np.int64)], classes, ["tensor(string)"],
                    formula=lambda x: np.array(["bc", "none", "a"], dtype=object))  # fmt: skip
    keys = np.array(["a", "bc"], dtype=object) if source == "string" else values.numbers(source, [1, 2])
    results = np.array(["p", "q"], dtype=object) if target == "string" else values.numbers(target, [10, 20])
    other = "none" if target == "string" else -1
    suffix = {"string": "strings", "int64": "int64s", "float": "floats"}
    attrs = {}
    if source in suffix and target in suffix:
        attrs["keys_" + suffix[source]] = keys.tolist()
        attrs["values_" + suffix[target]] = results.tolist()
        attrs["default_" + suffix[target][:-1]] = "none" if target == "string" else float(-1) if target == "float" else -1
    else:
        attrs = {"keys_tensor": keys, "values_tensor": results,
                 "default_tensor": np.array([other], dtype=values.DTYPES[target])}  # fmt: skip
    x = np.array(["bc", "zz", "a"], dtype=object) if source == "string" else values.numbers(source, [2, 7, 1])
    out = [results[1], other, results[0]]
    formula = lambda x: np.array(out, dtype=object) if target == "string" else np.array(out, np.float64)
    return Case([x], attrs, formula=formula)


def labels(c, count=2):
    if c.out_text(0) == "tensor(string)":
        return {"classlabels_strings": ["no", "yes", "so"][:count]}, np.array(["no", "yes", "so"][:count], dtype=object)
    return None, np.arange(10, 10 + count)


@ml("LinearClassifier")
def linear_classifier(c):
    named, names = labels(c, 3)
    attrs = named or {"classlabels_ints": [10, 11, 12]}
    w, b = np.array([[0.5, -1], [1, 0.25], [-0.5, 0.75]]), np.array([0.125, -0.25, 0.5])

    def formula(x):
        scores = x.astype(np.float64) @ w.T + b
        return [names[scores.argmax(1)], scores]

    attrs |= {"coefficients": w.ravel().tolist(), "intercepts": b.tolist(), "multi_class": 1}
    return Case([c.x((3, 2))], attrs, [c.out_text(0), "tensor(float)"], formula=formula)


@ml("LinearRegressor")
def linear_regressor(c):
    attrs = {"coefficients": [0.5, -1.0], "intercepts": [0.25]}
    return Case([c.x((3, 2))], attrs, formula=lambda x: x.astype(np.float64) @ np.array([[0.5], [-1]]) + 0.25)


@ml("Normalizer")
def normalizer(c):
    x = c.x((2, 3), low=1)
    return Case([x], {"norm": "L1"}, formula=lambda x: x / np.abs(x).astype(np.float64).sum(1, keepdims=True))


@ml("OneHotEncoder")
def one_hot_encoder(c):
    if c.t() == "string":
        return Case([np.array(["b", "a"], dtype=object)], {"cats_strings": ["a", "b", "c"]},
                    formula=lambda x: np.array([[0, 1, 0], [1, 0, 0]]))  # fmt: skip
    return Case([c.of(0, np.array([2, 1]))], {"cats_int64s": [1, 2, 3]},
                formula=lambda x: np.array([[0, 1, 0], [1, 0, 0]]))  # fmt: skip


@ml("Scaler")
def scaler(c):
    attrs = {"offset": [1.0, 0.5, 0.0], "scale": [2.0, 1.0, 0.5]}
    formula = lambda x: (x.astype(np.float64) - [1, 0.5, 0]) * [2, 1, 0.5]
    return Case([c.x((2, 3))], attrs, formula=formula)


@ml("SVMRegressor")
def svm_regressor(c):
    attrs = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "support_vectors": [1.0, 0.5, -1.0, 0.25],
             "coefficients": [0.5, -0.25], "rho": [0.125], "n_supports": 2}  # fmt: skip
    weights = 0.5 * np.array([1, 0.5]) - 0.25 * np.array([-1, 0.25])
    return Case([c.x((3, 2))], attrs, formula=lambda x: (x.astype(np.float64) @ weights + 0.125)[:, None])


@ml("SVMClassifier")
def svm_classifier(c):
    named, names = labels(c)
    attrs = named or {"classlabels_ints": [10, 11]}
    attrs |= {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "support_vectors": [1.0, 0.5, -1.0, 0.25],
              "coefficients": [0.5, -0.25], "rho": [0.125], "vectors_per_class": [1, 1]}  # fmt: skip
    # The evaluator keeps integers whole: they are asked about as floats.
    x = c.x((3, 2))
    return Case([x], attrs, [c.out_text(0), "tensor(float)"], modern={"inputs": [x.astype(np.float32)]})


TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip


@ml("TreeEnsembleRegressor")
def tree_ensemble_regressor(c):
    attrs = dict(TREE, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.0],
                 n_targets=1)  # fmt: skip
    return Case([c.x((4, 2))], attrs, formula=lambda x: np.where(x[:, 1:] <= 0.5, 1.5, -2.0), modern={"version": 3})


@ml("TreeEnsembleClassifier")
def tree_ensemble_classifier(c):
    named, names = labels(c, 3)
    attrs = dict(TREE, class_treeids=[0] * 6, class_nodeids=[1, 1, 1, 2, 2, 2], class_ids=[0, 1, 2, 0, 1, 2],
                 class_weights=[0.5, 0.25, 0.125, 0.25, 0.125, 1.0])  # fmt: skip
    attrs |= named or {"classlabels_int64s": [10, 11, 12]}

    def formula(x):
        left = x[:, 1:] <= 0.5
        scores = np.where(left, [[0.5, 0.25, 0.125]], [[0.25, 0.125, 1.0]])
        return [names[scores.argmax(1)], scores]

    return Case([c.x((4, 2))], attrs, [c.out_text(0), "tensor(float)"], formula=formula, modern={"version": 3})


@ml("TreeEnsemble")
def tree_ensemble(c):
    kind = values.DTYPES[c.t()]
    attrs = {
        "n_targets": 1, "aggregate_function": 1, "post_transform": 0, "tree_roots": [0], "nodes_featureids": [1],
        "nodes_modes": np.array([0], np.uint8), "nodes_splits": np.array([0.5], kind), "nodes_truenodeids": [0],
        "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
        "leaf_weights": np.array([1.5, -2.0], kind),
    }  # fmt: skip
    return Case([c.x((4, 2))], attrs, formula=lambda x: np.where(x[:, 1:] <= 0.5, 1.5, -2.0))


@ml("ZipMap")
def zip_map(c):
    text = c.out_text()
    x = np.array([[0.5, 0.25], [1, 2]], np.float32)
    names = ["a", "b"] if "string" in text else [7, 3]
    attrs = {"classlabels_strings": names} if "string" in text else {"classlabels_int64s": names}
    rows = [Map({n: np.float32(v) for n, v in zip(names, row)}, values.split_type(text)[1]) for row in x]
    return Case([x], attrs, formula=lambda x: [rows])


# ---------------------------------------------------------------------------------------- text and images


def words(*v):
    return np.array(v, dtype=object)


@recipe("StringConcat")
def string_concat(c):
    return Case([words("a", "b"), words("x")], formula=lambda a, b: words("ax", "bx"))


@recipe("StringSplit")
def string_split(c):
    return Case([words("a,b", "c")], {"delimiter": ","}, [c.out_text(0), c.out_text(1)],
                formula=lambda x: [np.array([["a", "b"], ["c", ""]], dtype=object), np.array([2, 1])])  # fmt: skip


@recipe("StringNormalizer")
def string_normalizer(c):
    attrs = {"case_change_action": "UPPER", "is_case_sensitive": 1, "stopwords": ["the"]}
    return Case([words("the", "Cat")], attrs, formula=lambda x: words("CAT"))


@recipe("RegexFullMatch")
def regex(c):
    return Case([words("abc", "a", "xbc")], {"pattern": "a.*"}, formula=lambda x: np.array([True, True, False]))


@recipe("TfIdfVectorizer")
def tf_idf(c):
    attrs = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
             "ngram_indexes": [0, 1, 2]}  # fmt: skip
    if c.t() == "string":
        attrs["pool_strings"], x = ["a", "b", "c"], words("b", "c", "b", "z")
    else:
        attrs["pool_int64s"], x = [1, 2, 3], c.of(0, np.array([2, 3, 2, 9]))
    return Case([x], attrs, formula=lambda x: np.array([0, 2, 1]))


@recipe("ImageDecoder")
def image_decoder(c):
    """A bitmap of two rows, stored bottom up, of blue-green-red pixels."""
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 8, 7]]], np.uint8)
    rows = b"".join(row[:, ::-1].tobytes() + b"\0\0" for row in pixels[::-1])
    header = struct.pack("<2sIHHI", b"BM", 54 + len(rows), 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, 2, 2, 1, 24, 0, len(rows), 2835, 2835, 0, 0)
    return Case([np.frombuffer(header + rows, np.uint8)], {"pixel_format": "RGB"}, formula=lambda x: pixels)
