"""golden.matmul against exact fractions and integers: order of additions, masking, special values, shapes."""

import time

import numpy as np
import pytest

from golden.binary32 import CANONICAL_NAN, bits, from_bits
from golden.formats import Format, MXTensor, block_count, decode_elements, quantise
from golden.matmul import MODES, PreparedWeights, add, block_dot, block_sum, matmul, mode_name
from tests import exact_numbers as exact

EXACT = {Format.MXFP4: exact.E2M1, Format.MXFP8: exact.E4M3}
modes = pytest.mark.parametrize("mode", list(MODES))


def random_tensor(rng, format, shape, scales=(100, 150), nan=False):
    """Random codes of all values; without E4M3 NaN unless asked for; scale bytes in a half-open range."""
    codes = rng.integers(0, 1 << format.element_bits, shape, dtype=np.uint8)
    if format.nan_code is not None and not nan:
        codes[(codes & 0x7F) == format.nan_code] = 0x7E
    scale_shape = (*shape[:-1], block_count(shape[-1]))
    return MXTensor(format=format, codes=codes, scales=rng.integers(*scales, scale_shape).astype(np.uint8))


def tensor(format, values, scales):
    """Tensor of given element values (not quantised: each must be an element) and scale bytes."""
    codes = np.zeros(np.shape(values), np.uint8)
    for code, value in reversed(list(enumerate(format.table))):
        codes[(np.asarray(values) == value) & (np.signbit(values) == np.signbit(value))] = code
    made = MXTensor(format=format, codes=codes, scales=np.asarray(scales, np.uint8))
    assert (decode_elements(codes, format) == values).all()
    return made


def expected_bits(x, w, c=None):
    return exact.matmul_binary32(
        x.codes.tolist(), x.scales.tolist(), EXACT[x.format],
        w.codes.tolist(), w.scales.tolist(), EXACT[w.format],
        None if c is None else bits(c).tolist())


def one_column(x_values, x_scales, w_values, w_scales, c=None, format=Format.MXFP8):
    """Encoding of a 1x1 result, checked against the exact model as well."""
    x, w = tensor(format, [x_values], [x_scales]), tensor(format, [w_values], [w_scales])
    c = None if c is None else from_bits([[c]])
    got = bits(matmul(x, w, c)).tolist()
    assert got == expected_bits(x, w, c)
    return got[0][0]


# Against the exact model


@modes
@pytest.mark.parametrize("k", [0, 1, 3, 31, 32, 33, 63, 64, 65, 100, 161])
@pytest.mark.parametrize("with_c", [False, True])
def test_small_products(mode, k, with_c):
    rng = np.random.default_rng(k)
    x_format, w_format = MODES[mode]
    x, w = random_tensor(rng, x_format, (3, k)), random_tensor(rng, w_format, (5, k))
    c = rng.standard_normal((3, 5)).astype(np.float32) if with_c else None
    got = bits(matmul(x, w, c)).tolist()
    assert got == expected_bits(x, w, c)


@modes
@pytest.mark.parametrize("scales", [(0, 8), (0, 256), (247, 255), (40, 70), (180, 210)],
                         ids=["low", "any", "high", "subnormal", "overflow"])
def test_scales_at_the_edges(mode, scales):
    rng = np.random.default_rng(scales)
    x_format, w_format = MODES[mode]
    x = random_tensor(rng, x_format, (6, 70), scales, nan=scales == (0, 256))
    w = random_tensor(rng, w_format, (7, 70), scales)
    c = from_bits(rng.integers(0, 1 << 32, (6, 7), dtype=np.uint64).astype(np.uint32))
    assert bits(matmul(x, w)).tolist() == expected_bits(x, w)
    assert bits(matmul(x, w, c)).tolist() == expected_bits(x, w, c)


@modes
def test_every_pair_of_elements(mode):
    x_format, w_format = MODES[mode]
    pairs = (1 << x_format.element_bits, 1 << w_format.element_bits)
    x = MXTensor(format=x_format, codes=np.arange(pairs[0], dtype=np.uint8)[:, None],
                 scales=np.full((pairs[0], 1), 127, np.uint8))
    w = MXTensor(format=w_format, codes=np.arange(pairs[1], dtype=np.uint8)[:, None],
                 scales=np.full((pairs[1], 1), 127, np.uint8))
    got = bits(matmul(x, w))
    assert got.shape == pairs
    # The product of two elements has at most 8 significant bits: a multiple of 2^-18, far from overflow.
    values = [[exact.element_value(code, EXACT[f]) for code in range(1 << f.element_bits)]
              for f in (x_format, w_format)]
    for row, (x_negative, x_value) in enumerate(values[0]):
        for column, (w_negative, w_value) in enumerate(values[1]):
            if x_value is None or w_value is None:
                expected = CANONICAL_NAN
            else:
                product = x_value * w_value
                expected = int(bits(np.float32(float(-product if x_negative != w_negative else product))))
                expected = 0 if product == 0 else expected
            assert got[row, column] == expected
    assert bits(block_dot(x[:, None], w[None])).tolist() == got.tolist()


