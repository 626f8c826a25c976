"""Comparison of results with what was expected, and the report of a failure as a sentence and as JSON.

A comparison either returns how much it compared, which is never nothing, or raises :class:`CheckFailure`
with a :class:`Report` and, where there is a :class:`Context`, with a directory under ``runs/`` that holds
the report, the wave and its views.
"""

import dataclasses
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tb import pattern, runs
from tb.build import config_hash
from tb.simulator import Result, SimulationError, Simulator
from tb.views import write_views

__all__ = ["CheckFailure", "Context", "Report", "compare_bytes", "compare_float32", "compare_words",
           "failure", "simulation_failure"]

EVENTS_SHOWN = 12
WINDOW = 10_000  # cycles before the place in question that a wave of a long run keeps


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where a comparison stands, for its report.

    Attributes
    ----------
    test : str
        What ran, in a person's words: ``"gemm 5x7x33 mxfp4_mxfp4"``.
    seed : int
        Of the data and the stalls.
    command : str, optional
        What repeats the run; the command that started this process where not given.
    simulator : Simulator, optional
    result : Result, optional
        Of the run whose results are compared.
    stream : str, optional
        The stream that the compared data came from; its signals come first in the views.
    config : dataclass, optional
        Configuration of the model; comparing with a design that was made from another one is refused.
    """

    test: str
    seed: int = 0
    command: str | None = None
    simulator: Simulator | None = None
    result: Result | None = None
    stream: str | None = None
    config: object = None


@dataclass(kw_only=True)
class Report:
    """A failure; see :meth:`sentence`."""

    checker: str
    test: str
    problem: str
    seed: int | None = None
    simulator_seed: int | None = None
    cycle: int | None = None
    wave_cycle: int | None = None
    stream: str | None = None
    tensor: str | None = None
    index: tuple | None = None
    expected: dict | None = None
    got: dict | None = None
    ulp: int | None = None
    compared: int = 0
    differ: int = 0
    pattern: str = ""
    events: list = field(default_factory=list)
    bench: dict | None = None
    wave: str | None = None
    views: dict = field(default_factory=dict)
    command: str | None = None
    directory: str | None = None

    def sentence(self):
        """The report for a person: what is wrong first, then where, then how to see it again."""
        seeds = [] if self.seed is None else [f"seed {self.seed}"]
        if self.simulator_seed is not None:
            seeds.append(f"simulator seed {self.simulator_seed}")
        lines = [f"{self.checker}, {self.test}" + (f" ({', '.join(seeds)})" if seeds else "") +
                 f": {self.problem}"]
        if self.events:
            lines.append("Last transfers: " + "; ".join(
                f"cycle {e['cycle']} {e['stream']}[{e['beat']}] = 0x{e['word']:x}"
                for e in self.events[-EVENTS_SHOWN:]) + ".")
        if self.wave:
            lines.append(f"Wave: {self.wave}" +
                         (f", marker at cycle {self.wave_cycle} ({self.wave_cycle} ns)."
                          if self.wave_cycle is not None else "."))
        if self.command:
            lines.append(f"Repeat: {self.command}")
            if not self.wave:
                lines.append(f"With a wave: {self.wave_command()}")
        return "\n".join(lines)

    def wave_command(self):
        """The command that repeats the run and keeps a wave, of a window where the run is long."""
        window = ""
        if self.wave_cycle is not None and self.wave_cycle > WINDOW:
            window = f" JALAPENO_WAVE_CYCLES={self.wave_cycle - WINDOW}:{self.wave_cycle + WINDOW // 10}"
        return f"JALAPENO_WAVES=1{window} {self.command}"

    def as_json(self):
        """The report as a tree for ``json``."""
        return {"sentence": self.sentence(), "wave_command": self.wave_command(), **dataclasses.asdict(self)}


class CheckFailure(AssertionError):
    """A check failed; ``report`` has everything, the message is its sentence."""

    def __init__(self, report):
        super().__init__(report.sentence())
        self.report = report


def compare_float32(expected, got, *, tensor, checker, context=None, cycles=None, block=32):
    """Compare binary32 values bit for bit.

    Parameters
    ----------
    expected, got : numpy.ndarray
        float32 of equal shape; bits are compared, so that NaNs and signs of zero count.
    tensor : str
        Name for the report.
    checker : str
        Who says what is right.
    context : Context, optional
    cycles : numpy.ndarray, optional
        Cycle in which each element left the design, broadcastable to the shape.
    block : int
        Columns a block, for the pattern.

    Returns
    -------
    int
        Elements compared; at least 1.

    Raises
    ------
    CheckFailure
        Something differs, or nothing was compared.
    ValueError
        Types are wrong, or model and design were made from different configurations.
    """
    expected, got = np.asarray(expected), np.asarray(got)
    for name, array in (("expected", expected), ("got", got)):
        if array.dtype != np.float32:
            raise ValueError(f"{tensor}: {name} is {array.dtype}; compare_float32 takes float32")

    def value(array, index):
        bits = int(array.view(np.uint32)[index]) if array.ndim else int(array.reshape(1).view(np.uint32)[0])
        number = np.uint32(bits).view(np.float32)
        return {"bits": f"0x{bits:08x}", "value": str(number)}

    return _compare(np.ascontiguousarray(expected), np.ascontiguousarray(got), np.uint32, value, tensor,
                    checker, context, cycles, block, float_ulp=True)


def compare_words(expected, got, *, tensor, checker, context=None, cycles=None, block=32):
    """Compare integers of one type (codes, scales, counters); else as :func:`compare_float32`."""
    expected, got = np.ascontiguousarray(expected), np.ascontiguousarray(got)
    if expected.dtype != got.dtype or expected.dtype.kind not in "iu":
        raise ValueError(f"{tensor}: expected is {expected.dtype}, got is {got.dtype}; compare_words takes "
                         "integers of one type")
    digits = expected.dtype.itemsize * 2
    unsigned = np.dtype(f"u{expected.dtype.itemsize}")

    def value(array, index):
        return {"bits": f"0x{int(array.view(unsigned)[index]):0{digits}x}", "value": str(array[index])}

    return _compare(expected, got, unsigned, value, tensor, checker, context, cycles, block)


def compare_bytes(expected, got, *, tensor, checker, context=None, cycles=None, block=32):
    """Compare bytes: uint8 arrays of equal shape, or bytes objects; else as :func:`compare_float32`."""
    arrays = [np.frombuffer(data, dtype=np.uint8) if isinstance(data, (bytes, bytearray, memoryview))
              else np.asarray(data) for data in (expected, got)]
    for array in arrays:
        if array.dtype != np.uint8:
            raise ValueError(f"{tensor}: an array is {array.dtype}; compare_bytes takes uint8")
    return compare_words(*arrays, tensor=tensor, checker=checker, context=context, cycles=cycles, block=block)


def _compare(expected, got, unsigned, value, tensor, checker, context, cycles, block, float_ulp=False):
    if context is not None and context.config is not None and context.simulator is not None:
        ours, theirs = config_hash(context.config), context.simulator.bench.config_hash
        if ours != theirs:
            raise ValueError(f"{tensor}: the model's configuration {ours} is not the design's "
                             f"{theirs or '(none given)'}; nothing was compared")
    report = Report(checker=checker, test=context.test if context else tensor, problem="", tensor=tensor)
    if expected.shape != got.shape:
        report.problem = f"{tensor} has shape {list(got.shape)}, expected {list(expected.shape)}."
        raise failure(report, context)
    if expected.size == 0:
        report.problem = f"{tensor} has shape {list(expected.shape)}, so nothing was compared."
        raise failure(report, context)
    if expected.ndim == 0:
        expected, got = expected.reshape(1), got.reshape(1)
    differs = expected.view(unsigned) != got.view(unsigned)
    report.compared = differs.size
    report.differ = int(np.count_nonzero(differs))
    if not report.differ:
        return differs.size
    # The first in time where times are known: the earliest is closest to the cause.
    if cycles is None:
        index = np.unravel_index(int(np.argmax(differs)), differs.shape)
    else:
        times = np.broadcast_to(cycles, differs.shape)
        order = np.where(differs, times, np.iinfo(np.int64).max)
        index = np.unravel_index(int(np.argmin(order)), differs.shape)
        report.cycle = int(times[index])
    report.index = tuple(int(i) for i in index)
    report.expected, report.got = value(expected, index), value(got, index)
    report.ulp = _ulp(report) if float_ulp else None
    report.pattern = pattern.describe(differs, block=block)
    place = f"{tensor}[{','.join(map(str, report.index))}]"
    report.problem = (
        f"{place} is {report.got['bits']} ({report.got['value']}), expected {report.expected['bits']} "
        f"({report.expected['value']})"
        + (f", {report.ulp} ULP apart" if report.ulp is not None else "")
        + (f", at cycle {report.cycle}" if report.cycle is not None else "")
        + f"; {report.differ} of {report.compared} elements differ: {report.pattern}.")
    raise failure(report, context)


def _ulp(report):
    """Distance in units of the last place, or None where one of the two is NaN."""
    numbers = []
    for side in (report.expected, report.got):
        bits = int(side["bits"], 16)
        if bits & 0x7FFFFFFF > 0x7F800000:
            return None
        numbers.append(-(bits & 0x7FFFFFFF) if bits >> 31 else bits)
    return abs(numbers[0] - numbers[1])


def simulation_failure(error, context):
    """The :class:`CheckFailure` for a run that did not end well.

    Parameters
    ----------
    error : SimulationError
    context : Context
    """
    if not isinstance(error, SimulationError):
        raise TypeError(f"simulation_failure takes a SimulationError, not {type(error).__name__}")
    result = error.result
    report = Report(checker="bench", test=context.test, problem=str(error))
    if result is not None:
        report.stream = result.fault_stream
        # Of a run that hangs, the place to look at is where it stopped, not where the watchdog noticed.
        known = [cycle for cycle in (result.fault_cycle, result.last_move) if cycle is not None]
        report.cycle = known[0] if known else 0
        context = dataclasses.replace(context, result=result)
    return failure(report, context)


def failure(report, context):
    """The :class:`CheckFailure` of a check of its own: ``report`` completed from ``context``, and kept in a
    directory below ``runs/`` with its wave. Nothing is kept without a context."""
    if context is None:
        return CheckFailure(report)
    report.test = context.test
    report.stream = report.stream or context.stream
    report.seed = context.seed
    report.command = context.command or runs.default_command()
    result, simulator = context.result, context.simulator
    wave = None
    if result is not None:
        if report.cycle is not None:
            report.wave_cycle = result.start + report.cycle
        report.events = [dict(zip(("cycle", "stream", "beat", "word"), event, strict=True))
                         for event in result.events if report.cycle is None or event[0] <= report.cycle]
        wave = result.wave
    if simulator is not None:
        report.simulator_seed = simulator.verilator_seed
        bench = simulator.bench
        report.bench = {"name": bench.name, "hash": bench.hash, "config_hash": bench.config_hash,
                        "directory": str(bench.directory)}
        wave = wave or simulator.finish_wave()
    directory = runs.new_run(report.test, {
        "test": report.test, "command": report.command, "seed": report.seed,
        "simulator_seed": report.simulator_seed, "bench": report.bench,
        "config": simulator.bench.config if simulator is not None else None})
    report.directory = str(directory)
    if wave is not None and Path(wave).is_file():
        _keep_wave(report, directory, Path(wave), simulator)
    runs.write_json(directory / "failure.json", report.as_json())
    (directory / "failure.txt").write_text(report.sentence() + "\n")
    runs.set_last_failure(directory)
    return CheckFailure(report)


def _keep_wave(report, directory, wave, simulator):
    kept = directory / "wave.fst"
    shutil.copyfile(wave, kept)
    report.wave = str(kept)
    try:
        views = write_views(directory, kept, simulator.bench.streams if simulator else [],
                            cycle=report.wave_cycle or 0, first=report.stream)
    except ValueError as error:  # a wave that cannot be read must not hide the failure itself
        report.views = {"error": str(error)}
        return
    report.views = {name: str(path) for name, path in views.items()}
