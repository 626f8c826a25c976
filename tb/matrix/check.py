"""Runs jobs back to back on a simulated engine and compares every result with golden, bit for bit."""

import math
from dataclasses import dataclass

import numpy as np

from golden.formats import MXTensor
from sw.engine.job import Job, supersteps
from sw.engine.product import reference
from tb.report import Context, compare_float32, compare_words, simulation_failure
from tb.simulator import SimulationError

__all__ = ["Comparison", "check", "compare", "same_bits"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Elements compared, how many of them differ, and the cycles of all jobs."""

    compared: int
    mismatches: int
    cycles: int

    def __add__(self, other):
        return Comparison(compared=self.compared + other.compared, cycles=self.cycles + other.cycles,
                          mismatches=self.mismatches + other.mismatches)


def expected(job: Job):
    """What golden says of a job."""
    return reference(job.x, job.w, job.c, output=job.output)


def parts(y):
    """The arrays of a result: itself, or codes and scales."""
    return {"Y": y} if isinstance(y, np.ndarray) else {"scales of Y": y.scales, "codes of Y": y.codes}


def differing(ours, theirs):
    """Elements of a result that differ."""
    if isinstance(ours, MXTensor):
        blocks = np.repeat(ours.scales != theirs.scales, 32, axis=1)[:, :ours.k]
        return int(np.count_nonzero(blocks | (ours.codes != theirs.codes)))
    return int(np.count_nonzero(ours.view(np.uint32) != theirs.view(np.uint32)))


def same_bits(ours, theirs):
    """Whether two results are the same, bit for bit."""
    pairs = zip(parts(ours).values(), parts(theirs).values(), strict=True)
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def compare(engine, jobs, *, poison=0xFF, **run) -> Comparison:
    """Run ``jobs`` and count elements that differ; an answer other than OK counts as all of its elements."""
    results = engine.run(jobs, poison=poison, **run)
    compared = mismatches = 0
    for job, result in zip(jobs, results, strict=True):
        compared += job.m * job.n
        mismatches += job.m * job.n if result.status != "OK" else differing(expected(job), result.y)
    return Comparison(compared=compared, mismatches=mismatches,
                      cycles=sum(result.cycles for result in results))


def check(engine, jobs, *, test, seed=0, poison=0xFF, **run) -> Comparison:
    """Run ``jobs`` and compare; the first difference, hang or broken handshake raises CheckFailure.

    Parameters
    ----------
    engine : SimulatedEngine or tb.matrix.python_view.PythonEngine
    jobs : list of Job
    test, seed : for the report; ``seed`` is also that of the stalls
    poison : fills all padding
    run : further arguments of tb.simulator.Simulator.run
    """
    simulator = getattr(engine, "simulator", None)
    try:
        results = engine.run(jobs, poison=poison, seed=seed, **run)
    except SimulationError as error:
        raise simulation_failure(error, Context(test=test, seed=seed, simulator=simulator)) from error
    context = Context(test=test, seed=seed, simulator=simulator, result=engine.last if simulator else None,
                      config=engine.config)
    compared, taken = 0, {}
    for index, (job, result) in enumerate(zip(jobs, results, strict=True)):
        if result.status != "OK":
            raise AssertionError(f"{test}: job {index} was answered with {result.status}")
        cycles = _left_at(engine, job, taken)
        if not job.m * job.n:
            continue
        for name, ours in parts(expected(job)).items():
            compare_it = compare_float32 if ours.dtype == np.float32 else compare_words
            stamps = cycles if ours.shape == cycles.shape else cycles[:, ::32]
            compare_it(ours, parts(result.y)[name], tensor=f"{name} of job {index}", context=context,
                       checker="golden.matmul", cycles=stamps)
        compared += math.prod(result.y.shape)
    return Comparison(compared=compared, mismatches=0, cycles=sum(result.cycles for result in results))


def _left_at(engine, job, taken):
    """Cycle in which each element of the next result left its unit: int64 [M, N]."""
    job = job.placed(engine.config)
    cycles = np.zeros((job.m, job.n), np.int64)
    for unit in range(job.units[1] if job.m else 0):
        stream = f"o__{job.units[0] + unit}"
        for step in supersteps(job, unit):
            if step.columns:
                begin = taken.get(stream, 0)
                taken[stream] = begin + job.m
                stamps = engine.last.output_cycles[stream][begin:begin + job.m]
                cycles[:, step.start:step.start + step.columns] = stamps[:, None]
    return cycles
