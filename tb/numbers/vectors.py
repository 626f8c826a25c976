"""Random vectors for the pipelines of hw.numbers, a share of them for each corner class.

Every generator takes a NumPy ``Generator`` and a count and is deterministic for a given seed. Vector i
belongs to class ``i % len(classes)``, so that classes follow each other cycle by cycle through a pipeline.
"""

import numpy as np

__all__ = ["ADDITION_CLASSES", "BLOCK_CLASSES", "SUM_CLASSES", "additions", "blocks", "class_of", "sums"]

MIN_SUM_EXPONENT, MAX_SUM_EXPONENT = -272, 252


def class_of(classes, index):
    """Name of the corner class that vector ``index`` belongs to."""
    return list(classes)[index % len(classes)]


def additions(rng, count):
    """Operand pairs: uint32 [count, 2], encodings of binary32."""
    return _interleave([make(rng, _share(count, ADDITION_CLASSES, index)) for index, make in
                        enumerate(ADDITION_CLASSES.values())], count)


def sums(rng, count, width):
    """Block sums: int64 [count] that fit ``width`` bits, their exponents in -272..252, bool [count] nan."""
    parts = [make(rng, _share(count, SUM_CLASSES, index), width) for index, make in
             enumerate(SUM_CLASSES.values())]
    values, exponents, nan = (_interleave([np.asarray(part[k]) for part in parts], count) for k in range(3))
    exponents = np.clip(exponents, MIN_SUM_EXPONENT, MAX_SUM_EXPONENT)
    return values, exponents, nan.astype(bool)


def blocks(rng, count):
    """Blocks to quantise: uint32 [count, 32], encodings of binary32."""
    return _interleave([make(rng, _share(count, BLOCK_CLASSES, index)) for index, make in
                        enumerate(BLOCK_CLASSES.values())], count)


def _share(count, classes, index):
    return len(range(index, count, len(classes)))


def _interleave(parts, count):
    result = np.empty((count, *parts[0].shape[1:]), parts[0].dtype)
    for index, part in enumerate(parts):
        result[index :: len(parts)] = part
    return result


def _encode(sign, field, fraction):
    sign, field, fraction = (np.asarray(part).astype(np.uint32) for part in (sign, field, fraction))
    return (sign << np.uint32(31)) | (field << np.uint32(23)) | fraction


def _signs(rng, shape):
    return rng.integers(0, 2, shape)


def _fractions(rng, shape):
    """Fractions of 23 bits: uniform, with few ones at the top or bottom, all ones, zero."""
    uniform = rng.integers(0, 1 << 23, shape)
    kind = rng.integers(0, 6, shape)
    place = rng.integers(0, 23, shape)
    return np.select(
        [kind == 0, kind == 1, kind == 2, kind == 3],
        [uniform >> place, uniform >> place << place, np.full(shape, (1 << 23) - 1), np.zeros(shape, int)],
        uniform,
    )


def _pairs(rng, count, fields):
    return _encode(_signs(rng, (count, 2)), fields, _fractions(rng, (count, 2)))


def _beside_tie(rng, place):
    """The ``place`` bits below a last place: one half, one unit off it, or with one more bit set below it."""
    half = np.int64(1) << np.maximum(place - 1, 0)
    one_bit = np.int64(1) << (rng.integers(0, 1 << 16, place.shape) % np.maximum(place - 1, 1))
    off = rng.choice(np.array([-1, 0, 1, 2]), place.shape)
    return np.where(place > 0, half + np.where(off == 2, np.where(place > 1, one_bit, 0), off), 0)


# Additions ------------------------------------------------------------------------------------------------

def _any_bits(rng, count):
    return rng.integers(0, 1 << 32, (count, 2), dtype=np.uint32)


