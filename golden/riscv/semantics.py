"""What the instructions on registers compute, as tables of expressions.

Registers hold unsigned 64-bit integers. In an expression ``a`` and ``b`` are the operands (``b`` may be the
immediate, sign-extended to 64 bits), ``M`` is 2^64 - 1, ``S`` is 2^63. ``(a ^ S) < (b ^ S)`` compares as
signed; ``(a ^ S) - S`` is the signed value. The W instructions give 32 bits that `narrow` sign-extends.

Source: The RISC-V Instruction Set Manual, volume I, chapters RV32I, RV64I and M.
"""

__all__ = ["BRANCHES", "LOADS", "M", "S", "STORES", "REGISTER", "IMMEDIATE", "div", "rem", "signed"]

M = (1 << 64) - 1
S = 1 << 63


def signed(value, bits=64):
    """The lower ``bits`` of an integer as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def div(a, b):
    """Quotient rounded toward zero; -1 for a zero divisor. The one overflow wraps when it is cut to size."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def rem(a, b):
    """Remainder with the sign of the dividend; the dividend for a zero divisor."""
    if b == 0:
        return a
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def narrow(expression):
    """Expression of the 32-bit result of ``expression``, sign-extended."""
    return f"((({expression} & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000) & M"


_NARROW_A, _NARROW_B = "signed(a, 32)", "signed(b, 32)"

REGISTER = {
    # opcode OP: (funct7, funct3)
    (0x33, 0x00, 0): ("add", "(a + b) & M"),
    (0x33, 0x20, 0): ("sub", "(a - b) & M"),
    (0x33, 0x00, 1): ("sll", "a << (b & 63) & M"),
    (0x33, 0x00, 2): ("slt", "int((a ^ S) < (b ^ S))"),
    (0x33, 0x00, 3): ("sltu", "int(a < b)"),
    (0x33, 0x00, 4): ("xor", "a ^ b"),
    (0x33, 0x00, 5): ("srl", "a >> (b & 63)"),
    (0x33, 0x20, 5): ("sra", "((a ^ S) - S) >> (b & 63) & M"),
    (0x33, 0x00, 6): ("or", "a | b"),
    (0x33, 0x00, 7): ("and", "a & b"),
    (0x33, 0x01, 0): ("mul", "a * b & M"),
    (0x33, 0x01, 1): ("mulh", "((a ^ S) - S) * ((b ^ S) - S) >> 64 & M"),
    (0x33, 0x01, 2): ("mulhsu", "((a ^ S) - S) * b >> 64 & M"),
    (0x33, 0x01, 3): ("mulhu", "a * b >> 64"),
    (0x33, 0x01, 4): ("div", "div(signed(a), signed(b)) & M"),
    (0x33, 0x01, 5): ("divu", "a // b if b else M"),
    (0x33, 0x01, 6): ("rem", "rem(signed(a), signed(b)) & M"),
    (0x33, 0x01, 7): ("remu", "a % b if b else a"),
    # opcode OP-32
    (0x3B, 0x00, 0): ("addw", narrow("(a + b)")),
    (0x3B, 0x20, 0): ("subw", narrow("(a - b)")),
    (0x3B, 0x00, 1): ("sllw", narrow("(a << (b & 31))")),
    (0x3B, 0x00, 5): ("srlw", narrow("((a & 0xFFFFFFFF) >> (b & 31))")),
    (0x3B, 0x20, 5): ("sraw", f"{_NARROW_A} >> (b & 31) & M"),
    (0x3B, 0x01, 0): ("mulw", narrow("(a * b)")),
    (0x3B, 0x01, 4): ("divw", narrow(f"div({_NARROW_A}, {_NARROW_B})")),
    (0x3B, 0x01, 5): ("divuw", narrow("((a & 0xFFFFFFFF) // (b & 0xFFFFFFFF) if b & 0xFFFFFFFF else M)")),
    (0x3B, 0x01, 6): ("remw", narrow(f"rem({_NARROW_A}, {_NARROW_B})")),
    (0x3B, 0x01, 7): ("remuw", narrow("((a & 0xFFFFFFFF) % (b & 0xFFFFFFFF) if b & 0xFFFFFFFF else a)")),
}
"""(opcode, funct7, funct3) -> (name, expression): rd = f(rs1, rs2)."""

IMMEDIATE = {
    (0x13, None, 0): ("addi", "(a + b) & M"),
    (0x13, None, 2): ("slti", "int((a ^ S) < (b ^ S))"),
    (0x13, None, 3): ("sltiu", "int(a < b)"),
    (0x13, None, 4): ("xori", "a ^ b"),
    (0x13, None, 6): ("ori", "a | b"),
    (0x13, None, 7): ("andi", "a & b"),
    # Shifts: the upper bits of the immediate (6 of it for 64 bits, 7 for 32) select; the rest is the amount.
    (0x13, 0x00, 1): ("slli", "a << b & M"),
    (0x13, 0x00, 5): ("srli", "a >> b"),
    (0x13, 0x20, 5): ("srai", "((a ^ S) - S) >> b & M"),
    (0x1B, None, 0): ("addiw", narrow("(a + b)")),
    (0x1B, 0x00, 1): ("slliw", narrow("(a << b)")),
    (0x1B, 0x00, 5): ("srliw", narrow("((a & 0xFFFFFFFF) >> b)")),
    (0x1B, 0x20, 5): ("sraiw", f"{_NARROW_A} >> b & M"),
}
"""(opcode, upper bits of a shift's immediate, funct3) -> (name, expression): rd = f(rs1, immediate)."""

BRANCHES = {
    0: ("beq", "a == b"),
    1: ("bne", "a != b"),
    4: ("blt", "(a ^ S) < (b ^ S)"),
    5: ("bge", "(a ^ S) >= (b ^ S)"),
    6: ("bltu", "a < b"),
    7: ("bgeu", "a >= b"),
}
"""funct3 -> (name, condition)."""

LOADS = {
    0: ("lb", 1, "((raw ^ 0x80) - 0x80) & M"),
    1: ("lh", 2, "((raw ^ 0x8000) - 0x8000) & M"),
    2: ("lw", 4, "((raw ^ 0x80000000) - 0x80000000) & M"),
    3: ("ld", 8, "raw"),
    4: ("lbu", 1, "raw"),
    5: ("lhu", 2, "raw"),
    6: ("lwu", 4, "raw"),
}
"""funct3 -> (name, bytes, extension of the bytes ``raw``)."""

STORES = {0: ("sb", 1), 1: ("sh", 2), 2: ("sw", 4), 3: ("sd", 8)}
"""funct3 -> (name, bytes)."""
