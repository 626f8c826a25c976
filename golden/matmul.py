"""Matrix product of MX tensors, bit for bit as the engine computes it.

Y[M,N] = C + X[M,K] . W[N,K]^T: each block of 32 along K is summed exactly and rounded once to binary32,
then the blocks are added in ascending k (docs/numbers.md sections 2 to 6).
"""

import dataclasses

import numpy as np

from golden.binary32 import add, canonical, sum_to_float32
from golden.formats import BLOCK, SCALE_BIAS, SCALE_NAN, Format, decode_e8m0

__all__ = ["MODES", "PreparedWeights", "add", "block_dot", "block_sum", "matmul", "mode_name"]

MODES = {
    "mxfp4_mxfp4": (Format.MXFP4, Format.MXFP4),
    "mxfp8_mxfp4": (Format.MXFP8, Format.MXFP4),
    "mxfp8_mxfp8": (Format.MXFP8, Format.MXFP8),
}
"""The engine's modes, named activations_weights: formats of X and of W."""

# Sizes of one step of matmul. So small a product stays in the cache, and stays below the size from which
# OpenBLAS starts threads (M N K = 2^18), which on a busy machine cost ten times what they gain.
_STEP_ROWS = 128
_STEP_COLUMNS = 2048
_STEP_RESULTS = 1 << 13


def mode_name(x_format, w_format):
    """Name of the mode for activations and weights of these formats.

    Raises ValueError for MXFP4 activations with MXFP8 weights, which is no mode of the engine.
    """
    for name, formats in MODES.items():
        if formats == (x_format, w_format):
            return name
    raise ValueError(f"activations {x_format.name} with weights {w_format.name} is no mode; allowed are "
                     + ", ".join(MODES))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PreparedWeights:
    """Weights decoded once, for many products. About four bytes an element; make it with :meth:`of`.

    Members: ``format``; ``n``, ``k``; ``values``, float32 [ceil(K/32), 32, N], elements without scale,
    0 in lanes beyond K and in place of NaN; ``scales``, float64 [ceil(K/32), N], 1 in place of NaN;
    ``nan``, bool [N], true where any element or scale of the row is NaN.
    """

    format: Format
    n: int
    k: int
    values: np.ndarray
    scales: np.ndarray
    nan: np.ndarray

    @classmethod
    def of(cls, w):
        """Decode the MXTensor ``w`` [N, K]; raises ValueError if it has not two axes."""
        values, scales, nan = _decode("w", w)
        return cls(format=w.format, n=w.shape[0], k=w.k, nan=nan,
                   values=np.ascontiguousarray(values.transpose(1, 2, 0)),
                   scales=np.ascontiguousarray(scales.T))


def _decode(name, tensor):
    """Elements float32 [rows, blocks, 32], scales float64 [rows, blocks], NaN in the row bool [rows]."""
    if len(tensor.shape) != 2:
        raise ValueError(f"{name} has shape {tensor.shape}; a matrix product takes two axes")
    values = tensor.format.table.astype(np.float32)[tensor.blocks()]
    nan = (tensor.scales == SCALE_NAN).any(axis=1)
    if tensor.format.nan_code is not None:
        element_nan = np.isnan(values)
        nan |= element_nan.any(axis=(1, 2))
        values[element_nan] = 0
    scales = decode_e8m0(tensor.scales)
    scales[np.isnan(scales)] = 1
    return values, scales, nan


