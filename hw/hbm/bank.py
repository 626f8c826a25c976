"""State of one bank and the timing rules that concern this bank alone."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BankMachine"]


class BankMachine(wiring.Component):
    """Which commands a bank allows in this slot, as far as it alone decides.

    Commands are those decided in this slot; outputs count from registers. A bank that closes by itself
    (``auto``) does so in the first slot that tRAS and tRTP or tWR allow, as the device does.

    Parameters
    ----------
    slots : HbmSlots

    Members
    -------
    slot : In(1)
    activate, precharge, refresh, refresh_all, read, write : In(1): commands to this bank
    auto : In(1): the read or write closes the bank
    row_i : In(16): row of an activate
    open : Out(1): a row is open and takes column commands once the times are over; row : Out(16)
    closed : Out(1): precharged or on the way to it
    used : Out(1): the open row had a column command
    read_ok, write_ok, precharge_ok, activate_ok : Out(1): the command is allowed; activate_ok also stands
        for a refresh
    """

    def __init__(self, slots):
        self.slots = slots
        super().__init__({
            "slot": In(1), "activate": In(1), "precharge": In(1), "refresh": In(1), "refresh_all": In(1),
            "read": In(1), "write": In(1), "auto": In(1), "row_i": In(16),
            "open": Out(1), "row": Out(16), "closed": Out(1), "used": Out(1),
            "read_ok": Out(1), "write_ok": Out(1), "precharge_ok": Out(1), "activate_ok": Out(1),
        })

    module_name = "hbm_bank"

    def elaborate(self, platform):
        m = Module()
        t = self.slots
        oldest = max(t.rc, t.ras, t.rcd_read, t.rcd_write)
        #: Slots since the activate; stops where nothing depends on it any more.
        age = Signal(range(oldest + 1), init=oldest)
        #: Slots until reads and writes allow a precharge; slots until an activate is allowed.
        hold = Signal(range(max(t.write_to_precharge, t.read_to_precharge)))
        dead = Signal(range(max(t.rfc_all, t.rfc_bank, t.rp)))
        is_open, closing = Signal(), Signal()
        may_close = (age >= t.ras) & (hold == 0)
        m.d.comb += [
            self.open.eq(is_open & ~closing), self.closed.eq(~is_open),
            self.read_ok.eq(self.open & (age >= t.rcd_read)),
            self.write_ok.eq(self.open & (age >= t.rcd_write)),
            self.precharge_ok.eq(self.open & may_close),
            self.activate_ok.eq(~is_open & (dead == 0) & (age >= t.rc)),
        ]
        with m.If(age != oldest):
            m.d.sync += age.eq(age + 1)
        with m.If(hold != 0):
            m.d.sync += hold.eq(hold - 1)
        with m.If(dead != 0):
            m.d.sync += dead.eq(dead - 1)
        with m.If(self.read):
            m.d.sync += hold.eq(Mux(hold > t.read_to_precharge, hold - 1, t.read_to_precharge - 1))
        with m.If(self.write):
            m.d.sync += hold.eq(t.write_to_precharge - 1)
        with m.If(self.read | self.write):
            m.d.sync += [self.used.eq(1), closing.eq(self.auto)]
        with m.If(self.precharge | (closing & may_close)):
            m.d.sync += [is_open.eq(0), closing.eq(0), dead.eq(t.rp - 1)]
        with m.If(self.activate):
            m.d.sync += [is_open.eq(1), self.row.eq(self.row_i), age.eq(1), self.used.eq(0)]
        with m.If(self.refresh):
            m.d.sync += dead.eq(t.rfc_bank - 1)
        with m.If(self.refresh_all):
            m.d.sync += dead.eq(t.rfc_all - 1)
        return EnableInserter(self.slot)(m)
