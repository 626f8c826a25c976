"""The physical registers, and which of them can be read."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .types import Layouts

__all__ = ["Registers", "Scoreboard"]


class Registers(wiring.Component):
    """``reads`` asynchronous read ports and ``writes`` write ports. No bypass: a value written at the end of
    a cycle is read in the next.

    Members
    -------
    tags : In(array), values : Out(array)
    results : In(array of result)
    """

    def __init__(self, config, *, reads, writes):
        self.config = config
        layouts = Layouts(config)
        super().__init__({
            "tags": In(layouts.tag).array(reads), "values": Out(64).array(reads),
            "results": In(layouts.result).array(writes),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.values = values = Memory(shape=64, depth=self.config.physical, init=[])
        for tag, value in zip(self.tags, self.values):
            port = values.read_port(domain="comb")
            m.d.comb += [port.addr.eq(tag), value.eq(port.data)]
        for result in self.results:
            port = values.write_port()
            m.d.comb += [port.addr.eq(result.tag), port.data.eq(result.value),
                         port.en.eq(result.valid & result.writes)]
        return m


class Scoreboard(wiring.Component):
    """A bit for each physical register: an instruction that is selected from the next cycle on can read it.

    Members
    -------
    allocated : In(array of wake): registers handed out at this edge; they are not ready after it
    wake : In(array of wake)
    ready : Out(physical): with what is woken in this cycle
    """

    def __init__(self, config, *, wakes):
        self.config = config
        layouts = Layouts(config)
        super().__init__({
            "allocated": In(layouts.wake).array(config.width), "wake": In(layouts.wake).array(wakes),
            "ready": Out(config.physical),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.physical
        bits = Signal(count, init=(1 << 32) - 1)

        def ones(wakes):
            mask = 0
            for wake in wakes:
                mask = mask | (wake.valid << wake.tag)
            return mask

        m.d.comb += self.ready.eq(bits | ones(self.wake))
        m.d.sync += bits.eq(self.ready & ~ones(self.allocated)[:count])
        return m
