"""Requests of the L1 to the memory, in one order."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ...hbm.port import Request
from .types import MSHR_BITS

__all__ = ["Ask", "MemorySide"]

WRITE_TAG = 64
"""Tag of all writes: class 1. Fetches have their MSHR for a tag, in class 0."""

WRITES = 40
"""Writes not answered at most, of those that may wait. The slice has 64 places for a class, so that it never
stops taking requests because answers of the L1's writes have to wait behind a fill."""


class Ask(data.StructLayout):
    """A line to fetch, a line to write, or both: the fetch goes first."""

    def __init__(self):
        super().__init__({"fetches": 1, "mshr": MSHR_BITS, "line": 32,
                          "writes": 1, "write_line": 32, "mask": 64, "data": 512})


class MemorySide(wiring.Component):
    """A queue. Whatever is asked for later reaches the memory later, also a line that was evicted and is
    wanted again.

    Members
    -------
    i : In(stream of Ask); ``room`` : Out(1): writes may be added; ``ready`` is for what must not wait
    request : Out(stream of Request)
    answered : In(1): a write was answered
    quiet : Out(1): every write has been answered
    """

    def __init__(self, *, depth=8):
        self.depth = depth
        super().__init__({"i": In(stream.Signature(Ask())), "room": Out(1),
                          "request": Out(stream.Signature(Request)), "answered": In(1), "quiet": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=Ask().size, depth=self.depth)
        open_writes = Signal(8)
        asked, fetched = data.View(Ask(), queue.r_data), Signal()
        taken = self.i.valid & self.i.ready & self.i.payload.writes
        m.d.comb += [
            queue.w_data.eq(self.i.payload), queue.w_en.eq(self.i.valid), self.i.ready.eq(queue.w_rdy),
            self.room.eq(queue.w_rdy & (open_writes < WRITES)), self.quiet.eq(open_writes == 0),
        ]
        m.d.sync += open_writes.eq(open_writes + taken - self.answered)

        request = self.request.payload
        writes = ~asked.fetches | fetched
        m.d.comb += [
            self.request.valid.eq(queue.r_rdy), request.write.eq(writes), request.mask.eq(asked.mask),
            request.data.eq(asked.data), request.tag.eq(WRITE_TAG), request.line.eq(asked.write_line),
        ]
        with m.If(~writes):
            m.d.comb += [request.tag.eq(asked.mshr), request.line.eq(asked.line)]
        with m.If(self.request.valid & self.request.ready):
            with m.If(writes | ~asked.writes):
                m.d.comb += queue.r_en.eq(1)
                m.d.sync += fetched.eq(0)
            with m.Else():
                m.d.sync += fetched.eq(1)
        return m
