"""Timing rules between banks of a pseudo-channel: tRRD, tFAW, tRREFD, tCCD and the turns of the data bus."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Spacing"]


def _any(values, width=1):
    return reduce(or_, values, Const(0, width))


class Spacing(wiring.Component):
    """Groups of banks (bank groups of each stack ID) that a command of each kind may go to in this slot.

    A group is bit ``sid * bank_groups + group``. Inputs are the commands decided in this slot; outputs
    depend on registers only.

    Parameters
    ----------
    config : HbmConfig; slots : HbmSlots

    Members
    -------
    slot : In(1)
    activate, read, write : In(groups): one-hot, the group the command goes to, or 0
    refresh : In(1): a per-bank refresh
    activate_ok, refresh_ok, read_ok, write_ok : Out(groups)
    column_near : Out(groups): a column command is allowed but for tCCD_R and the turns of the data bus
    """

    def __init__(self, config, slots):
        self.config, self.slots = config, slots
        self.groups = config.stack_ids * config.bank_groups
        super().__init__({
            "slot": In(1), "activate": In(self.groups), "read": In(self.groups), "write": In(self.groups),
            "refresh": In(1), "activate_ok": Out(self.groups), "refresh_ok": Out(self.groups),
            "read_ok": Out(self.groups), "write_ok": Out(self.groups), "column_near": Out(self.groups),
        })

    def _history(self, m, name, value, length):
        """``value`` of 1, 2, ... ``length`` slots ago."""
        history = []
        for age in range(1, length + 1):
            register = Signal(len(value), name=f"{name}_{age}")
            m.d.sync += register.eq(value)
            history.append(register)
            value = register
        return history

    def elaborate(self, platform):
        m = Module()
        t, groups, each = self.slots, self.groups, self.config.bank_groups

        activates = self._history(m, "activate", self.activate, max(t.faw, t.rrd_l, t.rrd_s) - 1)
        refreshes = self._history(m, "refresh", self.refresh, t.rref - 1)
        in_window = Signal(range(8))
        m.d.sync += in_window.eq(in_window + (self.activate != 0) - (activates[t.faw - 2] != 0))
        same, row_bound = Signal(groups), Signal()
        m.d.comb += [
            same.eq(_any(activates[:t.rrd_l - 1], groups)),
            row_bound.eq((_any(activates[:t.rrd_s - 1], groups) != 0) | (_any(refreshes) != 0)),
            self.refresh_ok.eq(Mux(row_bound, 0, ~same)),
            self.activate_ok.eq(Mux(row_bound | (in_window >= 4), 0, ~same)),
        ]

        columns = self._history(m, "column", self.read | self.write, max(t.ccd_l, t.ccd_r) - 1)
        writes = self._history(m, "write", self.write, t.write_to_read_l - 1)
        read_any = Signal(max(1, t.read_to_write - 1))
        m.d.sync += read_any.eq(Cat(self.read != 0, read_any))
        lately, column_bound = Signal(groups), Signal(groups)
        m.d.comb += lately.eq(_any(columns[:t.ccd_r - 1], groups))
        other = []
        for sid in range(self.config.stack_ids):
            own = Signal(groups, name=f"others_than_{sid}")
            m.d.comb += own.eq(Cat(lately[:each * sid], lately[each * (sid + 1):]))
            other.append(Mux(own != 0, (1 << each) - 1, 0))
        written = _any(writes[:t.write_to_read_s - 1], groups) != 0
        m.d.comb += [
            self.column_near.eq(~_any(columns[:t.ccd_l - 1], groups)),
            column_bound.eq(~self.column_near | Cat(*other)),
            self.read_ok.eq(Mux(written, 0, ~(column_bound | _any(writes[t.write_to_read_s - 1:], groups)))),
            self.write_ok.eq(Mux(read_any != 0, 0, ~column_bound)),
        ]
        return EnableInserter(self.slot)(m)
