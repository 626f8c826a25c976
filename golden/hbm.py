"""Model of an HBM slice: where its bytes lie, how words are protected, what requests and ranges have to give.

Follows docs/hbm.md and shares nothing with the hardware. Lines are 64 bytes, bursts 32; a line is two bursts.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

__all__ = ["BURST_BYTES", "LINE_BYTES", "Geometry", "Memory", "OK", "OUT_OF_RANGE", "POISON", "check_bytes",
           "decode", "range_lines"]

LINE_BYTES = 64
BURST_BYTES = 32
GRAIN = 4  # lines that lie together in a pseudo-channel

OK, POISON, OUT_OF_RANGE, BAD_RANGE = 0, 1, 2, 3
"""Status of an answer."""


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Organisation of a slice; the group of a bank is its number modulo `bank_groups`."""

    pseudo_channels: int
    stack_ids: int = 3
    bank_groups: int = 4
    banks: int = 16
    rows: int = 12288
    page_bytes: int = 1024

    @classmethod
    def of(cls, config):
        """Of anything that has attributes of these names."""
        return cls(**{name: getattr(config, name) for name in cls.__dataclass_fields__})

    @property
    def local_lines(self):
        """Lines of a pseudo-channel."""
        return self.stack_ids * self.banks * self.rows * (self.page_bytes // LINE_BYTES)

    @property
    def lines(self):
        """Lines of the slice."""
        return self.pseudo_channels * self.local_lines

    def split(self, lines):
        """Pseudo-channel and line within it of lines of the slice (integers or arrays)."""
        grain, within = np.divmod(lines, GRAIN)
        local, channel = np.divmod(grain, self.pseudo_channels)
        return channel, local * GRAIN + within

    def join(self, channel, local):
        """The inverse of :meth:`split`."""
        grain, within = np.divmod(local, GRAIN)
        return (grain * self.pseudo_channels + channel) * GRAIN + within

    def locate(self, local):
        """(stack, bank, row, column) of lines within a pseudo-channel; column counts lines of the page."""
        rest, low = np.divmod(local, GRAIN)
        rest, group = np.divmod(rest, self.bank_groups)
        rest, high = np.divmod(rest, self.page_bytes // LINE_BYTES // GRAIN)
        rest, in_group = np.divmod(rest, self.banks // self.bank_groups)
        row, stack = np.divmod(rest, self.stack_ids)
        return stack, in_group * self.bank_groups + group, row, high * GRAIN + low

    def bursts(self, local):
        """Numbers in the device of the two bursts of lines within a pseudo-channel: int64 [..., 2].

        Burst ((stack * banks + bank) * rows + row) * (bursts a page) + column.
        """
        stack, bank, row, column = self.locate(np.asarray(local, dtype=np.int64))
        page = (stack * self.banks + bank) * self.rows + row
        first = page * (self.page_bytes // BURST_BYTES) + column * 2
        return np.stack([first, first + 1], axis=-1)


@cache
def _columns():
    """Hsiao's (72, 64) code: the syndrome of each of the 72 bits, data bits first.

    Data bits 0 to 55 have the 56 columns with three ones, bits by position in lexicographic order; bits 56 to
    63 the eight rotations of 00011111; check bit j has 1 << j.
    """
    three = [(1 << a) + (1 << b) + (1 << c) for a, b, c in combinations(range(8), 3)]
    five = [int(f"{0b00011111:08b}"[turn:] + f"{0b00011111:08b}"[:turn], 2) for turn in range(8)]
    return np.array([*three, *five, *(1 << bit for bit in range(8))], dtype=np.uint8)


def check_bytes(data):
    """Check bytes of data: uint8 [..., 8 n] -> uint8 [..., n], one a word of 64 bits, little-endian."""
    data = np.ascontiguousarray(data, dtype=np.uint8)
    table = _check_table()
    words = data.reshape(*data.shape[:-1], -1, 8)
    check = np.zeros(words.shape[:-1], dtype=np.uint8)
    for byte in range(8):
        check ^= table[byte][words[..., byte]]
    return check


@cache
def _check_table():
    """What byte 0..7 of a word adds to its check byte: uint8 [8, 256]."""
    columns = _columns()[:64].reshape(8, 8)
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(bool)
    return np.stack([np.bitwise_xor.reduce(np.where(values, columns[byte], 0), axis=1).astype(np.uint8)
                     for byte in range(8)])


def decode(data, check):
    """What a reader gets of stored bits.

    Parameters
    ----------
    data : uint8 [..., 8 n]
    check : uint8 [..., n]

    Returns
    -------
    tuple
        data with single errors corrected, bool [..., n] words that had one, bool [..., n] words that cannot
        be corrected.
    """
    data = np.array(data, dtype=np.uint8)
    syndrome = check_bytes(data) ^ check
    columns = _columns()
    place = np.full(256, 255, dtype=np.uint8)
    place[columns] = np.arange(72)
    where = place[syndrome]
    corrected = (syndrome != 0) & (where < 72)
    words = data.reshape(*syndrome.shape, 8)
    flips = corrected & (where < 64)
    index = np.nonzero(flips)
    bit = where[index]
    words[(*index, bit // 8)] ^= np.uint8(1) << (bit % 8)
    return words.reshape(data.shape), corrected, (syndrome != 0) & ~corrected


class Memory:
    """Contents of a slice as a dictionary of lines; what was never written is 0."""

    def __init__(self, geometry):
        self.geometry = geometry
        self._lines = {}

    def load(self, lines, data):
        """Set whole lines: numbers [n], data uint8 [n, 64]."""
        for line, row in zip(np.asarray(lines).tolist(), np.asarray(data, dtype=np.uint8)):
            self._lines[line] = row.copy()

    def read(self, lines):
        """Data of lines: uint8 [n, 64]."""
        zero = np.zeros(LINE_BYTES, dtype=np.uint8)
        rows = [self._lines.get(line, zero) for line in np.asarray(lines).tolist()]
        return np.stack(rows) if rows else np.zeros((0, LINE_BYTES), dtype=np.uint8)

    def touched(self):
        """Numbers of the lines that were written, sorted."""
        return np.array(sorted(self._lines), dtype=np.int64)

    def requests(self, write, lines, masks, data):
        """Demand requests one after the other, in the order of the request stream.

        Parameters
        ----------
        write : bool [n]
        lines : int [n]
        masks : bool [n, 64], bytes to write
        data : uint8 [n, 64]

        Returns
        -------
        tuple
            status int [n], data uint8 [n, 64] of the answers (0 unless a read).
        """
        size = len(lines)
        status = np.full(size, OK)
        answers = np.zeros((size, LINE_BYTES), dtype=np.uint8)
        full = masks.all(axis=1)
        limit, stored = self.geometry.lines, self._lines
        for n, (line, writes) in enumerate(zip(np.asarray(lines).tolist(), np.asarray(write).tolist())):
            if line >= limit:
                status[n] = OUT_OF_RANGE
            elif not writes:
                if line in stored:
                    answers[n] = stored[line]
            elif full[n]:
                stored[line] = data[n].copy()
            else:
                row = stored.setdefault(line, np.zeros(LINE_BYTES, dtype=np.uint8))
                np.copyto(row, data[n], where=masks[n])
        return status, answers


def range_lines(geometry, *, address, rows, size, stride):
    """What a range read has to give.

    Parameters
    ----------
    address, size, stride : int
        Bytes, of the first row, of a row, and from one row to the next.
    rows : int

    Returns
    -------
    tuple
        status, and for each pseudo-channel an array int64 [n, 3] of (line of the slice, halves, last) in the
        order of its stream; bit 0 of halves is the lower burst of the line.
    """
    stride = stride if rows > 1 else 0
    nothing = [np.zeros((0, 3), dtype=np.int64) for _ in range(geometry.pseudo_channels)]
    if rows == 0 or size == 0 or (address | size | stride) % BURST_BYTES:
        return BAD_RANGE, nothing
    if address + (rows - 1) * stride + size > geometry.lines * LINE_BYTES:
        return OUT_OF_RANGE, nothing
    parts = []
    for row in range(rows):
        first = (address + row * stride) // BURST_BYTES
        end = first + size // BURST_BYTES
        lines = np.arange(first // 2, (end + 1) // 2, dtype=np.int64)
        halves = np.full(len(lines), 3)
        halves[0] &= 2 if first % 2 else 3
        halves[-1] &= 1 if end % 2 else 3
        parts.append(np.stack([lines, halves, np.zeros_like(lines)], axis=1))
    every = np.concatenate(parts)
    channel, _ = geometry.split(every[:, 0])
    found = [every[channel == c] for c in range(geometry.pseudo_channels)]
    for part in found:
        if len(part):
            part[-1, 2] = 1
    return OK, found
