"""IEEE 754 binary32 as the engine uses it: one rounding of an exact sum, addition, canonical NaN.

NumPy's ``float32`` already rounds to nearest-even, keeps subnormals and overflows to infinity, so these
functions add only what IEEE 754 leaves open: every NaN that leaves them is 0x7FC00000.
"""

import numpy as np

__all__ = ["CANONICAL_NAN", "add", "bits", "canonical", "from_bits", "sum_to_float32"]

CANONICAL_NAN = 0x7FC00000
"""The one NaN encoding that results contain (docs/numbers.md section 5)."""


def bits(values):
    """Encodings of an array.

    Parameters: ``values``, float32 of any shape.
    Returns uint32 of the same shape. Raises ValueError for another dtype, because a silent conversion
    would hide a second rounding.
    """
    values = np.asarray(values)
    if values.dtype != np.float32:
        raise ValueError(f"values has dtype {values.dtype}; binary32 encodings need float32")
    return values.view(np.uint32)


def from_bits(encodings):
    """Array of float32 with the given encodings (integers in 0..0xFFFFFFFF, any shape)."""
    return np.asarray(encodings, dtype=np.uint32).view(np.float32)


def canonical(values):
    """Copy of a float32 array in which every NaN is 0x7FC00000; all other bits are kept."""
    return np.where(np.isnan(values), from_bits(CANONICAL_NAN), np.asarray(values, dtype=np.float32))


def add(a, b):
    """Sum of two float32 arrays that broadcast, rounded once (IEEE 754 section 5.4.1), canonical NaN.

    Inf - Inf is the canonical NaN, x + (-x) is +0 and only -0 + -0 is -0.
    Raises ValueError if an operand is not float32.
    """
    for name, operand in (("a", a), ("b", b)):
        if np.asarray(operand).dtype != np.float32:
            raise ValueError(f"{name} has dtype {np.asarray(operand).dtype}; add takes float32")
    with np.errstate(over="ignore", invalid="ignore"):
        return canonical(np.add(a, b))


def sum_to_float32(sums, exponents, nan=False):
    """Round exact sums to binary32, once (docs/numbers.md section 3).

    Parameters: ``sums``, integers with magnitude at most 2^53; ``exponents``, integers in -272..252;
    ``nan``, booleans; all of them broadcast. The value rounded is ``sums * 2^exponents``.
    Returns float32. A zero sum is +0, ``nan`` gives the canonical NaN; a nonzero sum that underflows to
    zero keeps its sign. Raises ValueError for a sum or an exponent outside its range.
    """
    sums = np.asarray(sums)
    exponents = np.asarray(exponents)
    if not np.issubdtype(sums.dtype, np.integer):
        raise ValueError(f"sums has dtype {sums.dtype}; an exact sum is an integer")
    if sums.size and max(int(sums.max()), -int(sums.min())) > 1 << 53:
        raise ValueError(f"sums reaches {max(int(sums.max()), -int(sums.min()))}; allowed is at most 2^53")
    if exponents.size and not (-272 <= int(exponents.min()) and int(exponents.max()) <= 252):
        raise ValueError(
            f"exponents spans {exponents.min()}..{exponents.max()}; allowed is -272..252"
        )
    # Exact in float64 (53-bit significand, exponents far from its own limits); the cast rounds.
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.ldexp(sums.astype(np.float64), exponents).astype(np.float32)
    return np.where(nan, from_bits(CANONICAL_NAN), rounded)
