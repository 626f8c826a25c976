"""The decoder against a table of encodings written in the manner of the specification's listings."""

import random

import pytest
from amaranth.hdl import Value
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.core.frontend.decode import Decoder
from hw.core.types import AluOp, BranchOp, Cause, ControlKind, Decoded, DivOp, SourceA, SystemOp, Unit

#: name, funct7 or "-", funct3 or "-", opcode, format, unit, op, narrow. "?" is any bit.
LISTING = """
lui     -       -   0110111 U  ALU      ADD   0
auipc   -       -   0010111 U  ALU      ADD   0
jal     -       -   1101111 J  ALU      ADD   0
jalr    -       000 1100111 I  BRANCH   JALR  0
beq     -       000 1100011 B  BRANCH   BEQ   0
bne     -       001 1100011 B  BRANCH   BNE   0
blt     -       100 1100011 B  BRANCH   BLT   0
bge     -       101 1100011 B  BRANCH   BGE   0
bltu    -       110 1100011 B  BRANCH   BLTU  0
bgeu    -       111 1100011 B  BRANCH   BGEU  0
lb      -       000 0000011 I  LOAD     0     0
lh      -       001 0000011 I  LOAD     1     0
lw      -       010 0000011 I  LOAD     2     0
ld      -       011 0000011 I  LOAD     3     0
lbu     -       100 0000011 I  LOAD     4     0
lhu     -       101 0000011 I  LOAD     5     0
lwu     -       110 0000011 I  LOAD     6     0
sb      -       000 0100011 S  STORE    0     0
sh      -       001 0100011 S  STORE    1     0
sw      -       010 0100011 S  STORE    2     0
sd      -       011 0100011 S  STORE    3     0
addi    -       000 0010011 I  ALU      ADD   0
slti    -       010 0010011 I  ALU      SLT   0
sltiu   -       011 0010011 I  ALU      SLTU  0
xori    -       100 0010011 I  ALU      XOR   0
ori     -       110 0010011 I  ALU      OR    0
andi    -       111 0010011 I  ALU      AND   0
slli    000000? 001 0010011 H6 ALU      SLL   0
srli    000000? 101 0010011 H6 ALU      SRL   0
srai    010000? 101 0010011 H6 ALU      SRA   0
add     0000000 000 0110011 R  ALU      ADD   0
sub     0100000 000 0110011 R  ALU      SUB   0
sll     0000000 001 0110011 R  ALU      SLL   0
slt     0000000 010 0110011 R  ALU      SLT   0
sltu    0000000 011 0110011 R  ALU      SLTU  0
xor     0000000 100 0110011 R  ALU      XOR   0
srl     0000000 101 0110011 R  ALU      SRL   0
sra     0100000 101 0110011 R  ALU      SRA   0
or      0000000 110 0110011 R  ALU      OR    0
and     0000000 111 0110011 R  ALU      AND   0
addiw   -       000 0011011 I  ALU      ADD   1
slliw   0000000 001 0011011 H5 ALU      SLL   1
srliw   0000000 101 0011011 H5 ALU      SRL   1
sraiw   0100000 101 0011011 H5 ALU      SRA   1
addw    0000000 000 0111011 R  ALU      ADD   1
subw    0100000 000 0111011 R  ALU      SUB   1
sllw    0000000 001 0111011 R  ALU      SLL   1
srlw    0000000 101 0111011 R  ALU      SRL   1
sraw    0100000 101 0111011 R  ALU      SRA   1
mul     0000001 000 0110011 R  MULTIPLY 0     0
mulh    0000001 001 0110011 R  MULTIPLY 1     0
mulhsu  0000001 010 0110011 R  MULTIPLY 2     0
mulhu   0000001 011 0110011 R  MULTIPLY 3     0
div     0000001 100 0110011 R  DIVIDE   DIV   0
divu    0000001 101 0110011 R  DIVIDE   DIVU  0
rem     0000001 110 0110011 R  DIVIDE   REM   0
remu    0000001 111 0110011 R  DIVIDE   REMU  0
mulw    0000001 000 0111011 R  MULTIPLY 0     1
divw    0000001 100 0111011 R  DIVIDE   DIV   1
divuw   0000001 101 0111011 R  DIVIDE   DIVU  1
remw    0000001 110 0111011 R  DIVIDE   REM   1
remuw   0000001 111 0111011 R  DIVIDE   REMU  1
fence   -       000 0001111 N  SYSTEM   FENCE 0
fence.i -       001 0001111 N  SYSTEM   FENCE_I 0
csrrw   -       001 1110011 C  SYSTEM   CSR   0
csrrs   -       010 1110011 C  SYSTEM   CSR   0
csrrc   -       011 1110011 C  SYSTEM   CSR   0
csrrwi  -       101 1110011 Z  SYSTEM   CSR   0
csrrsi  -       110 1110011 Z  SYSTEM   CSR   0
csrrci  -       111 1110011 Z  SYSTEM   CSR   0
"""
WORDS = {0x00000073: "ECALL", 0x00100073: "EBREAK", 0x30200073: "MRET", 0x10500073: "WFI"}
OPERATIONS = {"ALU": AluOp, "BRANCH": BranchOp, "DIVIDE": DivOp, "SYSTEM": SystemOp}


