"""A matrix product of any size on the simulated engine, and its check against the golden model.

A job takes at most ``accumulator_rows`` rows, so a product is cut along M. Where several simulators share it,
it is cut along N as well, a range of columns each. K stays whole, and so no cut shows in the result. The
commands and the demo all multiply through here.
"""

import contextlib
import math
from dataclasses import dataclass, field

import numpy as np

from golden.formats import BLOCK, Format, MXTensor, quantise
from golden.matmul import PreparedWeights, matmul
from hw.config import MatrixConfig
from hw.matrix.foot import accumulator_distance
from hw.matrix.job import COLUMN_BITS, DEPTH_BITS
from tb.report import Context, compare_float32, compare_words, simulation_failure
from tb.simulator import Result, SimulationError

from .job import LANES, Job, JobError, supersteps

__all__ = ["Bound", "Product", "Run", "bound_of", "check", "column_ranges", "mismatches", "multiply",
           "multiply_shared", "prepare_shared", "reference", "split"]

#: Bytes of activations sent in one run of the simulator. What is above goes into further runs.
RUN_BYTES = 1 << 27


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Least cycles that each part of the engine needs for a product, fill and drain left aside.

    Attributes
    ----------
    matrix : rows of activations that enter a unit, one a cycle
    weight_edge : weight beats of a unit, one a cycle
    adders : a row waits until its accumulator has left the adders; more than ``matrix`` for very few rows
    output : result rows that leave a unit
    """

    matrix: int
    weight_edge: int
    adders: int
    output: int

    @property
    def cycles(self):
        """The highest of them."""
        return max(self.matrix, self.weight_edge, self.adders, self.output)

    @property
    def by(self):
        """Name of the part that sets it: "matrix", "weight edge", "adders" or "output"."""
        parts = {"matrix": self.matrix, "weight edge": self.weight_edge, "adders": self.adders,
                 "output": self.output}
        return max(parts, key=parts.get)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a simulator: its jobs, the first of which begins at row ``first`` of the product.

    ``columns``: those of the product that the jobs have; ``engine``: the simulator that ran them.
    """

    first: int
    columns: slice
    jobs: tuple[Job, ...]
    result: Result
    engine: object = field(repr=False)

    @property
    def rows(self):
        """Rows of the product that the jobs have."""
        return slice(self.first, self.first + sum(job.m for job in self.jobs))


@dataclass(frozen=True, kw_only=True)
class Product:
    """What :func:`multiply` gives.

    Where simulators share a product, cycles count as if one engine had done their parts one after another.

    Attributes
    ----------
    y : float32 [M, N], or MXTensor [M, N] with blocks along N
    cycles : from the first command to the last answer, summed over the runs
    jobs : how many jobs the product was cut into
    macs : M * N * K
    utilisation : multiply-accumulates over those of the whole engine's peak in ``cycles``
    bound : :class:`Bound`
    seconds : wall clock of the simulation
    simulated_cycles : cycles simulated in them, by all simulators
    runs : list of :class:`Run`
    """

    y: np.ndarray | MXTensor
    cycles: int
    jobs: int
    macs: int
    utilisation: float
    bound: Bound
    seconds: float
    simulated_cycles: int
    runs: list = field(repr=False)

    @property
    def cycles_per_second(self):
        """Simulated cycles a second of wall clock."""
        return self.simulated_cycles / self.seconds if self.seconds else 0.0


