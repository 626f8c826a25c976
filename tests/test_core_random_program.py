"""The generator of random programs and the shrinker, on the sequential hart."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from golden.riscv.disassemble import disassemble
from golden.riscv.machine import Machine
from tb.core.encode import FORMATS, NOP, encode
from tb.core.program import RAM_BYTES
from tb.core.random_program import PROFILES, random_program
from tb.core.shrink_program import shrink


def run(program, *, injected=None, limit=200_000):
    machine = Machine(program.image(), ram_bytes=RAM_BYTES)
    records = machine.run(limit, injected)
    assert machine.devices.exit_code == 0
    return records


def interrupts(seed, rate=0.01):
    rng = random.Random(seed)
    return lambda number: 1 << rng.choice((3, 7, 11)) if rng.random() < rate else 0


@pytest.mark.parametrize("profile", PROFILES)
def test_programs_end(profile):
    for seed, timer in enumerate((0, 40, 500)):
        program = random_program(seed, size=600, profile=profile, timer=timer)
        records = run(program, injected=interrupts(seed) if seed else None)
        assert len(records) > 500
        assert any(record.intr for record in records) or not timer


def test_all_instructions_and_causes_occur():
    names, causes = Counter(), Counter()
    for seed in range(12):
        profile = ("mixed", "trap", "interrupt")[seed % 3]
        program = random_program(seed, size=800, profile=profile, timer=300)
        for record in run(program, injected=interrupts(seed)):
            names[disassemble(record.insn).split()[0]] += 1
            if record.trap or record.intr:
                causes[record.cause & 0xFF, record.intr] += 1
    assert set(FORMATS) <= set(names)
    assert {cause for cause, intr in causes if not intr} == {0, 1, 2, 3, 4, 5, 6, 7, 11}
    assert {cause for cause, intr in causes if intr} >= {3, 7, 11}


def test_same_arguments_same_program():
    one, two, other = (random_program(seed, size=300, timer=100) for seed in (1, 1, 2))
    assert one == two and one.words != other.words


def test_any_blocks_and_any_nops_make_a_program():
    rng = random.Random(6)
    whole = random_program(7, size=600, timer=200)
    for _ in range(12):
        blocks = []
        for block in rng.sample(whole.blocks, rng.randint(0, len(whole.blocks))):
            words = [NOP if free and rng.random() < 0.5 else word
                     for word, free in zip(block.words, block.free)]
            blocks.append(replace(block, words=tuple(words)))
        run(replace(whole, blocks=tuple(blocks)), injected=interrupts(6))


def test_interrupts_of_a_bench():
    records = run(random_program(4, size=600, profile="alu", interrupts=True), injected=interrupts(4))
    assert {record.cause & 0xFF for record in records if record.intr} == {3, 7, 11}
    assert not any(record.intr for record in run(random_program(4, size=600, profile="alu"),
                                                 injected=interrupts(4)))


def test_loadable_is_the_image():
    program = random_program(4, size=50)
    assert tuple((part.address, part.data) for part in program.loadable().segments) == program.image()


def test_code_is_written_over():
    program = random_program(3, size=600, profile="self_modify")
    words = {}
    for record in run(program):
        words.setdefault(record.pc_rdata, set()).add(record.insn)
    assert sum(len(seen) > 1 for seen in words.values()) > 5


def test_bad_arguments():
    for arguments, words in (
            ({"profile": "none"}, "profile"), ({"size": -1}, "size"), ({"timer": 5000}, "timer"),
            ({"timer_budget": 0}, "timer_budget"), ({"profile": {"nothing": 1}}, "profile")):
        with pytest.raises(ValueError, match=words):
            random_program(1, **arguments)
    for name, operands in (("addi", {"imm": 2048}), ("beq", {"imm": 3}), ("slliw", {"imm": 32}),
                           ("add", {"rd": 32})):
        with pytest.raises(ValueError, match=name):
            encode(name, **operands)


def planted(program):
    """Fails like a core with a wrong REMUW, and shows it only if its result is then stored by SD or SW."""
    wrong = set()
    for record in run(program):
        name = disassemble(record.insn).split()[0]
        if name in ("sd", "sw") and record.insn >> 20 & 31 in wrong:
            return record.pc_rdata < 0x8000_0000 + 4 * (len(program.words) - len(program.epilogue))
        if record.rd_addr:
            wrong.discard(record.rd_addr)
            if name == "remuw":
                wrong.add(record.rd_addr)
    return False


def test_shrink():
    program = next(program for program in (random_program(seed, size=200) for seed in range(100))
                   if planted(program))
    small = shrink(program, planted)
    assert planted(small)
    left = [word for block in small.blocks for word, free in zip(block.words, block.free)
            if free and word != NOP]
    names = [disassemble(word).split()[0] for word in left]
    assert "remuw" in names and len(left) <= 3 and len(small.blocks) <= 2
    for dropped in range(len(small.blocks)):
        assert not planted(replace(small, blocks=small.blocks[:dropped] + small.blocks[dropped + 1:]))


def test_shrink_of_what_does_not_fail():
    with pytest.raises(ValueError, match="does not fail"):
        shrink(random_program(1, size=10), lambda program: False)


def test_shrink_stops_at_its_limit():
    program, calls = random_program(1, size=2000), []

    def fails(candidate):
        calls.append(len(candidate.words))
        return len(candidate.blocks) > 3

    small = shrink(program, fails, limit=10)
    assert len(calls) == 10 and fails(small) and len(small.words) < len(program.words)