def parse(listing):
    """(mask, value, name, format, unit, op, narrow) of each line."""
    for line in listing.strip().splitlines():
        name, funct7, funct3, opcode, form, unit, op, narrow = line.split()
        pattern = (funct7.replace("-", "?" * 7) + "?" * 10 + funct3.replace("-", "?" * 3) + "?" * 5 + opcode)
        assert len(pattern) == 32
        mask = int("".join("0" if c == "?" else "1" for c in pattern), 2)
        number = int(op) if op.isdigit() else OPERATIONS[unit][op].value
        yield mask, int(pattern.replace("?", "0"), 2), name, form, Unit[unit], number, int(narrow)


TABLE = list(parse(LISTING))


def bits(word, high, low):
    return word >> low & (1 << high - low + 1) - 1


def signed(value, width):
    return value - (value >> width - 1 << width)


def immediate_of(word, form, name):
    sign = bits(word, 31, 31)
    if form == "I":
        return signed(bits(word, 31, 20), 12)
    if form == "S":
        return signed(bits(word, 31, 25) << 5 | bits(word, 11, 7), 12)
    if form == "B":
        return signed(sign << 12 | bits(word, 7, 7) << 11 | bits(word, 30, 25) << 5
                      | bits(word, 11, 8) << 1, 13)
    if form == "U":
        return signed(bits(word, 31, 12) << 12, 32)
    if form == "J":  # JAL is the addition of 4 to pc
        return 4
    return {"H6": bits(word, 25, 20), "H5": bits(word, 24, 20)}.get(form, 0)


def expected(word, pc, fault):
    """Every field of Decoded."""
    fields = dict.fromkeys((name for name, _ in data.Layout.cast(Decoded)), 0)
    fields |= {"pc": pc, "word": word, "unit": Unit.NONE.value, "target": (pc + 4) % 2**64}
    if fault:
        return fields | {"word": 0, "exception": 1, "cause": Cause.FETCH_FAULT.value, "tval": pc}
    matches = [entry for entry in TABLE if word & entry[0] == entry[1]]
    assert len(matches) <= 1
    if word in WORDS:
        assert not matches
        matches = [(0, 0, WORDS[word].lower(), "N", Unit.SYSTEM, SystemOp[WORDS[word]].value, 0)]
    if not matches:
        return fields | {"exception": 1, "cause": Cause.ILLEGAL.value, "tval": word}
    _, _, name, form, unit, op, narrow = matches[0]
    rd, rs1, rs2 = bits(word, 11, 7), bits(word, 19, 15), bits(word, 24, 20)
    link = (1, 5)
    kind = ControlKind.NONE
    if form == "B":
        kind = ControlKind.BRANCH
    elif name == "jal":
        target = (pc + signed(bits(word, 31, 31) << 20 | bits(word, 19, 12) << 12 | bits(word, 20, 20) << 11
                              | bits(word, 30, 21) << 1, 21)) % 2**64
        if target % 4:
            return fields | {"exception": 1, "cause": Cause.MISALIGNED_FETCH.value, "tval": target}
        kind = ControlKind.CALL if rd in link else ControlKind.JUMP
        fields["target"] = target
    elif name == "jalr":
        kind = (ControlKind.INDIRECT_CALL if rd in link else
                ControlKind.RETURN if rs1 in link else ControlKind.INDIRECT)
    if form not in ("S", "B", "N"):
        fields |= {"rd": rd, "writes": int(rd != 0)}
    if form in ("R", "I", "S", "B", "H5", "H6", "C"):
        fields |= {"rs1": rs1, "reads1": int(rs1 != 0)}
    if form in ("R", "S", "B"):
        fields |= {"rs2": rs2, "reads2": int(rs2 != 0)}
    fields |= {"unit": unit.value, "op": op, "narrow": narrow, "kind": kind.value,
               "immediate": immediate_of(word, form, name),
               "b_immediate": int(unit == Unit.ALU and form != "R"),
               "a": {"lui": SourceA.ZERO, "auipc": SourceA.PC, "jal": SourceA.PC}.get(
                   name, SourceA.RS1).value}
    return fields


