"""Programs on a core for the figures: the bench of `small`, and what a program's console says."""

import math
from dataclasses import dataclass

from hw.config import preset
from hw.core.config import core_preset
from sw.core.compile import compile_program
from sw.core.image import read_elf
from tb.build import Options
from tb.core.bench import core_bench
from tb.core.memory import MemoryTiming
from tb.core.run import run_core

#: What programs print after "name events" (sw/core/runtime/core.h).
EVENTS = ("branches", "mispredicts", "load_misses", "icache_misses", "frontend", "execute", "load", "store")

#: Of the memory double: about what an idle HBM slice takes, and its bandwidth.
TIMING = MemoryTiming(latency=80, interval=4)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measured pass of a program: cycles, instructions, and its events by name."""

    cycles: int
    instructions: int
    events: dict

    @property
    def ipc(self) -> float:
        """Instructions a cycle."""
        return self.instructions / self.cycles


def small_bench(*, hbm: bool = False):
    """The build of `small`, with the memory double or with the HBM slice of the preset `small`."""
    parts = {"hbm": preset("small").tile.hbm} if hbm else {}
    return core_bench(core_preset("small"), name="core_small_hbm" if hbm else "core_small",
                      options=Options(optimise="-O0" if hbm else "-O1"), **parts)


def run_program(simulator, name: str, *, timing: MemoryTiming | None = TIMING, **defines) -> Measured:
    """What a program of sw/programs measures.

    Raises
    ------
    ValueError
        It did not find its own result right, or printed something else.
    """
    image = read_elf(compile_program(name, defines=defines), ram_bytes=simulator.built.ram_bytes)
    timing = None if simulator.built.hbm else timing
    run = run_core(simulator, image, timing=timing, max_cycles=3_000_000)
    said = run.console.decode(errors="replace")
    words = [line.split() for line in said.splitlines()]
    if run.exit_code or [len(line) for line in words] != [3, 2 + len(EVENTS)]:
        raise ValueError(f"{name} ended with {run.exit_code} and said {said!r}")
    cycles, instructions = map(int, words[0][1:])
    return Measured(cycles=cycles, instructions=instructions,
                    events=dict(zip(EVENTS, map(int, words[1][2:]), strict=True)))


def geomean(values) -> float:
    """Geometric mean."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))
