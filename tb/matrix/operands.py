"""Operands that bring out mistakes: every code, every scale, NaN, and sums at the bounds of their words."""

import math

import numpy as np

from golden.formats import Format, MXTensor, quantise
from golden.matmul import MODES
from sw.engine.job import Job

__all__ = ["KINDS", "largest_job", "random_c", "random_job", "random_tensor"]

#: Kinds of random tensors: quantised normal numbers; any code under mid scales; any code and any scale, a
#: few NaN among them; few distinct magnitudes with many exact zeros and cancellations.
KINDS = ("normal", "codes", "wild", "sparse")

SPECIAL_C = np.array([0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF,
                      0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000], np.uint32)


def random_tensor(rng, rows, k, form, kind="codes"):
    """MXTensor [rows, k] of ``form``; ``kind`` is one of :data:`KINDS`."""
    blocks = math.ceil(k / 32)
    if kind == "normal":
        return quantise(rng.standard_normal((rows, k)).astype(np.float32), form)
    bits = 4 if form is Format.MXFP4 else 8
    codes = rng.integers(0, 1 << bits, (rows, k), dtype=np.uint8)
    scales = rng.integers(110, 141, (rows, blocks), dtype=np.uint8)
    if form is Format.MXFP8:  # a NaN in most blocks would hide everything else
        kept = rng.random((rows, k)) < 0.001 if kind == "wild" else False
        codes = np.where(((codes & 0x7F) == 0x7F) & ~np.asarray(kept), codes & 0x80, codes).astype(np.uint8)
    if kind == "wild":
        scales = rng.integers(0, 255, (rows, blocks), dtype=np.uint8)
        edges = rng.random((rows, blocks))
        scales[edges < 0.10] = 0
        scales[edges > 0.90] = 254
        scales[(edges > 0.50) & (edges < 0.51)] = 255
    elif kind == "sparse":
        zero = rng.random((rows, k)) < 0.7
        sign = np.uint8(form.sign_mask)
        codes = np.where(zero, codes & sign, codes & sign | np.uint8(form.max_code)).astype(np.uint8)
        scales[:] = 127
    elif kind != "codes":
        raise ValueError(f"kind is {kind!r}; allowed are {', '.join(KINDS)}")
    return MXTensor(format=form, codes=codes, scales=scales)


def random_c(rng, m, n):
    """float32 [m, n]: normal numbers; one in four is special (zero, infinite, NaN, subnormal, largest)."""
    c = rng.standard_normal((m, n)).astype(np.float32)
    special = rng.choice(SPECIAL_C, (m, n)).view(np.float32)
    return np.where(rng.random((m, n)) < 0.25, special, c)


def random_job(rng, m, n, k, mode, *, kind="codes", c=False, **job):
    """Job of a mode with random operands; ``c`` adds C; further arguments go to the Job."""
    x_format, w_format = MODES[mode]
    return Job(x=random_tensor(rng, m, k, x_format, kind), w=random_tensor(rng, n, k, w_format, kind),
               c=random_c(rng, m, n) if c else None, **job)


def largest_job(m, n, k, mode):
    """All elements of the largest magnitude; signs alternate by row of X and of W: sums of both signs."""
    tensors = []
    for rows, form in zip((m, n), MODES[mode]):
        codes = np.full((rows, k), form.max_code, np.uint8)
        codes[1::2] |= np.uint8(form.sign_mask)
        scales = np.full((rows, math.ceil(k / 32)), 127, np.uint8)
        tensors.append(MXTensor(format=form, codes=codes, scales=scales))
    return Job(x=tensors[0], w=tensors[1])
