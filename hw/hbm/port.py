"""Payloads of the streams of the slice and of its pseudo-channels."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from .address_map import LOCAL_BITS

__all__ = ["Status", "Request", "Response", "Range", "RangeAnswer", "BulkData", "Register", "RegisterAnswer",
           "Demand", "Reply", "BulkLine", "ChannelData", "ScrubLine", "CLASSES"]

#: Classes of tags: tag[6:8].
CLASSES = 4


class Status(enum.Enum, shape=2):
    """Outcome of a request, a line of a range, or a range."""

    OK = 0
    POISON = 1        # an uncorrectable error in the line
    OUT_OF_RANGE = 2  # an address outside the slice; nothing was touched
    BAD_RANGE = 3     # a range with no rows or bytes, or not on 32 bytes


class Request(data.Struct):
    """Demand: one line of 64 bytes. ``mask``: bytes to write; not looked at in a read."""

    write: unsigned(1)
    tag: unsigned(8)
    line: unsigned(32)
    mask: unsigned(64)
    data: unsigned(512)


class Response(data.Struct):
    """Answer to a request; in order within a class of tags. ``data`` is 0 unless a read."""

    tag: unsigned(8)
    write: unsigned(1)
    status: Status
    data: unsigned(512)


class Range(data.Struct):
    """Bulk read of ``rows`` rows of ``bytes`` bytes, ``stride`` bytes from one to the next."""

    tag: unsigned(8)
    address: unsigned(40)
    rows: unsigned(16)
    bytes: unsigned(20)
    stride: unsigned(40)


class RangeAnswer(data.Struct):
    """Answer to a range, before its data. Anything but OK means that no data follow."""

    tag: unsigned(8)
    status: Status


class BulkData(data.Struct):
    """A line of a range, from one pseudo-channel. ``halves``: which 32 bytes of it the range asked for;
    ``last``: no more lines of this range from this pseudo-channel."""

    tag: unsigned(8)
    status: Status
    halves: unsigned(2)
    last: unsigned(1)
    data: unsigned(512)


class Register(data.Struct):
    """Access to a register (hw/hbm/csr.py)."""

    write: unsigned(1)
    index: unsigned(8)
    data: unsigned(32)


class RegisterAnswer(data.Struct):
    """The register's value before the access."""

    data: unsigned(32)


class Demand(data.Struct):
    """A demand request to a pseudo-channel. A write is ordered with the transfer; a read is answered with
    ``slot``, in any order."""

    write: unsigned(1)
    slot: unsigned(8)
    line: unsigned(LOCAL_BITS)
    mask: unsigned(64)
    data: unsigned(512)


class Reply(data.Struct):
    """Answer of a pseudo-channel to a demand read."""

    slot: unsigned(8)
    status: Status
    data: unsigned(512)


class BulkLine(data.Struct):
    """A line of a range to a pseudo-channel. ``close``: the range leaves this page with it."""

    tag: unsigned(8)
    line: unsigned(LOCAL_BITS)
    halves: unsigned(2)
    last: unsigned(1)
    close: unsigned(1)


class ScrubLine(data.Struct):
    """A line to be read, and written back if a bit of it is corrected."""

    line: unsigned(LOCAL_BITS)


# What a pseudo-channel gives for a line of a range is what the slice gives.
ChannelData = BulkData
