"""The disassembler against a table, the assembler of the tests, and LLVM's if that is at hand."""

import random
import shutil
import subprocess

import pytest

from golden.riscv import Hart
from golden.riscv.csr import NAMES
from golden.riscv.disassemble import REGISTERS, disassemble
from golden.riscv.execute import compile_word
from tb.core.encode import FORMATS, encode
from tb.core.random_program import ILLEGAL, ILLEGAL_LENGTHS

TABLE = {
    0x00B50533: "add a0, a0, a1", 0x40C5D5B3: "sra a1, a1, a2", 0x02E7D7BB: "divuw a5, a5, a4",
    0xFFF00093: "addi ra, zero, -1", 0x43F35313: "srai t1, t1, 63", 0x41F3539B: "sraiw t2, t1, 31",
    0xFE843783: "ld a5, -24(s0)", 0x7E112FA3: "sw ra, 2047(sp)", 0x800000B7: "lui ra, 524288",
    0x00000297: "auipc t0, 0", 0xFE0FCEE3: "blt t6, zero, -4", 0x0000006F: "jal zero, 0",
    0x00008067: "jalr zero, 0(ra)", 0x0FF0000F: "fence iorw, iorw", 0x0000100F: "fence.i",
    0x0000000F: "fence 0, 0", 0x8330000F: "fence.tso", 0x30200073: "mret", 0x10500073: "wfi",
    0x00000073: "ecall", 0x00100073: "ebreak", 0x300415F3: "csrrw a1, mstatus, s0",
    0xB0202573: "csrrs a0, minstret, zero", 0x3447F073: "csrrci zero, mip, 15",
    0x5C002573: "csrrs a0, 0x5c0, zero", 0x00000000: ".word 0x00000000",
}


def random_words(count):
    """Words of every instruction with random fields."""
    rng = random.Random(3)
    for name in sorted(FORMATS):
        for _ in range(count):
            form = FORMATS[name][0]
            low, high, step = {
                "b": (-4096, 4094, 2), "j": (-(1 << 20), (1 << 20) - 2, 2), "u": (0, (1 << 20) - 1, 1),
                "shift": (0, 63, 1), "shiftw": (0, 31, 1)}.get(form, (-2048, 2047, 1))
            yield name, encode(name, rd=rng.randrange(32), rs1=rng.randrange(32), rs2=rng.randrange(32),
                               imm=rng.randrange(low, high + 1, step), csr=rng.choice(list(NAMES)))


def test_table():
    assert {word: disassemble(word) for word in TABLE} == TABLE


def test_targets_are_addresses_if_the_place_is_known():
    assert disassemble(0xFE0FCEE3, 0x80000010) == "blt t6, zero, 0x8000000c"
    assert disassemble(0x0080006F, 0x80000010) == "jal zero, 0x80000018"


def test_names_of_all_instructions():
    for name, word in random_words(20):
        assert disassemble(word).split()[0] == name
    assert len(set(REGISTERS)) == 32


@pytest.mark.parametrize("word", (*ILLEGAL, *ILLEGAL_LENGTHS), ids=hex)
def test_illegal_words_are_words(word):
    assert disassemble(word) == f".word {word:#010x}"


def test_what_is_shown_as_a_word_is_what_traps_as_illegal():
    rng = random.Random(8)
    words = [rng.getrandbits(32) | 3 for _ in range(3000)]
    words += [word ^ 1 << rng.randrange(32) for _, word in random_words(20)]
    hart, illegal = Hart(64), 0
    for word in words:
        record = compile_word(hart, word)(0, 0x8000_0000, (0,) * 14)
        text = disassemble(word)
        shown = text.startswith(".word")
        unknown_csr = text.startswith("csr") and record[4] == 1
        assert shown == (record[4] == 1 and record[6] == 2 and not unknown_csr), text
        illegal += shown
    assert 500 < illegal < len(words) - 500


def test_against_llvm():
    if not shutil.which("llvm-mc"):
        pytest.skip("llvm-mc is not installed; the table above stands in for it")
    words = [word for _, word in random_words(20)]
    text = "\n".join(" ".join(f"{byte:#04x}" for byte in word.to_bytes(4, "little")) for word in words)
    done = subprocess.run(["llvm-mc", "--disassemble", "-triple=riscv64", "-mattr=+m", "-M", "no-aliases"],
                          input=text, capture_output=True, text=True, timeout=60, check=True)
    theirs = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip() != ".text"]
    assert len(theirs) == len(words)
    for word, their in zip(words, theirs):
        assert disassemble(word) == their, hex(word)
