"""Block sum to binary32 in the Python simulator, against exact rational arithmetic and golden."""

from fractions import Fraction

import numpy as np
import pytest

from golden import binary32
from hw.numbers.sum_to_float import SumToFloat32
from tb.numbers.pipeline import run
from tb.numbers.vectors import SUM_CLASSES, class_of, sums


def rounded(value, exponent):
    """Encoding of ``value * 2^exponent`` rounded once, by the definition: exact quotients, ties to even."""
    magnitude = Fraction(abs(value)) * Fraction(2) ** exponent
    if magnitude == 0:
        return 0
    place = max(abs(value).bit_length() + exponent - 24, -149)
    units = round(magnitude / Fraction(2) ** place)  # round() of a Fraction is to even
    if units == 1 << 24:
        units, place = 1 << 23, place + 1
    field = 0 if units < 1 << 23 else place + 150
    encoding = 0x7F800000 if field >= 255 else field << 23 | units & 0x7FFFFF
    return encoding | (value < 0) << 31


def converted(width, latency, values, exponents, nan):
    inputs = [{"sum": int(s), "exponent": int(e), "nan": int(n)}
              for s, e, n in zip(values, exponents, nan, strict=True)]
    return run(SumToFloat32(width=width, latency=latency), inputs)


@pytest.mark.parametrize("width", [14, 28, 42])
@pytest.mark.parametrize("latency", [0, 1, 2, 3, 5])
def test_random(width, latency):
    values, exponents, nan = sums(np.random.default_rng(latency), 700, width)
    expected = binary32.bits(binary32.sum_to_float32(values, exponents, nan))
    results = converted(width, latency, values, exponents, nan)
    assert len(results) == len(expected) == 700
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        assert result == wanted, (
            f"vector {index} ({class_of(SUM_CLASSES, index)}): {values[index]} * 2^{exponents[index]}, "
            f"nan {nan[index]}, gave {result:08x} instead of {wanted:08x}"
        )
        if not nan[index]:
            assert wanted == rounded(int(values[index]), int(exponents[index]))


@pytest.mark.parametrize("width", [2, 3, 23, 24, 25, 26, 27, 33])
def test_other_widths_and_every_exponent(width):
    """All that ten bits of exponent hold, beyond what two scales can make."""
    rng = np.random.default_rng(width)
    values, exponents, nan = sums(rng, 350, width)
    exponents = np.where(rng.integers(0, 2, 350) == 0, rng.integers(-512, 512, 350), exponents)
    results = converted(width, 1, values, exponents, nan)
    expected = [0x7FC00000 if n else rounded(int(s), int(e))
                for s, e, n in zip(values, exponents, nan, strict=True)]
    assert len(results) == 350
    assert results == expected


def test_one_rounding_only():
    """2^-149 * (1.5 - 2^-30): rounding to 24 bits first would make 1.5, a tie, and then 2."""
    value, exponent = (3 << 29) - 1, -149 - 30
    assert rounded(value, exponent) == 1
    assert converted(42, 0, [value], [exponent], [0]) == [1]


@pytest.mark.parametrize("width", [1, 0, 14.0, None])
def test_bad_width(width):
    with pytest.raises(ValueError, match="width must be an integer of 2 or more"):
        SumToFloat32(width=width, latency=1)


def test_bad_latency():
    with pytest.raises(ValueError, match="latency must be an integer of 0 or more, not -1"):
        SumToFloat32(width=14, latency=-1)
