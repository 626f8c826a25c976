"""`jalapeno run`: a program on the RTL of the slice core; its console, exit code, pipeline log and wave."""

import dataclasses
import sys
from pathlib import Path

import click

from scripts.options import OutputFile, overridden
from scripts.report import json_option, print_json, progress

TRACE_EVENTS = 2_000_000


class ProgramFile(click.ParamType):
    """An ELF file, or the name of a program of sw/programs, which is then compiled."""

    name = "program"

    def convert(self, value, param, ctx):
        from sw.core.compile import programs
        if value in programs() or Path(value).is_file():
            return value
        self.fail(f"{value!r} is neither a file nor one of {', '.join(programs())}", param, ctx)


def chosen_core(name, overrides):
    """The CoreConfig of ``--preset`` and ``--set``; ValueError if there is none."""
    from hw.core.config import core_preset
    return overridden(core_preset(name), overrides, fields="a field of the core")


@click.command()
@click.argument("program", type=ProgramFile())
@click.option("--preset", "preset_name", default="small", show_default=True,
              help="Named configuration of the core: tiny, small, full.")
@click.option("--set", "overrides", multiple=True, metavar="FIELD=VALUE",
              help="Change a field of the core, e.g. l1.mshrs=8; may be repeated.")
@click.option("--check", is_flag=True, help="Compare every instruction with the sequential model.")
@click.option("--latency", type=click.IntRange(1, 100_000), default=80, show_default=True,
              help="Cycles of the memory.")
@click.option("--hbm", is_flag=True, help="RTL of the HBM slice as memory, not a model with a latency.")
@click.option("--max-cycles", type=click.IntRange(1), default=100_000_000, show_default=True,
              help="End a program that does not end itself.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True,
              help="Of what is random around the core.")
@click.option("--trace", "trace_file", type=OutputFile(".log"),
              help="Pipeline log for the Konata viewer (the first two million events).")
@click.option("--wave", "wave_file", type=OutputFile(".fst"), help="Wave of the run.")
@json_option
def command(program, preset_name, overrides, check, latency, hbm, max_cycles, seed, trace_file, wave_file,
            as_json):
    """Run PROGRAM, an ELF file or the name of a program in sw/programs, on the RTL of the core.

    What the program prints goes to standard output, figures of the run to standard error; the exit code is
    the program's. Exit code 1 with a sentence also means that the core was stuck, a check failed, or the
    program did not end; 2, that the file is no program for this core (docs/run.md).
    """
    from sw.core.image import read_elf
    from tb.build import Options
    from tb.core.bench import RAM_BYTES, core_bench
    from tb.core.run import CoreSimulator

    config = chosen_core(preset_name, overrides)
    slice_config = _slice() if hbm else None
    ram_bytes = slice_config.capacity_bytes if hbm else RAM_BYTES
    image = dataclasses.replace(read_elf(_file(program), ram_bytes=ram_bytes), name=Path(program).name)

    def say(text):
        print(f"jalapeno: {text}", file=sys.stderr)

    built = core_bench(config, ram_bytes=ram_bytes, hbm=slice_config, log=say,
                       options=Options(optimise="-O2", waves=wave_file is not None))
    with CoreSimulator(built) as simulator:
        if wave_file:
            simulator.simulator.open_wave(wave_file)
        run = _run(simulator, image, check=check, latency=None if hbm else latency, max_cycles=max_cycles,
                   seed=seed, events=TRACE_EVENTS if trace_file else 0)
        if wave_file:
            simulator.simulator.close_wave()
    if trace_file:
        from tb.core.konata import write_konata
        write_konata(trace_file, run.pipe)
    _show(run, image, check, as_json)
    raise click.exceptions.Exit(run.exit_code & 0xFF)


def _file(program):
    from sw.core.compile import CompileError, compile_program, programs
    if program not in programs():
        return program
    try:
        return compile_program(program)
    except CompileError as error:
        raise ValueError(str(error)) from error


def _slice():
    from hw.config import preset
    return preset("small").tile.hbm


def _run(simulator, image, *, check, latency, max_cycles, seed, events):
    from scripts.cli import CheckFailed
    from tb.core.lockstep import run_lockstep
    from tb.core.memory import MemoryTiming
    from tb.core.run import NotEnded, run_core
    from tb.report import CheckFailure
    from tb.simulator import SimulationError

    timing = None if latency is None else MemoryTiming(latency=latency)
    with progress(f"run {image.name}", max_cycles) as advance:
        before = 0

        def show(cycles, instructions):
            nonlocal before
            advance(cycles - before, f"{cycles:,} cycles, {instructions:,} instructions")
            before = cycles

        options = dict(timing=timing, max_cycles=max_cycles, seed=seed, pipe_events=events, progress=show)
        try:
            if check:
                return run_lockstep(simulator, image, **options)[0]
            return run_core(simulator, image, **options)
        except CheckFailure as error:
            print(error, file=sys.stderr)
            raise CheckFailed(str(error).splitlines()[0]) from error
        except (SimulationError, NotEnded) as error:
            if isinstance(error, NotEnded):
                sys.stdout.buffer.write(error.run.console)
            raise CheckFailed(str(error)) from error


def _show(run, image, check, as_json):
    figures = {"program": image.name, "exit_code": run.exit_code, "cycles": run.cycles,
               "instructions": run.instructions, "ipc": round(run.ipc, 4), "checked": check,
               "memory_reads": run.counters.get("reads"), "memory_writes": run.counters.get("writes"),
               "seconds": round(run.seconds, 3)}
    if as_json:
        print_json(figures | {"console": run.console.decode(errors="replace")})
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(run.console)
    sys.stdout.flush()
    speed = run.cycles / run.seconds if run.seconds else 0
    print(f"jalapeno: {image.name}: exit code {run.exit_code}, {run.cycles:,} cycles, {run.instructions:,} "
          f"instructions, {run.ipc:.3f} a cycle; {speed:,.0f} cycles a second"
          + ("; every instruction compared" if check else ""), file=sys.stderr)
