"""Directed programs for the sequential hart, the core and Spike: every instruction at edge operands, CSRs."""

import random
from itertools import product

from golden.riscv import RAM
from tb.core.encode import CSR_FORMS, FORMATS, encode, load_immediate
from tb.core.program import CELLS_AT, DATA, RAM_BYTES, Block, Frame, Program

EDGES = (0, 1, 2, 31, 63, -1, -2, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63),
         0x0123_4567_89AB_CDEF, -0x0123_4567_89AB_CDEF)

TOHOST = RAM + CELLS_AT + 0x400
SPIKE_FRAME = {"exit_address": TOHOST, "exit_value": 1, "withdraw_address": None}
"""Frame of a program that ends in Spike."""

SPIKE_ONLY_CSRS = {0x7A0, 0x7A1, 0x7A2, 0x7A3, 0x7A4, 0x7A5, 0x7A8}  # of its debugger, without triggers too
CUSTOM_WRITES = (0x301, 0x320)  # Spike lets misa.M be cleared, and has no mcountinhibit


def program(words, **frame):
    """A Program of given words."""
    frame = Frame(**frame)
    rng = random.Random(0)
    return Program(seed=0, profile="directed", prologue=frame.prologue(rng),
                   blocks=(Block("directed", tuple(words), (False,) * len(words)),),
                   epilogue=frame.epilogue(rng), segments=())


def register_operations(names, pairs):
    """Every named instruction of two registers on every pair."""
    words = []
    for a, b in pairs:
        words += [*load_immediate(10, a), *load_immediate(11, b)]
        words += [encode(name, rd=12 + place % 4, rs1=10, rs2=11) for place, name in enumerate(names)]
    return words


def immediate_operations(values):
    """Every instruction of a register and an immediate."""
    words = []
    for a in values:
        words += load_immediate(10, a)
        for name, (form, opcode, _, _) in FORMATS.items():
            if opcode in (0x13, 0x1B):
                amounts = {"shift": (0, 1, 31, 32, 63), "shiftw": (0, 1, 31)}
                words += [encode(name, rd=12, rs1=10, imm=imm)
                          for imm in amounts.get(form, (0, 1, -1, 2047, -2048))]
    for imm in (0, 1, 0x7FFFF, 0x80000, 0xFFFFF):
        words += [encode(name, rd=rd, imm=imm) for name in ("lui", "auipc") for rd in (0, 13)]
    return words


def branches(pairs):
    """Every branch on every pair; a counter shows which ways were taken."""
    words = []
    for a, b in pairs:
        words += [*load_immediate(10, a), *load_immediate(11, b)]
        for name, form in FORMATS.items():
            if form[0] == "b":
                words += [encode(name, rs1=10, rs2=11, imm=8), encode("addi", rd=12, rs1=12, imm=1)]
    return words


def accesses():
    """Every load and store at every offset of two doublewords, misaligned ones too."""
    words = load_immediate(10, 0x8182_8384_8586_8788)
    words += [encode("sd", rs1=DATA, rs2=10), encode("sd", rs1=DATA, rs2=10, imm=8)]
    for name, form in FORMATS.items():
        for offset in range(16) if form[0] == "s" or form[1] == 3 else ():
            words += [encode("addi", rd=10, rs1=10, imm=17)]
            words += [encode(name, rd=0 if form[0] == "s" else 11 * (offset & 1), rs1=DATA,
                             rs2=10 if form[0] == "s" else 0, imm=offset - 4)]
            words += [encode("ld", rd=12, rs1=DATA, imm=imm) for imm in (0, 8)] if form[0] == "s" else []
    return words


def csr_probe(addresses):
    """Read, then write with every form, every one of the addresses."""
    words = []
    for csr in addresses:
        words.append(encode("csrrs", rd=11, csr=csr))
        if csr in CUSTOM_WRITES or csr == 0x305:
            continue
        for value in (-1, 0x5555_5555_5555_5555, 0):
            words += load_immediate(10, value)
            # Interrupts stay off: what comes then is for other programs.
            words += [encode("csrrw", rd=11, rs1=10, csr=csr), encode("csrrci", rs1=8, csr=0x300)]
            words += [encode("csrrs", rd=11, csr=csr)]
        words += [encode(name, rd=11, rs1=21, csr=csr) for name in CSR_FORMS if csr not in (0x300, 0x304)]
    return words


def spike_directed():
    """(name, Program) of everything above, to be run by Spike too."""
    register_names = [name for name, form in FORMATS.items() if form[0] == "r"]
    csrs = (0x300, 0x301, 0x304, 0x305, 0x340, 0x341, 0x342, 0x343, 0x344, 0xB02, 0xF11, 0xF12, 0xF13, 0xF14,
            0xF15, 0xC02)
    yield "operations", program(register_operations(register_names, product(EDGES, EDGES)), **SPIKE_FRAME)
    yield "immediates", program(immediate_operations(EDGES), **SPIKE_FRAME)
    yield "branches", program(branches(product(EDGES, EDGES)), **SPIKE_FRAME)
    yield "accesses", program(accesses(), **SPIKE_FRAME)
    yield "csrs", program(csr_probe(csrs), **SPIKE_FRAME)
    every = [csr for csr in range(4096) if csr not in SPIKE_ONLY_CSRS]
    yield "every csr", program([encode("csrrs", rd=11, csr=csr) for csr in every], **SPIKE_FRAME)


__all__ = ["EDGES", "RAM_BYTES", "SPIKE_FRAME", "TOHOST", "accesses", "branches", "csr_probe",
           "immediate_operations", "program", "register_operations", "spike_directed"]