def split(m: int, accumulator_rows: int) -> list[int]:
    """Rows of the jobs of a product with ``m`` rows: as few jobs as possible, as equal as possible."""
    jobs = max(1, math.ceil(m / accumulator_rows))
    return [m * (job + 1) // jobs - m * job // jobs for job in range(jobs)]


def bound_of(jobs: list[Job], config: MatrixConfig) -> Bound:
    """The :class:`Bound` of placed jobs that run one after the other on the same units."""
    totals = dict(matrix=0, weight_edge=0, adders=0, output=0)
    distance = accumulator_distance(config)
    for job in jobs:
        steps = max(1, math.ceil(job.k / config.rows))
        beats_a_quad = 2 if LANES[job.mode] == 4 else 1
        row_cycles = 1 if job.output == "binary32" else config.quantise_latency + 1
        # The first unit of a run has no fewer columns than any other, in every superstep.
        for step in supersteps(job, 0) if job.m else []:
            totals["matrix"] += steps * job.m * step.subtiles
            totals["weight_edge"] += beats_a_quad * step.quads * step.subtiles * steps if job.k else 0
            totals["adders"] += (steps - 1) * distance if job.m < distance else 0
            totals["output"] += job.m * row_cycles
    return Bound(**totals)


def column_ranges(n: int, count: int, output: str = "binary32") -> list[slice]:
    """Ranges of N columns for at most ``count`` simulators, none of them empty unless N is 0.

    They end between quads, and where ``output`` is an MX format between blocks.
    """
    granule = 4 if output == "binary32" else BLOCK
    whole = math.ceil(n / granule)
    edges = [min(n, granule * math.ceil(whole * part / count)) for part in range(count + 1)]
    ranges = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True) if a < b]
    return ranges or [slice(0, 0)]


def prepare_shared(engines, x_format: Format, w: MXTensor, *, poison=0xFF) -> list:
    """Upload weights for :func:`multiply_shared` without C and with binary32 results, to use any number of
    times with activations of ``x_format``. Returns one sw.engine.engine.Prepared a simulator that has a part.
    """
    row = MXTensor(format=x_format, codes=np.zeros((1, w.k), np.uint8),
                   scales=np.zeros((1, math.ceil(w.k / BLOCK)), np.uint8))
    ranges = column_ranges(w.shape[0], len(engines))
    return [engine.prepare(Job(x=row, w=w[columns]), poison) for engine, columns in zip(engines, ranges)]


def multiply(engine, x: MXTensor, w: MXTensor, c=None, *, prepared=None, **options) -> Product:
    """Y = C + X . W^T on ``engine``; ``prepared`` and the options as of :func:`multiply_shared`."""
    return multiply_shared([engine], x, w, c, prepared=None if prepared is None else [prepared], **options)


