"""The pictures of docs/debugging.md and docs/core.md, from real runs (`make pictures`).

Those of debugging are from a run of an engine with a planted bug, which is that of the page: the failure is
recorded as any other, and the pictures are drawn from its wave. That of the core shows its window.
"""

import contextlib
import fnmatch
import io
import os
import tempfile
from pathlib import Path

from scripts import cli

IMAGES = Path(__file__).parents[1] / "docs" / "images"

BUG = "mask"

FAILING = ["gemm", "--preset", "tiny", "--m", "5", "--n", "7", "--k", "70", "--plant", BUG]
"""The command of the page, without the word jalapeno."""

RESULT = {"bench.clk": "bin", "bench.activations__valid": "bin", "bench.activations__ready": "bin",
          "bench.o__0__valid": "bin", "bench.o__0__ready": "bin", "bench.dut.unit0.foot0.read_row": "dec",
          "bench.dut.unit0.foot0.read_data": "hex"}

UNIT = "bench.dut.unit0"
CAUSE = {"bench.clk": "bin", f"{UNIT}.sequencer.waiting": "dec", f"{UNIT}.sequencer.issue": "bin",
           f"{UNIT}.sequencer.swap": "bin", f"{UNIT}.sequencer.row$*": "dec",
           f"{UNIT}.sequencer.subtile": "dec", f"{UNIT}.sequencer.fresh": "bin",
           f"{UNIT}.sequencer.emit": "bin", f"{UNIT}.sequencer.lanes": "dec",
           f"{UNIT}.edge0.activation_lanes": "dec", f"{UNIT}.edge0.activation_used": "hex",
           f"{UNIT}.edge0.activation_nan": "bin"}


def signals(wave, radices: dict[str, str]) -> list:
    """Lines of a picture. A name may be a pattern: Yosys numbers an inner signal that is called as a port."""
    from tb.views import Signal

    lines = []
    for pattern, radix in radices.items():
        found = fnmatch.filter(wave.names, pattern)
        if not found:
            raise ValueError(f"there is no signal {pattern} in {wave.path}")
        lines.append(Signal(name=found[0], width=wave.width(found[0]) or 1, radix=radix))
    return lines


def first_cycle(wave, name: str, value: int) -> int:
    """First cycle in which a signal has a value; `ValueError` if it never has."""
    from tb.wave import PERIOD

    for time, now in wave.changes(name):
        if now == value:
            return time // PERIOD
    raise ValueError(f"{name} is never {value} in {wave.path}")


def fail() -> None:
    """Run the command of the page; `ValueError` if it does not fail."""
    words = io.StringIO()
    with contextlib.redirect_stderr(words):
        code = cli.run(FAILING)
    if code != cli.EXIT_FAILED:
        raise ValueError(f"jalapeno {' '.join(FAILING)} ended with {code}: {words.getvalue()}")


def draw(directory: Path) -> list[Path]:
    """Pictures of the last failure, which is that of the page, into `directory`."""
    from tb import lastrun, picture
    from tb.wave import Wave

    last = lastrun.describe()
    wave = Wave(last["files"]["wave"])
    directory.mkdir(parents=True, exist_ok=True)
    result, cause = directory / "debugging-result.png", directory / "debugging-cause.png"
    picture.draw(result, wave.path, signals(wave, RESULT), cycle=last["cycle"], before=10, after=10,
                 title="The first wrong row leaves the engine")
    ragged = first_cycle(wave, f"{UNIT}.sequencer.lanes", 70 % 32)
    picture.draw(cause, wave.path, signals(wave, CAUSE), cycle=ragged, before=6, after=12,
                 title="The rows of the last block enter the array")
    return [result, cause]


def draw_core(directory: Path) -> Path:
    """Misses that overlap, and a chain of them, in the window of a core `small`."""
    from scripts.figures.core_programs import TIMING, small_bench
    from tb.core.misses import LOADS, in_flight, miss_program
    from tb.core.run import CoreSimulator, run_core
    from tb.core.timeline import draw_timelines, flights

    panels = []
    with CoreSimulator(small_bench()) as simulator:
        simulator.memory.watch(1000)
        for dependent, title in ((False, "Eight loads that do not depend on each other"),
                                 (True, "Eight loads, each of where the one before says")):
            image = miss_program(dependent=dependent)
            run = run_core(simulator, image, timing=TIMING, pipe_events=100_000)
            requests, most = in_flight(simulator.memory.requests())
            loads = range(image.symbols["loads"], image.symbols["loads"] + 4 * LOADS)
            shown = [one for one in flights(run.pipe) if one.pc in loads][-LOADS:]
            panels.append((f"{title}: {most} at once", shown, requests))
    return draw_timelines(directory / "core-misses.png", panels)


def main() -> None:
    """Draw all pictures of the documentation."""
    with tempfile.TemporaryDirectory() as runs:
        os.environ |= {"JALAPENO_RUNS_DIR": runs, "JALAPENO_WAVES": "1"}
        fail()
        for path in (*draw(IMAGES), draw_core(IMAGES)):
            print(path.relative_to(IMAGES.parents[1]))


if __name__ == "__main__":
    main()
