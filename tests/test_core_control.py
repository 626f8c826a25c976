"""The registers of the L1 as software uses them, on the RTL of a core."""

import pytest

from hw.core.address import CONTROL, HOST, RAM
from hw.core.config import core_preset
from hw.core.l1.control import Offset
from sw.core.image import Image
from tb.build import Options
from tb.core.bench import core_bench
from tb.core.encode import encode
from tb.core.memory import MemoryTiming
from tb.core.run import CoreSimulator, run_core

BASE, DATA = 5, 6  # registers of the programs
VALUE = 0x5A5
PLACE = RAM + 0x1000


@pytest.fixture(scope="module")
def simulator():
    with CoreSimulator(core_bench(core_preset("tiny"), name="core_tiny",
                                  options=Options(optimise="-O0"))) as simulator:
        yield simulator


def set_up():
    return [encode("auipc", rd=DATA, imm=1), encode("lui", rd=BASE, imm=CONTROL >> 12)]


def set_register(offset, value):
    """Store ``value`` (a number below 2048, or the register that has DATA)."""
    if value == "data":
        return [encode("sd", rs1=BASE, rs2=DATA, imm=offset.value)]
    return [encode("addi", rd=7, imm=value), encode("sd", rs1=BASE, rs2=7, imm=offset.value)]


def exit_with(register):
    return [encode("lui", rd=31, imm=HOST >> 12), encode("sd", rs1=31, rs2=register, imm=8), encode("jal")]


def run(simulator, words, name):
    return run_core(simulator, Image.of(words, name=name), max_cycles=20_000, hang_cycles=2_000,
                    timing=MemoryTiming(latency=40))


@pytest.mark.parametrize("operation,in_memory,after", [
    (0, VALUE, VALUE), (1, VALUE, VALUE), (2, 0, 0)], ids=["clean", "flush", "invalidate"])
def test_maintenance(simulator, operation, in_memory, after):
    """What was stored is in memory after a clean or flush, and lost by an invalidate."""
    words = [
        *set_up(), encode("addi", rd=8, imm=VALUE), encode("sd", rs1=DATA, rs2=8), encode("fence"),
        *set_register(Offset.ADDRESS, "data"), *set_register(Offset.BYTES, 64),
        *set_register(Offset.OPERATION, operation),
        encode("ld", rd=9, rs1=BASE, imm=Offset.OPERATION.value), encode("bne", rs1=9, imm=-4),
        encode("ld", rd=10, rs1=DATA), *exit_with(10),
    ]
    found = run(simulator, words, "maintenance")
    assert found.exit_code == after
    assert int.from_bytes(simulator.memory.dump(PLACE, 8), "little") == in_memory


def test_prefetch_counts_its_end(simulator):
    """Four rows of 64 bytes, 128 apart; then a load of the last one hits."""
    words = [
        *set_up(), *set_register(Offset.ADDRESS, "data"), *set_register(Offset.BYTES, 64),
        *set_register(Offset.ROWS, 2), *set_register(Offset.STRIDE, 128), *set_register(Offset.PREFETCH, 3),
        encode("ld", rd=9, rs1=BASE, imm=Offset.DONE.value), encode("srli", rd=9, rs1=9, imm=12),
        encode("beq", rs1=9, imm=-8),
        encode("addi", rd=11, imm=0x123), encode("ld", rd=10, rs1=DATA, imm=128), *exit_with(9),
    ]
    found = run(simulator, words, "prefetch")
    assert found.exit_code == 1
    before = found.counters["reads"]
    # Without the load the same lines are read: it found its line in the L1.
    without = [word if word != encode("ld", rd=10, rs1=DATA, imm=128) else encode("addi") for word in words]
    assert run(simulator, without, "prefetch").counters["reads"] == before
