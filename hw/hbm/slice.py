"""The HBM slice of a tile: wiring only."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from .command import DfiSignature
from .csr import Registers
from .demand import DemandFrontEnd
from .port import BulkData, Range, RangeAnswer, Register, RegisterAnswer, Request, Response
from .pseudo_channel import PseudoChannel
from .ranges import RangeChecker, RangeGenerator
from .rate import SlotRate
from .scrub import Scrubber

__all__ = ["HbmSlice"]


class HbmSlice(wiring.Component):
    """Demand requests and bulk ranges of a tile over ``pseudo_channels`` equal controllers (docs/hbm.md).

    Each bulk stream brings the lines of its own pseudo-channel, and has to be drained by itself: a reader
    that waits for one of them must go on taking from the others.

    Parameters
    ----------
    config : HbmConfig
    clock_ghz : float
        Clock of the tile. ValueError if it is too low for a slot of every burst.

    Members
    -------
    request : In(stream of Request), response : Out(stream of Response)
        Demand: exactly one response a request, in order within a class (tag[6:8]).
    range : In(stream of Range), range_answer : Out(stream of RangeAnswer)
        Bulk: one answer a range, in order, before its data.
    bulk : Out(stream of BulkData), array of pseudo_channels
        Lines of ranges; those of one range in the order of their addresses.
    csr : In(stream of Register), csr_answer : Out(stream of RegisterAnswer)
        Registers (hw/hbm/csr.py).
    temperature : In(2)
        Refresh interval: full, a half, a quarter.
    dfi : Out(DfiSignature), array of pseudo_channels
        Edge to the device; 2 c and 2 c + 1 share the command buses of channel c.
    idle : Out(1)
        Start-up is over and no controller has anything to do.
    """

    def __init__(self, config, *, clock_ghz=1.6):
        self.config = config
        channels = config.pseudo_channels
        self._rate = SlotRate(gbit_s_pin=config.gbit_s_pin, clock_ghz=clock_ghz)
        self._rate._MustUse__silence = True
        super().__init__({
            "request": In(stream.Signature(Request)), "response": Out(stream.Signature(Response)),
            "range": In(stream.Signature(Range)), "range_answer": Out(stream.Signature(RangeAnswer)),
            "bulk": Out(stream.Signature(BulkData)).array(channels),
            "csr": In(stream.Signature(Register)), "csr_answer": Out(stream.Signature(RegisterAnswer)),
            "temperature": In(2), "dfi": Out(DfiSignature()).array(channels), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.rate = rate = self._rate
        m.submodules.demand = demand = DemandFrontEnd(config)
        m.submodules.checker = checker = RangeChecker(config)
        m.submodules.scrubber = scrubber = Scrubber(config)
        m.submodules.registers = registers = Registers(config)
        for inner, outer in ((demand.request, self.request), (demand.response, self.response),
                             (checker.range, self.range), (checker.answer, self.range_answer),
                             (registers.csr, self.csr), (registers.answer, self.csr_answer)):
            wiring.connect(m, inner, wiring.flipped(outer))
        m.d.comb += [registers.temperature_in.eq(self.temperature),
                     scrubber.interval.eq(registers.scrub_interval)]

        idle = 1
        for c in range(config.pseudo_channels):
            generator = emit.place(m, f"ranges{c}", RangeGenerator(config))
            channel = emit.place(m, f"channel{c}", PseudoChannel(config))
            for source, target in ((checker.o[c], generator.i), (generator.o, channel.bulk),
                                   (demand.demand[c], channel.demand), (channel.reply, demand.reply[c]),
                                   (scrubber.o[c], channel.scrub)):
                wiring.connect(m, source, target)
            wiring.connect(m, wiring.flipped(self.bulk[c]), channel.data)
            wiring.connect(m, wiring.flipped(self.dfi[c]), channel.dfi)
            m.d.comb += [
                generator.index.eq(c), channel.slot.eq(rate.slot),
                channel.temperature.eq(registers.temperature), channel.all_bank.eq(registers.all_bank),
                registers.counters[c].eq(channel.counters), registers.scrub_line[c].eq(scrubber.next_line[c]),
            ]
            idle &= channel.idle
        m.d.comb += self.idle.eq(idle)
        return m
