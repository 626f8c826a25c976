"""Decoding of RV64IM_Zicsr, machine mode (RISC-V unprivileged and privileged specifications)."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ..types import AluOp, BranchOp, Cause, ControlKind, Decoded, SourceA, SystemOp, Unit

__all__ = ["Decoder", "Opcode", "control_kind", "immediate_b", "immediate_j", "is_link"]


class Opcode(enum.Enum, shape=7):
    LOAD = 0x03
    MISC_MEM = 0x0F
    OP_IMM = 0x13
    AUIPC = 0x17
    OP_IMM_32 = 0x1B
    STORE = 0x23
    OP = 0x33
    LUI = 0x37
    OP_32 = 0x3B
    BRANCH = 0x63
    JALR = 0x67
    JAL = 0x6F
    SYSTEM = 0x73
    CUSTOM_0 = 0x0B


#: The SYSTEM instructions with funct3 0: exactly these words.
PRIVILEGED = {0x00000073: SystemOp.ECALL, 0x00100073: SystemOp.EBREAK, 0x30200073: SystemOp.MRET,
              0x10500073: SystemOp.WFI}

#: (funct7, funct3) of the instructions of OP that are not in the M extension.
INTEGER = {(0x00, 0): AluOp.ADD, (0x20, 0): AluOp.SUB, (0x00, 1): AluOp.SLL, (0x00, 2): AluOp.SLT,
           (0x00, 3): AluOp.SLTU, (0x00, 4): AluOp.XOR, (0x00, 5): AluOp.SRL, (0x20, 5): AluOp.SRA,
           (0x00, 6): AluOp.OR, (0x00, 7): AluOp.AND}

#: Those of them that have a form on 32 bits.
NARROW = {(0x00, 0), (0x20, 0), (0x00, 1), (0x00, 5), (0x20, 5)}


def immediate_i(word):
    return word[20:32].as_signed()


def immediate_s(word):
    return Cat(word[7:12], word[25:32]).as_signed()


def immediate_b(word):
    """Offset of a conditional branch."""
    return Cat(C(0, 1), word[8:12], word[25:31], word[7], word[31]).as_signed()


def immediate_u(word):
    return Cat(C(0, 12), word[12:32]).as_signed()


def immediate_j(word):
    """Offset of JAL."""
    return Cat(C(0, 1), word[21:31], word[20], word[12:20], word[31]).as_signed()


def is_link(register):
    """x1 and x5 hold return addresses by convention."""
    return (register == 1) | (register == 5)


def control_kind(word):
    """ControlKind of an instruction word, 0 for all that is none (reserved encodings too).

    A JALR that pops and pushes (rs1 and rd are different link registers: a coroutine switch) is an
    indirect call here: its target comes from the branch target buffer.
    """
    rd_link, rs1_link = is_link(word[7:12]), is_link(word[15:20])
    funct3 = word[12:15]
    branch = (word[:7] == Opcode.BRANCH) & (funct3[1:] != 1)
    jump = word[:7] == Opcode.JAL
    indirect = (word[:7] == Opcode.JALR) & (funct3 == 0)
    jalr = Mux(rd_link, ControlKind.INDIRECT_CALL, Mux(rs1_link, ControlKind.RETURN, ControlKind.INDIRECT))
    return Mux(branch, ControlKind.BRANCH,
               Mux(jump, Mux(rd_link, ControlKind.CALL, ControlKind.JUMP),
                   Mux(indirect, jalr, ControlKind.NONE)))


class Decoder(wiring.Component):
    """One instruction, combinational.

    Every encoding of RV64IM_Zicsr and FENCE.I is decoded exactly, all others are ILLEGAL with ``tval`` the
    word. Hints are the ordinary instructions whose encodings they are. FENCE and FENCE.I are what they are
    whatever their other fields say. Whether a CSR exists is not looked at. A field that an instruction has no
    use for is 0.

    Parameters
    ----------
    engine : bool
        custom-0 is for the engine port: funct7 says what, and the bits of funct3 which registers are used:
        2 for rd, 1 for rs1, 0 for rs2 (as in Rocket's RoCC interface). Without it custom-0 is illegal.

    Members
    -------
    word, pc : the instruction and its address.
    fault : In(1), its bytes could not be read: FETCH_FAULT, and the word is 0.
    o : Out(Decoded); ``target`` is pc + 4, or JAL's target; ``history`` and ``returns`` are 0.
    """

    def __init__(self, *, engine=False):
        self.engine = engine
        super().__init__({"word": In(32), "pc": In(64), "fault": In(1), "o": Out(Decoded)})

    def elaborate(self, platform):
        m = Module()
        word, o = self.word, self.o
        opcode, funct3, funct7 = word[:7], word[12:15], word[25:32]
        rd, rs1, rs2 = word[7:12], word[15:20], word[20:25]
        legal, unit, op = Signal(), Signal(Unit), Signal(o.op.shape())
        uses1, uses2, writes = Signal(), Signal(), Signal()
        immediate = Signal(signed(32))
        jump = Signal()

        m.d.comb += unit.eq(Unit.NONE)
        with m.Switch(opcode):
            with m.Case(Opcode.LUI, Opcode.AUIPC):
                m.d.comb += [legal.eq(1), unit.eq(Unit.ALU), op.eq(AluOp.ADD), writes.eq(1),
                             o.a.eq(Mux(opcode[5], SourceA.ZERO, SourceA.PC)),
                             o.b_immediate.eq(1), immediate.eq(immediate_u(word))]
            with m.Case(Opcode.JAL):
                m.d.comb += [legal.eq(1), unit.eq(Unit.ALU), op.eq(AluOp.ADD), writes.eq(1), jump.eq(1),
                             o.a.eq(SourceA.PC), o.b_immediate.eq(1), immediate.eq(4)]
            with m.Case(Opcode.JALR):
                m.d.comb += [legal.eq(funct3 == 0), unit.eq(Unit.BRANCH), op.eq(BranchOp.JALR),
                             writes.eq(1), uses1.eq(1), immediate.eq(immediate_i(word))]
            with m.Case(Opcode.BRANCH):
                m.d.comb += [legal.eq(funct3[1:] != 1), unit.eq(Unit.BRANCH), op.eq(funct3),
                             uses1.eq(1), uses2.eq(1), immediate.eq(immediate_b(word))]
            with m.Case(Opcode.LOAD):
                m.d.comb += [legal.eq(funct3 != 7), unit.eq(Unit.LOAD), op.eq(funct3), writes.eq(1),
                             uses1.eq(1), immediate.eq(immediate_i(word))]
            with m.Case(Opcode.STORE):
                m.d.comb += [legal.eq(~funct3[2]), unit.eq(Unit.STORE), op.eq(funct3),
                             uses1.eq(1), uses2.eq(1), immediate.eq(immediate_s(word))]
            with m.Case(Opcode.OP_IMM, Opcode.OP_IMM_32):
                # Shifts have a funct7; its lowest bit belongs to the amount where that has six bits.
                high = Mux(opcode[3], funct7, funct7 & 0x7E)
                m.d.comb += [unit.eq(Unit.ALU), writes.eq(1), uses1.eq(1), o.narrow.eq(opcode[3]),
                             o.b_immediate.eq(1), immediate.eq(immediate_i(word))]
                for (select, number), alu in INTEGER.items():
                    shift = number in (1, 5)
                    if select and not shift:
                        continue
                    with m.If((funct3 == number) & ((high == select) if shift else 1)):
                        m.d.comb += [legal.eq(1 if (select, number) in NARROW else ~opcode[3]), op.eq(alu)]
                        if shift:
                            m.d.comb += immediate.eq(Cat(rs2, word[25] & ~opcode[3]))
            with m.Case(Opcode.OP, Opcode.OP_32):
                m.d.comb += [writes.eq(1), uses1.eq(1), uses2.eq(1), o.narrow.eq(opcode[3])]
                for (select, number), alu in INTEGER.items():
                    with m.If((funct7 == select) & (funct3 == number)):
                        m.d.comb += [legal.eq(1 if (select, number) in NARROW else ~opcode[3]),
                                     unit.eq(Unit.ALU), op.eq(alu)]
                with m.If(funct7 == 1):
                    m.d.comb += [legal.eq(~opcode[3] | funct3[2] | (funct3 == 0)), op.eq(funct3),
                                 unit.eq(Mux(funct3[2], Unit.DIVIDE, Unit.MULTIPLY))]
            with m.Case(Opcode.MISC_MEM):
                m.d.comb += [legal.eq(funct3[1:] == 0), unit.eq(Unit.SYSTEM),
                             op.eq(Mux(funct3[0], SystemOp.FENCE_I, SystemOp.FENCE))]
            with m.Case(Opcode.SYSTEM):
                m.d.comb += unit.eq(Unit.SYSTEM)
                with m.If(funct3[:2] != 0):
                    m.d.comb += [legal.eq(1), op.eq(SystemOp.CSR), writes.eq(1), uses1.eq(~funct3[2])]
                for value, system in PRIVILEGED.items():
                    with m.If(word == value):
                        m.d.comb += [legal.eq(1), op.eq(system)]

            if self.engine:
                with m.Case(Opcode.CUSTOM_0):
                    m.d.comb += [legal.eq(1), unit.eq(Unit.ENGINE), op.eq(funct3), immediate.eq(funct7),
                                 writes.eq(funct3[2]), uses1.eq(funct3[1]), uses2.eq(funct3[0])]

        target = Signal(64)
        misaligned = jump & word[21]  # bit 1 of the offset
        m.d.comb += [
            target.eq(self.pc + Mux(jump, immediate_j(word), 4)),
            o.pc.eq(self.pc),
            o.target.eq(target),
            o.word.eq(Mux(self.fault, 0, word)),
            o.exception.eq(self.fault | ~legal | misaligned),
        ]
        with m.If(self.fault):
            m.d.comb += [o.cause.eq(Cause.FETCH_FAULT), o.tval.eq(self.pc)]
        with m.Elif(~legal):
            m.d.comb += [o.cause.eq(Cause.ILLEGAL), o.tval.eq(word)]
        with m.Elif(misaligned):
            m.d.comb += [o.cause.eq(Cause.MISALIGNED_FETCH), o.tval.eq(target)]

        m.d.comb += [o.unit.eq(unit), o.op.eq(op), o.immediate.eq(immediate), o.kind.eq(control_kind(word)),
                     o.rd.eq(Mux(writes, rd, 0)), o.rs1.eq(Mux(uses1, rs1, 0)), o.rs2.eq(Mux(uses2, rs2, 0)),
                     o.writes.eq(writes & (rd != 0)), o.reads1.eq(uses1 & (rs1 != 0)),
                     o.reads2.eq(uses2 & (rs2 != 0))]
        with m.If(o.exception):
            m.d.comb += [o.unit.eq(Unit.NONE), o.kind.eq(ControlKind.NONE), o.target.eq(self.pc + 4)]
            m.d.comb += [getattr(o, name).eq(0) for name in
                         ("op", "narrow", "b_immediate", "immediate", "rd", "rs1", "rs2", "writes",
                          "reads1", "reads2")]
            m.d.comb += o.a.eq(SourceA.RS1)
        return m
