#!/usr/bin/env python3
"""Train tree ensembles and other classical models on seeded data and convert them to ONNX (ai.onnx.ml).

    python export_trees.py OUT [NAME...]

Writes OUT/NAME.onnx and OUT/NAME.npz with one batch of inputs (in0) and the library's own prediction (ref). Files that
exist are kept. Needs scikit-learn lightgbm xgboost skl2onnx onnxmltools.
"""
import argparse
import os
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
from sklearn import ensemble, linear_model, pipeline, preprocessing, svm
from sklearn.datasets import make_classification, make_regression

FEATURES, ROWS = 50, 1000


def data(classes):
    make = make_classification if classes else make_regression
    options = {"n_classes": 4} if classes else {"noise": 1.0}
    x, y = make(6000, FEATURES, n_informative=20, random_state=0, **options)
    return x.astype(np.float32), y


def sklearn_to_onnx(zipmap=False):
    def convert(model):
        from skl2onnx import to_onnx

        options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") and not zipmap else None
        sample = np.zeros((1, FEATURES), np.float32)
        return to_onnx(model, sample, options=options, target_opset={"": 18, "ai.onnx.ml": 3})

    return convert


def mltools(name, **options):
    def convert(model):
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        types = [("x", FloatTensorType([None, FEATURES]))]
        return getattr(onnxmltools, f"convert_{name}")(model, initial_types=types, target_opset=15, **options)

    return convert


def lightgbm_model(kind, **options):
    import lightgbm

    return getattr(lightgbm, kind)(random_state=0, verbose=-1, n_jobs=1, **options)


def xgboost_model(**options):
    import xgboost

    return xgboost.XGBRegressor(random_state=0, n_jobs=1, **options)


# name, predicts classes, converter, model, rows to train with
MODELS = (
    ("rf_clf_100x8", True, sklearn_to_onnx(),
     lambda: ensemble.RandomForestClassifier(100, max_depth=8, random_state=0), 6000),
    ("rf_clf_500x12", True, sklearn_to_onnx(),
     lambda: ensemble.RandomForestClassifier(500, max_depth=12, random_state=0), 6000),
    ("gb_clf_100x4", True, sklearn_to_onnx(),
     lambda: ensemble.GradientBoostingClassifier(n_estimators=100, max_depth=4, max_features=0.3, random_state=0), 6000),
    ("gb_reg_300x5", False, sklearn_to_onnx(),
     lambda: ensemble.GradientBoostingRegressor(n_estimators=300, max_depth=5, max_features=0.3, random_state=0), 6000),
    ("hgb_clf_100", True, sklearn_to_onnx(),
     lambda: ensemble.HistGradientBoostingClassifier(max_iter=100, random_state=0), 6000),
    ("logreg_pipeline_zipmap", True, sklearn_to_onnx(zipmap=True),
     lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=500)), 6000),
    ("svc_rbf", True, sklearn_to_onnx(), lambda: svm.SVC(probability=True, random_state=0), 2000),
    ("lgbm_clf_200", True, mltools("lightgbm", zipmap=False),
     lambda: lightgbm_model("LGBMClassifier", n_estimators=200, num_leaves=63), 6000),
    ("lgbm_reg_500", False, mltools("lightgbm", zipmap=False),
     lambda: lightgbm_model("LGBMRegressor", n_estimators=500, num_leaves=31), 6000),
    ("xgb_reg_500x8", False, mltools("xgboost"), lambda: xgboost_model(n_estimators=500, max_depth=8), 6000),
)  # fmt: skip


def write(out, name, classes, convert, make, rows):
    x, y = data(classes)
    begin, model = time.time(), make().fit(x[:rows], y[:rows])
    try:
        written = convert(model).SerializeToString()
    except Exception as error:  # a converter may not know the newest library
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:160]}", flush=True)
        return
    reference = model.predict_proba(x[:ROWS]) if classes else model.predict(x[:ROWS])
    np.savez(out / f"{name}.npz", in0=x[:ROWS], ref=np.asarray(reference))
    (out / f"{name}.onnx").write_bytes(written)
    print(f"{name}.onnx: {len(written) / 1e6:.1f} MB in {time.time() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("names", nargs="*", metavar="NAME", help="make only those whose name contains one of these")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, *rest in MODELS:
        wanted = not options.names or any(n in name for n in options.names)
        if wanted and not (options.out / f"{name}.onnx").exists():
            write(options.out, name, *rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
