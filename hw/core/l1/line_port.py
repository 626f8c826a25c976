"""A line port of the L1: a queue of accesses, done in order, fetched ahead."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..types import LineRequest, LineResponse, LineStatus
from .types import LINE_BITS, MSHR_BITS, Op

__all__ = ["LinePort", "asker"]


def asker(geometry):
    """Signature of a source of accesses to lines, seen from the source.

    ``ask``: it wants to do ``op`` on ``line`` (from RAM). ``taken``: the access is in its first cycle; in the
    next, ``done``, or ``pending`` on ``mshr``, or ``poison``, or nothing: it has to ask again.
    """
    return wiring.Signature({
        "ask": Out(1), "op": Out(Op), "line": Out(geometry.line_bits), "taken": In(1),
        "done": In(1), "pending": In(1), "poison": In(1), "mshr": In(MSHR_BITS),
    })


class LinePort(wiring.Component):
    """Accesses are done one after the other; while the first waits for its line, the lines of those behind it
    are asked for too. One access in two cycles at most; a hit is answered three cycles after its request.

    Parameters
    ----------
    geometry : Geometry
    depth : int
        Accesses in the queue, a power of two from 2.

    Members
    -------
    request : In(stream of LineRequest), response : Out(stream of LineResponse)
    x : asker; mask : Out(64), data : Out(512), full : Out(1): of a WRITE, until it is done
    found : In(512): the line of a READ that is done
    filled : In(mshrs)
    """

    def __init__(self, geometry, *, depth=8):
        self.geometry, self.depth = geometry, depth
        super().__init__({
            "request": In(stream.Signature(LineRequest)), "response": Out(stream.Signature(LineResponse)),
            "x": Out(asker(geometry)), "mask": Out(64), "data": Out(512), "full": Out(1), "found": In(512),
            "filled": In(geometry.config.mshrs),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self.depth
        m.submodules.queue = queue = memory.Memory(shape=LineRequest, depth=depth, init=[])
        m.submodules.lines = lines = memory.Memory(shape=LINE_BITS, depth=depth, init=[])
        head, tail = Signal(range(depth)), Signal(range(depth))
        count = Signal(range(depth + 1))
        entered = self.request.valid & self.request.ready
        pop = Signal()
        write, write_line = queue.write_port(), lines.write_port()
        m.d.comb += [
            self.request.ready.eq(count != depth),
            write.en.eq(entered), write.addr.eq(tail), write.data.eq(self.request.payload),
            write_line.en.eq(entered), write_line.addr.eq(tail),
            write_line.data.eq(self.request.payload.line),
        ]
        m.d.sync += [tail.eq(tail + entered), head.eq(head + pop), count.eq(count + entered - pop)]

        read, ahead = queue.read_port(domain="comb"), lines.read_port(domain="comb")
        first = read.data
        asked = Signal(range(1, depth + 1), init=1)  # lines asked for, with that of the first
        m.d.comb += [read.addr.eq(head), ahead.addr.eq((head + asked)[:len(head)]),
                     self.mask.eq(first.mask), self.data.eq(first.data), self.full.eq(first.mask.all())]
        line, inside = self.geometry.locate(first.line)
        next_line, next_inside = self.geometry.locate(ahead.data)

        # The first access, or while it waits the line of another.
        x, answer = self.x, self.response
        flying, flying_ahead, waiting, on = Signal(), Signal(), Signal(), Signal(MSHR_BITS)
        free = ~answer.valid | answer.ready
        have_first, have_ahead = (count != 0) & ~flying & ~waiting & free, waiting & ~flying & (asked < count)
        m.d.comb += [
            x.ask.eq(have_first & inside | have_ahead & next_inside),
            x.op.eq(Mux(waiting, Op.PREFETCH, Mux(first.write, Op.WRITE, Op.READ))),
            x.line.eq(Mux(waiting, next_line, line)),
        ]
        m.d.sync += [flying.eq(x.taken), flying_ahead.eq(waiting)]
        with m.If(answer.ready):
            m.d.sync += answer.valid.eq(0)
        with m.If(pop):
            m.d.sync += [answer.valid.eq(1), answer.payload.tag.eq(first.tag),
                         answer.payload.data.eq(Mux(inside & ~first.write, self.found, 0))]
            with m.If(asked != 1):
                m.d.sync += asked.eq(asked - 1)
        with m.If(have_first & ~inside):
            m.d.comb += pop.eq(1)
            m.d.sync += answer.payload.status.eq(LineStatus.OUT_OF_RANGE)
        with m.If(flying & ~flying_ahead):
            m.d.comb += pop.eq(x.done | x.poison)
            m.d.sync += [answer.payload.status.eq(Mux(x.poison, LineStatus.POISON, LineStatus.OK)),
                         waiting.eq(x.pending & ~x.done), on.eq(x.mshr)]
        with m.Elif(waiting & self.filled.bit_select(on, 1)):
            m.d.sync += waiting.eq(0)
        with m.If((flying & flying_ahead & x.done) | (have_ahead & ~next_inside)):
            m.d.sync += asked.eq(asked + 1)
        return m