def check(cases):
    """Decodes (word, pc, fault) of each case; returns how many were legal."""
    decoder, legal = Decoder(), 0
    places = [(name, field.offset, field.width) for name, field in data.Layout.cast(Decoded)]
    packed = Value.cast(decoder.o)

    async def bench(ctx):
        nonlocal legal
        for word, pc, fault in cases:
            ctx.set(decoder.word, word)
            ctx.set(decoder.pc, pc)
            ctx.set(decoder.fault, fault)
            found = ctx.get(packed)
            want = expected(word, pc, fault)
            legal += not want["exception"]
            number = sum((want[name] & (1 << width) - 1) << offset for name, offset, width in places)
            if found != number:
                differs = {name: (hex(found >> offset & (1 << width) - 1), hex(want[name]))
                           for name, offset, width in places
                           if found >> offset & (1 << width) - 1 != want[name] & (1 << width) - 1}
                raise AssertionError(f"word {word:#010x}, pc {pc:#x}, fault {fault}: "
                                     f"(found, expected) {differs}")

    simulator = Simulator(decoder)
    simulator.add_testbench(bench)
    simulator.run()
    return legal


def random_pc(rng):
    return rng.choice((0x8000_0000, 2**64 - 4, 0, rng.getrandbits(64))) & ~3


def test_every_opcode_funct3_and_funct7():
    rng, cases = random.Random(1), []
    for opcode in range(128):
        # No instruction of 16 bits exists: of their opcodes, every funct3 and some funct7.
        functs = range(128) if opcode & 3 == 3 else rng.sample(range(128), 8)
        cases += [(funct7 << 25 | rng.getrandbits(10) << 15 | funct3 << 12 | rng.getrandbits(5) << 7 | opcode,
                   random_pc(rng), 0) for funct3 in range(8) for funct7 in functs]
    assert len(cases) == 32 * 1024 + 96 * 64
    assert check(cases) > 5000


def test_each_instruction_with_random_and_special_fields():
    rng, cases = random.Random(2), []
    for mask, value, *_ in TABLE:
        for k in range(60):
            rest = (0, 0xFFFF_FFFF, rng.getrandbits(32) & ~0xF80, rng.getrandbits(32) & ~0xF8000)
            fields = rest[k] if k < 4 else rng.getrandbits(32)
            if k >= 30:  # link registers
                fields = fields & ~0xF8F80 | rng.choice((0, 1, 5, 7)) << 7 | rng.choice((0, 1, 5, 7)) << 15
            cases.append((fields & ~mask | value, random_pc(rng), 0))
    assert check(cases) > 60 * (len(TABLE) - 1)


def test_system_words_exactly():
    """Each of them, and every word that differs in one bit."""
    cases = [(word ^ flip, 0x8000_0000, 0) for word in WORDS for flip in (0, *(1 << k for k in range(32)))]
    assert check(cases) >= len(WORDS)
    # All of funct12 with rd and rs1 0.
    assert check([(funct12 << 20 | 0x73, 0x8000_0000, 0) for funct12 in range(4096)]) == len(WORDS)


def test_random_words_and_faults():
    rng = random.Random(3)
    cases = [(rng.getrandbits(32) | rng.choice((0, 3)), random_pc(rng), int(rng.random() < 0.1))
             for _ in range(4000)]
    assert 0 < check(cases) < 4000


@pytest.mark.parametrize("word,name", [
    (0x00000013, "nop"), (0x00100013, "hint of addi"), (0x00000037, "lui x0"), (0x40105013, "srai x0, x0, 1"),
    (0x0100000F, "pause"), (0x8330000F, "fence.tso")])
def test_hints_are_ordinary_instructions(word, name):
    assert check([(word, 0x8000_0000, 0)]) == 1, name


@pytest.mark.parametrize("word", [0x00000000, 0xFFFFFFFF, 0x0000100B, 0x00004073, 0x0000302F, 0x00002007])
def test_reserved_and_foreign_words_are_illegal(word):
    """Zero, ones, a custom opcode, SYSTEM with funct3 4, an atomic, a load of the F extension."""
    assert check([(word, 0x8000_0000, 0)]) == 0
