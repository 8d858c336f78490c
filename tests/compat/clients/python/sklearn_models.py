"""Models of scikit-learn through skl2onnx, compared with scikit-learn itself."""
import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn import (cluster, datasets, ensemble, feature_extraction, linear_model, naive_bayes, neighbors,
                     neural_network, pipeline, preprocessing, svm, tree)  # fmt: skip

from checks import Checks

X, Y = datasets.load_iris(return_X_y=True)
X = X.astype(np.float32)
POINTS = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)  # no two distances are equal
TEXTS = np.array(["the quick brown fox", "jumps over the lazy dog", "the dog sleeps", "a fox and a dog"])

CLASSIFIERS = (linear_model.LogisticRegression(max_iter=500), ensemble.RandomForestClassifier(20, random_state=0),
               ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0), svm.SVC(probability=True, random_state=0),
               tree.DecisionTreeClassifier(random_state=0), naive_bayes.GaussianNB(), neighbors.KNeighborsClassifier(5),
               neural_network.MLPClassifier((16,), max_iter=800, random_state=0), ensemble.ExtraTreesClassifier(20, random_state=0),
               svm.LinearSVC(random_state=0),
               linear_model.SGDClassifier(random_state=0), ensemble.AdaBoostClassifier(n_estimators=5, random_state=0))  # fmt: skip
REGRESSORS = (linear_model.LinearRegression(), linear_model.Ridge(), ensemble.RandomForestRegressor(20, random_state=0),
              ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0), svm.SVR(), neighbors.KNeighborsRegressor(5),
              tree.DecisionTreeRegressor(random_state=0), neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=800, random_state=0))  # fmt: skip
STEPS = (preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.Normalizer(), preprocessing.Binarizer(threshold=3),
         preprocessing.PolynomialFeatures(2), preprocessing.KBinsDiscretizer(4, encode="onehot-dense"),
         preprocessing.OneHotEncoder(sparse_output=False), preprocessing.RobustScaler(),
         preprocessing.PowerTransformer(), cluster.KMeans(3, n_init=2, random_state=0))  # fmt: skip


def session_of(model, sample, **options):
    onx = to_onnx(model, sample, target_opset={"": 17, "ai.onnx.ml": 3}, **options)
    return onnxruntime.InferenceSession(onx.SerializeToString(), providers=["CPUExecutionProvider"])


def classify(model):
    model.fit(X, Y)
    session = session_of(model, X[:1], options=None if isinstance(model, svm.LinearSVC) else {"zipmap": False})
    labels, *scores = session.run(None, {session.get_inputs()[0].name: X})
    assert (labels == model.predict(X)).mean() >= 0.99
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(scores[0], model.predict_proba(X), atol=1e-4)


def regress(model):
    model.fit(POINTS[:, :3], POINTS.sum(axis=1))
    session = session_of(model, POINTS[:1, :3])
    got = session.run(None, {session.get_inputs()[0].name: POINTS[:, :3]})[0].ravel()
    np.testing.assert_allclose(got, model.predict(POINTS[:, :3]).ravel(), atol=1e-3)


def transform(model):
    data = np.round(X) if isinstance(model, preprocessing.OneHotEncoder) else X
    model.fit(data)
    session = session_of(model, data[:1])
    names = [o.name for o in session.get_outputs()]
    got = session.run([names[-1]], {session.get_inputs()[0].name: data})[0]
    np.testing.assert_allclose(got, model.transform(data), atol=1e-3)


def zipmap():
    model = linear_model.LogisticRegression(max_iter=500).fit(X, Y)
    session = session_of(model, X[:1], options={"zipmap": True})
    _, maps = session.run(None, {session.get_inputs()[0].name: X[:3]})
    assert [sorted(m) for m in maps] == [[0, 1, 2]] * 3
    np.testing.assert_allclose([[m[k] for k in range(3)] for m in maps], model.predict_proba(X[:3]), atol=1e-5)


def words(vectorizer):
    model = pipeline.make_pipeline(vectorizer, linear_model.LogisticRegression()).fit(TEXTS, [0, 1, 1, 0])
    session = session_of(model, TEXTS[:1].reshape(-1, 1), options={"zipmap": False})
    labels = session.run(None, {session.get_inputs()[0].name: TEXTS.reshape(-1, 1)})[0]
    assert (labels == model.predict(TEXTS)).all()


checks = Checks()
for model in CLASSIFIERS:
    checks.check(type(model).__name__, lambda: classify(model))
for model in REGRESSORS:
    checks.check(type(model).__name__, lambda: regress(model))
for model in STEPS:
    checks.check(type(model).__name__, lambda: transform(model))
checks.check("ZipMap", zipmap)
for vectorizer in (feature_extraction.text.CountVectorizer(), feature_extraction.text.TfidfVectorizer()):
    checks.check(type(vectorizer).__name__, lambda: words(vectorizer))
checks.end()
