"""Every instruction of the sequential hart against integers computed another way."""

import math
import random
from fractions import Fraction
from itertools import product

import pytest

from golden.riscv import RAM, Hart
from tb.core.encode import FORMATS, encode, load_immediate
from tests.riscv_directed import EDGES

SIZE = 1 << 16
U, W = 1 << 64, 1 << 32


def s64(value):
    return (value + U // 2) % U - U // 2


def s32(value):
    return (value + W // 2) % W - W // 2


def quotient(a, b):
    return math.trunc(Fraction(a, b)) if b else -1


def remainder(a, b):
    return a - b * quotient(a, b) if b else a


REGISTER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a * 2 ** (b % 64),
    "slt": lambda a, b: s64(a) < s64(b),
    "sltu": lambda a, b: a % U < b % U,
    "xor": lambda a, b: (a | b) - (a & b),
    "srl": lambda a, b: a % U // 2 ** (b % 64),
    "sra": lambda a, b: s64(a) // 2 ** (b % 64),
    "or": lambda a, b: a + b - (a & b),
    "and": lambda a, b: ~(~a | ~b),
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: s64(a) * s64(b) // U,
    "mulhsu": lambda a, b: s64(a) * (b % U) // U,
    "mulhu": lambda a, b: (a % U) * (b % U) // U,
    "div": lambda a, b: quotient(s64(a), s64(b)),
    "divu": lambda a, b: quotient(a % U, b % U),
    "rem": lambda a, b: remainder(s64(a), s64(b)),
    "remu": lambda a, b: remainder(a % U, b % U),
    "addw": lambda a, b: s32(a + b),
    "subw": lambda a, b: s32(a - b),
    "sllw": lambda a, b: s32(a * 2 ** (b % 32)),
    "srlw": lambda a, b: s32(a % W // 2 ** (b % 32)),
    "sraw": lambda a, b: s32(a) // 2 ** (b % 32),
    "mulw": lambda a, b: s32(a * b),
    "divw": lambda a, b: s32(quotient(s32(a), s32(b))),
    "divuw": lambda a, b: s32(quotient(a % W, b % W)),
    "remw": lambda a, b: remainder(s32(a), s32(b)),
    "remuw": lambda a, b: s32(remainder(a % W, b % W)),
}
IMMEDIATE = {"addi": "add", "slti": "slt", "sltiu": "sltu", "xori": "xor", "ori": "or", "andi": "and",
             "slli": "sll", "srli": "srl", "srai": "sra", "addiw": "addw", "slliw": "sllw", "srliw": "srlw",
             "sraiw": "sraw"}
BRANCH = {"beq": lambda a, b: a % U == b % U, "bne": lambda a, b: a % U != b % U,
          "blt": lambda a, b: s64(a) < s64(b), "bge": lambda a, b: s64(a) >= s64(b),
          "bltu": lambda a, b: a % U < b % U, "bgeu": lambda a, b: a % U >= b % U}


def pairs():
    rng = random.Random(4)
    numbers = [rng.getrandbits(rng.randint(1, 64)) for _ in range(40)]
    return [*product(EDGES, EDGES), *zip(numbers, reversed(numbers)), *product(numbers[:4], EDGES)]


@pytest.fixture
def hart():
    return Hart(SIZE)


def run(hart, word, *, pc=RAM, **registers):
    """The Record of one word, with registers x1=..., and memory as it is."""
    hart.memory.write(pc, word.to_bytes(4, "little"))
    hart.pc = pc
    for name, value in registers.items():
        hart.x[int(name[1:])] = value % U
    return hart.step()


def test_every_instruction_is_in_one_of_the_tables():
    kinds = {name for name, form in FORMATS.items() if form[0] in ("r", "i", "shift", "shiftw", "b")}
    loads = {name for name, form in FORMATS.items() if form[1] == 3}
    assert kinds == {*REGISTER, *IMMEDIATE, *BRANCH, *loads, "jalr"}


@pytest.mark.parametrize("name", REGISTER)
def test_register(hart, name):
    word = encode(name, rd=3, rs1=1, rs2=2)
    for a, b in pairs():
        record = run(hart, word, x1=a, x2=b)
        expected = int(REGISTER[name](a, b)) % U
        assert (record.rd_addr, record.rd_wdata, hart.x[3]) == (3, expected, expected), (a, b)
        assert record.pc_wdata == RAM + 4 and not record.trap


@pytest.mark.parametrize("name", IMMEDIATE)
def test_immediate(hart, name):
    limits = {"shift": range(64), "shiftw": range(32)}.get(FORMATS[name][0],
                                                          (0, 1, -1, 5, 2047, -2048, 1024, -1025))
    for imm in limits:
        word = encode(name, rd=3, rs1=1, imm=imm)
        for a in EDGES:
            assert run(hart, word, x1=a).rd_wdata == int(REGISTER[IMMEDIATE[name]](a, imm)) % U, (a, imm)


@pytest.mark.parametrize("name", BRANCH)
def test_branch(hart, name):
    for distance in (8, -8, 4094 - 2, -4096):
        pc = RAM + 8192
        word = encode(name, rs1=1, rs2=2, imm=distance)
        for a, b in pairs():
            record = run(hart, word, pc=pc, x1=a, x2=b)
            assert record.pc_wdata == hart.pc == pc + (distance if BRANCH[name](a, b) else 4), (a, b)
            assert record.rd_addr == 0


@pytest.mark.parametrize("imm", (0, 1, 0x7FFFF, 0x80000, 0xFFFFF))
def test_upper(hart, imm):
    assert run(hart, encode("lui", rd=3, imm=imm)).rd_wdata == s32(imm * 4096) % U
    assert run(hart, encode("auipc", rd=3, imm=imm), pc=RAM + 64).rd_wdata == (RAM + 64 + s32(imm * 4096)) % U


def test_jumps(hart):
    for distance in (8, -8, (1 << 20) - 4, -(1 << 20), 2048, 4096):
        record = run(hart, encode("jal", rd=1, imm=distance), pc=RAM + 16)
        assert (record.pc_wdata, record.rd_wdata) == ((RAM + 16 + distance) % U, RAM + 20)
    for base, offset in ((RAM, 8), (RAM + 1, 8), (RAM + 8, -7), (0, -4), (U - 4, 8)):
        record = run(hart, encode("jalr", rd=5, rs1=1, imm=offset), x1=base)
        assert (record.pc_wdata, record.rd_wdata) == ((base + offset) % U // 2 * 2, RAM + 4)
    record = run(hart, encode("jalr", rd=1, rs1=1, imm=4), x1=RAM + 64)
    assert (record.pc_wdata, hart.x[1]) == (RAM + 68, RAM + 4)


LOADS = {"lb": (1, True), "lh": (2, True), "lw": (4, True), "ld": (8, True), "lbu": (1, False),
         "lhu": (2, False), "lwu": (4, False)}


@pytest.mark.parametrize("name", LOADS)
def test_load(hart, name):
    size, signed = LOADS[name]
    data = random.Random(name).randbytes(64)
    hart.memory.write(RAM + 1024, data)
    for offset in range(0, 64, size):
        record = run(hart, encode(name, rd=3, rs1=1, imm=offset - 32), x1=RAM + 1024 + 32)
        part = data[offset:offset + size]
        assert record.rd_wdata == int.from_bytes(part, "little", signed=signed) % U
        assert record.mem_rdata == int.from_bytes(part, "little")
        assert (record.mem_addr, record.mem_rmask) == (RAM + 1024 + offset, 2 ** size - 1)
        assert record.mem_wmask == record.mem_wdata == 0
    record = run(hart, encode(name, rd=0, rs1=1), x1=RAM + 1024)
    assert (record.rd_addr, record.rd_wdata, hart.x[0]) == (0, 0, 0)
    assert record.mem_rdata == int.from_bytes(data[:size], "little")


@pytest.mark.parametrize("name,size", (("sb", 1), ("sh", 2), ("sw", 4), ("sd", 8)))
def test_store(hart, name, size):
    value = 0x8877_6655_4433_2211
    for offset in range(0, 64, size):
        hart.memory.write(RAM + 1024, bytes(64))
        record = run(hart, encode(name, rs1=1, rs2=2, imm=offset - 32), x1=RAM + 1024 + 32, x2=value)
        part = value.to_bytes(8, "little")[:size]
        assert hart.memory.read(RAM + 1024, 64) == bytes(offset) + part + bytes(64 - offset - size)
        assert record.mem_wdata == int.from_bytes(part, "little")
        assert (record.mem_addr, record.mem_wmask) == (RAM + 1024 + offset, 2 ** size - 1)
        assert record.mem_rmask == record.mem_rdata == 0


def test_x0_stays_0(hart):
    for name, (form, *_) in FORMATS.items():
        if form in ("r", "i", "shift", "shiftw", "u", "j") and name not in LOADS:
            record = run(hart, encode(name, rd=0, rs1=1, rs2=2, imm=4), x1=RAM + 64, x2=3)
            assert (record.rd_addr, record.rd_wdata, hart.x[0], record.trap) == (0, 0, 0, 0), name


def test_fences_of_any_fields_do_nothing(hart):
    for word in (0x0FF0000F, 0x0000000F, 0x8330000F, 0x0100000F, 0xFFFF8F8F, 0x0000100F, 0xFFFF9F8F):
        record = run(hart, word)
        assert (record.trap, record.rd_addr, record.pc_wdata) == (0, 0, RAM + 4), hex(word)


def test_load_immediate(hart):
    rng = random.Random(5)
    for value in (*EDGES, *(rng.getrandbits(64) for _ in range(100)), 0x7FFF_FFFF, 0x7FFF_F800, 2048):
        for place, word in enumerate(load_immediate(7, value)):
            run(hart, word, pc=RAM + 4 * place)
        assert hart.x[7] == value % U


def test_code_that_was_written_over_is_executed_as_it_is(hart):
    assert run(hart, encode("addi", rd=1, imm=5)).rd_wdata == 5
    assert run(hart, encode("addi", rd=1, imm=6)).rd_wdata == 6
    store = encode("sw", rs1=2, rs2=3, imm=4)
    run(hart, store, x2=RAM, x3=encode("addi", rd=1, imm=7))
    assert hart.step().rd_wdata == 7
