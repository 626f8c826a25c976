"""The comparison of the core with the model: a whole program, and how a difference is told."""

import pytest

from hw.core.config import core_preset
from sw.core.compile import compile_program
from sw.core.image import Image, read_elf
from tb.core.bench import core_bench
from tb.core.host import Injection
from tb.core.konata import konata_log
from tb.core.lockstep import Lockstep, run_lockstep
from tb.core.memory import MemoryTiming
from tb.core.run import CoreSimulator
from tb.report import CheckFailure


@pytest.fixture(scope="module")
def simulator():
    with CoreSimulator(core_bench(core_preset("tiny"))) as simulator:
        yield simulator


def test_program_runs_as_the_model_has_it(simulator):
    image = read_elf(compile_program("hello"), ram_bytes=simulator.built.ram_bytes)
    run, compared = run_lockstep(simulator, image, pipe_events=5000)
    assert run.exit_code == 0 and run.console.startswith(b"hello from the slice core\n")
    assert compared == run.instructions > 5000
    lines = konata_log(run.pipe)
    kinds = [line.rsplit("\t", 1)[1] for line in lines if line.startswith("R\t")]
    assert kinds.count("0") > 300 and "1" in kinds


def test_stalls_change_the_cycles_and_nothing_else(simulator):
    image = read_elf(compile_program("hello"), ram_bytes=simulator.built.ram_bytes)
    stalls = MemoryTiming(latency=5, jitter=60, interval=2, request_stall=0.3, response_stall=0.3)
    runs = [run_lockstep(simulator, image, seed=seed, timing=stalls, mmio_stall=0.4)[0] for seed in (1, 2)]
    assert runs[0].console == runs[1].console and runs[0].cycles != runs[1].cycles


def test_interrupt_that_the_program_did_not_enable_is_not_taken(simulator):
    image = read_elf(compile_program("hello"), ram_bytes=simulator.built.ram_bytes)
    run, _ = run_lockstep(simulator, image, injection=Injection(external=0.01, timer=0.01), seed=3)
    assert run.exit_code == 0 and run.counters["external"] == run.counters["timer"] == 1


def test_first_difference_is_a_sentence_with_history(simulator):
    # addi, addi, add, sub, and a jump to itself
    words = [0x00500093, 0x00700113, 0x002081B3, 0x40208233, 0x0000006F]
    lockstep = Lockstep(Image.of(words), ram_bytes=simulator.built.ram_bytes)
    wrong = [*words]
    wrong[2] = 0x022081B3  # mul in place of add: another word and another value
    with pytest.raises(CheckFailure) as caught:
        _run_against(simulator, Image.of(wrong), lockstep)
    report = caught.value.report
    sentence = str(caught.value)
    assert ("lockstep with golden.riscv, core program (seed 0, simulator seed 1): instruction 2 at "
            "0x80000008 (mul gp, ra, sp), committed in cycle ") in sentence
    assert "insn is 0x22081b3, expected 0x2081b3; rd_wdata is 0x23, expected 0xc." in sentence
    lines = sentence.splitlines()
    assert lines[1] == "The last 2 commits, equal in both, then that of each:"
    assert "addi ra, zero, 5" in lines[2] and "ra = 0x5" in lines[2] and lines[2].startswith("  both ")
    assert "mul gp, ra, sp" in lines[4] and lines[4].startswith("  core ")
    assert "add gp, ra, sp" in lines[5] and lines[5].startswith("  model ")
    assert report.compared == 2 and 0 < report.cycle < report.wave_cycle
    assert report.wave_command().startswith("JALAPENO_WAVES=1 ")


def _run_against(simulator, image, lockstep):
    """run_lockstep with a model of its own."""
    import tb.core.lockstep as module
    original = module.Lockstep
    module.Lockstep = lambda *_, **__: lockstep
    try:
        run_lockstep(simulator, image, max_cycles=2000)
    finally:
        module.Lockstep = original


def test_too_little_compared_is_a_failure(simulator):
    image = read_elf(compile_program("hello"), ram_bytes=simulator.built.ram_bytes)
    with pytest.raises(CheckFailure, match=r"[\d]+ instructions were compared, at least 1000000 have to be"):
        run_lockstep(simulator, image, must_compare=1_000_000)
