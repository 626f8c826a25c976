"""The rules of docs/numbers.md in plain Python: fractions and integers, one value at a time.

Slow and written apart from golden/, which it checks. Encodings are ints, values are Fractions; a NaN is
None and an infinity is +-INFINITY.
"""

import bisect
import functools
import typing
from fractions import Fraction

INFINITY = "infinity"
NAN_BITS = 0x7FC00000


class Element(typing.NamedTuple):
    """Widths in bits, exponent bias and exponent of the largest value."""

    exponent: int
    significand: int
    bias: int
    emax: int


E2M1 = Element(exponent=2, significand=1, bias=1, emax=2)
E4M3 = Element(exponent=4, significand=3, bias=7, emax=8)


@functools.cache
def element_value(code, element):
    """(negative, magnitude) of an element code; magnitude None for NaN."""
    width = element.exponent + element.significand
    negative = bool(code >> width)
    rest = code & ((1 << width) - 1)
    if element is E4M3 and rest == 0x7F:
        return negative, None
    field, fraction = divmod(rest, 1 << element.significand)
    step = Fraction(2) ** (1 - element.bias - element.significand)
    if field == 0:
        return negative, fraction * step
    return negative, (fraction + (1 << element.significand)) * step * 2 ** (field - 1)


@functools.cache
def magnitudes(element):
    """Magnitudes of the positive codes in ascending order, which is the order of the codes; no NaN."""
    codes = range(1 << (element.exponent + element.significand))
    values = [element_value(code, element)[1] for code in codes]
    return [value for value in values if value is not None]


def encode_element(value, negative, element):
    """Code nearest to a magnitude among the two that enclose it: even code on a tie, saturating."""
    values = magnitudes(element)
    above = bisect.bisect_left(values, value)
    candidates = [code for code in (above - 1, above) if 0 <= code < len(values)]
    code = min(candidates, key=lambda code: (abs(values[code] - value), code & 1))
    return code | (negative << (element.exponent + element.significand))


def round_binary32(value, zero_negative=False):
    """Encoding of a Fraction rounded to nearest even; an exact zero takes the given sign."""
    if value == 0:
        return 0x80000000 if zero_negative else 0
    sign = 0x80000000 if value < 0 else 0
    value = abs(value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, -126)
    units = value / Fraction(2) ** (exponent - 23)
    whole = units.numerator // units.denominator
    rest = units - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
        whole += 1
    encoding = ((exponent + 126) << 23) + whole
    return sign | min(encoding, 0x7F800000)


def binary32_value(encoding):
    """(negative, value) of an encoding: Fraction with sign, INFINITY or None for NaN."""
    negative = bool(encoding >> 31)
    field, fraction = encoding >> 23 & 0xFF, encoding & 0x7FFFFF
    if field == 255:
        return negative, (None if fraction else INFINITY)
    if field:
        fraction |= 1 << 23
    magnitude = fraction * Fraction(2) ** (max(field, 1) - 150)
    return negative, -magnitude if negative else magnitude


def add_binary32(a, b):
    """Encoding of the sum of two encodings, NaN canonical."""
    (negative_a, value_a), (negative_b, value_b) = binary32_value(a), binary32_value(b)
    if value_a is None or value_b is None:
        return NAN_BITS
    if value_a is INFINITY or value_b is INFINITY:
        if value_a is INFINITY and value_b is INFINITY and negative_a != negative_b:
            return NAN_BITS
        return a if value_a is INFINITY else b
    return round_binary32(value_a + value_b, negative_a and negative_b)


def block_binary32(x_codes, x_scale, x_element, w_codes, w_scale, w_element):
    """Encoding of one block's value."""
    if x_scale == 255 or w_scale == 255:
        return NAN_BITS
    total = Fraction(0)
    for x_code, w_code in zip(x_codes, w_codes, strict=True):
        x_negative, x = element_value(x_code, x_element)
        w_negative, w = element_value(w_code, w_element)
        if x is None or w is None:
            return NAN_BITS
        total += -x * w if x_negative != w_negative else x * w
    return round_binary32(total * Fraction(2) ** (x_scale + w_scale - 254))


def matmul_binary32(x_codes, x_scales, x_element, w_codes, w_scales, w_element, c=None):
    """Encodings of X . W^T + C as nested lists; codes [rows][K], scales [rows][blocks], c [M][N]."""
    result = []
    for row, (codes, scales) in enumerate(zip(x_codes, x_scales, strict=True)):
        line = []
        for column, (others, other_scales) in enumerate(zip(w_codes, w_scales, strict=True)):
            total = None if c is None else c[row][column]
            for block in range(len(scales)):
                part = slice(32 * block, 32 * block + 32)
                term = block_binary32(codes[part], scales[block], x_element,
                                      others[part], other_scales[block], w_element)
                total = term if total is None else add_binary32(total, term)
            if total is None:
                total = 0
            line.append(NAN_BITS if binary32_value(total)[1] is None else total)
        result.append(line)
    return result


def quantise_block(encodings, element):
    """(codes, scale) of up to 32 binary32 encodings."""
    values = [binary32_value(encoding) for encoding in encodings]
    if any(value is None or value is INFINITY for _, value in values):
        return [0] * len(values), 255
    largest = max((abs(value) for _, value in values), default=Fraction(0))
    exponent = -1000
    if largest:
        exponent = largest.numerator.bit_length() - largest.denominator.bit_length()
        if Fraction(2) ** exponent > largest:
            exponent -= 1
    scale = min(max(exponent - element.emax + 127, 0), 254)
    factor = Fraction(2) ** (127 - scale)
    return [encode_element(abs(value) * factor, negative, element) for negative, value in values], scale
