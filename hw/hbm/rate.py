"""Which tile cycles are slots of the memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from .timing import slot_rate

__all__ = ["SlotRate"]


class SlotRate(wiring.Component):
    """Asserts ``slot`` in n of d tile cycles, spread evenly (an accumulator, as in Bresenham's line).

    Parameters
    ----------
    gbit_s_pin, clock_ghz : n / d = gbit_s_pin / 8 / clock_ghz; ValueError if that is above 1

    Members
    -------
    slot : Out(1): registered
    """

    def __init__(self, *, gbit_s_pin, clock_ghz):
        rate = slot_rate(gbit_s_pin, clock_ghz)
        self.slots, self.cycles = rate.numerator, rate.denominator
        super().__init__({"slot": Out(1)})

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(2 * self.cycles))
        total = left + self.slots
        with m.If(total >= self.cycles):
            m.d.sync += [self.slot.eq(1), left.eq(total - self.cycles)]
        with m.Else():
            m.d.sync += [self.slot.eq(0), left.eq(total)]
        return m
