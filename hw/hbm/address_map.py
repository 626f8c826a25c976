"""From a line of the slice to pseudo-channel, stack ID, bank, row and column.

From the lowest: 4 lines (256 bytes) in a pseudo-channel, then the next pseudo-channel. Within a
pseudo-channel: line in the 256 bytes | bank group | column high | bank in the group | stack ID | row. So a
stream takes 256 bytes of one bank of each group in turn, finishes their pages within 4 KiB, and goes through
all banks before it meets a row conflict (docs/decisions/0009-interleave.md).

Pseudo-channels, stack IDs and rows are no powers of two; :func:`divide` is exact and keeps the map a
bijection over the whole capacity.
"""

from amaranth.hdl import Cat, Const, Value, unsigned
from amaranth.lib import data

from ..config import ConfigError

__all__ = ["LINE_BYTES", "LINES_PER_GRAIN", "LOCAL_BITS", "Location", "AddressMap", "divide"]

#: Bytes of a line, the unit of a demand request: two bursts.
LINE_BYTES = 64
#: Lines which lie together in one pseudo-channel: 256 bytes.
LINES_PER_GRAIN = 4
#: Bits of the number of a line within a pseudo-channel.
LOCAL_BITS = 24


class Location(data.Struct):
    """A line in its pseudo-channel. ``bank`` within the stack ID, its group is bank modulo groups;
    ``column`` in lines of 64 bytes: bursts 2 ``column`` and 2 ``column`` + 1 of the page."""

    sid: unsigned(2)
    bank: unsigned(4)
    row: unsigned(16)
    column: unsigned(4)


def divide(value, divisor, maximum):
    """Quotient and remainder of ``value`` (Value, 0 ... ``maximum``) by a constant, combinational.

    The quotient is value * ceil(2^s / d) >> s. With e = d * ceil(2^s / d) - 2^s it is exact up to
    ``maximum`` if maximum * e < 2^s; s is the least that fulfils this.
    """
    twos = (divisor & -divisor).bit_length() - 1
    odd = divisor >> twos
    high, limit = value[twos:], maximum >> twos
    bits = max(1, (maximum // divisor).bit_length())
    if odd == 1:
        quotient = high[:bits] if len(high) else Const(0, 1)
    else:
        shift = 0
        while limit * (-(1 << shift) % odd) >= 1 << shift:
            shift += 1
        factor = -(-(1 << shift) // odd)
        quotient = (high[:max(1, limit.bit_length())] * factor)[shift:][:bits]
    width = max(1, (divisor - 1).bit_length())
    remainder = (value - quotient * divisor)[:width] if divisor > 1 else Const(0, 1)
    return quotient, remainder


class AddressMap:
    """The address map of a slice as functions on Values.

    Parameters
    ----------
    config : HbmConfig

    Attributes
    ----------
    lines : lines of 64 bytes in the slice.
    local_lines : lines in a pseudo-channel.
    """

    def __init__(self, config):
        self.config = config
        self.local_lines = config.stack_ids * config.banks * config.rows * (config.page_bytes // LINE_BYTES)
        self.lines = config.pseudo_channels * self.local_lines
        if self.local_lines > 1 << LOCAL_BITS:
            raise ConfigError("hbm.rows", config.rows,
                              f"so few that a pseudo-channel has at most {1 << LOCAL_BITS} lines")

    def split_grain(self, grain):
        """(grain of 256 bytes in the pseudo-channel, pseudo-channel) of a grain of the slice.

        ``grain`` is below lines / 4.
        """
        return divide(grain, self.config.pseudo_channels, self.lines // LINES_PER_GRAIN - 1)

    def split(self, line):
        """(local line, pseudo-channel) of a ``line`` of the slice below ``lines``."""
        quotient, channel = self.split_grain(line[2:])
        return Cat(line[:2], quotient)[:LOCAL_BITS], channel

    def join(self, local, channel):
        """The line of the slice at ``local`` in ``channel``: the inverse of :meth:`split`."""
        grain = local[2:] * self.config.pseudo_channels + channel
        return Cat(local[:2], grain)[:max(1, (self.lines - 1).bit_length())]

    def locate(self, local):
        """The fields of a :class:`Location` as a dict of Values, of a ``local`` line below local_lines."""
        group_bits = self.config.bank_groups.bit_length() - 1
        group, rest = local[2:2 + group_bits], local[2 + group_bits:]
        column_high, bank_in_group, rest = rest[:2], rest[2:6 - group_bits], rest[6 - group_bits:]
        row, sid = divide(rest, self.config.stack_ids, self.local_lines // 256 - 1)
        return {"sid": Value.cast(sid), "bank": Cat(group, bank_in_group), "row": Value.cast(row),
                "column": Cat(local[:2], column_high)}
