"""A matrix product of any size on the simulated engine, and its check against the golden model.

A job takes at most ``accumulator_rows`` rows, so a product is cut along M; N and K stay whole, and so no
cut shows in the result. The commands and the demo all multiply through here.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from golden.formats import Format, MXTensor, quantise
from golden.matmul import PreparedWeights, matmul
from hw.config import MatrixConfig
from hw.matrix.foot import accumulator_distance
from hw.matrix.job import COLUMN_BITS, DEPTH_BITS
from tb.report import Context, compare_float32, compare_words, simulation_failure
from tb.simulator import Result, SimulationError

from .job import LANES, Job, JobError, supersteps

__all__ = ["Bound", "Product", "Run", "bound_of", "check", "multiply", "reference", "split"]

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
    """One run of the simulator: its jobs, the first of which begins at row ``first`` of the product."""

    first: int
    jobs: tuple[Job, ...]
    result: Result


@dataclass(frozen=True, kw_only=True)
class Product:
    """What :func:`multiply` gives.

    Attributes
    ----------
    y : float32 [M, N], or MXTensor [M, N] with blocks along N
    cycles : from the first command to the last answer, summed over the runs
    jobs : how many jobs the product was cut into
    macs : M * N * K
    utilisation : multiply-accumulates over those of the whole engine's peak in ``cycles``
    bound : :class:`Bound`
    seconds : wall clock of the simulation
    simulated_cycles : cycles simulated in them
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


def multiply(engine, x: MXTensor, w: MXTensor, c=None, *, output="binary32", units=None, width=None,
             prepared=None, poison=0xFF, run_bytes=RUN_BYTES, progress=None, test="product", seed=0,
             command=None, wave=None, **run) -> Product:
    """Y = C + X . W^T on ``engine``.

    Parameters
    ----------
    engine : SimulatedEngine
    x, w : MXTensor [M, K] and [N, K]; any of M, N, K may be 0
    c : float32 [M, N], or None
    output, units, width : as of :class:`sw.engine.job.Job`
    prepared : sw.engine.engine.Prepared of these weights, where they are already uploaded
    poison : byte in all padding; the default is NaN in every format, and must not show
    run_bytes : activations that are sent in one run of the simulator
    progress : called with the share of the product that is done, 0 to 1, after each run
    test, seed, command : for the report of a failure, as of tb.report.Context
    wave : path of an FST file of all runs; the engine must have been built with waves
    run : further arguments of tb.simulator.Simulator.run (stalls, max_cycles, wall_seconds, ...)

    Raises
    ------
    JobError
        The engine cannot do this product, or refused it.
    CheckFailure
        The engine hung or broke the protocol of a stream.
    """
    n, k = w.shape[0], x.k
    for name, size, bits in (("N", n, COLUMN_BITS), ("K", k, DEPTH_BITS)):
        if size >> bits:
            raise JobError(f"{name} is {size}; the engine takes at most {(1 << bits) - 1}")
    c_rows = None if c is None else np.ascontiguousarray(c, dtype=np.float32)
    if c_rows is not None and c_rows.shape != (x.shape[0], n):
        raise JobError(f"c has shape {c_rows.shape}; it must be {(x.shape[0], n)}")
    jobs, firsts, first = [], [], 0
    for rows in split(x.shape[0], engine.config.accumulator_rows):
        part = slice(first, first + rows)
        jobs.append(Job(x=x[part], w=w, c=None if c_rows is None else c_rows[part], units=units, width=width,
                        output=output).placed(engine.config))
        firsts.append(first)
        first += rows
    if prepared is None and len(jobs) > 1:
        prepared = engine.prepare(jobs[0], poison)
    if wave is not None:
        engine.simulator.open_wave(wave)
    runs, parts, cycles = [], [], 0
    context = Context(test=test, seed=seed, command=command, simulator=engine.simulator)
    try:
        for chosen in _groups(jobs, engine.config, run_bytes):
            try:
                results = engine.run([jobs[i] for i in chosen], prepared=[prepared] * len(chosen),
                                     poison=poison, seed=seed, **run)
            except SimulationError as error:
                if error.result is not None and wave is not None:
                    engine.simulator.close_wave()
                    error.result.wave, wave = wave, None
                raise simulation_failure(error, context) from error
            refused = [result.status for result in results if result.status != "OK"]
            if refused:
                raise JobError(f"the engine refused {test} with {refused[0]}")
            runs.append(Run(first=firsts[chosen[0]], jobs=tuple(jobs[i] for i in chosen), result=engine.last))
            parts += [result.y for result in results]
            cycles += sum(result.cycles for result in results)
            if progress:
                progress((chosen[-1] + 1) / len(jobs))
    finally:
        if wave is not None:
            engine.simulator.close_wave()
    for done in runs:
        done.result.wave = wave
    macs = x.shape[0] * n * k
    return Product(
        y=_joined(parts), cycles=cycles, jobs=len(jobs), macs=macs,
        utilisation=macs / (engine.config.macs_per_cycle(jobs[0].mode) * cycles),
        bound=bound_of(jobs, engine.config), seconds=sum(done.result.seconds for done in runs),
        simulated_cycles=sum(done.result.simulated_cycles for done in runs), runs=runs)


