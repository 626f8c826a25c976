"""One row and one column command a slot, out of what queues, refresh and start-up wish for."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .command import ColumnCommand, ColumnOp, RowCommand, RowOp
from .queue import BANK_BITS, BANK_VECTOR, Request
from .vectors import encode

__all__ = ["Scheduler"]

IDLE_SLOTS = 8
"""Slots without reads after which writes go although there are few."""


class Scheduler(wiring.Component):
    """Reads or writes: which of both is on; and the choice between proposals.

    Writing begins when ``write_high`` lines wait or the write queue is nearly full, when a request waits
    for a write, or when there is nothing to read. It ends when no write is ready, or when reads wait and
    there are ``write_low`` lines or 2 * ``write_high`` were written. After writing, as many lines are
    read before it begins again for fullness.

    Members (vectors have a bit a bank)
    -------
    slot, running, drain : In(1)
    startup : In(RowCommand)
    read_ok, write_ok, precharge_ok, activate_ok : In(64): of the banks
    may_activate, may_read, may_write, may_near : In(64): of the spacing rules
    block : In(64), forced, refresh_all : In(1), refresh, precharge : In(64): of the refresh
    read_*, write_* : the two queues, names as there
    write_left : In: bursts that wait to be written
    column_op_* and row_* : Out: decided in this slot, see Banks; row_command, column_command : Out: to dfi
    """

    def __init__(self, config):
        self.config = config
        vector = In(BANK_VECTOR)
        queue = {
            "column": In(1), "column_request": In(Request), "column_burst": In(3), "column_last": In(1),
            "row_wish": In(1), "row_activate": In(1), "row_request": In(Request),
            "pending": vector, "hits": vector, "many": vector, "ready_work": In(1),
            "take": Out(1), **{name: Out(BANK_VECTOR) for name in (
                "column_near", "column_ready", "activate_ready", "precharge_ready")},
        }
        super().__init__({
            "slot": In(1), "running": In(1), "drain": In(1), "startup": In(RowCommand),
            "read_ok": vector, "write_ok": vector, "precharge_ok": vector, "activate_ok": vector,
            "may_activate": vector, "may_read": vector, "may_write": vector, "may_near": vector,
            "block": vector, "forced": In(1), "refresh_all_wish": In(1), "refresh_wish": vector,
            "precharge_wish": vector, "write_left": In(10), "write_full": In(1),
            **{f"read_{name}": member for name, member in queue.items()},
            **{f"write_{name}": member for name, member in queue.items()},
            "activate": Out(1), "precharge": Out(1), "refresh": Out(1), "refresh_all": Out(1),
            "row_bank": Out(BANK_BITS), "row": Out(16),
            "read": Out(1), "write": Out(1), "auto": Out(1), "column_bank": Out(BANK_BITS),
            "row_command": Out(RowCommand), "column_command": Out(ColumnCommand),
        })

    def elaborate(self, platform):
        m = Module()
        writing = Signal()
        self._turns(m, writing)

        # -- columns
        allowed = Signal(BANK_VECTOR)
        m.d.comb += [
            allowed.eq(Mux(self.running, ~self.block, 0)),
            self.read_column_ready.eq(Mux(writing, 0, self.read_ok & self.may_read & allowed)),
            self.write_column_ready.eq(Mux(writing, self.write_ok & self.may_write & allowed, 0)),
            self.read_column_near.eq(Mux(writing, 0, self.read_ok & self.may_near & allowed)),
            self.write_column_near.eq(Mux(writing, self.write_ok & self.may_near & allowed, 0)),
            self.read.eq(self.read_column), self.write.eq(self.write_column),
            self.read_take.eq(self.read), self.write_take.eq(self.write),
        ]
        chosen, last, burst = Signal(Request), Signal(), Signal(3)
        m.d.comb += [
            chosen.eq(Mux(writing, self.write_column_request.as_value(),
                          self.read_column_request.as_value())),
            last.eq(Mux(writing, self.write_column_last, self.read_column_last)),
            burst.eq(Mux(writing, self.write_column_burst, self.read_column_burst)),
            self.column_bank.eq(chosen.grain.bank),
        ]
        # The page stays open if anybody else still hits it.
        others = Mux(writing, self.write_many | self.read_hits, self.read_many | self.write_hits)
        closes = chosen.close & last & ~others.bit_select(self.column_bank, 1)
        m.d.comb += self.auto.eq((self.read | self.write) & closes)
        command = Signal(ColumnCommand)
        m.d.comb += [command.bank.eq(self.column_bank[:4]), command.sid.eq(self.column_bank[4:]),
                     command.column.eq(Cat(burst, chosen.grain.high))]
        with m.If(self.read):
            m.d.comb += command.op.eq(Mux(self.auto, ColumnOp.RDA, ColumnOp.RD))
        with m.Elif(self.write):
            m.d.comb += command.op.eq(Mux(self.auto, ColumnOp.WRA, ColumnOp.WR))
        m.d.sync += self.column_command.eq(command)

        # -- rows: the queue whose turn it is goes first, and the other keeps off its banks
        activate, precharge, hers = Signal(BANK_VECTOR), Signal(BANK_VECTOR), Signal(BANK_VECTOR)
        m.d.comb += [activate.eq(self.activate_ok & self.may_activate & allowed),
                     precharge.eq(self.precharge_ok & allowed),
                     hers.eq(Mux(writing, self.write_pending, self.read_pending))]
        for name, turn in (("read", ~writing), ("write", writing)):
            m.d.comb += [
                getattr(self, f"{name}_activate_ready").eq(activate & Mux(turn, ~0, ~hers)),
                getattr(self, f"{name}_precharge_ready").eq(precharge & Mux(turn, ~0, ~hers)),
            ]
        by_read = self.read_row_wish & (~writing | ~self.write_row_wish)
        wish = Signal(Request)
        wished = self.read_row_wish | self.write_row_wish
        activates = Mux(by_read, self.read_row_activate, self.write_row_activate)
        m.d.comb += wish.eq(Mux(by_read, self.read_row_request.as_value(), self.write_row_request.as_value()))

        refresh_wish = (self.refresh_wish != 0) | (self.precharge_wish != 0) | self.refresh_all_wish
        row, bank, wishes = Signal(RowCommand), Signal(BANK_BITS), Signal(BANK_VECTOR)
        m.d.comb += [wishes.eq(self.refresh_wish | self.precharge_wish), bank.eq(encode(wishes))]
        with m.If(self.startup.op != RowOp.NOP):
            m.d.comb += [row.eq(self.startup), self.refresh_all.eq(self.startup.op == RowOp.REFAB)]
        with m.Elif(refresh_wish & (self.forced | ~wished)):
            m.d.comb += [self.row_bank.eq(bank), self.refresh.eq(self.refresh_wish != 0),
                         self.precharge.eq(self.precharge_wish != 0),
                         self.refresh_all.eq(self.refresh_all_wish),
                         row.op.eq(Mux(self.refresh, RowOp.REFPB,
                                       Mux(self.precharge, RowOp.PRE, RowOp.REFAB))),
                         row.sid.eq(bank[4:]), row.bank.eq(bank[:4])]
        with m.Elif(wished):
            m.d.comb += [self.row_bank.eq(wish.grain.bank), self.row.eq(wish.grain.row),
                         self.activate.eq(activates), self.precharge.eq(~activates),
                         row.op.eq(Mux(activates, RowOp.ACT, RowOp.PRE)), row.row.eq(Mux(
                             activates, wish.grain.row, 0)),
                         row.sid.eq(wish.grain.bank[4:]), row.bank.eq(wish.grain.bank[:4])]
        m.d.sync += self.row_command.eq(row)
        return EnableInserter(self.slot)(m)

    def _turns(self, m, writing):
        queues = self.config.queues
        batch = Signal(range(4 * queues.write_high + 1))
        idle = Signal(range(IDLE_SLOTS + 1))
        enough = batch >= 2 * queues.write_high
        with m.If((self.read | self.write) & ~batch.all() & (batch != 4 * queues.write_high)):
            m.d.sync += batch.eq(batch + 1)
        with m.If(self.read_ready_work):
            m.d.sync += idle.eq(0)
        with m.Elif(idle != IDLE_SLOTS):
            m.d.sync += idle.eq(idle + 1)
        resting = idle == IDLE_SLOTS
        full = self.write_full | (self.write_left >= 2 * queues.write_high)
        with m.If(~writing):
            with m.If(self.write_ready_work & (self.drain | resting | (full & enough))):
                m.d.sync += [writing.eq(1), batch.eq(0)]
        with m.Else():
            few = self.write_left <= 2 * queues.write_low
            # The other half of the limit: no more than twice the high mark in one go.
            long = batch == 4 * queues.write_high
            with m.If(~self.write_ready_work | (self.read_ready_work & ~self.drain & (few | long))):
                m.d.sync += [writing.eq(0), batch.eq(0)]

