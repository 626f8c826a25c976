"""Traps, CSRs, interrupts and the comparison of the sequential hart."""

import numpy as np
import pytest

from golden.riscv import DEVICES, RAM, RECORD, Hart, Memory, Record
from golden.riscv.csr import NAMES, is_volatile
from tb.core.encode import FORMATS, encode
from tb.core.random_program import ILLEGAL, ILLEGAL_LENGTHS

SIZE = 1 << 16
HANDLER = RAM + 0x400
M = (1 << 64) - 1


def fresh(**options):
    hart = Hart(SIZE, **options)
    hart.csrs.mtvec = HANDLER
    return hart


def put(hart, *words, pc=RAM):
    hart.memory.write(pc, b"".join(word.to_bytes(4, "little") for word in words))
    hart.pc = pc


def run(hart, word, pc=RAM, observed=None, **registers):
    put(hart, word, pc=pc)
    for name, value in registers.items():
        hart.x[int(name[1:])] = value & M
    return hart.step(observed)


def read(hart, csr):
    return run(hart, encode("csrrs", rd=31, csr=csr)).rd_wdata


def write(hart, csr, value):
    run(hart, encode("csrrw", rs1=30, csr=csr), x30=value)


def seen(**fields):
    return Record(**{**dict.fromkeys(RECORD.names, 0), **fields})


def check_trap(hart, record, cause, tval, pc=RAM):
    assert (record.trap, record.cause, record.pc_rdata, record.pc_wdata) == (1, cause, pc, HANDLER)
    assert record[7:14] == (0,) * 7, "a trap writes no register and no memory"
    assert (hart.csrs.mepc, hart.csrs.mcause, hart.csrs.mtval, hart.pc) == (pc, cause, tval & M, HANDLER)


@pytest.mark.parametrize("word", (*ILLEGAL, *ILLEGAL_LENGTHS), ids=hex)
def test_illegal(word):
    hart = fresh()
    check_trap(hart, run(hart, word), 2, word)


def test_every_hole_of_the_major_opcodes_is_illegal():
    """funct3 and funct7 of all opcodes against the words that the assembler can make."""
    legal = set()
    for form, opcode, funct3, funct7 in FORMATS.values():
        upper = {"r": [funct7], "shift": [funct7, funct7 | 1], "shiftw": [funct7]}.get(form, range(128))
        legal |= {(opcode, funct3, seven) for seven in upper} if form not in ("whole", "u", "j") else set()
    legal |= {(opcode, funct3, seven) for opcode in (0x37, 0x17, 0x6F) for funct3 in range(8)
              for seven in range(128)}
    legal |= {(0x0F, funct3, seven) for funct3 in (0, 1) for seven in range(128)}
    hart = fresh()
    compared, sevens = 0, (0, 1, 2, 4, 8, 16, 32, 33, 64, 127)
    for opcode in range(128):
        for funct3 in range(8):
            for funct7 in sevens:
                if opcode == 0x73:
                    continue
                record = run(hart, opcode | funct3 << 12 | funct7 << 25, x0=0)
                case = opcode, funct3, funct7
                assert (record.cause == 2) == (case not in legal), case
                compared += 1
    assert compared == 127 * 8 * 10


def test_system_words():
    hart = fresh()
    check_trap(hart, run(hart, encode("ecall")), 11, 0)
    check_trap(hart, run(hart, encode("ebreak"), pc=RAM + 8), 3, RAM + 8, pc=RAM + 8)
    record = run(hart, encode("wfi"))
    assert (record.trap, record.pc_wdata) == (0, RAM + 4)


@pytest.mark.parametrize("name,size", (("lb", 1), ("lh", 2), ("lw", 4), ("ld", 8),
                                       ("lbu", 1), ("lhu", 2), ("lwu", 4)))
def test_load_faults(name, size):
    hart = fresh()
    word = encode(name, rd=1, rs1=2)
    hart.x[1] = 5
    for offset in range(1, size):
        for base in (RAM + 64, 0x4000_0000):  # alignment is checked first
            check_trap(hart, run(hart, word, x2=base + offset), 4, base + offset)
    for address in (0, RAM - 8, RAM + SIZE, 1 << 40, (1 << 40) + RAM, -8, DEVICES["host"] - 8,
                    DEVICES["host"] + 0x10000):
        check_trap(hart, run(hart, word, x2=address), 5, address)
    assert hart.x[1] == 5
    assert not run(hart, word, x2=RAM + SIZE - size).trap


