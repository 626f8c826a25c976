"""Operations on ranges of memory: bulk prefetch, and maintenance."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..address import ADDRESS_BITS
from .line_port import asker
from .types import LINE_BITS, Bulk, Maintain, Maintenance, Op

__all__ = ["BulkPrefetcher", "Maintainer"]


class BulkPrefetcher(wiring.Component):
    """Asks for every line of a range. Lines that are not in memory, and ranges without rows or bytes, are
    passed over. Two cycles a line, and as many as MSHRs for prefetches let through.

    Members
    -------
    i : In(stream of Bulk)
    o : Out(stream of 4): the semaphore, when every line has been here (or is poisoned)
    x : asker
    busy : In(mshrs)
    """

    def __init__(self, geometry):
        self.geometry = geometry
        super().__init__({"i": In(stream.Signature(Bulk)), "o": Out(stream.Signature(4)),
                          "x": Out(asker(geometry)), "busy": In(geometry.config.mshrs)})

    def elaborate(self, platform):
        m = Module()
        x, job = self.x, Signal(Bulk)  # job.address: of the row; job.rows: left, with this one
        line, last = Signal(LINE_BITS), Signal(LINE_BITS)
        relative, inside = self.geometry.locate(line)
        waits = Signal(self.geometry.config.mshrs)
        flying = Signal()
        m.d.sync += flying.eq(x.taken)
        m.d.comb += [x.op.eq(Op.PREFETCH), x.line.eq(relative), self.o.payload.eq(job.semaphore)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += job.eq(self.i.payload)
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.sync += [line.eq(job.address >> 6), last.eq((job.address + job.bytes - 1) >> 6),
                             job.address.eq(job.address + job.stride), job.rows.eq(job.rows - 1)]
                m.next = "LINES"
                with m.If((job.rows == 0) | (job.bytes == 0)):
                    m.d.sync += waits.eq(self.busy)
                    m.next = "WAIT"
            with m.State("LINES"):
                m.d.comb += x.ask.eq(inside & ~flying)
                with m.If((flying & x.done) | ~inside):
                    m.d.sync += line.eq(line + 1)
                    with m.If(line == last):
                        m.next = "ROW"
            with m.State("WAIT"):
                # A line asked for by this range or by another access before is in one of these.
                m.d.sync += waits.eq(waits & self.busy)
                with m.If(waits == 0):
                    m.d.comb += self.o.valid.eq(1)
                    with m.If(self.o.ready):
                        m.next = "IDLE"
        return m


class Maintainer(wiring.Component):
    """Cleans, flushes or invalidates every line of a range. Two cycles a line.

    Members
    -------
    i : In(stream of Maintain)
    o : Out(stream of 1 bit): done, and every write of the L1 has been answered
    x : asker
    quiet : In(1)
    """

    def __init__(self, geometry):
        self.geometry = geometry
        super().__init__({"i": In(stream.Signature(Maintain)), "o": Out(stream.Signature(1)),
                          "x": Out(asker(geometry)), "quiet": In(1)})

    def elaborate(self, platform):
        m = Module()
        x, operation = self.x, Signal(Maintenance)
        line, last = Signal(LINE_BITS), Signal(LINE_BITS)
        relative, inside = self.geometry.locate(line)
        flying = Signal()
        asked = self.i.payload
        end = Signal(ADDRESS_BITS)
        m.d.sync += flying.eq(x.taken)
        m.d.comb += [x.line.eq(relative), end.eq(asked.address + asked.bytes - 1)]
        with m.Switch(operation):
            for name in Maintenance:
                with m.Case(name):
                    m.d.comb += x.op.eq(Op[name.name])
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [Value.cast(operation).eq(asked.operation),
                                 line.eq(asked.address >> 6), last.eq(end >> 6)]
                    m.next = "LINES"
                    with m.If(asked.bytes == 0):
                        m.next = "WAIT"
            with m.State("LINES"):
                m.d.comb += x.ask.eq(inside & ~flying)
                with m.If((flying & x.done) | ~inside):
                    m.d.sync += line.eq(line + 1)
                    with m.If(line == last):
                        m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.o.valid.eq(self.quiet)
                with m.If(self.o.valid & self.o.ready):
                    m.next = "IDLE"
        return m
