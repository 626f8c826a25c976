"""All banks of a pseudo-channel, as vectors with a bit a bank."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from .bank import BankMachine
from .queue import BANK_BITS, BANK_VECTOR

__all__ = ["Banks"]


class Banks(wiring.Component):
    """The bank machines, the decisions of this slot spread to them, their answers gathered.

    Members
    -------
    slot : In(1)
    activate, precharge, refresh, refresh_all : In(1), row_bank : In(6), row : In(16): row command decided
    read, write, auto : In(1), column_bank : In(6): column command decided
    lookup_bank : In(6), lookup_row : In(16), lookup_hit : Out(1): after this slot's decisions, this row is
        open and stays so
    closed, used, read_ok, write_ok, precharge_ok, activate_ok : Out(64), see BankMachine; 0 beyond the banks
    """

    def __init__(self, config, slots):
        self.config, self.slots = config, slots
        one, bank, vector = In(1), In(BANK_BITS), Out(BANK_VECTOR)
        super().__init__({
            "slot": one, "activate": one, "precharge": one, "refresh": one, "refresh_all": one,
            "row_bank": bank, "row": In(16), "read": one, "write": one, "auto": one, "column_bank": bank,
            "lookup_bank": bank, "lookup_row": In(16), "lookup_hit": Out(1),
            "closed": vector, "used": vector, "read_ok": vector, "write_ok": vector, "precharge_ok": vector,
            "activate_ok": vector,
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.stack_ids * self.config.banks

        commands = {}
        for name in ("activate", "precharge", "refresh", "read", "write", "auto"):
            bank = self.column_bank if name in ("read", "write", "auto") else self.row_bank
            commands[name] = Signal(BANK_VECTOR, name=f"{name}_of")
            m.d.comb += commands[name].eq(Mux(getattr(self, name), Const(1, 1) << bank, 0))
        machines = []
        for index in range(count):
            bank = emit.place(m, f"bank{index}", BankMachine(self.slots))
            m.d.comb += [bank.slot.eq(self.slot), bank.row_i.eq(self.row),
                         bank.refresh_all.eq(self.refresh_all)]
            m.d.comb += [getattr(bank, name).eq(value[index]) for name, value in commands.items()]
            machines.append(bank)
        for name in ("closed", "used", "read_ok", "write_ok", "precharge_ok", "activate_ok"):
            m.d.comb += getattr(self, name).eq(Cat(getattr(bank, name) for bank in machines))

        is_open = Cat(bank.open for bank in machines)
        same = Array(bank.row for bank in machines)[self.lookup_bank] == self.lookup_row
        shut = (self.precharge & (self.row_bank == self.lookup_bank)) | (
            self.auto & (self.column_bank == self.lookup_bank))
        opened = self.activate & (self.row_bank == self.lookup_bank)
        m.d.comb += self.lookup_hit.eq(Mux(opened, self.row == self.lookup_row,
                                           is_open.bit_select(self.lookup_bank, 1) & same & ~shut))
        return m
