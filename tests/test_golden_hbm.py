"""The model of an HBM slice: bijection of the map, correction and detection, ranges against a plain loop."""

import itertools

import numpy as np
import pytest

from golden.hbm import BAD_RANGE, OK, OUT_OF_RANGE, Geometry, Memory, check_bytes, decode, range_lines

SMALL = [Geometry(pseudo_channels=pcs, bank_groups=groups, rows=4)
         for pcs, groups in ((1, 4), (6, 4), (3, 2))]


@pytest.mark.parametrize("geometry", SMALL, ids=str)
def test_map_is_a_bijection(geometry):
    lines = np.arange(geometry.lines)
    channel, local = geometry.split(lines)
    assert np.array_equal(geometry.join(channel, local), lines)
    bursts = channel[:, None] * geometry.local_lines * 2 + geometry.bursts(local)
    assert np.array_equal(np.sort(bursts.reshape(-1)), np.arange(2 * geometry.lines))


def test_interleave():
    """256 bytes a pseudo-channel, then the next; within one, a bank of each group in turn (docs/hbm.md)."""
    geometry = Geometry(pseudo_channels=6)
    channel, local = geometry.split(np.arange(48))
    assert np.array_equal(channel, np.arange(48) // 4 % 6)
    assert local[:4].tolist() == [0, 1, 2, 3] and local[24:28].tolist() == [4, 5, 6, 7]
    stack, bank, row, column = geometry.locate(np.arange(48 * 16 * 2))
    assert bank[:16:4].tolist() == [0, 1, 2, 3] and column[:20].tolist() == [0, 1, 2, 3] * 4 + [4, 5, 6, 7]
    assert bank[64] == 4 and stack[256] == 1 and row[:768].max() == 0 and row[768] == 1
    assert geometry.lines * 64 == 6 * 576 * 2**20


def test_every_single_error_is_corrected_and_every_double_error_detected():
    rng = np.random.default_rng(1)
    word = rng.integers(0, 256, size=8, dtype=np.uint8)
    check = check_bytes(word)
    stored = np.concatenate([word, check])
    pairs = [(a,) for a in range(72)] + list(itertools.combinations(range(72), 2))
    flips = np.zeros((len(pairs), 9), dtype=np.uint8)
    for n, bits in enumerate(pairs):
        for bit in bits:
            flips[n, bit // 8] ^= 1 << bit % 8
    data, corrected, bad = decode((stored ^ flips)[:, :8], (stored ^ flips)[:, 8:])
    assert corrected[:72].all() and not bad[:72].any() and np.array_equal(data[:72], np.tile(word, (72, 1)))
    assert bad[72:].all() and not corrected[72:].any() and len(pairs) == 72 + 2556
    clean, corrected, bad = decode(word, check)
    assert np.array_equal(clean, word) and not corrected.any() and not bad.any()


def test_check_bytes_are_linear_and_zero_for_zeros():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 256, size=(2, 100, 32), dtype=np.uint8)
    assert np.array_equal(check_bytes(a) ^ check_bytes(b), check_bytes(a ^ b))
    assert check_bytes(a).shape == (100, 4) and not check_bytes(np.zeros(64, dtype=np.uint8)).any()


def test_memory():
    geometry = SMALL[1]
    memory = Memory(geometry)
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, size=(5, 64), dtype=np.uint8)
    masks = np.ones((5, 64), dtype=bool)
    masks[1, 10:] = False
    lines = [7, 7, 7, geometry.lines, 8]
    status, got = memory.requests([True, True, False, True, False], lines, masks, data)
    assert status.tolist() == [OK, OK, OK, OUT_OF_RANGE, OK]
    assert np.array_equal(got[2], np.concatenate([data[1, :10], data[0, 10:]]))
    assert not got[[0, 1, 3, 4]].any() and memory.touched().tolist() == [7]
    assert np.array_equal(memory.read([8, 7])[1], got[2])


@pytest.mark.parametrize("geometry", SMALL, ids=str)
def test_ranges_against_a_loop_over_bursts(geometry):
    rng = np.random.default_rng(4)
    for _ in range(100):
        rows, size, stride = (int(v) for v in rng.integers(1, (6, 100, 200)))
        room = geometry.lines * 2 - (rows - 1) * stride - size
        start = int(rng.integers(0, room + 1))
        status, parts = range_lines(geometry, address=32 * start, rows=rows, size=32 * size,
                                    stride=32 * stride)
        assert status == OK
        bursts = [start + row * stride + n for row in range(rows) for n in range(size)]
        got = []
        for channel, part in enumerate(parts):
            assert set(geometry.split(part[:, 0])[0]) <= {channel}
            assert part[:, 2].tolist() == [0] * (len(part) - 1) + [1] * bool(len(part))
            got += [line * 2 + half for line, halves, _ in part.tolist() for half in (0, 1)
                    if halves >> half & 1]
        assert sorted(got) == sorted(bursts)


def test_bad_ranges():
    geometry = SMALL[0]
    end = geometry.lines * 64
    for wrong in ({"rows": 0}, {"size": 0}, {"size": 48}, {"address": 8}, {"stride": 4}):
        asked = {"address": 0, "rows": 2, "size": 64, "stride": 64} | wrong
        assert range_lines(geometry, **asked)[0] == BAD_RANGE
    assert range_lines(geometry, address=end - 64, rows=1, size=64, stride=5)[0] == OK
    assert range_lines(geometry, address=end - 64, rows=2, size=64, stride=64)[0] == OUT_OF_RANGE
    assert range_lines(geometry, address=end, rows=1, size=32, stride=0)[0] == OUT_OF_RANGE
