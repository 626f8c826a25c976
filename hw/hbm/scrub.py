"""Background scrubbing: every line is read now and then, so that single errors do not become double ones."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import LOCAL_BITS, AddressMap
from .port import ScrubLine

__all__ = ["DAILY", "Scrubber"]

#: Interval in cycles of 1.6 GHz at which all 9,437,184 lines of a pseudo-channel are read once in a day.
DAILY = 14_648_437


class Scrubber(wiring.Component):
    """Walks all lines of each pseudo-channel, one line a pseudo-channel and interval.

    A pseudo-channel that is too busy to take its line before the next is due goes on with the same line:
    nothing is left out. A change of ``interval`` counts from the line after the next.

    Parameters
    ----------
    config : HbmConfig

    Members
    -------
    interval : In(32): tile cycles from line to line; 0 stops
    o : Out(stream of ScrubLine), array of pseudo_channels
    next_line : Out(LOCAL_BITS), array of pseudo_channels: the line whose turn it is
    """

    def __init__(self, config):
        self.config = config
        channels = config.pseudo_channels
        super().__init__({"interval": In(32), "o": Out(stream.Signature(ScrubLine)).array(channels),
                          "next_line": Out(LOCAL_BITS).array(channels)})

    def elaborate(self, platform):
        m = Module()
        last = AddressMap(self.config).local_lines - 1
        wait, due = Signal(32), Signal()
        m.d.comb += due.eq((wait == 0) & (self.interval != 0))
        m.d.sync += wait.eq(Mux(due, self.interval - 1, Mux(wait == 0, 0, wait - 1)))
        for port, line in zip(self.o, self.next_line):
            m.d.comb += port.payload.line.eq(line)
            with m.If(due):
                m.d.sync += port.valid.eq(1)
            with m.If(port.valid & port.ready):
                m.d.sync += [port.valid.eq(due), line.eq(Mux(line == last, 0, line + 1))]
        return m
