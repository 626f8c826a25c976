"""Payloads of the L1: its ports, and the accesses that its parts give to a bank."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, unsigned
from amaranth.lib import data, enum

from ..address import ADDRESS_BITS, LINE, RAM

__all__ = ["LINE_BITS", "LINE_PORTS", "MSHR_BITS", "Bulk", "Events", "Geometry", "LoadAnswer", "LoadRequest",
           "Maintain", "Maintenance", "Op", "StoreRequest", "WayState"]

LINE_PORTS = 3
"""Line ports: instruction fetch, engines, network."""

MSHR_BITS = 6

LINE_BITS = ADDRESS_BITS - 6
"""Of the number of a line, from address 0."""


class LoadRequest(data.Struct):
    """A load of the doubleword of ``address``. ``stream``: hash of the load's pc."""

    valid: unsigned(1)
    address: unsigned(ADDRESS_BITS)
    stream: unsigned(16)


class LoadAnswer(data.Struct):
    """One cycle after an accepted load. At most one of hit, fault and miss; none: ask again soon.

    ``miss``: ask again when bit ``mshr`` of ``filled`` is set. ``fault``: the line is poisoned, or outside.
    """

    hit: unsigned(1)
    data: unsigned(64)
    fault: unsigned(1)
    miss: unsigned(1)
    mshr: unsigned(MSHR_BITS)


class StoreRequest(data.Struct):
    """Bytes ``mask`` of the doubleword of ``address``."""

    address: unsigned(ADDRESS_BITS)
    data: unsigned(64)
    mask: unsigned(8)
    stream: unsigned(16)


class Bulk(data.Struct):
    """Prefetch of ``rows`` rows of ``bytes`` bytes, ``stride`` bytes from one to the next."""

    address: unsigned(ADDRESS_BITS)
    rows: unsigned(16)
    bytes: unsigned(20)
    stride: unsigned(40)
    semaphore: unsigned(4)


class Maintenance(enum.Enum, shape=2):
    CLEAN = 0       # written back, kept
    FLUSH = 1       # written back, dropped
    INVALIDATE = 2  # dropped with what was stored in it


class Maintain(data.Struct):
    """An operation on every line that has a byte of [address, address + bytes)."""

    operation: Maintenance
    address: unsigned(ADDRESS_BITS)
    bytes: unsigned(ADDRESS_BITS)


class Events(data.Struct):
    """Pulses for the performance counters."""

    load_hit: unsigned(1)
    load_miss: unsigned(1)     # a load that fetches a line
    load_again: unsigned(1)    # a load told to ask again
    store_miss: unsigned(1)    # a store that fetches a line
    port_miss: unsigned(1)     # a line access that fetches a line
    prefetch: unsigned(1)      # a prefetch that fetches a line
    writeback: unsigned(1)
    fill: unsigned(1)


class WayState(enum.Enum, shape=2):
    INVALID = 0
    VALID = 1
    PENDING = 2   # an MSHR fetches it; stores go into it, reads wait
    POISON = 3    # memory said that the line is bad


class Op(enum.Enum, shape=4):
    """What an access does in its bank."""

    LOAD = 0
    STORE = 1
    READ = 2        # a line
    WRITE = 3       # bytes of a line
    PREFETCH = 4    # fetches what is not there, no answer
    CLEAN = 5
    FLUSH = 6
    INVALIDATE = 7
    FILL = 8        # the memory's answer goes into its way


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Where a line is. Inside the L1 lines are counted from RAM.

    Parameters
    ----------
    config : L1Config
    ram_bytes : bytes of memory, a whole number of lines; ValueError otherwise, or beyond the address space.
    """

    config: object
    ram_bytes: int

    def __post_init__(self):
        most = (1 << ADDRESS_BITS) - RAM
        if not isinstance(self.ram_bytes, int) or not LINE <= self.ram_bytes <= most or self.ram_bytes % LINE:
            raise ValueError(f"ram_bytes = {self.ram_bytes!r}: must be a multiple of {LINE} up to {most}")

    @property
    def lines(self):
        return self.ram_bytes // LINE

    @property
    def bank_bits(self):
        return (self.config.banks - 1).bit_length()

    @property
    def set_bits(self):
        return (self.config.sets - 1).bit_length()

    @property
    def line_bits(self):
        """Of a line's number from RAM. At least one bit of tag."""
        return max((self.lines - 1).bit_length(), self.bank_bits + self.set_bits + 1)

    @property
    def tag_bits(self):
        return self.line_bits - self.bank_bits - self.set_bits

    @property
    def way_bits(self):
        return max(1, (self.config.ways - 1).bit_length())

    def locate(self, line):
        """``(line from RAM, whether it is there)`` of a line's number from address 0."""
        # RAM has a single bit set, so only the bits above are subtracted.
        low = (RAM // LINE).bit_length() - 1
        high = (line[low:] - RAM // LINE // (1 << low))[:LINE_BITS - low]
        relative = Cat(line[:low], high)
        return relative[:self.line_bits], relative < self.lines

    def _fold(self, bits):
        """Exclusive or of all bits, as many at a time as a bank's number has."""
        folded = Const(0, self.bank_bits)
        for first in range(0, len(bits), self.bank_bits) if self.bank_bits else ():
            folded = folded ^ bits[first:first + self.bank_bits]
        return folded

    def bank(self, line):
        """Number of the bank of a line from RAM. All bits of the line's number have a share in it, so that
        two streams which go side by side are seldom in the same one, however they are aligned."""
        return (line[:self.bank_bits] ^ self._fold(line[self.bank_bits:]))[:self.bank_bits]

    def line(self, bank, place, tag):
        """The line with this tag, in a bank and in the set ``place`` of it."""
        return Cat((bank ^ self._fold(Cat(place, tag)))[:self.bank_bits], place, tag)

    def access(self):
        """Layout of an access to a bank. ``line`` without the bits of the bank; ``way`` of a FILL, one-hot;
        ``full``: a WRITE of all bytes."""
        return data.StructLayout({
            "op": Op, "set": self.set_bits, "tag": self.tag_bits, "word": 3, "mask": 8, "data": 64,
            "way": self.config.ways, "full": 1})

    def entry(self):
        """Layout of the tag of a way. ``mshr``: of a line that is pending."""
        return data.StructLayout({"tag": self.tag_bits, "state": WayState, "dirty": 1, "mshr": MSHR_BITS})