def reference(x: MXTensor, w: MXTensor | PreparedWeights, c=None, *, output="binary32"):
    """What the golden model says: float32 [M, N], or MXTensor [M, N] where ``output`` is an MX format."""
    y = matmul(x, w, c)
    return y if output == "binary32" else quantise(y, Format[output.upper()])


def check(engine, product: Product, expected, *, test, seed=0, command=None) -> int:
    """Compare a product with ``expected`` (of :func:`reference`) bit for bit.

    Returns
    -------
    int
        Elements compared; 0 only for a product that has none, whose jobs the engine answered all the same.

    Raises
    ------
    CheckFailure
        Something differs: the report names the element that left the engine first, and when.
    """
    got = product.y
    if not math.prod(expected.shape) and got.shape == expected.shape:
        return 0
    if isinstance(expected, MXTensor):
        pairs = {"scales of Y": (expected.scales, got.scales), "codes of Y": (expected.codes, got.codes)}
        checker, compare = "golden.matmul and golden.formats.quantise", compare_words
    else:
        pairs = {"Y": (expected, got)}
        checker, compare = "golden.matmul", compare_float32
    for tensor, (ours, theirs) in pairs.items():
        bits = np.uint32 if compare is compare_float32 else np.uint8
        run, cycles = _first_wrong(product, ours.view(bits), theirs.view(bits))
        context = Context(test=test, seed=seed, command=command, simulator=engine.simulator,
                          result=run.result, config=engine.config)
        compare(ours, theirs, tensor=tensor, checker=checker, context=context, cycles=cycles)
    return math.prod(expected.shape)


def _first_wrong(product, expected, got):
    """The run with the first wrong element (or the last run), and cycles of all elements relative to it."""
    run = product.runs[-1]
    if expected.shape != got.shape:
        return run, None
    wrong = np.flatnonzero((expected != got).any(axis=1))
    if not len(wrong):
        return run, None
    run = [part for part in product.runs if part.first <= wrong[0]][-1]
    n = product.runs[0].jobs[0].n
    cycles = np.concatenate([_left_at(part, n) + (part.result.start - run.result.start)
                             for part in product.runs])
    if expected.shape[1] != n:  # scales: one a block of columns
        cycles = cycles[:, ::32]
    return run, cycles


def _left_at(run, n):
    """Cycle in which each element of a run's rows left the engine: int64 [rows, N]."""
    taken, parts = {}, []
    for job in run.jobs:
        cycles = np.zeros((job.m, n), np.int64)
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


def _joined(parts):
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], MXTensor):
        return MXTensor(format=parts[0].format, codes=np.concatenate([part.codes for part in parts]),
                        scales=np.concatenate([part.scales for part in parts]))
    return np.concatenate(parts)
