"""The bench of the core, around a stand-in that follows commands: memory, host device, trace, end of runs."""

import numpy as np
import pytest

from hw.core.address import CLINT, HOST, RAM
from hw.core.config import core_preset
from sw.core.image import Image
from tb.build import Options
from tb.core.bench import core_bench
from tb.core.host import Injection
from tb.core.memory import MemoryTiming
from tb.core.run import CoreSimulator, NotEnded, run_core
from tb.simulator import SimulationError
from tests.core_stand_in import (
    CONSOLE,
    DEVICE,
    EXIT,
    INTERRUPT,
    STAND_STILL,
    WRITE,
    WRITTEN_LINE,
    StandIn,
    command,
)

RAM_BYTES = 1 << 20
SLOW = MemoryTiming(latency=20, jitter=30, interval=3, request_stall=0.3, response_stall=0.3)


@pytest.fixture(scope="module")
def simulator():
    config = core_preset("tiny")
    built = core_bench(config, name="core_stand_in", core=StandIn(config), ram_bytes=RAM_BYTES,
                       options=Options(optimise="-O1"))
    with CoreSimulator(built) as simulator:
        yield simulator


def program(*commands):
    return Image.of(b"".join(word.to_bytes(8, "little") for word in commands), name="commands")


def text(string):
    return [command(CONSOLE, ord(character)) for character in string]


@pytest.mark.parametrize("timing", [MemoryTiming(), SLOW], ids=["fixed", "random"])
def test_console_exit_and_records(simulator, timing):
    written = command(WRITE, 0x1234)
    run = run_core(simulator, program(*text("hello"), written, 0, 0, 0, command(EXIT, 7), 0, 0),
                   timing=timing, seed=3, mmio_stall=0.2, keep_records=True)
    assert run.exit_code == 7 and run.console == b"hello"
    records = run.records
    assert len(records) == run.instructions >= 9
    assert records["order"].tolist() == list(range(len(records)))
    assert records["insn"].tolist()[:6] == [*b"hello", 0x1234]
    assert records["pc_rdata"].tolist() == [RAM + 4 * n for n in range(len(records))]
    assert np.all(np.diff(records["cycle"].astype(int)) > 0) and records["cycle"][-1] <= run.cycles
    line = simulator.memory.dump(RAM + 64 * WRITTEN_LINE, 64)
    assert line == bytes(8) + written.to_bytes(8, "little") + bytes(48)
    assert run.counters["writes"] == 1 and run.counters["reads"] == 2


def test_latency_and_interval(simulator):
    """The stand-in asks for a line when it is done with the one before: eight commands and one latency."""
    cycles = {}
    for latency in (10, 90):
        run = run_core(simulator, program(*[0] * 79, command(EXIT)), timing=MemoryTiming(latency=latency))
        cycles[latency] = run.cycles
    assert cycles[90] - cycles[10] == 10 * 80


def test_same_seed_same_run(simulator):
    image = program(*text("abcdefghijklmnop"), command(EXIT, 1))
    runs = [run_core(simulator, image, timing=SLOW, mmio_stall=0.3, seed=seed) for seed in (5, 5, 6)]
    assert runs[0].cycles == runs[1].cycles != runs[2].cycles


def test_memory_is_clean_for_the_next_program(simulator):
    run_core(simulator, program(command(WRITE), command(EXIT)), max_cycles=10_000)
    run_core(simulator, program(command(EXIT)))
    assert simulator.memory.dump(RAM + 64 * WRITTEN_LINE, 64) == bytes(64)


def test_poison_and_end_of_memory(simulator):
    run = run_core(simulator, program(*[0] * 8, command(EXIT)), poison=[RAM + 64], keep_records=True,
                   max_cycles=2000, must_end=False)
    assert run.exit_code is None and run.records["trap"].tolist()[:16] == [0] * 8 + [1] * 8
    simulator.memory.clear()
    with pytest.raises(ValueError, match="8 bytes from there are not in RAM"):
        simulator.memory.load(RAM + RAM_BYTES - 4, bytes(8))


def test_chunks_are_the_whole(simulator):
    image = program(*[0] * 300, command(EXIT))
    whole = run_core(simulator, image, keep_records=True).records
    parts = []
    run = run_core(simulator, image, observe=parts.append, chunk=32)
    assert len(parts) > 5
    parts = np.concatenate(parts)
    count = min(len(whole), len(parts))
    assert count >= 300 and run.exit_code == 0
    assert np.array_equal(whole[:count], parts[:count])


def test_interrupts_are_held_until_withdrawn(simulator):
    image = program(*[command(INTERRUPT)] * 20, command(EXIT))
    rates = Injection(external=0.01, software=0.02, timer=0.005)
    run = run_core(simulator, image, injection=rates, seed=1, keep_records=True, mmio_stall=0.2)
    assert run.exit_code == 0 and sum(run.records["intr"][:20]) == 0
    assert 20 <= sum(run.counters[line] for line in ("external", "software", "timer")) < 120
    with pytest.raises(SimulationError, match="nothing was committed for 500 cycles"):
        run_core(simulator, image, hang_cycles=500)


def test_devices(simulator):
    """Time of the CLINT, the host's input, and refused loads."""
    addresses = [CLINT + 0xBFF8, HOST + 16, HOST + 64, 0x4000_0000, CLINT + 0xBFF8]
    run = run_core(simulator, program(*[command(DEVICE, address) for address in addresses], command(EXIT)),
                   keep_records=True)
    assert run.records["trap"].tolist()[:5] == [0, 0, 1, 1, 0]
    times = run.records["rd_wdata"][[0, 4]].astype(int)
    assert 0 < times[0] < times[1] < run.cycles
    assert run.records["rd_wdata"][1] == 0


def test_stuck_core_names_its_head(simulator):
    with pytest.raises(SimulationError) as caught:
        run_core(simulator, program(0, 0, command(STAND_STILL)), hang_cycles=1000)
    assert ("the core is stuck: nothing was committed for 1000 cycles; the head of its reorder buffer is "
            "age 2, pc 0x80000008, waiting for: lost response; the last of 2 instructions was 0x00000000 at "
            "0x80000004.") in str(caught.value)


def test_program_that_does_not_end(simulator):
    with pytest.raises(NotEnded, match=r"commands has not ended after [\d,]+ cycles and [\d,]+ instructions"):
        run_core(simulator, program(0), max_cycles=1000)


def test_bad_settings():
    with pytest.raises(ValueError, match="memory latency = 0: must be a whole number from 1"):
        MemoryTiming(latency=0)
    with pytest.raises(ValueError, match="memory request_stall = 1: must be at least 0 and below 1"):
        MemoryTiming(request_stall=1)
    with pytest.raises(ValueError, match="injection timer = -1: must be"):
        Injection(timer=-1)
