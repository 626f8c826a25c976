"""Partial sums as integers: what a quad's psum word means, written from docs/quad.md and not from hw.

A psum word has 60 bits. Each sum is a two's complement number in a field of its own, and below each field
stands a guard bit, which is zero in a finished sum. What sums do not need of a field repeats their sign.
"""

import numpy as np

__all__ = ["LAYOUT", "PSUM_BYTES", "bounds", "guards", "pack", "slots", "unpack"]

PSUM_BYTES = 8

#: Mode to the (first bit, bits) of each slot's field, and to the bits of a sum.
LAYOUT = {
    "mxfp4_mxfp4": ((1, 14), (31, 14), (16, 14), (46, 14)),
    "mxfp8_mxfp4": ((1, 29), (31, 29)),
    "mxfp8_mxfp8": ((1, 59),),
}
_SUM_BITS = {"mxfp4_mxfp4": 14, "mxfp8_mxfp4": 28, "mxfp8_mxfp8": 42}


def slots(mode):
    """Output columns of a quad in this mode: 4, 2 or 1."""
    return len(LAYOUT[mode])


def bounds(mode):
    """Smallest and largest sum of a slot."""
    return -(1 << (_SUM_BITS[mode] - 1)), (1 << (_SUM_BITS[mode] - 1)) - 1


def pack(sums, mode):
    """int64 [..., slots] to psum words, uint64 [...]."""
    word = np.zeros(sums.shape[:-1], np.uint64)
    for slot, (first, bits) in enumerate(LAYOUT[mode]):
        word |= (sums[..., slot] & ((1 << bits) - 1)).astype(np.uint64) << np.uint64(first)
    return word


def unpack(words, mode):
    """uint64 [...] to int64 [..., slots]: all bits of the fields."""
    return np.stack([(words << np.uint64(64 - first - bits)).astype(np.int64) >> (64 - bits)
                     for first, bits in LAYOUT[mode]], axis=-1)


def guards(words, mode):
    """The guard bits of each word; all zero in a finished sum."""
    return words & np.uint64(sum(1 << (first - 1) for first, _ in LAYOUT[mode]))
