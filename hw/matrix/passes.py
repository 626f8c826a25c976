"""A job as its sequence of passes."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..numbers.formats import Mode
from .job import COLUMN_BITS, DEPTH_BITS, ROW_BITS, Output, UnitCommand

__all__ = ["Pass", "PassWalker"]


class Pass(data.Struct):
    """One set of stationary weights and the m rows which stream past it.

    ``lanes``: rows of the array in use (0 only where k is 0); ``columns``: this unit's valid columns in the
    superstep, 0 if it only listens; ``quads``: quad columns that hold them; ``subtile``: which columns of
    each quad are worked on (mxfp8_mxfp4: 2 s and 2 s + 1, mxfp8_mxfp8: s).
    ``subtiles``: how many subtiles this superstep has. ``first`` / ``last``: first / last along k.
    ``opening``: first pass of a superstep. ``closing``: last
    subtile of the last k. ``final``: this unit gets no more valid columns after this superstep.
    """

    mode: Mode
    output: Output
    has_c: unsigned(1)
    m: unsigned(ROW_BITS)
    lanes: unsigned(9)
    columns: unsigned(9)
    quads: unsigned(7)
    subtile: unsigned(2)
    subtiles: unsigned(3)
    first: unsigned(1)
    last: unsigned(1)
    opening: unsigned(1)
    closing: unsigned(1)
    final: unsigned(1)


class PassWalker(wiring.Component):
    """Walks the passes of jobs: supersteps along n, then k from low to high, then subtiles.

    The order puts k outside the subtiles, so that an accumulator is revisited late, and inside the
    supersteps, so that ``rows`` x columns of accumulators suffice. The next job follows without a gap.

    Parameters
    ----------
    rows : int
        Rows of the unit's array.

    Members
    -------
    i : In(stream of UnitCommand)
    o : Out(stream of Pass)
    """

    def __init__(self, *, rows):
        self.rows = rows
        super().__init__({"i": In(stream.Signature(UnitCommand)), "o": Out(stream.Signature(Pass))})

    def elaborate(self, platform):
        m = Module()
        job = Signal(UnitCommand)
        k_left = Signal(DEPTH_BITS)
        left = Signal(COLUMN_BITS)  # columns of the job from this superstep on
        own = Signal(signed(COLUMN_BITS + 1))  # the same from this unit's first column on
        subtile = Signal(2)
        first = Signal()
        valid = Signal()

        here = self.o.payload
        lead = Signal(9)  # valid columns of the run's first unit, which has the most
        last_subtile = Signal(2)
        m.d.comb += [
            self.o.valid.eq(valid),
            here.mode.eq(job.mode), here.output.eq(job.output), here.has_c.eq(job.has_c), here.m.eq(job.m),
            here.lanes.eq(Mux(k_left < self.rows, k_left, self.rows)),
            here.columns.eq(Mux(own <= 0, 0, Mux(own < job.width, own, job.width))),
            here.quads.eq((here.columns + 3) >> 2),
            here.subtile.eq(subtile), here.subtiles.eq(last_subtile + 1),
            here.first.eq(first), here.last.eq(k_left <= self.rows),
            here.opening.eq(first & (subtile == 0)),
            here.closing.eq(here.last & (subtile == last_subtile)),
            here.final.eq(own <= job.stride),
            lead.eq(Mux(left < job.width, left, job.width)),
        ]
        with m.Switch(job.mode):
            with m.Case(Mode.MXFP4_MXFP4):
                m.d.comb += last_subtile.eq(0)
            with m.Case(Mode.MXFP8_MXFP4):
                m.d.comb += last_subtile.eq(lead > 2)
            with m.Default():
                m.d.comb += last_subtile.eq(Mux(lead < 4, (lead - 1)[:2], 3))

        step = self.o.valid & self.o.ready
        finished = here.closing & (left <= job.stride)
        load = self.i.payload
        m.d.comb += self.i.ready.eq(~valid | (step & finished))
        with m.If(step):
            m.d.sync += subtile.eq(subtile + 1)
            with m.If(subtile == last_subtile):
                m.d.sync += [subtile.eq(0), first.eq(0), k_left.eq(k_left - self.rows)]
                with m.If(here.last):
                    m.d.sync += [first.eq(1), k_left.eq(job.k), left.eq(left - job.stride),
                                 own.eq(own - job.stride)]
            with m.If(finished):
                m.d.sync += valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [valid.eq(1), job.eq(load), k_left.eq(load.k), left.eq(load.n),
                         own.eq(load.n - load.first), subtile.eq(0), first.eq(1)]
        return m
