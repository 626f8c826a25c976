"""golden.formats against ml_dtypes, gfloat and exact fractions."""

from fractions import Fraction

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from golden.binary32 import bits, from_bits
from golden.formats import (
    Format,
    MXTensor,
    block_count,
    decode_e8m0,
    decode_elements,
    encode_e8m0,
    encode_elements,
    quantise,
)
from tests import exact_numbers as exact

EXACT = {Format.MXFP4: exact.E2M1, Format.MXFP8: exact.E4M3}
ML_DTYPES = {Format.MXFP4: ml_dtypes.float4_e2m1fn, Format.MXFP8: ml_dtypes.float8_e4m3fn}
GFLOAT = {Format.MXFP4: gfloat.formats.format_info_ocp_e2m1,
          Format.MXFP8: gfloat.formats.format_info_ocp_e4m3}
GFLOAT_BLOCK = {Format.MXFP4: gfloat.formats.format_info_mxfp4_e2m1,
                Format.MXFP8: gfloat.formats.format_info_mxfp8_e4m3}
both = pytest.mark.parametrize("format", list(Format))


def same_float64(a, b):
    """Equal bit for bit, any NaN equal to any NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape and a.size > 0
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all() and (a.view(np.uint64)[~nan] == b.view(np.uint64)[~nan]).all())


def all_codes(format):
    return np.arange(1 << format.element_bits, dtype=np.uint8)


def edge_values(format):
    """Every element, every midpoint of two elements, and their nearest neighbours, both signs, float64."""
    elements = format.table[: format.max_code + 1]
    points = np.concatenate([elements, (elements[1:] + elements[:-1]) / 2, [elements[-1] * 17 / 16, 512, 8]])
    points = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, 0)])
    return np.concatenate([points, -points])


# Elements


@both
def test_decode_every_code(format):
    codes = all_codes(format)
    got = decode_elements(codes, format)
    assert same_float64(got, codes.view(ML_DTYPES[format]).astype(np.float64))
    assert same_float64(got, gfloat.decode_ndarray(GFLOAT[format], codes.astype(np.int64)))
    for code in codes.tolist():
        negative, magnitude = exact.element_value(code, EXACT[format])
        if magnitude is None:
            assert np.isnan(got[code])
        else:
            assert Fraction(abs(got[code])) == magnitude and np.signbit(got[code]) == negative


def test_known_values():
    assert Format.MXFP4.table.tolist() == [0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6]
    assert Format.MXFP8.table[[0x01, 0x07, 0x08, 0x38, 0x7E]].tolist() == [2**-9, 7 * 2**-9, 2**-6, 1, 448]


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_code_round_trips(format, dtype):
    codes = all_codes(format)
    got = encode_elements(decode_elements(codes, format).astype(dtype), format)
    assert got.dtype == np.uint8 and got.tolist() == codes.tolist()


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encode_ties_and_neighbours(format, dtype):
    values = edge_values(format).astype(dtype)
    if dtype is np.float32:
        values = np.concatenate([values, np.nextafter(values, np.float32(np.inf)),
                                 np.nextafter(values, np.float32(-np.inf))])
    got = encode_elements(values, format)
    expected = [exact.encode_element(Fraction(abs(float(v))), bool(np.signbit(v)), EXACT[format])
                for v in values]
    assert got.tolist() == expected
    rounded = gfloat.round_ndarray(GFLOAT[format], values.astype(np.float64), sat=True)
    assert same_float64(decode_elements(got, format), rounded)


@both
def test_encode_against_ml_dtypes(format):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    # Half over all exponents, half with the exponents at which elements differ.
    values[::2] = (values[::2] & 0x807FFFFF) | (rng.integers(114, 137, 100_000) << 23).astype(np.uint32)
    values = from_bits(values)
    values = values[~np.isnan(values)]
    largest = np.float32(format.table[format.max_code])
    reference = np.clip(values, -largest, largest).astype(ML_DTYPES[format]).view(np.uint8)
    got = encode_elements(values, format)
    assert got.size > 190_000 and (got == reference).all()


@both
def test_encode_saturates(format):
    values = np.array([np.inf, -np.inf, 3e38, -3e38, 449, -449], np.float32)
    code, sign = format.max_code, format.sign_mask
    assert encode_elements(values, format).tolist() == [code, code | sign] * 3
    assert encode_elements(np.array([1e300, -1e300]), format).tolist() == [code, code | sign]


def test_encode_float64_is_rounded_once():
    # Just above the tie between 1.0 and 1.125: by way of float32 it would become the tie.
    above = np.nextafter(1.0625, 2)
    assert encode_elements(np.array([above, 1.0625]), Format.MXFP8).tolist() == [0x39, 0x38]


def test_encode_nan():
    values = np.array([np.nan, np.copysign(np.nan, -1), 1], np.float32)
    assert encode_elements(values, Format.MXFP8).tolist() == [0x7F, 0xFF, 0x38]
    with pytest.raises(ValueError, match="E2M1 elements have no NaN"):
        encode_elements(values, Format.MXFP4)


# Scales


def test_scale_every_byte():
    codes = np.arange(256, dtype=np.uint8)
    got = decode_e8m0(codes)
    assert same_float64(got, codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64))
    assert same_float64(got, gfloat.decode_ndarray(gfloat.formats.format_info_ocp_e8m0,
                                                   codes.astype(np.int64)))
    assert encode_e8m0(got).tolist() == codes.tolist()
    assert got[[0, 127, 254]].tolist() == [2.0**-127, 1, 2.0**127]


@pytest.mark.parametrize("value", [0.0, 3.0, -1.0, 2.0**128, 2.0**-128, np.inf, 1.5])
def test_scale_that_is_no_power_of_two(value):
    with pytest.raises(ValueError, match="E8M0 holds powers of two"):
        encode_e8m0(np.array([1.0, value]))


# Tensors


@both
def test_dequantise_every_code_with_every_scale(format):
    codes = np.resize(all_codes(format), (256, 256))
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 8, axis=1)
    got = MXTensor(format=format, codes=codes, scales=scales).dequantise()
    elements = [exact.element_value(code, EXACT[format]) for code in codes[0].tolist()]
    for scale in (0, 1, 126, 127, 128, 253, 254, 255):
        for code, (negative, magnitude) in enumerate(elements):
            value = got[scale, code]
            if scale == 255 or magnitude is None:
                assert np.isnan(value)
            else:
                assert Fraction(abs(value)) == magnitude * Fraction(2) ** (scale - 127)
                assert np.signbit(value) == negative
    values = codes.view(ML_DTYPES[format]).astype(np.float64)
    powers = scales[:, :1].view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert same_float64(got, values * powers)


@both
def test_dequantise_against_gfloat_blocks(format):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 1 << format.element_bits, (40, 32), dtype=np.uint8)
    scales = np.array([[0], [1], [127], [254], [255]] * 8, np.uint8)
    tensor = MXTensor(format=format, codes=codes, scales=scales)
    expected = [list(gfloat.decode_block(GFLOAT_BLOCK[format], [int(s[0]), *c]))
                for c, s in zip(tensor.codes.tolist(), tensor.scales, strict=True)]
    assert same_float64(tensor.dequantise(), expected)


@both
@pytest.mark.parametrize("shape", [(0,), (1,), (31,), (32,), (33,), (3, 100), (2, 3, 64), (0, 40), (4, 0)])
def test_pack_round_trips(format, shape):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 1 << format.element_bits, shape, dtype=np.uint8)
    scales = rng.integers(0, 256, (*shape[:-1], block_count(shape[-1])), dtype=np.uint8)
    tensor = MXTensor(format=format, codes=codes, scales=scales)
    packed = tensor.pack()
    assert packed.dtype == np.uint8
    assert packed.shape == (*shape[:-1], -(-shape[-1] // 32), 16 if format is Format.MXFP4 else 32)
    again = MXTensor.unpack(format, packed, scales, k=shape[-1])
    assert again.shape == shape
    assert again.codes.tolist() == codes.tolist() and again.scales.tolist() == scales.tolist()


def test_pack_nibble_order():
    codes = np.arange(32, dtype=np.uint8)[None] % 16
    tensor = MXTensor(format=Format.MXFP4, codes=codes, scales=np.zeros((1, 1), np.uint8))
    assert tensor.pack().tolist() == [[[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2]]
    assert tensor[0].pack().tolist() == [[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2]


@both
def test_unpack_drops_what_lies_beyond_k(format):
    blocks = np.full((2, 3, format.block_bytes), 0xFF, np.uint8)
    scales = np.full((2, 3), 0xFF, np.uint8)
    blocks[:, 0] = 0
    blocks[:, 1, : 8 * format.element_bits // 8] = 0
    scales[:, :2] = 127
    tensor = MXTensor.unpack(format, blocks, scales, k=40)
    assert tensor.shape == (2, 40) and tensor.scales.tolist() == [[127, 127]] * 2
    assert same_float64(tensor.dequantise(), np.zeros((2, 40)))
    assert MXTensor.unpack(format, blocks, scales).k == 96


def test_indexing_keeps_blocks_whole():
    tensor = quantise(np.arange(3 * 4 * 40, dtype=np.float32).reshape(3, 4, 40), Format.MXFP8)
    part = tensor[1:, 2]
    assert part.shape == (2, 40) and part.codes.tolist() == tensor.codes[1:, 2].tolist()
    assert part.scales.tolist() == tensor.scales[1:, 2].tolist()
    assert tensor[:, None].shape == (3, 1, 4, 40)
    assert tensor.block(1).codes.tolist() == tensor.codes[..., 32:].tolist()
    assert tensor.block(1).scales.tolist() == tensor.scales[..., 1:].tolist()
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"block is {index}; K = 40 has 2 blocks"):
            tensor.block(index)
    for index in ((0, 0, slice(3)), (Ellipsis, slice(3)), (None, 0, 0, 0)):
        with pytest.raises(ValueError, match="leading axes only"):
            tensor[index]


# Quantisation


def expect_quantised(encodings, format):
    """Quantise rows of at most 32 encodings and compare with the exact rule."""
    rows = np.array(encodings, np.uint32)
    tensor = quantise(from_bits(rows), format)
    expected = [exact.quantise_block(row, EXACT[format]) for row in rows.tolist()]
    assert len(expected) > 0
    assert tensor.scales[:, 0].tolist() == [scale for _, scale in expected]
    assert tensor.codes.tolist() == [codes for codes, _ in expected]
    return tensor


@both
def test_quantise_random_blocks(format):
    rng = np.random.default_rng(4)
    exponent = rng.integers(0, 255, (60, 1)) - rng.integers(0, 14, (60, 32))
    sign_and_fraction = rng.integers(0, 1 << 32, (60, 32), dtype=np.uint64).astype(np.uint32) & 0x807FFFFF
    expect_quantised(sign_and_fraction | (np.clip(exponent, 0, 254).astype(np.uint32) << 23), format)


@both
def test_quantise_maximum_on_and_around_a_power_of_two(format):
    rng = np.random.default_rng(5)
    rows = []
    for field in (1, 2, 3, 8, 9, 10, 11, 100, 127, 128, 253, 254):
        for largest in ((field << 23) - 1, field << 23, (field << 23) + 1, (field << 23) | 0x7FFFFF):
            row = rng.integers(max(0, largest - (9 << 23)), largest + 1, 32).astype(np.uint32)
            row ^= (rng.integers(0, 2, 32) << 31).astype(np.uint32)
            row[rng.integers(32)] = largest | (int(rng.integers(2)) << 31)
            rows.append(row)
    tensor = expect_quantised(rows, format)
    scales = tensor.scales[:, 0].astype(int)
    under, on = scales[0::4], scales[1::4]
    assert (on - under)[-5:].tolist() == [1] * 5, "the scale changes exactly at the power of two"


@both
def test_quantise_ties_and_neighbours(format):
    points = np.abs(edge_values(format)[: format.max_code * 2]).astype(np.float32)
    points = points[points < 2.0 ** (format.emax + 1)]
    neighbours = [np.nextafter(points, np.float32(end)) for end in (0, 1000)]
    points = np.concatenate([points, *neighbours])
    points = points[points < 2.0 ** (format.emax + 1)]
    points = np.concatenate([points, -points])
    for power in (-100, 0, 100):
        rows = np.zeros((len(points), 3), np.float32)
        rows[:, 0] = 2.0**format.emax
        rows[:, 1] = points
        rows[:, 2] = -points
        expect_quantised(bits(rows * np.float32(2.0**power)), format)


@both
def test_quantise_special_blocks(format):
    ones = [0x3F800000] * 30
    rows = [
        [0x00000000] * 32,
        [0x80000000] * 32,
        [0x00000000, 0x80000000] * 16,
        [0x00000001, 0x80000001, *[0] * 30],
        [0x007FFFFF, 0x807FFFFF, 0x00400000, 0x80200000, *[0x00000001] * 28],
        [0x00800000, 0x807FFFFF, *[0x80000000] * 30],
        [0x7F7FFFFF, 0xFF7FFFFF, *ones],
        [0x7F800000, 0xBF800000, *ones],
        [0xFF800000, 0xBF800000, *ones],
        [0x7FC00000, 0xBF800000, *ones],
        [0xFF800001, 0x80000000, *ones],
        [0x7F800001, 0x7F800000, *ones],
        [0x7F7FFFFF, 0x80000001, *ones],
    ]
    tensor = expect_quantised(rows, format)
    assert tensor.scales[:6, 0].tolist() == [0] * 6
    assert tensor.scales[7:12, 0].tolist() == [0xFF] * 5 and not tensor.codes[7:12].any()
    assert tensor.codes[1].tolist() == [format.sign_mask] * 32, "-0 keeps its sign"
    assert tensor.codes[12, 1] == format.sign_mask, "a negative value that rounds to zero keeps its sign"
    assert tensor.scales[6, 0] == 254 - format.emax and tensor.codes[6, 0] == format.max_code


@both
def test_quantise_against_outside_references(format):
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((60, 32)) * 2.0 ** rng.integers(-60, 60, (60, 1))).astype(np.float32)
    x[0] = 0
    tensor = quantise(x, format)
    for row, values in zip(x.astype(np.float64), tensor.dequantise(), strict=True):
        reference = gfloat.quantize_block(GFLOAT_BLOCK[format], row, gfloat.compute_scale_amax)
        assert same_float64(values, reference)
    scaled = x / decode_e8m0(tensor.scales)
    largest = format.table[format.max_code]
    reference = np.clip(scaled, -largest, largest).astype(np.float32).astype(ML_DTYPES[format])
    assert tensor.codes.tolist() == reference.view(np.uint8).tolist()


@both
@pytest.mark.parametrize("shape", [(0,), (1,), (33,), (5, 0), (0, 33), (2, 3, 100), (3000, 161)])
def test_quantise_of_any_shape_equals_its_blocks(format, shape):
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    tensor = quantise(x, format)
    assert tensor.shape == shape and tensor.scales.shape == (*shape[:-1], block_count(shape[-1]))
    for block in range(block_count(shape[-1])):
        alone = quantise(np.ascontiguousarray(x[..., 32 * block : 32 * block + 32]), format)
        assert (alone.codes == tensor.codes[..., 32 * block : 32 * block + 32]).all()
        assert (alone.scales[..., 0] == tensor.scales[..., block]).all()


def test_quantise_accepts_views():
    x = np.random.default_rng(8).standard_normal((70, 50)).astype(np.float32)
    copied = quantise(np.ascontiguousarray(x.T), Format.MXFP8)
    assert (quantise(x.T, Format.MXFP8).codes == copied.codes).all()


def test_quantising_again():
    rng = np.random.default_rng(9)
    values = quantise(rng.standard_normal((50, 64)).astype(np.float32), Format.MXFP4).dequantise()
    assert same_float64(quantise(values.astype(np.float32), Format.MXFP4).dequantise(), values)
    # E4M3 has three significand bits at 240 but only two and a half below 512.
    assert quantise(np.array([240.0], np.float32), Format.MXFP8).dequantise().tolist() == [224.0]


# Errors


def tensor_of(codes, scales, format=Format.MXFP4):
    return MXTensor(format=format, codes=codes, scales=scales)


def unpack(format, scales, k=None):
    return MXTensor.unpack(format, np.zeros((2, 32), np.uint8), scales, k=k)


U8 = np.uint8


@pytest.mark.parametrize(("call", "message"), [
    (lambda: tensor_of(np.zeros((2, 33), U8), np.zeros((2, 1), U8)), r"scales has shape \(2, 1\).*\(2, 2\)"),
    (lambda: tensor_of(np.full(3, 16, U8), np.zeros(1, U8)), "codes holds 0x10; MXFP4 allows"),
    (lambda: tensor_of(np.zeros(3, np.int64), np.zeros(1, U8)), "codes has dtype int64; allowed is uint8"),
    (lambda: tensor_of(np.zeros(3, U8), np.zeros(1)), "scales has dtype float64; allowed is uint8"),
    (lambda: tensor_of(np.zeros((), U8), np.zeros(1, U8)), "needs an axis K"),
    (lambda: tensor_of(np.zeros(3, U8), np.zeros(1, U8), "mxfp4"), "format is 'mxfp4'; allowed are"),
    (lambda: unpack(Format.MXFP4, np.zeros(2, U8)), r"needs \[..., blocks, 16\]"),
    (lambda: unpack(Format.MXFP8, np.zeros(3, U8)), r"scales has shape \(3,\)"),
    (lambda: unpack(Format.MXFP8, np.zeros(2, U8), 65), "k is 65; 2 blocks"),
    (lambda: unpack(Format.MXFP8, np.zeros(2, U8), -1), "k is -1"),
    (lambda: quantise(np.zeros(3), Format.MXFP4), "x has dtype float64"),
    (lambda: quantise(np.float32(1), Format.MXFP4), r"shape \(\); quantise takes float32"),
    (lambda: encode_elements(np.zeros(3, int), Format.MXFP4), "values has dtype int64"),
    (lambda: decode_elements(np.array([0x80], U8), Format.MXFP4), "codes holds 0x80"),
])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
