"""Counters of a pseudo-channel."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .address_map import Location
from .ecc import BURST_WORDS

__all__ = ["Counters", "EventCounters"]

COUNTED = ("reads", "writes", "activates", "row_hits", "refreshes_due", "refreshes_served", "scrubbed")


class Counters(data.Struct):
    """Counters since reset, all saturating.

    ``reads``, ``writes`` : column commands (32 bytes each); ``activates``; ``row_hits`` : column commands
    after the first to an opened row; ``refreshes_due``, ``refreshes_served`` : in refreshes of a bank (an
    all-bank refresh serves one of each); ``corrected``, ``uncorrected`` : words of 64 bits read with an
    error; ``first_valid``, ``first_location`` : line of the first error of either kind; ``scrubbed`` :
    bursts that a scrub wrote back.
    """

    reads: 32
    writes: 32
    activates: 32
    row_hits: 32
    refreshes_due: 32
    refreshes_served: 32
    scrubbed: 32
    corrected: 32
    uncorrected: 32
    first_valid: 1
    first_location: Location


def _saturating(counter, amount):
    total = counter + amount
    return Mux(total[len(counter):] != 0, (1 << len(counter)) - 1, total[:len(counter)])


class EventCounters(wiring.Component):
    """Counts events.

    Members
    -------
    slot : In(1)
    reads, writes, activates, row_hits, refreshes_due, refreshes_served, scrubbed : In(7): so many in this
        slot
    arrived : In(1), corrected, bad : In(4), location : In(Location): in any cycle: words of a burst in error
    o : Out(Counters)
    """

    def __init__(self):
        super().__init__({
            "slot": In(1), **{name: In(7) for name in COUNTED}, "arrived": In(1),
            "corrected": In(BURST_WORDS), "bad": In(BURST_WORDS), "location": In(Location),
            "o": Out(Counters),
        })

    def elaborate(self, platform):
        m = Module()
        with m.If(self.slot):
            for name in COUNTED:
                counter = getattr(self.o, name)
                m.d.sync += counter.eq(_saturating(counter, getattr(self, name)))
        with m.If(self.arrived):
            for counter, words in ((self.o.corrected, self.corrected), (self.o.uncorrected, self.bad)):
                amount = Signal(range(BURST_WORDS + 1))
                m.d.comb += amount.eq(sum(words))
                m.d.sync += counter.eq(_saturating(counter, amount))
            with m.If(((self.corrected | self.bad) != 0) & ~self.o.first_valid):
                m.d.sync += [self.o.first_valid.eq(1), self.o.first_location.eq(self.location)]
        return m
