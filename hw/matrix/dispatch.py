"""Checks jobs, hands them to their units, and answers in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ..numbers.formats import BLOCK_SIZE, Mode
from .job import Command, Output, Response, Status, UnitCommand

__all__ = ["Dispatcher", "OUTSTANDING"]

#: Jobs that may be under way.
OUTSTANDING = 16


class Dispatcher(wiring.Component):
    """One job at a time to its units, a unit a cycle; answers follow when all of them are done.

    A unit whose first column lies beyond n gets nothing. An illegal job is answered in its turn with the
    reason and touches no unit.

    Members
    -------
    i : In(stream of Command)
    o : the UnitCommand, with ``o_valid`` and ``o_ready``, one bit a unit
    done : In(units): a unit has finished a job
    response : Out(stream of Response)
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(Command)), "response": Out(stream.Signature(Response)),
            "o": Out(wiring.Signature({"payload": Out(UnitCommand)})),
            "o_valid": Out(config.units), "o_ready": In(config.units), "done": In(config.units),
        })

    def _check(self, job):
        """Status of a job."""
        config = self.config
        is_mx = job.output != Output.BINARY32.value
        granule = Mux(is_mx, BLOCK_SIZE - 1, 3)
        rules = [
            (Status.ILLEGAL_MODE, job.mode > Mode.MXFP8_MXFP8.value),
            (Status.ILLEGAL_OUTPUT, (job.output > Output.MXFP8.value)
             | (is_mx if config.cols % BLOCK_SIZE else 0)),
            (Status.ILLEGAL_ROWS, job.m > config.accumulator_rows),
            (Status.ILLEGAL_WIDTH, (job.width == 0) | (job.width > config.cols)
             | (job.width & granule).any()),
            (Status.ILLEGAL_UNITS, (job.units == 0) | (job.first_unit + job.units > config.units)),
        ]
        status = Status.OK.value
        for code, broken in reversed(rules):
            status = Mux(broken, code.value, status)
        return status

    def elaborate(self, platform):
        m = Module()
        config = self.config
        job = self.i.payload
        status = Signal(Status)
        m.d.comb += status.eq(self._check(job))
        nothing = (status != Status.OK) | (job.m == 0) | (job.n == 0)

        layout = data.StructLayout({"response": Response, "units": config.units})
        m.submodules.outstanding = queue = fifo.SyncFIFOBuffered(width=layout.size, depth=OUTSTANDING)
        entry = Signal(layout)
        m.d.comb += [entry.response.tag.eq(job.tag), entry.response.status.eq(status),
                     queue.w_data.eq(entry.as_value())]

        # Walk over the run's units; ``first`` is the first column of the unit whose turn it is.
        turn = Signal(7)
        first = Signal(16)
        stride = Signal(16)
        mask = Signal(config.units)
        select = Signal(config.units)
        command = self.o.payload
        m.d.comb += [
            select.eq(1 << (job.first_unit + turn)),
            command.mode.eq(job.mode), command.output.eq(job.output), command.has_c.eq(job.has_c),
            command.width.eq(job.width), command.m.eq(job.m), command.n.eq(job.n), command.k.eq(job.k),
            command.first.eq(first), command.stride.eq(stride),
        ]
        m.d.comb += stride.eq(job.units * job.width)
        with m.FSM():
            with m.State("CHECK"):
                with m.If(self.i.valid & queue.w_rdy):
                    with m.If(nothing):
                        m.d.comb += [queue.w_en.eq(1), self.i.ready.eq(1)]
                    with m.Else():
                        m.d.sync += [turn.eq(0), first.eq(0), mask.eq(0)]
                        m.next = "HAND_OUT"
            with m.State("HAND_OUT"):
                with m.If((turn == job.units) | (first >= job.n)):
                    m.d.comb += [entry.units.eq(mask), queue.w_en.eq(1), self.i.ready.eq(1)]
                    m.next = "CHECK"
                with m.Else():
                    m.d.comb += self.o_valid.eq(select)
                    with m.If((self.o_ready & select).any()):
                        m.d.sync += [turn.eq(turn + 1), first.eq(first + job.width), mask.eq(mask | select)]

        # Done tokens wait, a counter a unit, until the job at the head takes them.
        head = data.View(layout, queue.r_data)
        waiting = Signal(config.units)
        complete = queue.r_rdy & ((head.units & ~waiting) == 0)
        take = Signal()
        m.d.comb += [self.response.valid.eq(complete), self.response.payload.eq(head.response),
                     take.eq(self.response.valid & self.response.ready), queue.r_en.eq(take)]
        for u in range(config.units):
            count = Signal(range(OUTSTANDING + 4), name=f"done{u}")
            m.d.comb += waiting[u].eq(count != 0)
            m.d.sync += count.eq(count + self.done[u] - (take & head.units[u]))
        return m
