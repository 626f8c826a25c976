"""Text of instruction words in assembler syntax, without pseudo-instructions.

Words that the core does not execute are shown as ``.word 0x...``: exactly those that are illegal whatever the
state, and accesses to CSRs that do not exist keep their number.
"""

from .csr import NAMES
from .execute import Fields
from .semantics import BRANCHES, IMMEDIATE, LOADS, REGISTER, STORES

__all__ = ["REGISTERS", "disassemble"]

REGISTERS = (
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{n}" for n in range(8)),
    *(f"s{n}" for n in range(2, 12)), "t3", "t4", "t5", "t6")
"""Names of x0 to x31 in the calling convention."""

_WHOLE = {0x00000073: "ecall", 0x00100073: "ebreak", 0x30200073: "mret", 0x10500073: "wfi"}
_CSR = {1: "csrrw", 2: "csrrs", 3: "csrrc", 5: "csrrwi", 6: "csrrsi", 7: "csrrci"}


def _fence(word, f):
    if f.funct3 == 1:
        return "fence.i"
    if word == 0x8330000F:
        return "fence.tso"
    sets = ("".join(name for name, bit in zip("iorw", (8, 4, 2, 1)) if word >> low & bit) for low in (24, 20))
    return "fence\t" + ", ".join(one or "0" for one in sets)


def _system(word, f):
    if f.funct3 == 0:
        return _WHOLE.get(word)
    if f.funct3 not in _CSR:
        return None
    source = f.rs1 if f.funct3 & 4 else REGISTERS[f.rs1]
    return f"{_CSR[f.funct3]}\t{REGISTERS[f.rd]}, {NAMES.get(f.csr, hex(f.csr))}, {source}"


def _immediate(word, f):
    value, upper = f.i, None
    if f.funct3 in (1, 5):
        bits = 6 if f.opcode == 0x13 else 5
        upper, value = word >> 20 + bits << bits - 5, word >> 20 & (1 << bits) - 1
    entry = IMMEDIATE.get((f.opcode, upper, f.funct3))
    return entry and f"{entry[0]}\t{REGISTERS[f.rd]}, {REGISTERS[f.rs1]}, {value}"


def disassemble(word, pc=None):
    """Text of one word. With ``pc``, targets of branches and jumps are addresses, else distances."""
    f = Fields(word)
    rd, rs1, rs2 = REGISTERS[f.rd], REGISTERS[f.rs1], REGISTERS[f.rs2]

    def target(distance):
        return str(distance) if pc is None else hex(pc + distance & (1 << 64) - 1)

    text = None
    match f.opcode:
        case 0x33 | 0x3B:
            entry = REGISTER.get((f.opcode, f.funct7, f.funct3))
            text = entry and f"{entry[0]}\t{rd}, {rs1}, {rs2}"
        case 0x13 | 0x1B:
            text = _immediate(word, f)
        case 0x37 | 0x17:
            text = f"{'lui' if f.opcode == 0x37 else 'auipc'}\t{rd}, {word >> 12}"
        case 0x03 if f.funct3 in LOADS:
            text = f"{LOADS[f.funct3][0]}\t{rd}, {f.i}({rs1})"
        case 0x23 if f.funct3 in STORES:
            text = f"{STORES[f.funct3][0]}\t{rs2}, {f.s}({rs1})"
        case 0x63 if f.funct3 in BRANCHES:
            text = f"{BRANCHES[f.funct3][0]}\t{rs1}, {rs2}, {target(f.b)}"
        case 0x6F:
            text = f"jal\t{rd}, {target(f.j)}"
        case 0x67 if f.funct3 == 0:
            text = f"jalr\t{rd}, {f.i}({rs1})"
        case 0x0F if f.funct3 < 2:
            text = _fence(word, f)
        case 0x73:
            text = _system(word, f)
    return (text or f".word\t{word:#010x}").replace("\t", " ")
