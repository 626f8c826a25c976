"""Integer operations of RV64I."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import OP_BITS, AluOp

__all__ = ["Alu"]


class Alu(wiring.Component):
    """Combinational integer unit (RISC-V unprivileged specification, RV32I and RV64I).

    One adder serves ADD, SUB and both comparisons; one right shifter serves all shifts: a left shift is the
    right shift of the reversed word.

    Members
    -------
    op : In(OP_BITS): an AluOp
    narrow : In(1): lower 32 bits of the operands, result sign-extended from 32 bits; ADD, SUB and the shifts
    a, b : In(64): operands; a shift is by b[0:6], or b[0:5] if narrow
    value : Out(64)
    """

    def __init__(self):
        super().__init__({"op": In(OP_BITS), "narrow": In(1), "a": In(64), "b": In(64), "value": Out(64)})

    def elaborate(self, platform):
        m = Module()
        op, a, b = self.op, self.a, self.b

        subtract = Signal()
        m.d.comb += subtract.eq((op == AluOp.SUB) | (op == AluOp.SLT) | (op == AluOp.SLTU))
        total = Signal(65)  # bit 64: carry; of a difference, 1 if a >= b unsigned
        carried = Cat(1, a) + Cat(subtract, b ^ subtract.replicate(64))
        m.d.comb += total.eq(carried[1:])
        below = Signal()  # a < b, unsigned
        m.d.comb += below.eq(~total[64])

        left = Signal()
        m.d.comb += left.eq(op == AluOp.SLL)
        # Of a narrow right shift, bits 32.. of the word are what moves in.
        fill = Signal()
        m.d.comb += fill.eq((op == AluOp.SRA) & Mux(self.narrow, a[31], a[63]))
        upper = Mux(self.narrow & ~left, fill.replicate(32), a[32:])
        word, shifted = Signal(64), Signal(64)
        m.d.comb += [
            word.eq(Mux(left, a[::-1], Cat(a[:32], upper))),
            shifted.eq(Cat(word, fill.replicate(64)) >> Cat(b[:5], b[5] & ~self.narrow)),
        ]

        wide = Signal(64)
        with m.Switch(op):
            with m.Case(AluOp.ADD, AluOp.SUB):
                m.d.comb += wide.eq(total)
            with m.Case(AluOp.SLT):
                m.d.comb += wide.eq(below ^ a[63] ^ b[63])
            with m.Case(AluOp.SLTU):
                m.d.comb += wide.eq(below)
            with m.Case(AluOp.XOR):
                m.d.comb += wide.eq(a ^ b)
            with m.Case(AluOp.OR):
                m.d.comb += wide.eq(a | b)
            with m.Case(AluOp.AND):
                m.d.comb += wide.eq(a & b)
            with m.Case(AluOp.SLL):
                m.d.comb += wide.eq(shifted[::-1])
            with m.Case(AluOp.SRL, AluOp.SRA):
                m.d.comb += wide.eq(shifted)
        m.d.comb += self.value.eq(Cat(wide[:32], Mux(self.narrow, wide[31].replicate(32), wide[32:])))
        return m