def multiply_shared(engines, x: MXTensor, w: MXTensor, c=None, *, output="binary32", units=None, width=None,
                    prepared=None, poison=0xFF, run_bytes=RUN_BYTES, progress=None, meanwhile=None,
                    test="product", seed=0, command=None, wave=None, **run) -> Product:
    """Y = C + X . W^T, its columns shared out among simulators of one engine, which run at the same time.

    Parameters
    ----------
    engines : SimulatedEngines, at least one
    x, w : MXTensor [M, K] and [N, K]; any of M, N, K may be 0
    c : float32 [M, N], or None
    output, units, width : as of :class:`sw.engine.job.Job`
    prepared : sw.engine.engine.Prepared of these weights, one a simulator (:func:`prepare_shared`), where
        they are already uploaded
    poison : byte in all padding; the default is NaN in every format, and must not show
    run_bytes : activations that are sent in one run of a simulator
    progress : called with the share of the product that is done, 0 to 1, after each run
    meanwhile : called without arguments while the first runs are under way
    test, seed, command : for the report of a failure, as of tb.report.Context
    wave : path of an FST file of all runs of the first simulator, which must have been built with waves
    run : further arguments of tb.simulator.Simulator.run (stalls, max_cycles, wall_seconds, ...)

    Raises
    ------
    JobError
        The engine cannot do this product, or refused it.
    CheckFailure
        An engine hung or broke the protocol of a stream.
    """
    n, k = w.shape[0], x.k
    for name, size, bits in (("N", n, COLUMN_BITS), ("K", k, DEPTH_BITS)):
        if size >> bits:
            raise JobError(f"{name} is {size}; the engine takes at most {(1 << bits) - 1}")
    c_rows = None if c is None else np.ascontiguousarray(c, dtype=np.float32)
    if c_rows is not None and c_rows.shape != (x.shape[0], n):
        raise JobError(f"c has shape {c_rows.shape}; it must be {(x.shape[0], n)}")
    heights = split(x.shape[0], engines[0].config.accumulator_rows)
    firsts = [sum(heights[:job]) for job in range(len(heights))]
    shares = []
    for number, (engine, columns) in enumerate(zip(engines, column_ranges(n, len(engines), output))):
        jobs = [Job(x=x[first:first + rows], w=w[columns], units=units, width=width, output=output,
                    c=None if c_rows is None else c_rows[first:first + rows, columns]).placed(engine.config)
                for first, rows in zip(firsts, heights, strict=True)]
        ready = prepared[number] if prepared is not None else None
        if ready is None and len(jobs) > 1:
            ready = engine.prepare(jobs[0], poison)
        context = Context(test=test, seed=seed, command=command, simulator=engine.simulator)
        shares.append(_Share(engine, columns, jobs, ready, context))
    tracer = engines[0].simulator
    if wave is not None:
        tracer.open_wave(wave)
    runs, results, seconds = [], [], 0.0
    try:
        # The widest part needs the most bytes; cut like it, all parts have the same rows in a round.
        for chosen in _groups(max((share.jobs for share in shares), key=lambda jobs: jobs[0].n),
                              engines[0].config, run_bytes):
            for share in shares:
                share.engine.submit([share.jobs[i] for i in chosen], prepared=[share.prepared] * len(chosen),
                                    poison=poison, seed=seed, **run)
            if meanwhile is not None and not runs:
                meanwhile()
            failed = None
            for share in shares:
                try:
                    results.append(share.engine.result())
                except SimulationError as error:  # the others end their runs first
                    failed = failed or (share, error)
                    continue
                runs.append(Run(first=firsts[chosen[0]], columns=share.columns, engine=share.engine,
                                jobs=tuple(share.jobs[i] for i in chosen), result=share.engine.last))
            if failed:
                share, error = failed
                if error.result is not None and wave is not None and share is shares[0]:
                    tracer.close_wave()
                    error.result.wave, wave = wave, None
                raise simulation_failure(error, share.context) from error
            refused = [result.status for part in results for result in part if result.status != "OK"]
            if refused:
                raise JobError(f"the engine refused {test} with {refused[0]}")
            seconds += max(done.result.seconds for done in runs[-len(shares):])
            if progress:
                progress((chosen[-1] + 1) / len(heights))
    except BaseException:
        if wave is not None:
            with contextlib.suppress(SimulationError, OSError):  # an interrupted process is gone
                tracer.close_wave()
        raise
    if wave is not None:
        tracer.close_wave()
    for done in runs:
        if done.engine is engines[0]:
            done.result.wave = wave
    macs = x.shape[0] * n * k
    cycles = sum(result.cycles for part in results for result in part)
    placed = [job for share in shares for job in share.jobs]
    return Product(
        y=_assembled(x.shape[0], n, runs, results), cycles=cycles, jobs=len(placed), macs=macs,
        utilisation=macs / (engines[0].config.macs_per_cycle(placed[0].mode) * cycles),
        bound=bound_of(placed, engines[0].config), seconds=seconds,
        simulated_cycles=sum(done.result.simulated_cycles for done in runs), runs=runs)


@dataclass(frozen=True)
class _Share:
    """What one simulator does of a product."""

    engine: object
    columns: slice
    jobs: list[Job]
    prepared: object
    context: Context


def reference(x: MXTensor, w: MXTensor | PreparedWeights, c=None, *, output="binary32"):
    """What the golden model says: float32 [M, N], or MXTensor [M, N] where ``output`` is an MX format."""
    y = matmul(x, w, c)
    return y if output == "binary32" else quantise(y, Format[output.upper()])


def mismatches(product: Product, expected: np.ndarray) -> int:
    """Elements of a binary32 product whose bits are not those of ``expected``, float32 [M, N]."""
    return int(np.count_nonzero(expected.view(np.uint32) != product.y.view(np.uint32)))