def _subnormal(rng, count):
    return _pairs(rng, count, rng.integers(0, 3, (count, 2)) // rng.integers(1, 3, (count, 2)))


def _near_tie(rng, count):
    """The bits of the smaller operand below the last place of the result are one half, or next to it.

    That place is the larger operand's, or one higher as after a carry.
    """
    gap = rng.integers(1, 25, count)
    field = rng.integers(26, 254, count)
    place = gap + rng.integers(0, 2, count)
    significand = (1 << 23) | _fractions(rng, count)
    small = ((significand >> place << place) + _beside_tie(rng, place)) & 0x7FFFFF
    large = _fractions(rng, count)
    pair = np.stack([_encode(_signs(rng, count), field, large),
                     _encode(_signs(rng, count), field - gap, small)], 1)
    return np.where(rng.integers(0, 2, (count, 1)) == 1, pair, pair[:, ::-1])


def _cancellation(rng, count):
    """b = -a moved by up to three encodings."""
    a = _encode(_signs(rng, count), rng.integers(0, 255, count), _fractions(rng, count))
    a = np.where(rng.integers(0, 4, count) == 0, a & np.uint32(0x87FFFFFF), a)
    step = rng.integers(-3, 4, count)
    b = (a.astype(np.int64) ^ 0x80000000) + step
    return np.stack([a, (b & 0xFFFFFFFF).astype(np.uint32)], 1)


def _exponent_gap(rng, count):
    """Opposite signs, up to 30 binary places apart."""
    field = rng.integers(0, 255, count)
    other = np.clip(field + rng.integers(-30, 31, count), 0, 254)
    sign = _signs(rng, count)
    return np.stack([_encode(sign, field, _fractions(rng, count)),
                     _encode(1 - sign, other, _fractions(rng, count))], 1)


def _equal_exponents(rng, count):
    return _pairs(rng, count, np.repeat(rng.integers(0, 256, (count, 1)), 2, axis=1))


def _overflow(rng, count):
    pair = _pairs(rng, count, 254 - rng.integers(0, 3, (count, 2)) * rng.integers(0, 14, (count, 2)))
    same = rng.integers(0, 4, count) > 0
    pair[same, 1] = (pair[same, 1] & 0x7FFFFFFF) | (pair[same, 0] & 0x80000000)
    return pair


def _special(rng, count):
    """NaN (quiet, signalling, either sign), infinities, zeros and the smallest and largest numbers."""
    corners = np.array([0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000,
                        0x7FFFFFFF], np.uint32)
    pair = rng.choice(corners, (count, 2)) | (_signs(rng, (count, 2)).astype(np.uint32) << np.uint32(31))
    other = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    return np.stack([pair[:, 0], np.where(rng.integers(0, 2, count) == 0, other, pair[:, 1])], 1)


ADDITION_CLASSES = {
    "any bits": _any_bits,
    "subnormal": _subnormal,
    "near tie": _near_tie,
    "cancellation": _cancellation,
    "exponent gap": _exponent_gap,
    "equal exponents": _equal_exponents,
    "overflow": _overflow,
    "special": _special,
}


# Sums -----------------------------------------------------------------------------------------------------

def _signed_magnitudes(rng, magnitudes, width):
    limit = (1 << (width - 1)) - 1
    magnitudes = np.minimum(magnitudes, limit)
    return np.where(_signs(rng, magnitudes.shape) == 1, -magnitudes, magnitudes).astype(np.int64)


def _magnitudes(rng, count, width):
    """Magnitudes whose bit length is uniform."""
    return rng.integers(0, 1 << (width - 1), count) >> rng.integers(0, width, count)


def _bit_lengths(values):
    return np.frexp(np.abs(values).astype(np.float64))[1]


def _no_nan(count):
    return np.zeros(count, bool)


def _any_sum(rng, count, width):
    exponents = rng.integers(MIN_SUM_EXPONENT, MAX_SUM_EXPONENT + 1, count)
    values = _signed_magnitudes(rng, _magnitudes(rng, count, width), width)
    return values, exponents, _no_nan(count)


def _extreme_sum(rng, count, width):
    top = 1 << (width - 1)
    values = rng.choice(np.array([-top, -top + 1, top - 1, top // 2, -top // 2, 1, -1, 0]), count)
    edges = np.array([MIN_SUM_EXPONENT, MAX_SUM_EXPONENT, 0, -18, 128 - width, -149, -150 - width])
    return values, rng.choice(edges, count) + rng.integers(-2, 3, count), _no_nan(count)


def _normal_tie(rng, count, width):
    """Bits below the 24th place of a normal result are one half, or next to it (wide sums only)."""
    lost = max(width - 1 - 24, 0)
    drop = rng.integers(1, lost + 1, count) if lost else np.zeros(count, int)
    magnitudes = (rng.integers(0, 1 << 23, count) | (1 << 23)) << drop
    magnitudes = magnitudes + _beside_tie(rng, drop)
    exponents = rng.integers(-140, 60, count)
    return _signed_magnitudes(rng, magnitudes, width), exponents, _no_nan(count)


def _subnormal_tie(rng, count, width):
    """Bits below 2^-149 are one half, or next to it."""
    drop = rng.integers(1, min(width, 26), count)
    magnitudes = (_magnitudes(rng, count, width) >> drop << drop) + _beside_tie(rng, drop)
    return _signed_magnitudes(rng, magnitudes, width), -149 - drop, _no_nan(count)


def _underflow(rng, count, width):
    """Around the smallest subnormal, half of it, and the smallest normal number."""
    values = _signed_magnitudes(rng, _magnitudes(rng, count, width), width)
    goal = rng.choice(np.array([-149, -150, -151, -126, -127]), count)
    return values, goal - _bit_lengths(values) + rng.integers(-1, 3, count), _no_nan(count)


def _sum_overflow(rng, count, width):
    """Around 2^128, with leading ones that carry into it."""
    ones = np.int64((1 << (width - 1)) - 1)
    magnitudes = np.where(_signs(rng, count) == 1, _magnitudes(rng, count, width),
                          ones ^ (_magnitudes(rng, count, width) >> rng.integers(0, width, count)))
    values = _signed_magnitudes(rng, magnitudes, width)
    return values, 128 - _bit_lengths(values) + rng.integers(-1, 2, count), _no_nan(count)


def _nan_or_zero(rng, count, width):
    values, exponents, _ = _any_sum(rng, count, width)
    return np.where(_signs(rng, count) == 1, values, 0), exponents, _signs(rng, count)


SUM_CLASSES = {
    "any sum": _any_sum,
    "extreme": _extreme_sum,
    "tie": _normal_tie,
    "subnormal tie": _subnormal_tie,
    "underflow": _underflow,
    "overflow": _sum_overflow,
    "nan or zero": _nan_or_zero,
}


# Blocks ---------------------------------------------------------------------------------------------------

def _block(rng, fields, fractions=None):
    fractions = _fractions(rng, fields.shape) if fractions is None else fractions
    return _encode(_signs(rng, fields.shape), np.clip(fields, 0, 254), fractions)


def _fields_below(rng, count, top, spread):
    """Exponent fields of blocks: up to ``spread`` binary places below ``top`` (each [count])."""
    return top[:, None] - rng.integers(0, 1 << 16, (count, 32)) % (spread[:, None] + 1)


def _spread_block(rng, count):
    spread = rng.choice([0, 2, 6, 17, 40], count)
    return _block(rng, _fields_below(rng, count, rng.integers(0, 255, count), spread))


def _tie_block(rng, count):
    """Every element half way between two codes of either format, normal or subnormal, or next to it."""
    fields = _fields_below(rng, count, rng.integers(1, 255, count), rng.choice([2, 4, 17], count))
    place = rng.integers(18, 24, (count, 32))
    fractions = (rng.integers(0, 1 << 23, (count, 32)) >> place << place) + _beside_tie(rng, place)
    return _block(rng, fields, fractions & 0x7FFFFF)


def _largest_block(rng, count):
    """Largest magnitude on a power of two, just under it, or where it saturates."""
    edges = np.array([0, 1, 0x400000, 0x5FFFFF, 0x600000, 0x6FFFFF, 0x700000, 0x77FFFF, 0x780000, 0x7FFFFE,
                      0x7FFFFF])
    fields = _fields_below(rng, count, rng.integers(1, 255, count), rng.choice([0, 1, 2], count))
    return _block(rng, fields, rng.choice(edges, (count, 32)))


def _small_block(rng, count):
    """Scale byte at or near 0, subnormal values among the elements."""
    fields = _fields_below(rng, count, rng.integers(0, 20, count), rng.choice([1, 5, 20], count))
    return _block(rng, np.where(rng.integers(0, 3, (count, 32)) == 0, 0, fields))


def _subnormal_block(rng, count):
    return _block(rng, np.zeros((count, 32), int))


def _zero_block(rng, count):
    """Zeros of both signs, all of the block or all but one element."""
    values = _block(rng, np.zeros((count, 32), int), np.zeros((count, 32), int))
    one = _block(rng, rng.integers(0, 255, (count, 1)))
    lane = rng.integers(0, 64, count)[:, None] == np.arange(32)
    return np.where(lane, one, values)


def _special_block(rng, count):
    """A NaN or an infinity in one lane, or in none."""
    values = _spread_block(rng, count)
    codes = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0xFFFFFFFF], np.uint32)
    special = rng.choice(codes, (count, 1))
    lane = rng.integers(0, 40, count)[:, None] == np.arange(32)
    return np.where(lane, special, values)


BLOCK_CLASSES = {
    "spread": _spread_block,
    "tie": _tie_block,
    "largest": _largest_block,
    "small": _small_block,
    "subnormal": _subnormal_block,
    "zero": _zero_block,
    "special": _special_block,
}
