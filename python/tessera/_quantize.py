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


def quantize_qdq_matmul_4bits(dst, src, scale, zero_points, block_size, N, K, is_symmetric) -> bool:
    """As DequantizeLinear reads them: codes and scales in the order of the matrix; signed codes where symmetric."""
    codes, scales, zeros = _quantized(np.asarray(src).reshape(K, N), block_size, 4, is_symmetric)
    plain = codes.reshape(N, -1)[:, :K].T.reshape(-1)
    dst[...] = _packed(plain ^ 8 if is_symmetric else plain, 4).reshape(dst.shape)
    scale[...] = scales.T.reshape(scale.shape)
    if zero_points is not None and zero_points.size and not is_symmetric:
        zero_points[...] = _packed(zeros.T.reshape(-1), 4).reshape(zero_points.shape)
    return bool(is_symmetric)
