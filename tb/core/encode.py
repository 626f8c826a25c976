"""Instruction words by name: the assembler of the generated programs and of the tests.

`encode("addi", rd=1, rs1=2, imm=-3)`. Operands not given are 0; immediates of branches and jumps are
distances in bytes, those of LUI and AUIPC the upper 20 bits.
"""

__all__ = ["CSR_FORMS", "FORMATS", "NOP", "encode", "load_immediate"]

NOP = 0x00000013

FORMATS = {
    **{name: ("r", 0x33, f3, f7) for name, f3, f7 in (
        ("add", 0, 0), ("sub", 0, 32), ("sll", 1, 0), ("slt", 2, 0), ("sltu", 3, 0), ("xor", 4, 0),
        ("srl", 5, 0), ("sra", 5, 32), ("or", 6, 0), ("and", 7, 0), ("mul", 0, 1), ("mulh", 1, 1),
        ("mulhsu", 2, 1),
        ("mulhu", 3, 1), ("div", 4, 1), ("divu", 5, 1), ("rem", 6, 1), ("remu", 7, 1))},
    **{name: ("r", 0x3B, f3, f7) for name, f3, f7 in (
        ("addw", 0, 0), ("subw", 0, 32), ("sllw", 1, 0), ("srlw", 5, 0), ("sraw", 5, 32), ("mulw", 0, 1),
        ("divw", 4, 1), ("divuw", 5, 1), ("remw", 6, 1), ("remuw", 7, 1))},
    **{name: ("i", 0x13, f3, 0) for name, f3 in (
        ("addi", 0), ("slti", 2), ("sltiu", 3), ("xori", 4), ("ori", 6), ("andi", 7))},
    "addiw": ("i", 0x1B, 0, 0),
    **{name: ("shift", 0x13, f3, f7) for name, f3, f7 in (("slli", 1, 0), ("srli", 5, 0), ("srai", 5, 32))},
    **{name: ("shiftw", 0x1B, f3, f7) for name, f3, f7 in (
        ("slliw", 1, 0), ("srliw", 5, 0), ("sraiw", 5, 32))},
    **{name: ("i", 0x03, f3, 0) for f3, name in enumerate(("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"))},
    **{name: ("s", 0x23, f3, 0) for f3, name in enumerate(("sb", "sh", "sw", "sd"))},
    **{name: ("b", 0x63, f3, 0) for name, f3 in (
        ("beq", 0), ("bne", 1), ("blt", 4), ("bge", 5), ("bltu", 6), ("bgeu", 7))},
    "lui": ("u", 0x37, 0, 0), "auipc": ("u", 0x17, 0, 0), "jal": ("j", 0x6F, 0, 0), "jalr": ("i", 0x67, 0, 0),
    "fence": ("whole", 0x0FF0000F, 0, 0), "fence.i": ("whole", 0x0000100F, 0, 0),
    "ecall": ("whole", 0x00000073, 0, 0), "ebreak": ("whole", 0x00100073, 0, 0),
    "mret": ("whole", 0x30200073, 0, 0), "wfi": ("whole", 0x10500073, 0, 0),
    **{name: ("csr", 0x73, f3, 0) for name, f3 in (
        ("csrrw", 1), ("csrrs", 2), ("csrrc", 3), ("csrrwi", 5), ("csrrsi", 6), ("csrrci", 7))},
}
"""Name -> (format, opcode or whole word, funct3, funct7)."""

CSR_FORMS = tuple(name for name, form in FORMATS.items() if form[0] == "csr")


def _fits(name, value, low, high, multiple=1):
    if not low <= value <= high or value % multiple:
        raise ValueError(f"{name}: immediate {value} must be {low} to {high}, a multiple of {multiple}")


def encode(name, *, rd=0, rs1=0, rs2=0, imm=0, csr=0):
    """The word of an instruction; for the CSR instructions with an immediate, that is ``rs1``."""
    form, opcode, funct3, funct7 = FORMATS[name]
    for register in (rd, rs1, rs2):
        _fits(name, register, 0, 31)
    word = opcode | funct3 << 12
    match form:
        case "whole":
            return opcode
        case "r":
            return word | funct7 << 25 | rs2 << 20 | rs1 << 15 | rd << 7
        case "i":
            _fits(name, imm, -2048, 2047)
            return word | (imm & 0xFFF) << 20 | rs1 << 15 | rd << 7
        case "shift" | "shiftw":
            _fits(name, imm, 0, 63 if form == "shift" else 31)
            return word | funct7 << 25 | imm << 20 | rs1 << 15 | rd << 7
        case "s":
            _fits(name, imm, -2048, 2047)
            return word | (imm >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | (imm & 31) << 7
        case "b":
            _fits(name, imm, -4096, 4094, 2)
            return (word | (imm >> 12 & 1) << 31 | (imm >> 5 & 63) << 25 | rs2 << 20 | rs1 << 15
                    | (imm >> 1 & 15) << 8 | (imm >> 11 & 1) << 7)
        case "u":
            _fits(name, imm, -(1 << 19), (1 << 20) - 1)
            return opcode | (imm & 0xFFFFF) << 12 | rd << 7
        case "j":
            _fits(name, imm, -(1 << 20), (1 << 20) - 2, 2)
            return (opcode | (imm >> 20 & 1) << 31 | (imm >> 1 & 1023) << 21 | (imm >> 11 & 1) << 20
                    | (imm >> 12 & 255) << 12 | rd << 7)
        case _:
            _fits(name, csr, 0, 4095)
            return word | csr << 20 | rs1 << 15 | rd << 7


def load_immediate(rd, value):
    """Words that put a 64-bit value (signed, or unsigned) into a register, from the upper bits down."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    if -2048 <= value <= 2047:
        return [encode("addi", rd=rd, imm=value)]
    low = (value & 0xFFF) - ((value & 0x800) << 1)
    if -(1 << 31) <= value < (1 << 31):
        upper = encode("lui", rd=rd, imm=(value - low) >> 12 & 0xFFFFF)
        # ADDIW wraps where LUI has gone over 2^31.
        return [upper, encode("addiw", rd=rd, rs1=rd, imm=low)] if low else [upper]
    words = [*load_immediate(rd, (value - low) >> 12), encode("slli", rd=rd, rs1=rd, imm=12)]
    return [*words, encode("addi", rd=rd, rs1=rd, imm=low)] if low else words
