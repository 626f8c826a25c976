"""Operands of the products that a user asks for: drawn at random, or read from model files."""

import numpy as np

from golden.formats import Format, MXTensor, block_count, quantise

KINDS = {
    "normal": "normally distributed values, quantised",
    "codes": "every finite element code alike, scales from 2^-8 to 2^8",
    "special": "as codes, with NaN and infinity-making scales among them",
}
"""Distributions of `random_tensor`, with what they are."""


def random_tensor(rng: np.random.Generator, rows: int, k: int, format: Format,
                  kind: str = "normal") -> MXTensor:
    """A random MXTensor [rows, k] of a kind of `KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"operands = {kind!r}: must be one of {', '.join(KINDS)}")
    if kind == "normal":
        return quantise(rng.standard_normal((rows, k), dtype=np.float32), format)
    codes = rng.integers(0, 1 << format.element_bits, (rows, k), dtype=np.uint8)
    scales = rng.integers(127 - 8, 127 + 9, (rows, block_count(k)), dtype=np.uint8)
    if format is Format.MXFP8:
        nan = (codes & 0x7F) == 0x7F
        keep = rng.random(codes.shape) < 0.1 if kind == "special" else np.zeros(codes.shape, bool)
        codes[nan & ~keep] = 0x7E
    if kind == "special":
        odd = rng.random(scales.shape)
        scales[odd < 0.05] = 254
        scales[odd < 0.03] = 0
        scales[odd < 0.01] = 255
    return MXTensor(format=format, codes=codes, scales=scales)


def as_weights(matrix: np.ndarray | MXTensor, format: Format, name: str) -> MXTensor:
    """Weights in `format`: float32 is quantised; MX blocks are taken as stored, if of that format."""
    if not isinstance(matrix, MXTensor):
        return quantise(np.ascontiguousarray(matrix, dtype=np.float32), format)
    if matrix.format is not format:
        raise ValueError(f"tensor {name!r} is stored as {matrix.format.name} and is not converted: "
                         f"choose a mode whose weights are {matrix.format.name.lower()}")
    return matrix