def matmul(x, w, c=None):
    """Product of MX matrices with the engine's order of additions.

    Parameters: ``x``, MXTensor [M, K]; ``w``, MXTensor or PreparedWeights [N, K]; ``c``, float32 [M, N]
    or None. M, N and K may be 0.
    Returns float32 [M, N]. Raises ValueError where shapes do not agree or the formats are no mode.
    """
    if not isinstance(w, PreparedWeights):
        w = PreparedWeights.of(w)
    mode_name(x.format, w.format)
    x_values, x_scales, x_nan = _decode("x", x)
    m, n = x.shape[0], w.n
    if x.k != w.k:
        raise ValueError(f"x has K = {x.k} and w has K = {w.k}; they must be equal")
    if c is not None:
        c = np.asarray(c)
        if c.dtype != np.float32 or c.shape != (m, n):
            raise ValueError(f"c has dtype {c.dtype} and shape {c.shape}; allowed is float32 {(m, n)}")

    # Two MXFP4 blocks sum to at most 4608 quarters, exact in float32; with MXFP8 the sum has up to 42
    # bits, exact in float64. Exact sums do not depend on the order in which BLAS adds.
    exact = np.float32 if x.format is w.format is Format.MXFP4 else np.float64
    x_values = np.ascontiguousarray(x_values.transpose(1, 0, 2), dtype=exact)
    result = np.zeros((m, n), np.float32) if c is None else c.copy()
    height = max(1, min(m, _STEP_ROWS))
    width = min(_STEP_COLUMNS, _STEP_RESULTS // height)
    for top in range(0, m, height):
        for left in range(0, n, width):
            _accumulate(result, c is not None, x_values, x_scales, w, exact,
                        slice(top, top + height), slice(left, left + width))
    # A NaN block makes its output NaN and no later addition takes that away.
    result[x_nan, :] = np.nan
    result[:, w.nan] = np.nan
    return canonical(result)


def _accumulate(result, has_c, x_values, x_scales, w, exact, rows, columns):
    """Add all blocks, in ascending k, to one part of the result."""
    total = result[rows, columns]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for block in range(len(w.values)):
            sums = np.matmul(x_values[block, rows], w.values[block, :, columns].astype(exact, copy=False))
            scaled = sums.astype(np.float64, copy=False)
            # An exact zero is +0, whatever signs its terms had; BLAS libraries do not promise it.
            scaled += 0.0
            # Powers of two within 2^-272..2^277: exact in float64. The cast is the one rounding.
            scaled *= x_scales[rows, block, None]
            scaled *= w.scales[block, columns]
            term = scaled.astype(np.float32)
            if block == 0 and not has_c:
                total[...] = term
            else:
                total += term


def block_sum(x, w):
    """Exact sum of one block in the form the column foot receives it.

    Parameters: ``x``, ``w``, MXTensors [..., K] with K at most 32 and leading axes that broadcast.
    Returns (sums int64 [...], exponents int64 [...], nan bool [...]); the value is sums * 2^exponents,
    ``nan`` is true for a NaN scale or element on either side, and the sum then counts NaN elements as 0.
    K = 0 is rejected: an absent block has no value (docs/numbers.md section 6).
    """
    mode_name(x.format, w.format)
    if x.k != w.k or not 1 <= x.k <= BLOCK:
        raise ValueError(f"x has K = {x.k} and w has K = {w.k}; one block allows equal K in 1..32")
    integers, nan = [], False
    for tensor in (x, w):
        units = np.ldexp(tensor.format.table, tensor.format.fraction_bits)[tensor.codes]
        element_nan = np.isnan(units)
        integers.append(np.where(element_nan, 0, units).astype(np.int64))
        nan = nan | element_nan.any(axis=-1) | (tensor.scales[..., 0] == SCALE_NAN)
    sums = (integers[0] * integers[1]).sum(axis=-1)
    exponents = (x.scales[..., 0].astype(np.int64) + w.scales[..., 0] - 2 * SCALE_BIAS
                 - x.format.fraction_bits - w.format.fraction_bits)
    # A NaN scale byte is no exponent; 0 keeps the field within the range of the others.
    return sums, np.where(nan, 0, exponents), nan


def block_dot(x, w):
    """Value of one block: exact sum times both scales, rounded once to binary32.

    Parameters as for :func:`block_sum`. Returns float32 [...], NaN canonical.
    """
    return sum_to_float32(*block_sum(x, w))


