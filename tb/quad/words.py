"""Partial sums as integers: what a quad's psum word means, written from docs/quad.md and not from hw.

A psum word has four segments of 14 bits, each above a guard bit which is zero in a finished sum:
bits 1..14, 16..29, 31..44 and 46..59. A sum is a two's complement number in one, two or four segments.
"""

import numpy as np

__all__ = ["LAYOUT", "PSUM_BYTES", "bounds", "guards", "pack", "slots", "unpack"]

PSUM_BYTES = 8
_FOOT = (1, 16, 31, 46)
_BITS = 14
_MASK = (1 << _BITS) - 1

#: Mode to the segments of each slot's sum, lowest first.
LAYOUT = {
    "mxfp4_mxfp4": ((0,), (2,), (1,), (3,)),
    "mxfp8_mxfp4": ((0, 1), (2, 3)),
    "mxfp8_mxfp8": ((0, 1, 2),),
}


def slots(mode):
    """Output columns of a quad in this mode: 4, 2 or 1."""
    return len(LAYOUT[mode])


def bounds(mode):
    """Smallest and largest sum that a slot holds."""
    bits = _BITS * len(LAYOUT[mode][0])
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def pack(sums, mode):
    """int64 [..., slots] to psum words, uint64 [...]."""
    word = np.zeros(sums.shape[:-1], np.uint64)
    for slot, segments in enumerate(LAYOUT[mode]):
        for place, segment in enumerate(segments):
            digit = (sums[..., slot] >> (_BITS * place)) & _MASK
            word |= digit.astype(np.uint64) << np.uint64(_FOOT[segment])
    return word


def unpack(words, mode):
    """uint64 [...] to int64 [..., slots]."""
    sums = []
    for segments in LAYOUT[mode]:
        value = np.zeros(words.shape, np.int64)
        for place, segment in enumerate(segments):
            digit = ((words >> np.uint64(_FOOT[segment])) & np.uint64(_MASK)).astype(np.int64)
            value |= digit << (_BITS * place)
        unused = 64 - _BITS * len(segments)
        sums.append(value << unused >> unused)
    return np.stack(sums, axis=-1)


def guards(words):
    """The four guard bits of each word; all zero in a finished sum."""
    return words & np.uint64(sum(1 << (foot - 1) for foot in _FOOT))
