"""From an instruction word to a function that executes it.

`compile_word` decodes once; the hart keeps the function under the word, so code that is written over is
right by construction. Each function is called as ``run(order, pc, observed)`` and returns the record as a
tuple in the order of RECORD, without ``cycle``; ``observed`` is the record it will be compared with, or None.

Functions for the same kind of instruction come from one factory, made of a template when it is first needed:
the whole step of an instruction is then one Python call.
"""

from functools import cache

from .memory import RAM
from .semantics import BRANCHES, IMMEDIATE, LOADS, REGISTER, STORES, M, S, div, rem, signed

__all__ = ["Cause", "Fields", "compile_word"]


class Cause:
    """mcause of exceptions."""

    MISALIGNED_FETCH = 0
    FETCH_FAULT = 1
    ILLEGAL = 2
    BREAKPOINT = 3
    MISALIGNED_LOAD = 4
    LOAD_FAULT = 5
    MISALIGNED_STORE = 6
    STORE_FAULT = 7
    ECALL = 11


class Fields:
    """Fields of an instruction word; immediates are signed."""

    __slots__ = ("word",)

    def __init__(self, word):
        self.word = word

    opcode = property(lambda self: self.word & 0x7F)
    rd = property(lambda self: self.word >> 7 & 31)
    funct3 = property(lambda self: self.word >> 12 & 7)
    rs1 = property(lambda self: self.word >> 15 & 31)
    rs2 = property(lambda self: self.word >> 20 & 31)
    funct7 = property(lambda self: self.word >> 25)
    csr = property(lambda self: self.word >> 20)
    i = property(lambda self: signed(self.word >> 20, 12))
    s = property(lambda self: signed(self.word >> 25 << 5 | self.word >> 7 & 31, 12))
    u = property(lambda self: signed(self.word & 0xFFFFF000, 32))

    @property
    def b(self):
        w = self.word
        return signed(w >> 31 << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1, 13)

    @property
    def j(self):
        w = self.word
        return signed(w >> 31 << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1, 21)


_FACTORY = """
def make(hart, word, rd, rs1, rs2, b, M=M, S=S, signed=signed, div=div, rem=rem):
    x, size, poisoned, trap = hart.x, hart.memory.size, hart.memory.poisoned, hart.trap
    view, device = hart.memory.views[{bytes}], hart.{device}
    def run(order, pc, observed):
{body}
    return run
"""

