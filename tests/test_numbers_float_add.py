"""The binary32 adder in the Python simulator against NumPy, at every latency."""

import numpy as np
import pytest

from golden import binary32
from hw.numbers.float_add import Float32Adder
from tb.numbers.pipeline import run
from tb.numbers.vectors import ADDITION_CLASSES, additions, class_of


def added(pairs, latency):
    return run(Float32Adder(latency=latency), [{"a": int(a), "b": int(b)} for a, b in pairs])


@pytest.mark.parametrize("latency", [0, 1, 2, 3, 5])
def test_random(latency):
    pairs = additions(np.random.default_rng(latency), 800)
    expected = binary32.bits(binary32.add(*binary32.from_bits(pairs.T)))
    results = added(pairs, latency)
    assert len(results) == len(pairs) == 800
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        assert result == wanted, (
            f"vector {index} ({class_of(ADDITION_CLASSES, index)}): {pairs[index, 0]:08x} + "
            f"{pairs[index, 1]:08x} gave {result:08x} instead of {wanted:08x}"
        )


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (0x00000000, 0x80000000, 0x00000000),
        (0x80000000, 0x80000000, 0x80000000),
        (0xBF800000, 0x3F800000, 0x00000000),  # x + -x = +0
        (0x7F800000, 0xFF800000, 0x7FC00000),  # infinity - infinity
        (0x7F800000, 0x7F800000, 0x7F800000),
        (0xFF800000, 0x7F7FFFFF, 0xFF800000),
        (0xFFA00001, 0x3F800000, 0x7FC00000),  # a signalling NaN becomes the canonical one
        (0x7F7FFFFF, 0x73000000, 0x7F800000),  # the largest number + half its last place: to infinity
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),
        (0x3F800000, 0x33800000, 0x3F800000),  # 1 + 2^-24: a tie, to even
        (0x3F800001, 0x33800000, 0x3F800002),
        (0x4B7FFFFF, 0x40080000, 0x4B800001),  # a carry, then one half and an eighth of the old last place
        (0x007FFFFF, 0x00000001, 0x00800000),  # the subnormals join the normals without a gap
        (0x00800000, 0x80000001, 0x007FFFFF),
    ],
)
def test_corner(a, b, expected):
    assert added([(a, b), (b, a)], 1) == [expected, expected]


@pytest.mark.parametrize("latency", [-1, 1.0, None, True])
def test_bad_latency(latency):
    with pytest.raises(ValueError, match="latency must be an integer of 0 or more"):
        Float32Adder(latency=latency)
