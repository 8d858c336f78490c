#!/usr/bin/env python3
"""Quantize the nets that export_torch.py wrote, with onnxruntime's own tools.

    python export_quant.py FOLDER [NAME...]

int8: static with QuantizeLinear/DequantizeLinear pairs, static with quantized operators, dynamic; int4: weights in
blocks, as an operator or as pairs; fp16: the whole net. Calibrated with seeded random inputs. Files that exist are kept.
"""
import argparse
import logging
import os
import pathlib
import sys
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np
import onnx
from onnxruntime import quantization as quant
from onnxruntime.quantization.shape_inference import quant_pre_process

logging.disable(logging.WARNING)
PAIRS, OPERATORS = quant.QuantFormat.QDQ, quant.QuantFormat.QOperator


class Calibration(quant.CalibrationDataReader):
    """Four sets of random inputs in the shapes of the stored ones; tokens stay tokens, masks stay ones."""

    def __init__(self, folder, net):
        rng, names = np.random.default_rng(0), onnx.load(folder / f"{net}.legacy.onnx", load_external_data=False)
        with np.load(folder / f"{net}.npz") as data:
            stored = [data[f"in{i}"] for i in range(len(names.graph.input))]
        self.feeds = [{v.name: self.like(a, rng) for v, a in zip(names.graph.input, stored)} for _ in range(4)]
        self.rewind()

    @staticmethod
    def like(array, rng):
        if array.dtype.kind == "f":
            return rng.standard_normal(array.shape).astype(array.dtype)
        return rng.integers(0, 30000, array.shape).astype(array.dtype) if array.max() > 1 else array

    def get_next(self):
        return next(self.left, None)

    def rewind(self):
        self.left = iter(self.feeds)


def static(form):
    def make(folder, net, out):
        prepared = out.with_suffix(".prepared")
        quant_pre_process(str(folder / f"{net}.legacy.onnx"), str(prepared), skip_symbolic_shape=True)
        quant.quantize_static(str(prepared), str(out), Calibration(folder, net), quant_format=form, per_channel=True,
                              activation_type=quant.QuantType.QUInt8, weight_type=quant.QuantType.QInt8)  # fmt: skip
        prepared.unlink()

    return make


def dynamic(folder, net, out):
    quant.quantize_dynamic(str(folder / f"{net}.legacy.onnx"), str(out), weight_type=quant.QuantType.QInt8)


def blocks(form, accuracy=0):
    """Pairs need opset 21, which the quantizer declares without converting older nodes: it starts from opset 20."""

    def make(folder, net, out):
        from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

        model = onnx.load(folder / (f"{net}.onnx" if form == PAIRS else f"{net}.legacy.onnx"))
        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=accuracy, quant_format=form)
        quantizer = MatMulNBitsQuantizer(model, algo_config=config)
        quantizer.process()
        onnx.save(quantizer.model.model, out)

    return make


def half(folder, net, out):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(folder / f"{net}.legacy.onnx")
    onnx.save(convert_float_to_float16(model, keep_io_types=False, op_block_list=[]), out)


FORMS = (
    ("resnet50", "int8qdq", static(PAIRS)),
    ("resnet50", "int8qop", static(OPERATORS)),
    ("resnet50", "int8dyn", dynamic),
    ("resnet50", "fp16", half),
    ("mobilenet_v3_large", "int8qdq", static(PAIRS)),
    ("minilm_l6", "int8qdq", static(PAIRS)),
    ("minilm_l6", "int8dyn", dynamic),
    ("minilm_l6", "fp16", half),
    ("bert_base", "int8qdq", static(PAIRS)),
    ("bert_base", "int4qdq", blocks(PAIRS)),
    ("bert_base", "int4qop", blocks(OPERATORS)),
    ("bert_base", "int4qop_acc4", blocks(OPERATORS, accuracy=4)),
    ("llama_small", "int8dyn", dynamic),
    ("llama_small", "int4qdq", blocks(PAIRS)),
    ("llama_small", "int4qop", blocks(OPERATORS)),
    ("llama_small", "int4qop_acc4", blocks(OPERATORS, accuracy=4)),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the nets are, and where the new ones go")
    parser.add_argument("names", nargs="*", metavar="NAME", help="make only those whose name contains one of these")
    options = parser.parse_args()
    for net, form, make in FORMS:
        out = options.folder / f"{net}.{form}.onnx"
        if out.exists() or (options.names and not any(n in out.name for n in options.names)):
            continue
        begin, unfinished = time.time(), out.with_suffix(".part")
        try:
            make(options.folder, net, unfinished)
            unfinished.rename(out)
            print(f"{out.name}: {out.stat().st_size / 1e6:.1f} MB in {time.time() - begin:.1f} s", flush=True)
        except Exception as error:  # a form that onnxruntime cannot make does not stop the others
            unfinished.unlink(missing_ok=True)
            print(f"{out.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
