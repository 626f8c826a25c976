"""Start-up of the device: wait, write the mode registers, refresh all banks."""

from amaranth.hdl import EnableInserter, Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from .command import ModeRegister, RowCommand, RowOp

__all__ = ["Startup"]


class _Step(enum.Enum, shape=3):
    RESET = 0
    CL = 1
    CWL = 2
    ECC = 3
    REFRESH = 4
    DONE = 5


class Startup(wiring.Component):
    """tINIT after reset three MRS commands tMRD apart, then REFab; tRFCab later ``running`` for good.

    Members
    -------
    slot : In(1)
    row : Out(RowCommand): to be issued in this slot if not NOP
    running : Out(1)
    """

    def __init__(self, slots):
        self.slots = slots
        super().__init__({"slot": In(1), "row": Out(RowCommand), "running": Out(1)})

    def elaborate(self, platform):
        m = Module()
        t = self.slots
        step = Signal(_Step)
        left = Signal(range(max(t.init, t.mrd, t.rfc_all) + 1), init=t.init)
        registers = ((_Step.RESET, _Step.CL, ModeRegister.CL, t.cl_ck),
                     (_Step.CL, _Step.CWL, ModeRegister.CWL, t.cwl_ck),
                     (_Step.CWL, _Step.ECC, ModeRegister.ECC, 1))
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            with m.Switch(step):
                for now, after, register, value in registers:
                    with m.Case(now):
                        m.d.comb += [self.row.op.eq(RowOp.MRS), self.row.bank.eq(register),
                                     self.row.row.eq(value)]
                        m.d.sync += [step.eq(after), left.eq(t.mrd - 1)]
                with m.Case(_Step.ECC):
                    m.d.comb += self.row.op.eq(RowOp.REFAB)
                    m.d.sync += [step.eq(_Step.REFRESH), left.eq(t.rfc_all - 1)]
                with m.Case(_Step.REFRESH):
                    m.d.sync += [step.eq(_Step.DONE), self.running.eq(1)]
        return EnableInserter(self.slot)(m)