@modes
def test_every_pair_of_edge_scales(mode):
    rng = np.random.default_rng(10)
    x_format, w_format = MODES[mode]
    edges = [0, 1, 126, 127, 128, 253, 254, 255]
    for x_scale in edges:
        x = random_tensor(rng, x_format, (16, 1), (x_scale, x_scale + 1), nan=True)
        w = random_tensor(rng, w_format, (32, 1), nan=True)
        w = MXTensor(format=w_format, codes=w.codes, scales=np.resize(np.array(edges, np.uint8), (32, 1)))
        assert bits(matmul(x, w)).tolist() == expected_bits(x, w)


# Large shapes, against integers


@modes
@pytest.mark.parametrize("shape", [(1, 2500, 70), (130, 300, 65), (257, 70, 33), (700, 3, 40)])
def test_steps_of_large_products_join(mode, shape):
    m, n, k = shape
    rng = np.random.default_rng(m)
    x_format, w_format = MODES[mode]
    x = random_tensor(rng, x_format, (m, k), (20, 235))
    w = random_tensor(rng, w_format, (n, k), (20, 235))
    c = rng.standard_normal((m, n)).astype(np.float32)
    expected = c
    for block in range(block_count(k)):
        expected = add(expected, block_dot(x.block(block)[:, None], w.block(block)[None]))
    got = matmul(x, w, c)
    assert got.shape == (m, n) and (bits(got) == bits(expected)).all()


