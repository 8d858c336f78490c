"""Random cases of com.microsoft.nchwc's operators, for ../contrib.py: tensors lie in memory as this CPU's blocks."""
import numpy as np

from cases.contrib import CASES, Case, coin, maybe, pick, reals, size, trim

DOMAIN = "com.microsoft.nchwc"


def block_size():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        return 16 if "avx512f" in info.read() else 8


BLOCK = block_size()


def case(function):
    CASES[f"nchwc.{function.__name__}"] = function
    return function


def image(rng, blocks=3, least=1):
    return reals(rng, [size(rng, 1, 2), BLOCK * size(rng, 1, blocks), size(rng, least, 9), size(rng, least, 9)])


@case
def ReorderInput(rng):
    x = reals(rng, [size(rng, 1, 2), 4 * size(rng, 1, 9), size(rng, 1, 6), size(rng, 1, 6)])
    last = coin(rng)
    if last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    return Case("ReorderInput", [x], {"channels_last": int(last)}, domain=DOMAIN)


@case
def ReorderOutput(rng):
    x = image(rng)
    channels = x.shape[1] - 4 * size(rng, 0, BLOCK // 4 - 1)
    return Case("ReorderOutput", [x], {"channels": channels, "channels_last": int(coin(rng))}, domain=DOMAIN)


def window(rng, pads=True):
    kernel = [size(rng, 1, 3), size(rng, 1, 3)]
    attributes = {"kernel_shape": kernel}
    if coin(rng):
        attributes["strides"] = [size(rng, 1, 2), size(rng, 1, 2)]
    if coin(rng):
        if coin(rng, 0.3):
            attributes["auto_pad"] = pick(rng, ["SAME_UPPER", "SAME_LOWER", "VALID"])
        else:
            attributes["pads"] = [size(rng, 0, kernel[i % 2] - 1) for i in range(4)]
    return kernel, attributes


@case
def Conv(rng):
    kernel, attributes = window(rng)
    batch, h, w = size(rng, 1, 2), size(rng, 5, 9), size(rng, 5, 9)
    outputs = BLOCK * size(rng, 1, 3)
    kind = pick(rng, ["plain", "blocked", "depthwise", "groups"])
    if kind == "plain":  # an image whose channels are fewer than a block comes as it is
        inputs = filters = size(rng, 1, BLOCK - 1)
    elif kind == "blocked":
        inputs = filters = BLOCK * size(rng, 1, 3)
    elif kind == "depthwise":
        inputs, filters = outputs, 1
        attributes["group"] = outputs
    else:
        groups, filters = size(rng, 2, 3), BLOCK * size(rng, 1, 2)
        inputs, outputs = filters * groups, BLOCK * groups
        attributes["group"] = groups
    if coin(rng, 0.3):
        attributes["dilations"] = [size(rng, 1, 2), size(rng, 1, 2)]
    name = pick(rng, ["", "Relu", "LeakyRelu", "Clip", "HardSigmoid", "Tanh", "Sigmoid"])
    if name:
        attributes["activation"] = name
    if name in ("LeakyRelu", "Clip", "HardSigmoid"):
        attributes["activation_params"] = {"LeakyRelu": [0.1], "Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.4]}[name]
    inputs = [reals(rng, [batch, inputs, h, w]), reals(rng, [outputs, filters, *kernel]), maybe(rng, reals(rng, [outputs]))]
    return Case("Conv", trim(inputs), attributes, domain=DOMAIN, constants={1})


@case
def ConvSum(rng):
    """The result is added to what is there already."""
    h, w, blocks = size(rng, 1, 6), size(rng, 1, 6), size(rng, 1, 2)
    x = reals(rng, [1, BLOCK, h, w])
    weights = reals(rng, [BLOCK * blocks, BLOCK, 1, 1])
    return Case("Conv", [x, weights, maybe(rng, reals(rng, [BLOCK * blocks])), reals(rng, [1, BLOCK * blocks, h, w])],
                {"kernel_shape": [1, 1], **({"activation": "Relu"} if coin(rng) else {})}, domain=DOMAIN, constants={1})


@case
def MaxPool(rng):
    kernel, attributes = window(rng)
    # ONNX Runtime's SAME forgets dilations.
    if "auto_pad" not in attributes and coin(rng, 0.3):
        attributes["dilations"] = [size(rng, 1, 2), size(rng, 1, 2)]
    if "auto_pad" not in attributes and coin(rng, 0.3):
        attributes["ceil_mode"] = 1
    return Case("MaxPool", [image(rng, least=6)], attributes, domain=DOMAIN)


@case
def AveragePool(rng):
    kernel, attributes = window(rng)
    if coin(rng):
        attributes["count_include_pad"] = 1
    return Case("AveragePool", [image(rng, least=6)], attributes, domain=DOMAIN)


@case
def GlobalMaxPool(rng):
    return Case("GlobalMaxPool", [image(rng)], domain=DOMAIN)


@case
def GlobalAveragePool(rng):
    return Case("GlobalAveragePool", [image(rng)], domain=DOMAIN)


@case
def Upsample(rng):
    attributes = {"scales": [1, 1, size(rng, 1, 3), size(rng, 1, 3)], "mode": pick(rng, ["nearest", "linear"])}
    if attributes["mode"] == "linear":
        attributes["coordinate_transformation_mode"] = pick(rng, ["asymmetric", "half_pixel", "align_corners"])
    return Case("Upsample", [image(rng, 2, 2)], attributes, domain=DOMAIN)
