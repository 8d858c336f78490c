#!/usr/bin/env python3
"""Train the demo network: handwritten digits, 8x8 pixels, ten classes. Writes everything in tests/models/demo.

    pip install numpy onnx==1.23.2 scikit-learn      # scikit-learn only for its bundled digits data set
    python tools/demo/train.py [--out tests/models/demo]

Written files: digits.onnx, sample_<digit>.npy (float32 [1,1,8,8], held-out images), labels.npy (int64 [10]) and
test_data_set_0 (the ten samples as one batch, with the outputs of the onnx reference evaluator).
The network is Conv-Relu-MaxPool-Conv-Relu-Reshape-Gemm-Softmax, trained here with plain numpy and a fixed seed.
"""
import argparse
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SEED = 20260101
HELD_OUT = 360
EPOCHS = 40
BATCH = 32
WANTED_ACCURACY = 0.97


def load_data():
    """Images as float32 [n,1,8,8] in [0,1] and labels, shuffled; the first HELD_OUT are never trained on."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images = (digits.images[order] / 16.0).astype(np.float32)[:, None]
    return images, digits.target[order].astype(np.int64)


def patches(x):
    """The 3x3 neighbourhoods of every pixel, zero padded: [n,c,h,w] -> [n,h,w,c*9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    columns = patches(x)
    y = columns @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), columns


def conv_backward(dy, columns, weight, want_dx):
    dy = dy.transpose(0, 2, 3, 1)
    flat = dy.reshape(-1, dy.shape[-1])
    dweight = (flat.T @ columns.reshape(-1, columns.shape[-1])).reshape(weight.shape)
    dbias = flat.sum(0)
    if not want_dx:
        return dweight, dbias, None
    turned = weight.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    dx, _ = conv(dy.transpose(0, 3, 1, 2), turned, np.float32(0))
    return dweight, dbias, dx


def max_pool(x):
    """2x2, stride 2. Also gives where the maximum stood (ties share the gradient)."""
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = cells.max(axis=(3, 5))
    hit = cells == y[:, :, :, None, :, None]
    return y, hit / hit.sum(axis=(3, 5), keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Network:
    def __init__(self, rng):
        def weights(*shape):
            fan_in = np.prod(shape[1:])
            return (rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)

        self.params = {
            "conv1.weight": weights(16, 1, 3, 3),
            "conv1.bias": np.zeros(16, np.float32),
            "conv2.weight": weights(32, 16, 3, 3),
            "conv2.bias": np.zeros(32, np.float32),
            "fc.weight": weights(10, 512),
            "fc.bias": np.zeros(10, np.float32),
        }

    def forward(self, x):
        p = self.params
        a1, columns1 = conv(x, p["conv1.weight"], p["conv1.bias"])
        pooled, hit = max_pool(np.maximum(a1, 0))
        a2, columns2 = conv(pooled, p["conv2.weight"], p["conv2.bias"])
        features = np.maximum(a2, 0).reshape(len(x), -1)
        probabilities = softmax(features @ p["fc.weight"].T + p["fc.bias"])
        return probabilities, (a1, columns1, hit, a2, columns2, features)

    def gradients(self, x, labels):
        p = self.params
        probabilities, (a1, columns1, hit, a2, columns2, features) = self.forward(x)
        dlogits = probabilities.copy()
        dlogits[np.arange(len(x)), labels] -= 1
        dlogits /= len(x)
        g = {"fc.weight": dlogits.T @ features, "fc.bias": dlogits.sum(0)}
        da2 = (dlogits @ p["fc.weight"]).reshape(a2.shape) * (a2 > 0)
        g["conv2.weight"], g["conv2.bias"], dpooled = conv_backward(da2, columns2, p["conv2.weight"], True)
        da1 = (dpooled[:, :, :, None, :, None] * hit).reshape(a1.shape) * (a1 > 0)
        g["conv1.weight"], g["conv1.bias"], _ = conv_backward(da1, columns1, p["conv1.weight"], False)
        return g

    def accuracy(self, x, labels):
        return float((self.forward(x)[0].argmax(1) == labels).mean())


def train(network, images, labels, rng):
    """Adam with a cosine learning rate; images are shifted by up to one pixel."""
    state = {k: [np.zeros_like(v), np.zeros_like(v)] for k, v in network.params.items()}
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            dy, dx = rng.integers(0, 3, 2)
            shifted = np.pad(images[pick], ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, dy : dy + 8, dx : dx + 8]
            rate = 0.002 * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            for name, g in network.gradients(shifted, labels[pick]).items():
                m, v = state[name]
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
                network.params[name] -= (rate * m_hat / (np.sqrt(v_hat) + 1e-8)).astype(np.float32)


def to_onnx(network):
    initializers = [numpy_helper.from_array(v, k) for k, v in network.params.items()]
    initializers.append(numpy_helper.from_array(np.array([-1, 512], np.int64), "flat"))
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("MaxPool", ["relu1"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool", "conv2.weight", "conv2.bias"], ["conv2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node("Reshape", ["relu2", "flat"], ["features"], "flatten"),
        helper.make_node("Gemm", ["features", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        initializers,
        doc_string="Handwritten digits, 8x8 pixels: 0 = paper, 1 = ink.",
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tessera tools/demo/train.py"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def write_test_data(folder, model, batch):
    expected = ReferenceEvaluator(model).run(None, {"image": batch})[0]
    folder.mkdir(exist_ok=True)
    for name, value in (("input_0.pb", ("image", batch)), ("output_0.pb", ("probabilities", expected))):
        (folder / name).write_bytes(numpy_helper.from_array(value[1], value[0]).SerializeToString())
    return expected


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=here.parent.parent / "tests" / "models" / "demo")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    images, labels = load_data()
    rng = np.random.default_rng(SEED)
    network = Network(rng)
    train(network, images[HELD_OUT:], labels[HELD_OUT:], rng)
    accuracy = network.accuracy(images[:HELD_OUT], labels[:HELD_OUT])
    print(f"held-out accuracy {accuracy:.2%} on {HELD_OUT} images, {len(images) - HELD_OUT} trained on")
    if accuracy < WANTED_ACCURACY:
        return f"accuracy is below {WANTED_ACCURACY:.0%}: nothing written"

    model = to_onnx(network)
    onnx.save(model, out / "digits.onnx")
    samples = np.stack([images[np.flatnonzero(labels[:HELD_OUT] == digit)[0]] for digit in range(10)])
    for digit, image in enumerate(samples):
        np.save(out / f"sample_{digit}.npy", image[None])
    np.save(out / "labels.npy", np.arange(10, dtype=np.int64))
    expected = write_test_data(out / "test_data_set_0", model, samples)
    print(f"samples: {expected.argmax(1).tolist()}; digits.onnx: {(out / 'digits.onnx').stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