def check(product: Product, expected, *, test, seed=0, command=None, name="Y") -> int:
    """Compare a product with ``expected`` (of :func:`reference`) bit for bit.

    Parameters
    ----------
    test, seed, command : for the report, as of tb.report.Context
    name : of the result, in the report

    Returns
    -------
    int
        Elements compared; 0 only for a product that has none, whose jobs the engine answered all the same.

    Raises
    ------
    CheckFailure
        Something differs: the report names the element that left the engine first, and when. Where
        simulators shared the product, times are compared from the start of each one's first run.
    """
    got = product.y
    if not math.prod(expected.shape) and got.shape == expected.shape:
        return 0
    if isinstance(expected, MXTensor):
        pairs = {f"scales of {name}": (expected.scales, got.scales),
                 f"codes of {name}": (expected.codes, got.codes)}
        checker, compare = "golden.matmul and golden.formats.quantise", compare_words
    else:
        pairs = {name: (expected, got)}
        checker, compare = "golden.matmul", compare_float32
    for tensor, (ours, theirs) in pairs.items():
        bits = np.uint32 if compare is compare_float32 else np.uint8
        run, cycles = _first_wrong(product, ours.view(bits), theirs.view(bits))
        context = Context(test=test, seed=seed, command=command, simulator=run.engine.simulator,
                          result=run.result, config=run.engine.config)
        compare(ours, theirs, tensor=tensor, checker=checker, context=context, cycles=cycles)
    return math.prod(expected.shape)


def _first_wrong(product, expected, got):
    """The run that the first wrong element left, or the last run, and the cycles of all relative to it."""
    if expected.shape != got.shape or (expected == got).all():
        return product.runs[-1], None
    starts = {}
    for run in product.runs:
        starts.setdefault(id(run.engine), run.result.start)
    cycles = np.zeros(product.y.shape, np.int64)
    for run in product.runs:
        cycles[run.rows, run.columns] = _left_at(run) + (run.result.start - starts[id(run.engine)])
    places = cycles if cycles.shape == got.shape else cycles[:, ::BLOCK]  # scales: one a block of columns
    at = int(np.argmin(np.where(expected != got, places, np.iinfo(np.int64).max)))
    row, column = divmod(at, got.shape[1])
    column *= 1 if places is cycles else BLOCK
    run = next(run for run in product.runs if run.rows.start <= row < run.rows.stop
               and run.columns.start <= column < run.columns.stop)
    return run, places - (run.result.start - starts[id(run.engine)])


def _left_at(run):
    """Cycle in which each element of a run left its engine: int64 [rows, columns]."""
    taken, parts = {}, []
    for job in run.jobs:
        cycles = np.zeros((job.m, job.n), np.int64)
        for unit in range(job.units[1]):
            stream = f"o__{job.units[0] + unit}"
            for step in supersteps(job, unit):
                if step.columns and job.m:
                    begin = taken.get(stream, 0)
                    taken[stream] = begin + job.m
                    stamps = run.result.output_cycles[stream][begin:begin + job.m]
                    cycles[:, step.start:step.start + step.columns] = stamps[:, None]
        parts.append(cycles)
    return np.concatenate(parts)


def _groups(jobs, config, run_bytes):
    """Indices of the jobs of each run."""
    groups, size = [[]], 0
    for index, job in enumerate(jobs):
        beats = math.ceil(job.k / config.rows) * job.m * sum(step.subtiles for step in supersteps(job, 0))
        bytes_ = beats * 36 * config.row_groups
        if groups[-1] and size + bytes_ > run_bytes:
            groups.append([])
            size = 0
        groups[-1].append(index)
        size += bytes_
    return groups


def _assembled(m, n, runs, results):
    """The whole product from the results of its runs."""
    first = results[0][0].y
    if not isinstance(first, MXTensor):
        y = np.zeros((m, n), np.float32)
        for run, part in zip(runs, results, strict=True):
            y[run.rows, run.columns] = np.concatenate([result.y for result in part])
        return y
    codes, scales = np.zeros((m, n), np.uint8), np.zeros((m, math.ceil(n / BLOCK)), np.uint8)
    for run, part in zip(runs, results, strict=True):
        blocks = slice(run.columns.start // BLOCK, math.ceil(run.columns.stop / BLOCK))
        codes[run.rows, run.columns] = np.concatenate([result.y.codes for result in part])
        scales[run.rows, blocks] = np.concatenate([result.y.scales for result in part])
    return MXTensor(format=first.format, codes=codes, scales=scales)
