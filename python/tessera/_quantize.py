"""Weights of a MatMul in blocks of few bits: the functions that onnxruntime.quantization calls.

Each fills the arrays it is given: codes, scales and zero points of a matrix [K, N], in blocks along K.
"""

from __future__ import annotations

import numpy as np


def _blocks(src, block_size):
    """The columns in blocks of rows, [N, blocks, block_size], zeros at the end; and which rows are real."""
    rows, columns = src.shape
    count = -(-rows // block_size)
    padded = np.zeros((count * block_size, columns), np.float32)
    padded[:rows] = src
    real = np.arange(count * block_size).reshape(count, block_size) < rows
    return padded.T.reshape(columns, count, block_size), real


def _quantized(src, block_size, bits, symmetric):
    """Codes, scales and zero points of each block; the zero lies in the range of every block."""
    blocks, real = _blocks(src, block_size)
    most, middle = (1 << bits) - 1, 1 << (bits - 1)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    if symmetric:
        # The number furthest from zero becomes the lowest code, its sign in that of the scale.
        scale = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-middle)
        zero = np.full(scale.shape, middle, np.float32)
    else:
        scale = (high - low) / np.float32(most)
        zero = np.where(scale != 0, -low / np.where(scale != 0, scale, 1), 0)
        zero = np.clip(np.round(zero), 0, most).astype(np.float32)
    inverse = np.where(scale != 0, np.float32(1) / np.where(scale != 0, scale, 1), 0).astype(np.float32)
    codes = np.clip(np.round(blocks * inverse[..., None] + zero[..., None]), 0, most)
    codes = np.where(real, codes, 0 if bits < 8 else zero[..., None])
    return codes.astype(np.uint8), scale, zero.astype(np.uint8)


def _packed(codes, bits):
    """Several codes per byte along the last axis, the first one lowest."""
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], missing), np.uint8)], -1)
    lanes = codes.reshape(*codes.shape[:-1], -1, per_byte) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(lanes, -1).astype(np.uint8)


def _fill(bits, dst, src, scale, zero_points, block_size, N, K, is_symmetric):
    codes, scales, zeros = _quantized(np.asarray(src).reshape(K, N), block_size, bits, is_symmetric)
    dst[...] = _packed(codes, bits).reshape(dst.shape)
    scale[...] = scales.reshape(scale.shape)
    if zero_points is not None and zero_points.size and not is_symmetric:
        zero_points[...] = _packed(zeros, bits).reshape(zero_points.shape)


def quantize_matmul_2bits(dst, src, scale, zero_points, block_size, N, K, is_symmetric) -> None:
    """Four codes per byte: dst [N, blocks, bytes]."""
    _fill(2, dst, src, scale, zero_points, block_size, N, K, is_symmetric)


def quantize_matmul_4bits(dst, src, scale, zero_points, block_size, N, K, is_symmetric) -> None:
    """Two codes per byte: dst [N, blocks, bytes]."""
    _fill(4, dst, src, scale, zero_points, block_size, N, K, is_symmetric)


def quantize_matmul_8bits(dst, src, scale, zero_points, block_size, N, K, is_symmetric) -> None:
    """A byte per code: dst [N, blocks, bytes]."""
    _fill(8, dst, src, scale, zero_points, block_size, N, K, is_symmetric)


def _fill_plain(bits, dst, src, scale, zero_points, block_size, N, K, is_symmetric):
    codes, scales, zeros = _quantized(np.asarray(src).reshape(K, N), block_size, bits, is_symmetric)
    plain = codes.reshape(N, -1)[:, :K].T.reshape(-1)
    dst[...] = _packed(plain ^ (1 << (bits - 1)) if is_symmetric else plain, bits).reshape(dst.shape)
    scale[...] = scales.T.reshape(scale.shape)
    if zero_points is not None and zero_points.size and not is_symmetric:
        zero_points[...] = _packed(zeros.T.reshape(-1), bits).reshape(zero_points.shape)
    return bool(is_symmetric)


def quantize_qdq_matmul_4bits(dst, src, scale, zero_points, block_size, N, K, is_symmetric) -> bool:
    """As DequantizeLinear reads them: codes and scales in the order of the matrix; signed codes where symmetric."""
    return _fill_plain(4, dst, src, scale, zero_points, block_size, N, K, is_symmetric)


# What the 16 codes stand for, as parts of the largest number of a block.
_FP4 = np.array(
    [0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25]
    + [-0.0, -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25],
    np.float32,
)
_NF4 = np.array(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334]
    + [-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224]
    + [0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0],
    np.float32,
)


def quantize_matmul_bnb4(dst, src, absmax, block_size, quant_type, N, K) -> None:
    """The nearest of 16 numbers (0: FP4, 1: NF4) in blocks of a matrix [N, K], the first of a byte highest."""
    flat = np.asarray(src, np.float32).reshape(-1)
    padded = np.zeros(-(-flat.size // block_size) * block_size, np.float32)
    padded[: flat.size] = flat
    blocks = padded.reshape(-1, block_size)
    largest = np.abs(blocks).max(-1)
    inverse = np.where(largest > 0, np.float32(1) / np.where(largest > 0, largest, 1), np.float32(0))
    table = _NF4 if quant_type else _FP4
    order = np.argsort(table, kind="stable")
    middles = (table[order][1:] + table[order][:-1]) / 2
    codes = order[np.searchsorted(middles, blocks * inverse[:, None], side="left")].astype(np.uint8)
    codes = codes.reshape(-1)[: flat.size + flat.size % 2]
    dst[...] = (codes[0::2] << 4 | codes[1::2]).reshape(dst.shape)
    absmax[...] = largest.reshape(absmax.shape)
