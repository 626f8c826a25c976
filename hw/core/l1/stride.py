"""Stride prefetcher: finds loads and stores that go through memory in equal steps, and asks ahead of them."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...hbm.demand import rotate
from .line_port import asker
from .types import Op

__all__ = ["StridePrefetcher", "Training"]

STRIDE_BITS = 12
SURE = 2
"""Equal steps seen before lines are asked for."""


class Training(data.StructLayout):
    """An access to ``line`` by the instruction with this ``stream``."""

    def __init__(self, geometry):
        super().__init__({"valid": 1, "stream": 16, "line": geometry.line_bits})


class StridePrefetcher(wiring.Component):
    """An entry an instruction, by the hash of its pc. Steps are counted in lines; accesses to the line of the
    last one teach nothing. After two equal steps it asks for the lines ahead, up to ``distance`` steps. Other
    instructions that go through the same lines, as in an unrolled loop, get no entry of their own.

    Parameters
    ----------
    geometry : Geometry
    distance : int
        Steps ahead of the last access at most.

    Members
    -------
    load, store : In(Training)
    x : asker
    """

    def __init__(self, geometry, *, distance=16):
        self.geometry, self.distance = geometry, distance
        super().__init__({"load": In(Training(geometry)), "store": In(Training(geometry)),
                          "x": Out(asker(geometry))})

    def elaborate(self, platform):
        m = Module()
        geometry, distance = self.geometry, self.distance
        streams, bits = geometry.config.streams, geometry.line_bits
        entries = [Signal(data.StructLayout({
            "valid": 1, "stream": 16, "line": bits, "stride": signed(STRIDE_BITS), "sure": range(SURE + 2),
            "next": bits, "ahead": range(distance + 1)}), name=f"stream{k}") for k in range(streams)]

        # One access a cycle teaches; of a load and a store in the same cycle the store waits for its turn.
        kept, given = Signal(Training(geometry)), Signal(Training(geometry))
        m.d.comb += given.eq(Mux(self.load.valid, self.load, Mux(kept.valid, kept, self.store)))
        with m.If(self.load.valid):
            with m.If(self.store.valid):
                m.d.sync += kept.eq(self.store)
        with m.Else():
            m.d.sync += kept.valid.eq(kept.valid & self.store.valid)
            with m.If(self.store.valid):
                m.d.sync += [kept.stream.eq(self.store.stream), kept.line.eq(self.store.line)]

        t = Signal(Training(geometry))
        m.d.sync += t.eq(given)
        known = Signal(streams)
        m.d.comb += [known[k].eq(e.valid & (e.stream == t.stream)) for k, e in enumerate(entries)]
        followed = Signal(streams)
        m.d.comb += [followed[k].eq(e.valid & ((t.line == e.line) | ((t.line - e.line)[:bits] == e.stride)))
                     for k, e in enumerate(entries)]
        unknown = Signal()
        m.d.comb += unknown.eq(t.valid & (known == 0) & (followed == 0))
        replace = Signal(streams, init=1)
        with m.If(unknown):
            m.d.sync += replace.eq(replace.rotate_left(1))

        x = self.x
        flying, asks, last = Signal(streams), Signal(streams), Signal(streams, init=1)
        pick = rotate(m, asks, last)
        outside = Signal()
        m.d.sync += flying.eq(pick & x.taken.replicate(streams))
        m.d.comb += [x.op.eq(Op.PREFETCH), x.ask.eq((pick != 0) & ~outside)]
        with m.If(x.taken | outside):
            m.d.sync += last.eq(pick)
        target = Signal(bits)
        for k in range(streams):
            with m.If(pick[k]):
                m.d.comb += target.eq(entries[k].next)
        m.d.comb += [x.line.eq(target), outside.eq((pick != 0) & (target >= geometry.lines))]

        for k, e in enumerate(entries):
            with m.If(known[k] & t.valid):
                step = Signal(signed(bits + 1), name=f"step{k}")
                same = Signal(name=f"same{k}")
                m.d.comb += [step.eq(t.line - e.line), same.eq(step == e.stride)]
                # One step back is an older access that had to wait.
                with m.If((step != 0) & ~((e.sure > 1) & (step == -e.stride))):
                    m.d.sync += e.line.eq(t.line)
                    with m.If(same):
                        with m.If(e.sure != SURE + 1):
                            m.d.sync += e.sure.eq(e.sure + 1)
                    with m.Elif(e.sure > 1):
                        # A step too many or too few: out of order, or the end of a row.
                        m.d.sync += [e.sure.eq(e.sure - 1), e.ahead.eq(0), e.next.eq(t.line + e.stride)]
                    with m.Else():
                        m.d.sync += [e.stride.eq(step), e.sure.eq(1), e.ahead.eq(0)]
            with m.Elif(unknown & replace[k]):
                m.d.sync += [e.valid.eq(1), e.stream.eq(t.stream), e.line.eq(t.line), e.stride.eq(0),
                             e.sure.eq(0), e.ahead.eq(0)]
            steps, done = Signal(name=f"steps{k}"), Signal(name=f"asked{k}")
            m.d.comb += [
                steps.eq(known[k] & t.valid & (t.line - e.line == e.stride) & (e.stride != 0)),
                done.eq((flying[k] & x.done) | (pick[k] & outside)),
                asks[k].eq(e.valid & (e.sure >= SURE) & (e.ahead < distance) & ~flying.any() & ~steps),
            ]
            with m.If(steps):
                with m.If((e.ahead == 0) & ~done):
                    m.d.sync += e.next.eq(t.line + e.stride)
                with m.Else():
                    m.d.sync += [e.ahead.eq(e.ahead - ~done), e.next.eq(Mux(done, e.next + e.stride, e.next))]
            with m.Elif(done & known[k] & t.valid & (t.line != e.line)):
                pass  # it starts anew
            with m.Elif(done):
                m.d.sync += [e.ahead.eq(e.ahead + 1), e.next.eq(e.next + e.stride)]
        return m