@pytest.mark.parametrize("name,size", (("sb", 1), ("sh", 2), ("sw", 4), ("sd", 8)))
def test_store_faults(name, size):
    hart = fresh()
    word = encode(name, rs1=2, rs2=1)
    before = hart.memory.read(RAM + 64, 64)
    for offset in range(1, size):
        check_trap(hart, run(hart, word, x1=-1, x2=RAM + 64 + offset), 6, RAM + 64 + offset)
    for address in (0, RAM - 8, RAM + SIZE, 1 << 40, (1 << 40) + RAM, -8):
        check_trap(hart, run(hart, word, x2=address), 7, address)
    assert hart.memory.read(RAM + 64, 64) == before


def test_misaligned_targets_trap_at_the_jump():
    hart = fresh()
    check_trap(hart, run(hart, encode("jal", rd=1, imm=6), x1=9), 0, RAM + 6)
    check_trap(hart, run(hart, encode("jalr", rd=1, rs1=2, imm=3), x2=RAM), 0, RAM + 2)
    check_trap(hart, run(hart, encode("beq", rs1=3, rs2=3, imm=-6)), 0, RAM - 6)
    assert hart.x[1] == 9
    assert run(hart, encode("bne", rs1=3, rs2=3, imm=-6)).pc_wdata == RAM + 4


@pytest.mark.parametrize("address", (0, RAM - 4, RAM + SIZE, 1 << 40, (1 << 40) + RAM, M - 3,
                                     DEVICES["host"]))
def test_fetch_faults(address):
    hart = fresh()
    hart.pc = address
    check_trap(hart, hart.step(), 1, address, pc=address)
    hart.pc = address
    assert hart.step(seen(order=1, insn=0x1234)).insn == 0x1234, "the word is not compared"


def test_poison():
    hart = fresh()
    hart.memory.poisoned.add(2)
    check_trap(hart, run(hart, encode("lb", rd=1, rs1=2), x2=RAM + 128), 5, RAM + 128)
    assert not run(hart, encode("ld", rd=1, rs1=2), x2=RAM + 120).trap
    assert run(hart, encode("sd", rs1=2, rs2=1), x2=RAM + 128).mem_wmask == 0xFF
    hart.pc = RAM + 128
    check_trap(hart, hart.step(), 1, RAM + 128, pc=RAM + 128)


WRITTEN = {"mstatus": (0x1888, 0x1800), "mie": (0x888, 0), "mtvec": (M - 2, 0), "mscratch": (M, 0),
           "mepc": (M - 3, 0), "mcause": (M, 0), "mtval": (M, 0), "mcountinhibit": (0xFFFF_FFFD, 0)}
"""What a write of ones and a write of zeros leaves."""


def test_csrs_exist_and_are_written_as_said():
    for csr in range(4096):
        check_csr(csr)


def check_csr(csr):
    hart = fresh()
    record = run(hart, encode("csrrs", rd=1, csr=csr))
    assert record.trap == (csr not in NAMES)
    if csr not in NAMES:
        check_trap(hart, record, 2, encode("csrrs", rd=1, csr=csr))
        return
    name = NAMES[csr]
    if csr >> 10 == 3:
        for form, source in (("csrrw", 0), ("csrrs", 1), ("csrrc", 1),
                             ("csrrwi", 0), ("csrrsi", 1), ("csrrci", 1)):
            assert run(hart, encode(form, rs1=source, csr=csr)).cause == 2
        assert not run(hart, encode("csrrc", rd=1, csr=csr)).trap
    elif name in WRITTEN:
        for value, expected in zip((M, 0), WRITTEN[name]):
            write(hart, csr, value)
            assert read(hart, csr) == expected
    elif name == "misa":
        write(hart, csr, 0)
        assert read(hart, csr) == 2 << 62 | 1 << 12 | 1 << 8


def test_csr_forms():
    for form, result in (("csrrw", 0b0011), ("csrrs", 0b0111), ("csrrc", 0b0100)):
        for suffix in ("", "i"):
            hart = fresh()
            hart.csrs.mscratch = 0b0101 if form != "csrrc" else 0b0111
            old = hart.csrs.mscratch
            record = run(hart, encode(form + suffix, rd=4, rs1=3, csr=0x340), x3=3)
            assert (record.rd_wdata, hart.csrs.mscratch) == (old, result)
    hart.csrs.mscratch = 7
    run(hart, encode("csrrw", rd=3, rs1=3, csr=0x340), x3=1)
    assert (hart.x[3], hart.csrs.mscratch) == (7, 1)
    for form in ("csrrs", "csrrc", "csrrsi", "csrrci"):
        run(hart, encode(form, csr=0x340))
        assert hart.csrs.mscratch == 1


