"""Conditional branches and JALR."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import OP_BITS, BranchOp

__all__ = ["Branch"]


class Branch(wiring.Component):
    """Combinational branch unit.

    Both ways are compared with the predicted address before the condition is known, so that the comparison
    of 64 bits is not behind the other.

    Members
    -------
    op : In(OP_BITS): a BranchOp
    a, b : In(64): operands (rs1, rs2)
    pc : In(64), immediate : In(signed 32): of the instruction
    target : In(64): where fetch went on
    value : Out(64): pc + 4, the link of a JALR
    next_pc : Out(64): where execution goes on; the target of a taken branch even if misaligned (its mtval)
    taken : Out(1): a JALR always is
    mispredicted : Out(1): next_pc is not target
    misaligned : Out(1): taken, to an address which is no multiple of 4: the instruction traps
        (MISALIGNED_FETCH at this instruction's pc); mispredicted says nothing more then
    """

    def __init__(self):
        super().__init__({
            "op": In(OP_BITS), "a": In(64), "b": In(64), "pc": In(64), "immediate": In(signed(32)),
            "target": In(64), "value": Out(64), "next_pc": Out(64), "taken": Out(1), "mispredicted": Out(1),
            "misaligned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        a, b = self.a, self.b
        jump = Signal()
        m.d.comb += jump.eq(self.op == BranchOp.JALR)

        equal, below, below_signed = Signal(), Signal(), Signal()
        m.d.comb += [
            equal.eq(a == b),
            below.eq(a < b),
            below_signed.eq(below ^ a[63] ^ b[63]),
        ]
        with m.Switch(self.op):
            with m.Case(BranchOp.BEQ):
                m.d.comb += self.taken.eq(equal)
            with m.Case(BranchOp.BNE):
                m.d.comb += self.taken.eq(~equal)
            with m.Case(BranchOp.BLT):
                m.d.comb += self.taken.eq(below_signed)
            with m.Case(BranchOp.BGE):
                m.d.comb += self.taken.eq(~below_signed)
            with m.Case(BranchOp.BLTU):
                m.d.comb += self.taken.eq(below)
            with m.Case(BranchOp.BGEU):
                m.d.comb += self.taken.eq(~below)
            with m.Case(BranchOp.JALR):
                m.d.comb += self.taken.eq(1)

        reach, destination = Signal(64), Signal(64)
        m.d.comb += [
            reach.eq(Mux(jump, a, self.pc) + self.immediate),
            destination.eq(Cat(reach[0] & ~jump, reach[1:])),  # JALR clears bit 0
            self.value.eq(self.pc + 4),
            self.next_pc.eq(Mux(self.taken, destination, self.value)),
            self.mispredicted.eq(Mux(self.taken, destination != self.target, self.value != self.target)),
            self.misaligned.eq(self.taken & (destination[:2] != 0)),
        ]
        return m
