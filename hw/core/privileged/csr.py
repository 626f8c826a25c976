"""Machine-mode CSRs other than counters: which exist, and what can be written to them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import Trap

__all__ = ["Csr", "CsrAccess", "MISA", "Registers"]


class Csr(enum.Enum, shape=12):
    """Addresses (RISC-V privileged specification, CSR listing)."""

    MSTATUS = 0x300
    MISA = 0x301
    MIE = 0x304
    MTVEC = 0x305
    MSCRATCH = 0x340
    MEPC = 0x341
    MCAUSE = 0x342
    MTVAL = 0x343
    MIP = 0x344
    MVENDORID = 0xF11
    MARCHID = 0xF12
    MIMPID = 0xF13
    MHARTID = 0xF14
    MCONFIGPTR = 0xF15


MISA = 2 << 62 | 1 << ord("M") - ord("A") | 1 << ord("I") - ord("A")
"""64 bits; base I, extension M."""


class CsrAccess(data.Struct):
    """A CSR instruction is executed. ``operand``: rs1, or the immediate zero-extended. ``source_zero``: the
    instruction's rs1 field is 0; a CSRRS or CSRRC then writes nothing."""

    valid: unsigned(1)
    address: unsigned(12)
    funct3: unsigned(3)
    operand: unsigned(64)
    source_zero: unsigned(1)


class Registers(wiring.Component):
    """The registers of traps, and the constants.

    Values as Spike's with machine mode only (docs/core-csrs.md): mstatus has MIE and MPIE, and MPP reads 3;
    mtvec is direct or vectored on 4 bytes; mepc is on 4 bytes; mcause, mtval and mscratch hold all 64 bits;
    misa and mip take no notice of writes.

    Parameters
    ----------
    hart : value of mhartid.

    Members
    -------
    address : In(12): of a CSR; exists : Out(1), value : Out(64): whether it is one of these, and its value
    write : In(1), data : In(64): the register is written
    trap : In(Trap): entered; mret : In(1): left. Neither comes with a write
    pending : In(16): mip
    vector : Out(64): the handler of `trap`, in the same cycle
    epc : Out(64): mepc
    enable : Out(1): mstatus.MIE
    mie : Out(16)
    """

    def __init__(self, *, hart=0):
        self.hart = hart
        super().__init__({
            "address": In(12), "exists": Out(1), "value": Out(64), "write": In(1), "data": In(64),
            "trap": In(Trap), "mret": In(1), "pending": In(16), "vector": Out(64), "epc": Out(64),
            "enable": Out(1), "mie": Out(16),
        })

    def elaborate(self, platform):
        m = Module()
        previous = Signal()  # MPIE
        vectored = Signal()
        base = Signal(62)    # mtvec[2:]
        mscratch, mcause, mtval = Signal(64), Signal(64), Signal(64)
        mepc = Signal(62)    # mepc[2:]
        mie = Signal(3)      # software, timer, external
        m.d.comb += [
            self.mie.eq(Cat(*(bit for source in mie for bit in (0, 0, 0, source)))),
            self.epc.eq(Cat(0, 0, mepc)),
            self.vector.eq(Cat(0, 0, base + Mux(vectored & self.trap.interrupt, self.trap.cause, 0))),
        ]

        values = {
            Csr.MSTATUS: Cat(0, 0, 0, self.enable, 0, 0, 0, previous, 0, 0, 0, 1, 1), Csr.MISA: MISA,
            Csr.MIE: self.mie, Csr.MTVEC: Cat(vectored, 0, base), Csr.MSCRATCH: mscratch, Csr.MEPC: self.epc,
            Csr.MCAUSE: mcause, Csr.MTVAL: mtval, Csr.MIP: self.pending,
            Csr.MVENDORID: 0, Csr.MARCHID: 0, Csr.MIMPID: 0, Csr.MHARTID: self.hart, Csr.MCONFIGPTR: 0,
        }
        with m.Switch(self.address):
            for csr, value in values.items():
                with m.Case(csr):
                    m.d.comb += [self.value.eq(value), self.exists.eq(1)]

        word = self.data
        with m.If(self.write):
            with m.Switch(self.address):
                with m.Case(Csr.MSTATUS):
                    m.d.sync += [self.enable.eq(word[3]), previous.eq(word[7])]
                with m.Case(Csr.MIE):
                    m.d.sync += mie.eq(Cat(word[3], word[7], word[11]))
                with m.Case(Csr.MTVEC):
                    m.d.sync += [vectored.eq(word[0]), base.eq(word[2:])]
                with m.Case(Csr.MSCRATCH):
                    m.d.sync += mscratch.eq(word)
                with m.Case(Csr.MEPC):
                    m.d.sync += mepc.eq(word[2:])
                with m.Case(Csr.MCAUSE):
                    m.d.sync += mcause.eq(word)
                with m.Case(Csr.MTVAL):
                    m.d.sync += mtval.eq(word)
        with m.If(self.mret):
            m.d.sync += [self.enable.eq(previous), previous.eq(1)]
        with m.If(self.trap.valid):
            m.d.sync += [
                self.enable.eq(0), previous.eq(self.enable),
                mepc.eq(self.trap.pc[2:]), mtval.eq(self.trap.tval),
                mcause.eq(Cat(self.trap.cause, Const(0, 59), self.trap.interrupt)),
            ]
        return m
