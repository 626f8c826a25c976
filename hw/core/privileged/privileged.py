"""The privileged unit: CSR instructions, trap entry and return, interrupts."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import Trap

from .counters import COUNTERS, Counters, Events
from .csr import CsrAccess, Registers

__all__ = ["EXTERNAL", "Interrupt", "Privileged", "SOFTWARE", "TIMER"]

SOFTWARE, TIMER, EXTERNAL = 3, 7, 11
"""Bits of mip and mie, and causes, of the machine's interrupts."""


class Interrupt(data.Struct):
    """An interrupt that is to be taken."""

    valid: unsigned(1)
    cause: unsigned(4)


class Privileged(wiring.Component):
    """Machine mode. What exists, resets and WARL behaviour: docs/core-csrs.md.

    An access to a CSR which does not exist, or a write to one which is read-only (address[10:12] = 3), is
    illegal and changes nothing. CSRRW always writes, the others unless the field rs1 of the instruction is 0.

    Parameters
    ----------
    config : CoreConfig
    hart : value of mhartid.
    counters : mhpmcounters that count.

    Members
    -------
    csr : In(CsrAccess): a CSR instruction, once; written at the end of the cycle. Everything older has been
        counted in `retired` before, or is in this cycle; the instruction itself is counted later
    csr_value : Out(64), csr_illegal : Out(1): combinational, of csr (whether valid or not)
    trap : In(Trap): entered at the end of the cycle; goes before an mret, never together with a csr.valid
    vector : Out(64): the handler of `trap`, combinational
    mret : In(1): an MRET is executed, once
    epc : Out(64): where it goes
    interrupt : Out(Interrupt): pending, enabled, and mstatus.MIE; external before software before timer
    wake : Out(1): some interrupt is pending and enabled in mie, whatever mstatus.MIE: WFI ends
    external, software, timer : In(1): the lines, mip's bits
    time : In(64): the CLINT's mtime
    retired : In(range(width + 1)): instructions that commit in this cycle, without those that trap
    events : In(Events)
    """

    def __init__(self, config, *, hart=0, counters=COUNTERS):
        self._registers = Registers(hart=hart)
        self._counters = Counters(width=config.width, counters=counters)
        super().__init__({
            "csr": In(CsrAccess), "csr_value": Out(64), "csr_illegal": Out(1),
            "trap": In(Trap), "vector": Out(64), "mret": In(1), "epc": Out(64),
            "interrupt": Out(Interrupt), "wake": Out(1),
            "external": In(1), "software": In(1), "timer": In(1), "time": In(64),
            "retired": In(range(config.width + 1)), "events": In(Events),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = self._registers
        m.submodules.counters = counters = self._counters
        csr, operand = self.csr, self.csr.operand

        writes, write = Signal(), Signal()
        word = Signal(64)
        with m.Switch(csr.funct3[:2]):
            with m.Case(1):
                m.d.comb += [word.eq(operand), writes.eq(1)]
            with m.Case(2):
                m.d.comb += [word.eq(self.csr_value | operand), writes.eq(~csr.source_zero)]
            with m.Case(3):
                m.d.comb += [word.eq(self.csr_value & ~operand), writes.eq(~csr.source_zero)]
        m.d.comb += [
            self.csr_value.eq(Mux(registers.exists, registers.value, counters.value)),
            self.csr_illegal.eq(~(registers.exists | counters.exists) | (writes & csr.address[10:].all())),
            write.eq(csr.valid & writes & ~self.csr_illegal),
        ]
        for part in (registers, counters):
            m.d.comb += [part.address.eq(csr.address), part.write.eq(write & part.exists), part.data.eq(word)]
        m.d.comb += [counters.time.eq(self.time), counters.retired.eq(self.retired),
                     counters.events.eq(self.events)]

        pending, ready = Signal(16), Signal(16)
        m.d.comb += [
            pending[SOFTWARE].eq(self.software), pending[TIMER].eq(self.timer),
            pending[EXTERNAL].eq(self.external), registers.pending.eq(pending),
            ready.eq(pending & registers.mie), self.wake.eq(ready.any()),
            self.interrupt.valid.eq(self.wake & registers.enable),
            self.interrupt.cause.eq(Mux(ready[EXTERNAL], EXTERNAL, Mux(ready[SOFTWARE], SOFTWARE, TIMER))),
        ]
        m.d.comb += [
            registers.trap.eq(self.trap), registers.mret.eq(self.mret),
            self.vector.eq(registers.vector), self.epc.eq(registers.epc),
        ]
        return m
