"""Random programs on the core in lockstep with the sequential model, one after the other.

A seed is a case: a program, the timing of the memory, stalls of devices, interrupts. To repeat one:

    python -m tb.core.campaign small 1234            (--shrink: make the program as small as fails)
"""

import argparse
import random
import sys
from dataclasses import dataclass, field, replace

from golden.riscv.disassemble import disassemble
from hw.config import preset
from hw.core.address import LINE, RAM
from hw.core.config import CoreConfig, L1Config, PredictorConfig, core_preset
from tb.build import Options
from tb.report import CheckFailure

from .bench import core_bench
from .encode import NOP
from .host import Injection
from .lockstep import run_lockstep
from .memory import MemoryTiming
from .program import LOAD_OPS, Builder, Program
from .random_program import PROFILES, random_program
from .run import CoreSimulator, NotEnded
from .shrink_program import shrink

__all__ = ["HBM", "SIZES", "Case", "Outcome", "campaign", "campaign_bench", "listing", "random_case",
           "run_case", "shrunk"]

WIDE = CoreConfig(
    width=4, alus=3, reorder_buffer=32, physical=64, checkpoints=4, queue=6, loads=8, stores=8,
    predictor=PredictorConfig(counters=64, history=6, targets=16, returns=4, sets=4, ways=2, fetch_bytes=32,
                              buffer=16),
    l1=L1Config(banks=4, sets=2, ways=2, mshrs=4, streams=2, prefetch_mshrs=2))

SIZES = {**{name: core_preset(name) for name in ("tiny", "small", "full")}, "wide": WIDE}
"""Cores by name: the presets, and one that is as wide as the largest with structures that are soon full."""

TIMINGS = (
    MemoryTiming(), MemoryTiming(latency=1), MemoryTiming(latency=20, jitter=20),
    MemoryTiming(latency=3, jitter=60, interval=2, request_stall=0.3, response_stall=0.3),
    MemoryTiming(latency=150, jitter=10, interval=6, places=3),
    MemoryTiming(latency=8, request_stall=0.9, response_stall=0.05),
    MemoryTiming(latency=8, request_stall=0.05, response_stall=0.9))
INTERRUPTS = ({"external": 0.5}, {"external": 0.1, "software": 0.1, "timer": 0.1}, {"software": 1.0},
              {"timer": 0.05})
"""Rates of injected interrupts a request of the memory: so that a program still gets on between two."""

HBM = preset("small").tile.hbm
"""The slice of the runs on RTL of the memory too."""

POISONED = range(RAM + (32 << 20), RAM + (32 << 20) + 64 * LINE, LINE)
"""Lines that programs read and never write; some of them are poisoned."""

MAX_CYCLES = 3_000_000
HANG_CYCLES = 20_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program and what is random around it."""

    seed: int
    program: Program
    timing: MemoryTiming | None
    injection: Injection
    mmio_stall: float
    poison: tuple = ()


def random_case(seed, *, profile=None, hbm=False, poisoned=None):
    """The Case of a seed; ``hbm``: for a bench with an HBM slice, which has its own timing."""
    rng = random.Random(f"core {seed}")
    profile = profile or list(PROFILES)[seed % len(PROFILES)]
    timing = rng.choice(TIMINGS)
    slow = 20 + 2 * timing.latency + timing.jitter + 20 * timing.interval
    rates = rng.choice(INTERRUPTS) if rng.random() < 0.5 else {}
    injection = Injection(**{name: rate / slow for name, rate in rates.items()})
    timer = rng.choice((0, 0, 30, 100, 700))
    program = random_program(seed, size=rng.choice((150, 400, 1000)), profile=profile, timer=timer,
                             interrupts=injection != Injection() or rng.random() < 0.2)
    poison = ()
    if not hbm and (rng.random() < 0.3 if poisoned is None else poisoned):
        poison = tuple(rng.sample(POISONED, len(POISONED) // 3))
        program = with_reads(program, rng, POISONED)
    return Case(seed=seed, program=program, timing=None if hbm else timing, injection=injection,
                mmio_stall=rng.choice((0.0, 0.0, 0.4)), poison=poison)


def with_reads(program, rng, lines):
    """The program with loads from these lines among its blocks, and their contents."""
    blocks = list(program.blocks)
    for _ in range(max(4, len(blocks) // 6)):
        b = Builder(rng)
        pointer = b.register(zero=0)
        b.immediate(pointer, rng.choice(lines))
        for _ in range(rng.randint(1, 4)):
            name, size = rng.choice(tuple(LOAD_OPS.items()))
            b.put(name, free=True, rd=b.register(pointer), rs1=pointer, imm=rng.randrange(0, 2 * LINE, size))
            b.plain(pointer)
        blocks.insert(rng.randrange(len(blocks) + 1), b.block("poison"))
    segment = (lines[0], rng.randbytes(len(lines) * LINE))
    return replace(program, blocks=tuple(blocks), segments=(*program.segments, segment))


def campaign_bench(size, *, log=None, **parts):
    """The build of a core of SIZES; ``parts`` as of tb.core.bench.CoreBench."""
    # Of `small`, the builds that scripts/figures/core_programs.py has too.
    name, optimise = (f"core_{size}_hbm", "-O0") if "hbm" in parts else (f"core_{size}", "-O1")
    return core_bench(SIZES[size], name=name, options=Options(optimise=optimise), log=log, **parts)


def run_case(simulator, case, *, command=None, hang_cycles=HANG_CYCLES):
    """Run a case; (CoreRun, records compared), or CheckFailure with ``command`` as what repeats it."""
    image = case.program.loadable()
    try:
        run, compared = run_lockstep(
            simulator, image, seed=case.seed, command=command, timing=case.timing, poison=case.poison,
            injection=case.injection, mmio_stall=case.mmio_stall, max_cycles=MAX_CYCLES,
            hang_cycles=hang_cycles, must_compare=1)
    except NotEnded as error:
        raise AssertionError(f"{error}; repeat: {command}") from error
    if run.exit_code != 0 or compared != run.instructions:
        raise AssertionError(f"{image.name}: exit code {run.exit_code}, {compared} of {run.instructions} "
                             f"instructions compared; repeat: {command}")
    return run, compared


def shrunk(simulator, case, *, limit=400):
    """The Case with as little of its program as still fails."""
    def fails(program):
        try:
            run_case(simulator, replace(case, program=program), hang_cycles=3000)
        except AssertionError:
            return True
        return False
    return replace(case, program=shrink(case.program, fails, limit=limit))


def listing(program):
    """The words of a program's blocks, as text."""
    address, lines = RAM + 4 * len(program.prologue), []
    for block in program.blocks:
        for word in block.words:
            if word != NOP:
                lines.append(f"{address:x}  {word:08x}  {disassemble(word)}".expandtabs(8))
            address += 4
    return "\n".join(lines)


