"""Refresh: what each bank owes, and which bank is refreshed when."""

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .vectors import lowest

__all__ = ["Refresh"]

SOFT = 2
"""From this debt on an idle bank is refreshed although a stream may come back to it."""

FORCED = 7
"""From this debt on a bank takes no other command. A device allows 8."""

LEFT_SLOTS = 256
"""A bank counts as just left for one to two times so many slots."""

QUIET_SLOTS = 128
"""Without any request for so long, debts are worked off even if rows have to be closed."""


class Refresh(wiring.Component):
    """Debts of all banks and the choice of the next refresh. Vectors have a bit a bank.

    Every refi / banks the debt of the next bank grows by one. In order of preference, a refresh goes to a
    bank which has to (debt 7), which was just left and has nobody waiting, which has debt 2 and nobody
    waiting, or to any bank after a while without requests. Open banks are precharged for it in the first,
    third and last case.

    Members
    -------
    slot, running, quiet : In(1): no request is waiting
    temperature : In(2), all_bank : In(1)
    closed, refreshable, closable, pending : In(banks): precharged; may be refreshed now; may be precharged
        now; somebody waits for it
    may_all : In(1): REFab is allowed: all banks are precharged and rested
    served : In(banks): refreshes issued in this slot
    block : Out(banks): no activate, read or write
    forced : Out(1): the wish goes before all other row commands
    refresh, precharge : Out(banks): the wish, one-hot; at most one of them is not 0
    refresh_all : Out(1)
    due : Out(1): a debt grows in this slot
    """

    def __init__(self, config, slots):
        self.slots = slots
        self.banks = banks = config.stack_ids * config.banks
        super().__init__({
            "slot": In(1), "running": In(1), "quiet": In(1), "temperature": In(2), "all_bank": In(1),
            "closed": In(banks), "refreshable": In(banks), "closable": In(banks), "pending": In(banks),
            "may_all": In(1), "served": In(banks),
            "block": Out(banks), "forced": Out(1), "refresh": Out(banks), "precharge": Out(banks),
            "refresh_all": Out(1), "due": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        banks, step = self.banks, self.slots.debt_step
        every = (1 << banks) - 1

        # Time: a bank at a time falls due.
        elapsed = Signal(range(step))
        bank = Signal(banks, init=1)
        limit = Mux(self.temperature[1], step >> 2, Mux(self.temperature[0], step >> 1, step))
        m.d.comb += self.due.eq(self.running & (elapsed >= limit - 1))
        m.d.sync += elapsed.eq(Mux(self.due | ~self.running, 0, elapsed + 1))
        with m.If(self.due):
            m.d.sync += bank.eq(Cat(bank[-1], bank[:-1]))

        # Debts as four bit planes: bit b of planes 3..0 is the debt of bank b. One that is paid and grows
        # in the same slot stays.
        planes = [Signal(banks, name=f"debt{weight}") for weight in (1, 2, 4, 8)]
        grown, carry, borrow, owes, soft, must = (Signal(banks, name=name) for name in (
            "grown", "grows", "falls", "owes", "soft", "must"))
        m.d.comb += [
            grown.eq(Mux(self.due, bank, 0)), carry.eq(grown & ~self.served),
            borrow.eq(self.served & ~grown & owes),
            owes.eq(planes[0] | planes[1] | planes[2] | planes[3]),
            soft.eq(planes[1] | planes[2] | planes[3]),
            must.eq((planes[0] & planes[1] & planes[2]) | planes[3]),
        ]
        for plane in planes:
            m.d.sync += plane.eq(plane ^ carry ^ borrow)
            carry, borrow = carry & plane, borrow & ~plane

        # Banks just left, in two generations.
        was_closed, left, left_before = (Signal(banks, name=name) for name in ("was_closed", "left", "older"))
        period = Signal(range(LEFT_SLOTS))
        leaving = Signal(banks)
        m.d.comb += leaving.eq(self.closed & ~was_closed)
        m.d.sync += [was_closed.eq(self.closed), period.eq(period + 1), left.eq(left | leaving)]
        with m.If(period == LEFT_SLOTS - 1):
            m.d.sync += [left.eq(leaving), left_before.eq(left)]
        quiet_for = Signal(range(QUIET_SLOTS + 1))
        resting = quiet_for == QUIET_SLOTS
        with m.If(~self.quiet):
            m.d.sync += quiet_for.eq(0)
        with m.Elif(~resting):
            m.d.sync += quiet_for.eq(quiet_for + 1)

        resting_mask = resting.replicate(banks)
        everywhere = Const(every, banks)
        tiers = [
            (must, everywhere),
            (owes & ~self.pending & left, Const(0, banks)),
            (owes & ~self.pending & left_before, Const(0, banks)),
            (soft & ~self.pending, everywhere),
            (owes & resting_mask, everywhere),
        ]
        all_wanted = Signal()
        with m.If(self.all_bank):
            # As soon as all owe one; one that owes two cannot wait for those that were refreshed by
            # themselves, before this mode was chosen.
            m.d.comb += all_wanted.eq((soft != 0) | (owes == every))
            m.d.comb += self.block.eq(all_wanted.replicate(banks))
            with m.If(all_wanted):
                m.d.comb += [self.forced.eq(1), self.refresh_all.eq(self.may_all & self.running)]
                m.d.comb += self.precharge.eq(lowest(self.closable))
        with m.Else():
            m.d.comb += [self.block.eq(must), self.forced.eq(
                ((must & (self.refreshable | self.closable)) != 0) & self.running)]
            choose, close = Signal(banks), Signal(banks)
            for wanted, may_close in reversed(tiers):
                ready, closing = wanted & self.refreshable, wanted & self.closable & may_close
                with m.If(ready != 0):
                    m.d.comb += [choose.eq(ready), close.eq(0)]
                with m.Elif(closing != 0):
                    m.d.comb += [choose.eq(0), close.eq(closing)]
            with m.If(self.running):
                m.d.comb += [self.refresh.eq(lowest(choose)), self.precharge.eq(lowest(close))]
        return EnableInserter(self.slot)(m)