_REGISTER = """
        a = x[rs1]; b = x[rs2]
        x[rd] = value = {expression}
        return (order, word, pc, pc + 4, 0, 0, 0, rd, value, 0, 0, 0, 0, 0)
"""
_IMMEDIATE = """
        a = x[rs1]
        x[rd] = value = {expression}
        return (order, word, pc, pc + 4, 0, 0, 0, rd, value, 0, 0, 0, 0, 0)
"""
_NOTHING = """
        return (order, word, pc, pc + 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""
_BRANCH = """
        a = x[rs1]
        if {expression_b}:
            target = pc + b & M
            if target & 3:
                return trap(order, word, pc, 0, target)
            return (order, word, pc, target, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return (order, word, pc, pc + 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""
_JUMP = """
        target = {expression}
        if target & 3:
            return trap(order, word, pc, 0, target)
        value = pc + 4
        {write}
        return (order, word, pc, target, 0, 0, 0, rd, value, 0, 0, 0, 0, 0)
"""
_LOAD = """
        address = x[rs1] + b & M
        offset = address - {ram}
        if address & {low} or not 0 <= offset < size or poisoned and offset >> 6 in poisoned:
            raw = device(order, word, pc, address, {bytes}, observed)
            if raw.__class__ is tuple:
                return raw
        else:
            raw = view[offset // {bytes}]
        value = {expression}
        {write}
        return (order, word, pc, pc + 4, 0, 0, 0, rd, value, address, {mask}, 0, raw, 0)
"""
_STORE = """
        address = x[rs1] + b & M
        value = x[rs2] & {ones}
        offset = address - {ram}
        if address & {low} or not 0 <= offset < size:
            fault = device(order, word, pc, address, {bytes}, value)
            if fault:
                return fault
        else:
            view[offset // {bytes}] = value
        return (order, word, pc, pc + 4, 0, 0, 0, 0, 0, address, 0, {mask}, 0, value)
"""
_WRITE = {True: "x[rd] = value", False: "value = 0"}


@cache
def _factory(body, expression="", writes=True, size=8, device="load_elsewhere"):
    text = body.format(expression=expression, write=_WRITE[writes], bytes=size, low=size - 1, ram=RAM,
                       mask=(1 << size) - 1, ones=hex((1 << 8 * size) - 1),
                       expression_b=expression.replace("b", "x[rs2]"))
    names = {"M": M, "S": S, "signed": signed, "div": div, "rem": rem}
    exec(_FACTORY.format(body=text, bytes=size, device=device), names)
    return names["make"]


def _illegal(hart, word):
    return lambda order, pc, observed: hart.trap(order, word, pc, Cause.ILLEGAL, word)


def _nothing(hart, word):
    return _factory(_NOTHING)(hart, word, 0, 0, 0, 0)


def _register(hart, word, f):
    entry = REGISTER.get((f.opcode, f.funct7, f.funct3))
    if entry is None:
        return _illegal(hart, word)
    if not f.rd:
        return _nothing(hart, word)
    return _factory(_REGISTER, entry[1])(hart, word, f.rd, f.rs1, f.rs2, 0)


def _immediate(hart, word, f):
    b, upper = f.i & M, None
    if f.funct3 in (1, 5):
        bits = 6 if f.opcode == 0x13 else 5
        upper, b = word >> 20 + bits << bits - 5, word >> 20 & (1 << bits) - 1
    entry = IMMEDIATE.get((f.opcode, upper, f.funct3))
    if entry is None:
        return _illegal(hart, word)
    if not f.rd:
        return _nothing(hart, word)
    return _factory(_IMMEDIATE, entry[1])(hart, word, f.rd, f.rs1, 0, b)


def _upper(hart, word, f):
    if not f.rd:
        return _nothing(hart, word)
    expression = "b" if f.opcode == 0x37 else "pc + b & M"
    return _factory(_IMMEDIATE, expression)(hart, word, f.rd, 0, 0, f.u & M)


def _branch(hart, word, f):
    if f.funct3 not in BRANCHES:
        return _illegal(hart, word)
    return _factory(_BRANCH, BRANCHES[f.funct3][1])(hart, word, 0, f.rs1, f.rs2, f.b)


def _jal(hart, word, f):
    return _factory(_JUMP, "pc + b & M", f.rd != 0)(hart, word, f.rd, 0, 0, f.j)


def _jalr(hart, word, f):
    if f.funct3:
        return _illegal(hart, word)
    return _factory(_JUMP, "x[rs1] + b & (M - 1)", f.rd != 0)(hart, word, f.rd, f.rs1, 0, f.i)


def _load(hart, word, f):
    if f.funct3 not in LOADS:
        return _illegal(hart, word)
    _, size, expression = LOADS[f.funct3]
    return _factory(_LOAD, expression, f.rd != 0, size)(hart, word, f.rd, f.rs1, 0, f.i)


def _store(hart, word, f):
    if f.funct3 not in STORES:
        return _illegal(hart, word)
    size = STORES[f.funct3][1]
    return _factory(_STORE, "", True, size, "store_elsewhere")(hart, word, 0, f.rs1, f.rs2, f.s)


def _fence(hart, word, f):
    # FENCE and FENCE.I, whatever their other fields: those are reserved for finer fences, and to be ignored.
    return _nothing(hart, word) if f.funct3 in (0, 1) else _illegal(hart, word)


def _system(hart, word, f):
    if f.funct3 == 4:
        return _illegal(hart, word)
    if f.funct3:
        return _csr(hart, word, f)
    match word:
        case 0x00000073:
            return lambda order, pc, observed: hart.trap(order, word, pc, Cause.ECALL, 0)
        case 0x00100073:
            return lambda order, pc, observed: hart.trap(order, word, pc, Cause.BREAKPOINT, pc)
        case 0x30200073:
            return lambda order, pc, observed: (order, word, pc, hart.csrs.leave(), *(0,) * 10)
        case 0x10500073:  # WFI: the time it waits is not architecture
            return _nothing(hart, word)
        case _:
            return _illegal(hart, word)


def _csr(hart, word, f):
    address, rd, rs1, kind = f.csr, f.rd, f.rs1, f.funct3 & 3
    x, immediate = hart.x, f.funct3 & 4
    writes = kind == 1 or rs1 != 0
    if not hart.csr_exists(address) or (writes and address >> 10 == 3):
        return _illegal(hart, word)

    def run(order, pc, observed):
        operand = rs1 if immediate else x[rs1]
        old = hart.read_csr(address, order, observed if rd else None)
        if writes:
            new = operand if kind == 1 else old | operand if kind == 2 else old & ~operand
            hart.csrs.write(address, new, order)
        if not rd:
            return (order, word, pc, pc + 4, *(0,) * 10)
        x[rd] = old
        return (order, word, pc, pc + 4, 0, 0, 0, rd, old, 0, 0, 0, 0, 0)

    return run


_OPCODES = {
    0x03: _load, 0x0F: _fence, 0x13: _immediate, 0x17: _upper, 0x1B: _immediate, 0x23: _store,
    0x33: _register, 0x37: _upper, 0x3B: _register, 0x63: _branch, 0x67: _jalr, 0x6F: _jal, 0x73: _system,
}


def compile_word(hart, word):
    """The function that executes ``word`` on ``hart``; illegal words give one that traps."""
    kind = _OPCODES.get(word & 0x7F)
    return kind(hart, word, Fields(word)) if kind else _illegal(hart, word)