def test_trap_stack_of_mstatus():
    hart = fresh()
    write(hart, 0x300, 8)
    run(hart, encode("ecall"))
    assert hart.csrs.mstatus == 0x1880
    run(hart, encode("ecall"))
    assert hart.csrs.mstatus == 0x1800
    write(hart, 0x300, 0x80)
    hart.csrs.mepc = RAM + 64
    assert run(hart, encode("mret")).pc_wdata == RAM + 64
    assert hart.csrs.mstatus == 0x1888


def test_minstret():
    hart = fresh()
    assert read(hart, 0xB02) == 0
    assert read(hart, 0xC02) == 1
    run(hart, encode("ecall"))
    assert read(hart, 0xB02) == 2, "an instruction that traps is not counted"
    write(hart, 0xB02, 100)
    assert read(hart, 0xB02) == 100, "nor one that writes the counter"
    write(hart, 0x320, 4)
    assert [read(hart, 0xB02) for _ in range(2)] == [101, 101]
    run(hart, encode("ecall"))
    write(hart, 0xB02, 7)
    assert read(hart, 0xB02) == 7
    write(hart, 0x320, 0)
    assert read(hart, 0xB02) == 8
    write(hart, 0xB02, M)
    assert [read(hart, 0xB02) for _ in range(2)] == [M, 0]


@pytest.mark.parametrize("csr", [csr for csr in NAMES if is_volatile(csr)])
def test_volatile_csrs_take_the_observed_value(csr):
    hart = fresh()
    value = 0x888 if csr == 0x344 else 0x1234
    record = run(hart, encode("csrrs", rd=1, csr=csr), observed=seen(rd_addr=1, rd_wdata=value))
    assert record.rd_wdata == hart.x[1] == value


def test_known_counters_are_not_volatile():
    hart = fresh(counters=2, events=23)
    for csr in (0x325, 0x33F, 0xB05, 0xB1F):
        word = encode("csrrw", rd=1, rs1=2, csr=csr)
        record = run(hart, word, x2=3, observed=seen(rd_addr=1, rd_wdata=9))
        assert record.rd_wdata == 0 and read(hart, csr) == 0
    for value, expected in ((23, 23), (24, 0), (M, 0), (1, 1)):
        write(hart, 0x324, value)
        assert read(hart, 0x324) == expected
    assert run(hart, encode("csrrs", rd=1, csr=0xB04), observed=seen(rd_addr=1, rd_wdata=9)).rd_wdata == 9


def test_devices_answer_loads():
    hart = fresh()
    for name, base in DEVICES.items():
        observed = seen(mem_rdata=0x80, rd_addr=1)
        record = run(hart, encode("lb", rd=1, rs1=2), x2=base + 0xFFFF, observed=observed)
        assert (record.rd_wdata, record.mem_rdata, record.mem_addr) == (M - 0x7F, 0x80, base + 0xFFFF), name
        ld = encode("ld", rd=1, rs1=2)
        check_trap(hart, run(hart, ld, x2=base, observed=seen(trap=1, cause=5)), 5, base)
        record = run(hart, encode("sd", rs1=2, rs2=2), x2=base, observed=seen(trap=1, cause=7))
        assert (record.trap, record.mem_wmask) == (0, 0xFF), "a store to a device never traps"
        check_trap(hart, run(hart, ld, x2=base + 4, observed=seen(mem_rdata=1)), 4, base + 4)


@pytest.mark.parametrize("number", (3, 7, 11))
@pytest.mark.parametrize("vectored", (0, 1))
def test_interrupt(number, vectored):
    hart = fresh()
    cause = 1 << 63 | number
    write(hart, 0x304, 1 << number)
    write(hart, 0x305, HANDLER + vectored)
    write(hart, 0x300, 8)
    place = HANDLER + 4 * number * vectored
    put(hart, encode("addi", rd=1, imm=3), pc=place)
    hart.pc = RAM + 0x80
    record = hart.step(seen(intr=1, cause=cause))
    assert (record.intr, record.trap, record.cause, record.pc_rdata) == (1, 0, cause, place)
    assert (record.rd_wdata, record.pc_wdata) == (3, place + 4)
    assert (hart.csrs.mepc, hart.csrs.mcause, hart.csrs.mtval) == (RAM + 0x80, cause, 0)
    assert hart.csrs.mstatus == 0x1880
    assert read(hart, 0xB02) == 4