@dataclass(kw_only=True)
class Outcome:
    """Programs run, records compared, cycles and seconds they took, interrupts taken; ``failures``: by seed,
    what was wrong."""

    programs: int = 0
    compared: int = 0
    cycles: int = 0
    seconds: float = 0.0
    interrupts: int = 0
    failures: dict = field(default_factory=dict)


def campaign(simulator, size, instructions, *, first_seed=0, keep_going=False, hbm=False, told=None):
    """Run seeds from ``first_seed`` on until so many instructions have been compared.

    Parameters
    ----------
    size : str
        Key of SIZES, for the command that repeats a failure.
    keep_going : bool
        Collect failures; else the first is raised.
    told : callable, optional
        Called with the Outcome after each program.
    """
    outcome, seed = Outcome(), first_seed
    while outcome.compared < instructions and len(outcome.failures) < 20:
        command = f"python -m tb.core.campaign {size}{' --hbm' if hbm else ''} {seed}"
        try:
            run, compared = run_case(simulator, random_case(seed, hbm=hbm), command=command)
        except AssertionError as error:
            if not keep_going:
                raise
            outcome.failures[seed] = str(error)
            if isinstance(error, CheckFailure):
                outcome.compared += error.report.compared
        else:
            outcome.compared += compared
            outcome.cycles += run.cycles
            outcome.seconds += run.seconds
            outcome.interrupts += sum(run.counters[name] for name in ("external", "software", "timer"))
        outcome.programs += 1
        seed += 1
        if told:
            told(outcome)
    return outcome


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tb.core.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--instructions", type=int, default=1, metavar="N",
                        help="go on with the next seeds until N instructions were compared")
    parser.add_argument("--hbm", action="store_true", help="on an HBM slice with its devices")
    parser.add_argument("--shrink", action="store_true", help="make a failing program small and show it")
    options = parser.parse_args(arguments)
    parts = {"hbm": HBM} if options.hbm else {}
    with CoreSimulator(campaign_bench(options.size, log=lambda line: print(line, file=sys.stderr),
                                      **parts)) as simulator:
        if options.shrink:
            try:
                case = shrunk(simulator, random_case(options.seed, hbm=options.hbm))
                print(listing(case.program))
                run_case(simulator, case)
            except (AssertionError, ValueError) as error:  # as it fails, or that it does not
                print(error)
            return 1
        outcome = campaign(simulator, options.size, options.instructions, first_seed=options.seed,
                           keep_going=True, hbm=options.hbm)
    for seed, text in outcome.failures.items():
        print(f"{text}\nThe same with a small program: python -m tb.core.campaign {options.size}"
              f"{' --hbm' if options.hbm else ''} {seed} --shrink")
    print(f"{outcome.programs} programs, {outcome.compared:,} instructions compared in {outcome.cycles:,} "
          f"cycles and {outcome.seconds:.1f} s, {outcome.interrupts} interrupts injected, "
          f"{len(outcome.failures)} programs failed")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