@modes
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_largest_elements_along_a_long_k(mode, signs):
    k = 4096
    formats = MODES[mode]
    x, w = (MXTensor(format=f, codes=np.full((1, k), f.max_code | (f.sign_mask if s < 0 else 0), np.uint8),
                     scales=np.full((1, k // 32), 127, np.uint8)) for f, s in zip(formats, signs))
    largest = [int(f.table[f.max_code]) for f in formats]
    one_block = 32 * largest[0] * largest[1] * signs[0] * signs[1]
    sums, exponents, nan = block_sum(x.block(0), w.block(0))
    assert int(sums[0]) == one_block << -int(exponents[0]) and not nan[0]
    assert int(sums[0]).bit_length() < {"mxfp4_mxfp4": 14, "mxfp8_mxfp4": 28, "mxfp8_mxfp8": 42}[mode]
    assert bits(matmul(x, w)).tolist() == expected_bits(x, w)


# One rounding, exact sums, order


def test_block_sum_is_exact_where_binary32_sums_are_not():
    # 448 * 448 + 2^-18 - 448 * 448: any sum in binary32 loses the small term.
    got = one_column([448, 2**-9, -448], [127], [448, 2**-9, 448], [127])
    assert got == bits(np.float32(2.0**-18))


def test_block_is_rounded_once_into_subnormals():
    # 1536 - 2^-18 with 1024 scaled to the smallest subnormal is just under one and a half of it. Rounding to
    # 24 bits first would make it one and a half, a tie, and then two.
    sums, exponents, _ = block_sum(tensor(Format.MXFP8, [[64, 2**-9]], [[47]]),
                                   tensor(Format.MXFP8, [[24, -(2**-9)]], [[48]]))
    twice = np.ldexp(sums.astype(np.float32).astype(np.float64), exponents).astype(np.float32)
    assert bits(twice).tolist() == [2]
    assert one_column([64, 2**-9], [47], [24, -(2**-9)], [48]) == 1
    assert one_column([64], [47], [24], [48]) == 2


@modes
def test_random_subnormal_results(mode):
    rng = np.random.default_rng(11)
    x, w = (random_tensor(rng, f, (16, 32), (44, 62)) for f in MODES[mode])
    got = bits(matmul(x, w))
    assert ((got & 0x7F800000 == 0) & (got & 0x7FFFFF != 0)).any(), "no result is subnormal"
    assert got.tolist() == expected_bits(x, w)


def test_tie_is_broken_by_the_smallest_term():
    # 2^12 + 2^-12 is halfway between two binary32 values; 2^-18 more or less decides.
    tie = [64, 2**-6, 2**-9]
    below = one_column(tie, [127], [64, 2**-6, -(2**-9)], [127])
    exactly = one_column(tie[:2], [127], [64, 2**-6], [127])
    above = one_column(tie, [127], [64, 2**-6, 2**-9], [127])
    assert (below, exactly, above) == (0x45800000, 0x45800000, 0x45800001)


def test_order_is_ascending_k():
    x = np.zeros((1, 96))
    x[0, [0, 32, 64]] = [1, 1, -1]
    scales = [[127 + 60, 127, 127 + 60]]
    w = np.zeros((1, 96))
    w[0, [0, 32, 64]] = 1
    assert one_column(x[0], scales[0], w[0], [127] * 3) == 0
    swapped = [scales[0][0], scales[0][2], scales[0][1]]
    order = [*range(32), *range(64, 96), *range(32, 64)]
    assert one_column(x[0, order], swapped, w[0], [127] * 3) == 0x3F800000


def test_sum_starts_from_c():
    # 2^24 + 1 + 1: each addition is a tie that falls back to 2^24; 1 + 1 first would reach 2^24 + 2.
    ones = np.zeros(64)
    ones[[0, 32]] = 1
    assert one_column(ones, [127] * 2, ones, [127] * 2, c=0x4B800000) == 0x4B800000
    assert one_column(ones, [127] * 2, ones, [127] * 2) == 0x40000000


# Zeros


@pytest.mark.parametrize(("c", "expected"), [(None, 0x80000000), (0x80000000, 0x80000000), (0, 0)])
def test_negative_underflow_keeps_its_sign(c, expected):
    tiny = ([2**-9], [0], [-(2**-9)], [0])
    assert one_column(*tiny, c=c) == expected


@pytest.mark.parametrize(("c", "expected"), [(None, 0), (0x80000000, 0), (0, 0)])
def test_exact_zero_block_is_positive(c, expected):
    full = ([-0.0] * 32, [1] * 32)
    for x_values, w_values in (full, ([-0.0], [1]), ([-0.0, -0.0], [2, 2]), ([1, 1], [1, -1]), ([0], [-1])):
        assert one_column(x_values, [127], w_values, [127], c=c) == expected


def test_an_absent_block_adds_nothing():
    # K = 32 in an array of 64 rows: the second row group has no block, and -0 stays -0.
    values = [2**-9] + [0] * 31
    tail = np.full((1, 2, 32), 0x7F, np.uint8)
    tail[:, 0] = tensor(Format.MXFP8, [values], [[0]]).codes
    x = MXTensor.unpack(Format.MXFP8, tail, np.array([[0, 255]], np.uint8), k=32)
    w = tensor(Format.MXFP8, [[-(2**-9)] + [0] * 31], [[0]])
    assert bits(matmul(x, w)).tolist() == [[0x80000000]]


@modes
@pytest.mark.parametrize("k", [1, 31, 33, 70])
def test_lanes_beyond_k_do_not_reach_the_result(mode, k):
    rng = np.random.default_rng(k)
    operands = [random_tensor(rng, f, (4, k)) for f in MODES[mode]]
    poisoned = []
    for operand in operands:
        blocks, count = operand.pack(), block_count(k)
        lanes = np.arange(32) + 32 * (count - 1) >= k
        last = np.where(lanes, 0xFF, 0).astype(np.uint8)
        if operand.format is Format.MXFP4:
            last = (last[0::2] & 0x0F) | (last[1::2] & 0xF0)
        blocks[:, -1] |= last
        blocks = np.concatenate([blocks, np.full_like(blocks[:, :1], 0xFF)], axis=1)
        scales = np.concatenate([operand.scales, np.full((4, 1), 0xFF, np.uint8)], axis=1)
        poisoned.append(MXTensor.unpack(operand.format, blocks, scales, k=k))
    assert bits(matmul(*poisoned)).tolist() == expected_bits(*operands)


# NaN and infinity


def test_nan_of_element_and_scale_on_either_side():
    x = tensor(Format.MXFP8, np.zeros((3, 40)), np.full((3, 2), 127))
    w = tensor(Format.MXFP8, np.zeros((4, 40)), np.full((4, 2), 127))
    x.codes[1, 39] = 0xFF
    w.codes[2, 0] = 0x7F
    x.scales[2, 0] = 0xFF
    w.scales[0, 1] = 0xFF
    expected = np.zeros((3, 4), np.uint32)
    expected[1:, :] = expected[:, [0, 2]] = CANONICAL_NAN
    assert bits(matmul(x, w)).tolist() == expected.tolist() == expected_bits(x, w)


def test_mxfp4_block_with_nan_scale():
    x = tensor(Format.MXFP4, [[0.0] * 33], [[255, 127]])
    assert bits(matmul(x, x)).tolist() == [[CANONICAL_NAN]]


def test_infinities():
    huge, unit = np.zeros(64), np.ones(64)
    huge[[0, 32]] = [1, -1]
    top = [254, 254]
    assert one_column(huge, top, unit, top) == CANONICAL_NAN, "Inf - Inf of two blocks"
    assert one_column(huge[:32], top[:1], unit[:32], top[:1]) == 0x7F800000
    assert one_column(-huge[:32], top[:1], unit[:32], top[:1]) == 0xFF800000
    assert one_column(huge[:32], top[:1], unit[:32], top[:1], c=0xFF800000) == CANONICAL_NAN
    assert one_column(huge[:32], [127], unit[:32], [127], c=0xFF800000) == 0xFF800000
    # 2^127 + 2^127 overflows in the addition, although each block is finite.
    assert one_column(abs(huge), [254, 254], unit, [127, 127]) == 0x7F800000


@pytest.mark.parametrize("c", [0x7F800001, 0xFFC00000, 0x7FFFFFFF, 0xFF800001])
@pytest.mark.parametrize("k", [0, 1, 33])
def test_nan_in_c_becomes_canonical(c, k):
    ones, scales = [1.0] * k, [127] * block_count(k)
    assert one_column(ones, scales, ones, scales, c=c) == CANONICAL_NAN


# Empty shapes


@modes
@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 40), (3, 0, 40), (0, 0, 0), (2, 3, 0), (0, 3, 0)])
def test_empty_shapes(mode, m, n, k):
    rng = np.random.default_rng(12)
    x_format, w_format = MODES[mode]
    x, w = random_tensor(rng, x_format, (m, k)), random_tensor(rng, w_format, (n, k))
    got = matmul(x, w)
    assert got.dtype == np.float32 and got.shape == (m, n)
    assert bits(got).tolist() == np.zeros((m, n), int).tolist()


def test_k_zero_gives_c():
    x, w = (MXTensor(format=Format.MXFP4, codes=np.zeros((2, 0), np.uint8), scales=np.zeros((2, 0), np.uint8))
            for _ in range(2))
    c = from_bits([[0x80000000, 1], [0xFF800000, 0x40490FDB]])
    got = matmul(x, w, c)
    assert bits(got).tolist() == bits(c).tolist()
    got[:] = 0
    assert bits(c)[1, 1] == 0x40490FDB, "the result is a copy of C"


# Prepared weights, speed, errors


@modes
def test_prepared_weights_give_the_same_bits(mode):
    rng = np.random.default_rng(13)
    x_format, w_format = MODES[mode]
    w = random_tensor(rng, w_format, (90, 100), (0, 256), nan=True)
    prepared = PreparedWeights.of(w)
    assert prepared.values.dtype == np.float32 and prepared.values.nbytes == 4 * 90 * 128
    for m in (1, 20):
        x = random_tensor(rng, x_format, (m, 100), (0, 256), nan=True)
        assert (bits(matmul(x, prepared)) == bits(matmul(x, w))).all()


@modes
def test_speed(mode):
    rng = np.random.default_rng(14)
    x_format, w_format = MODES[mode]
    prepared = PreparedWeights.of(quantise(rng.standard_normal((1536, 576)).astype(np.float32), w_format))
    for m, limit in ((1, 0.1), (256, 1.0)):
        x = quantise(rng.standard_normal((m, 576)).astype(np.float32), x_format)
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            matmul(x, prepared)
            taken.append(time.perf_counter() - start)
        assert min(taken) < limit, f"{m}x1536x576 took {min(taken):.3f} s at best; allowed is {limit} s"


def test_mode_names():
    assert [mode_name(*formats) for formats in MODES.values()] == list(MODES)


def zeros(format, *shape):
    scales = np.zeros((*shape[:-1], block_count(shape[-1])), np.uint8)
    return MXTensor(format=format, codes=np.zeros(shape, np.uint8), scales=scales)


F4, F8 = Format.MXFP4, Format.MXFP8


@pytest.mark.parametrize(("call", "message"), [
    (lambda: matmul(zeros(F8, 2, 40), zeros(F8, 3, 41)), "x has K = 40 and w has K = 41"),
    (lambda: matmul(zeros(F4, 2, 40), zeros(F8, 3, 40)), "activations MXFP4 with weights MXFP8 is no mode"),
    (lambda: matmul(zeros(F4, 2, 2, 40), zeros(F4, 3, 40)), r"x has shape \(2, 2, 40\)"),
    (lambda: matmul(zeros(F4, 2, 40), zeros(F4, 40)), r"w has shape \(40,\)"),
    (lambda: matmul(zeros(F4, 2, 40), zeros(F4, 3, 40), np.zeros((2, 3))), "c has dtype float64"),
    (lambda: matmul(zeros(F4, 2, 40), zeros(F4, 3, 40), np.zeros((3, 2), np.float32)), r"float32 \(2, 3\)"),
    (lambda: block_dot(zeros(F4, 33), zeros(F4, 33)), "one block allows equal K in 1..32"),
    (lambda: block_dot(zeros(F4, 0), zeros(F4, 0)), "one block allows equal K in 1..32"),
    (lambda: block_dot(zeros(F4, 3), zeros(F4, 4)), "x has K = 3 and w has K = 4"),
])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
