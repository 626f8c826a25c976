"""golden.binary32 against exact fractions: additions, the one rounding of a sum, canonical NaN."""

from fractions import Fraction

import numpy as np
import pytest

from golden.binary32 import CANONICAL_NAN, add, bits, canonical, from_bits, sum_to_float32
from tests import exact_numbers as exact

CORNERS = [
    0x00000000, 0x00000001, 0x00000002, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000,
    0x33800000, 0x33800001, 0x34000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x4B7FFFFF,
    0x4B800000, 0x4B800001, 0x73000000, 0x73000001, 0x7E800000, 0x7EFFFFFF, 0x7F000000, 0x7F7FFFFF,
    0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF,
]


def expect_sums(sums, exponents):
    expected = [exact.round_binary32(s * Fraction(2) ** e) for s, e in zip(sums, exponents, strict=True)]
    got = bits(sum_to_float32(np.array(sums, np.int64), np.array(exponents))).tolist()
    assert len(got) == len(sums) > 0
    assert got == expected


def test_add_corner_pairs():
    corners = CORNERS + [0x80000000 | corner for corner in CORNERS]
    table = from_bits(corners)
    got = bits(add(table[:, None], table[None, :])).tolist()
    assert got == [[exact.add_binary32(a, b) for b in corners] for a in corners]


@pytest.mark.parametrize("spread", [1, 3, 26, 254])
def test_add_random(spread):
    rng = np.random.default_rng(spread)
    a, b = rng.integers(0, 1 << 32, (2, 4000), dtype=np.uint64).astype(np.uint32)
    # Exponents near each other make cancellation and ties frequent, which random encodings never do.
    field = (a >> 23 & 0xFF).astype(int) + rng.integers(-spread, spread + 1, a.shape)
    b = (b & 0x807FFFFF) | (np.clip(field, 0, 255).astype(np.uint32) << 23)
    got = bits(add(from_bits(a), from_bits(b))).tolist()
    assert got == [exact.add_binary32(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_sum_random():
    rng = np.random.default_rng(5)
    widths = rng.integers(1, 42, 6000)
    sums = (rng.integers(-(1 << 41), 1 << 41, 6000) >> (41 - widths)).tolist()
    expect_sums(sums, rng.integers(-272, 253, 6000).tolist())


def test_sum_subnormal_results():
    rng = np.random.default_rng(6)
    sums = rng.integers(-(1 << 41), 1 << 41, 4000).tolist()
    expect_sums(sums, rng.integers(-192, -148, 4000).tolist())


def test_sum_ties_and_neighbours():
    sums, exponents = [], []
    for mantissa in (1 << 23, (1 << 23) + 1, (1 << 24) - 2, (1 << 24) - 1):
        for shift in range(1, 18):
            for delta in (-1, 0, 1):
                for exponent in (-272, -150 - shift, -149 - shift, -149, 0, 103 - shift, 104 - shift, 252):
                    sums += [(mantissa << shift) + (1 << (shift - 1)) + delta]
                    exponents += [exponent]
    expect_sums(sums + [-s for s in sums], exponents * 2)


def test_sum_overflow_threshold():
    # Half a unit above the largest binary32 is the first value that becomes infinity.
    limit = (1 << 25) - 1
    got = bits(sum_to_float32(np.array([limit - 1, limit, limit + 1, -limit, -limit + 1]), 103))
    assert got.tolist() == [0x7F7FFFFF, 0x7F800000, 0x7F800000, 0xFF800000, 0xFF7FFFFF]


def test_sum_underflow_keeps_the_sign_and_exact_zero_is_positive():
    exponents = np.array([-272, -272, -272, -151, -150, -150])
    got = bits(sum_to_float32(np.array([-1, 1, 0, -3, -1, 1]), exponents))
    assert got.tolist() == [0x80000000, 0, 0, 0x80000001, 0x80000000, 0]


def test_double_rounding_into_a_subnormal_is_not_done():
    # Rounding to 24 bits first can make a tie of what is none, and the tie then goes the wrong way.
    traps = 0
    for total in range((1 << 25) - 64, (1 << 25) + 64):
        for exponent in range(-156, -149):
            right = bits(sum_to_float32(np.array([total]), exponent))[0]
            twice = np.ldexp(np.float32(total).astype(np.float64), exponent).astype(np.float32)
            assert right == exact.round_binary32(total * Fraction(2) ** exponent)
            traps += right != bits(twice)
    assert traps > 0, "no case told one rounding from two"


def test_nan_flag_gives_the_canonical_nan():
    got = bits(sum_to_float32(np.array([5, 5]), 0, np.array([True, False]))).tolist()
    assert got == [CANONICAL_NAN, 0x40A00000]


def test_canonical_changes_only_nans():
    encodings = np.array([*CORNERS, 0xFFC00000, 0xFF800001, 0xFF800000, 0x80000000], np.uint32)
    got = bits(canonical(from_bits(encodings))).tolist()
    assert got == [CANONICAL_NAN if exact.binary32_value(int(e))[1] is None else e
                   for e in encodings.tolist()]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: bits(np.zeros(1)), "dtype float64"),
    (lambda: add(np.zeros(1), np.zeros(1, np.float32)), "a has dtype float64"),
    (lambda: add(np.zeros(1, np.float32), 1.0), "b has dtype float64"),
    (lambda: sum_to_float32(np.array([1.0]), 0), "sums has dtype float64"),
    (lambda: sum_to_float32(np.array([(1 << 53) + 1]), 0), "9007199254740993"),
    (lambda: sum_to_float32(np.array([-(1 << 53) - 1]), 0), "9007199254740993"),
    (lambda: sum_to_float32(np.array([1]), 253), "253..253"),
    (lambda: sum_to_float32(np.array([1]), -273), "-273..-273"),
])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        call()