@pytest.mark.parametrize("mstatus,mie,number,words", (
    (0, 0x888, 7, "mstatus.MIE = 0"), (8, 0x808, 7, "mie = 0x808"), (8, 0x888, 9, "not that of an interrupt"),
))
def test_an_interrupt_that_may_not_be_taken_is_a_mismatch(mstatus, mie, number, words):
    hart = fresh()
    write(hart, 0x304, mie)
    write(hart, 0x300, mstatus)
    records = np.array([seen(order=2, intr=1, cause=1 << 63 | number)], dtype=RECORD)
    assert words in hart.compare(records).reason
    hart = fresh()
    with pytest.raises(ValueError, match=words.split(" = ")[0]):
        hart.csrs.mie, hart.csrs.interrupts_on = mie, mstatus >> 3
        hart.step(seen(intr=1, cause=1 << 63 | number))


def test_first_instruction_of_a_handler_may_trap():
    hart = fresh()
    hart.csrs.mie, hart.csrs.interrupts_on = 8, 1
    put(hart, 0, pc=HANDLER)
    hart.pc = RAM
    record = hart.step(seen(intr=1, cause=1 << 63 | 3))
    assert (record.intr, record.trap, record.cause, record.pc_wdata) == (1, 1, 1 << 63 | 3, HANDLER)
    assert (hart.csrs.mcause, hart.csrs.mepc) == (2, HANDLER)


def test_lines_cause_interrupts_by_priority():
    class Lines:
        def lines(self, order):
            return 0x888

    hart = fresh(devices=Lines())
    hart.csrs.interrupts_on = 1
    for mie, number in ((0x888, 11), (0x088, 3), (0x080, 7)):
        hart.csrs.mie, hart.csrs.interrupts_on = mie, 1
        assert hart.step().cause == 1 << 63 | number
    hart.csrs.mie, hart.csrs.interrupts_on = 0, 1
    assert not hart.step().intr


def program_and_records(count=200):
    words = [encode("addi", rd=1, rs1=1, imm=1), encode("sd", rs1=2, rs2=1, imm=512),
             encode("ld", rd=3, rs1=2, imm=512), encode("jal", imm=-12)]
    harts = [fresh() for _ in range(2)]
    for hart in harts:
        put(hart, *words)
        hart.x[2] = RAM
    return harts[1], np.array([harts[0].step() for _ in range(count)], dtype=RECORD)


def test_compare_in_parts():
    hart, records = program_and_records()
    records["cycle"] += 77
    for start in range(0, 200, 37):
        assert hart.compare(records[start:start + 37]) is None
    assert (hart.order, hart.pc) == (200, int(records["pc_wdata"][-1]))
    assert hart.compare(records[:0]) is None


def test_mismatch():
    hart, records = program_and_records()
    records["rd_wdata"][110] ^= 4
    assert hart.compare(records[:90]) is None
    mismatch = hart.compare(records[90:])
    assert (mismatch.index, mismatch.fields, mismatch.reason) == (20, ("rd_wdata",), "rd_wdata differs")
    assert mismatch.got == Record(*records[110].tolist()) and mismatch.expected.order == 110
    assert [record.order for record in mismatch.history] == list(range(78, 110))


def test_mip_bits_that_do_not_exist():
    hart = fresh()
    word = encode("csrrs", rd=1, csr=0x344)
    put(hart, word)
    row = seen(insn=word, pc_rdata=RAM, pc_wdata=RAM + 4, rd_addr=1, rd_wdata=0x10)
    assert "mip" in hart.compare(np.array([row], dtype=RECORD)).reason


def test_bad_arguments():
    for size in (0, 100, 1 << 41, "64"):
        with pytest.raises(ValueError, match="size"):
            Memory(size)
    with pytest.raises(ValueError, match="address"):
        Memory(64).write(RAM + 60, bytes(8))
    with pytest.raises(ValueError, match="dtype"):
        fresh().compare(np.zeros(4))
    assert Memory(1 << 35).read(RAM + (1 << 35) - 8, 8) == bytes(8), "a large RAM costs nothing"
