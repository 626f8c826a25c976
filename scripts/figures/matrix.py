"""Figures of the matrix engine: utilisation, decode, awkward shapes, and the same bits from every size."""

import numpy as np

from golden.matmul import MODES
from hw.config import MatrixConfig, preset
from sw.engine.engine import SimulatedEngine
from sw.engine.product import bound_of
from tb.matrix.check import Comparison, compare, expected, same_bits
from tb.matrix.operands import random_job
from tb.matrix.shapes import corner_jobs, mixed_jobs

KEYS = ("matrix.gemm256.", "matrix.decode.", "matrix.shapes.", "matrix.sizes_identical")

SEED = 20
#: (N, K) of one-row products that follow each other: the layer shapes of SmolLM2-135M.
DECODE = ((576, 576), (192, 576), (1536, 576), (576, 1536))
#: The same for a whole tile, which takes 1,024 columns at a time.
WIDE_DECODE = ((4096, 1024), (1024, 4096))
#: Sixteen small units side by side.
SIXTEEN = MatrixConfig(units=16, rows=32, cols=8, accumulator_rows=16)
#: (M, N, K, kind, with C) of the jobs that every size does; M is what the smallest engine takes.
SHAPES = ((1, 1, 1, "codes", False), (16, 40, 100, "wild", True), (3, 70, 161, "sparse", False),
          (5, 33, 64, "normal", True), (2, 9, 0, "codes", True), (7, 172, 65, "wild", False))


#: The engines, and which description of their arrays, that have to agree.
ENGINES = (("tiny", "rtl"), ("small", "rtl"), ("sixteen", "rtl"), ("full", "fast"), ("full", "rtl"))


def measure(*, quick: bool) -> dict[str, object]:
    """All figures, from the RTL; a quick run has those of the small engine, from the fast view.

    The fast view takes the same cycles (``matrix.views_identical``), so that a quick run has to give the
    numbers of the long one.
    """
    with SimulatedEngine(preset("small").tile.matrix, view="fast" if quick else "rtl") as engine:
        figures = gemm256(engine) | {"matrix.decode.overhead": decode(engine, DECODE)}
        if quick:
            return figures
        shapes = ragged(engine)
    figures["matrix.shapes.compared"] = shapes.compared
    figures["matrix.shapes.mismatches"] = shapes.mismatches
    with SimulatedEngine(preset("full").tile.matrix, view="rtl") as engine:
        figures["matrix.decode.full.overhead"] = decode(engine, WIDE_DECODE)
    figures["matrix.sizes_identical"] = sizes_identical(ENGINES)
    return figures


def _span(engine):
    """Cycles of the last run from the first command beat to the last result row, both included."""
    streams = engine.last.streams
    ends = [streams[f"o__{unit}"].last for unit in range(engine.config.units)]
    return max(end for end in ends if end is not None) - streams["command"].first + 1


def gemm256(engine) -> dict[str, object]:
    """256 x 256 x 256 alone, and as the last of four back to back, for each mode."""
    figures, cycles, mismatches = {}, {}, 0
    for number, mode in enumerate(MODES):
        rng = np.random.default_rng([SEED, number])
        jobs = [random_job(rng, 256, 256, 256, mode, kind="normal") for _ in range(4)]
        compare(engine, [random_job(rng, 1, 4, 32, mode)])  # the mode does not change in what follows
        mismatches += compare(engine, jobs[:1]).mismatches
        cycles[mode] = _span(engine)
        mismatches += compare(engine, jobs).mismatches
        steady = (_span(engine) - cycles[mode]) / 3
        key = f"matrix.gemm256.{mode}"
        figures |= {f"{key}.cycles": cycles[mode], f"{key}.steady": engine.utilisation(jobs[0], steady),
                    f"{key}.utilisation": engine.utilisation(jobs[0], cycles[mode])}
    one, two, four = cycles.values()
    figures["matrix.gemm256.ratio_error"] = max(abs(two / one / 2 - 1), abs(four / one / 4 - 1))
    figures["matrix.gemm256.mismatches"] = mismatches
    return figures


def decode(engine, shapes) -> float:
    """One-row products back to back: cycles over weight beats less 1, the worst of the modes."""
    overheads = []
    for number, mode in enumerate(MODES):
        rng = np.random.default_rng([SEED, 10 + number])
        jobs = [random_job(rng, 1, n, k, mode).placed(engine.config) for n, k in shapes]
        done = compare(engine, jobs)
        if done.mismatches:
            raise AssertionError(f"{done.mismatches} of {done.compared} elements of {mode} decode differ")
        overheads.append(_span(engine) / bound_of(jobs, engine.config).weight_edge - 1)
    return max(overheads)


def ragged(engine) -> Comparison:
    """Awkward shapes on one engine, padding filled with NaN codes and NaN scales."""
    total = Comparison(compared=0, mismatches=0, cycles=0)
    for mode in MODES:
        for jobs in (mixed_jobs(mode, SEED), corner_jobs(mode, SEED)):
            total += compare(engine, jobs)
    return total


def sizes_identical(engines) -> bool:
    """Whether all ``engines``, pairs of name and view, give the bits of golden for the same jobs."""
    rng = np.random.default_rng([SEED, 20])
    jobs = [random_job(rng, m, n, k, mode, kind=kind, c=c) for mode in MODES for m, n, k, kind, c in SHAPES]
    quantised = [random_job(rng, 4, n, 65, mode, kind="normal", output=output) for mode in MODES
                 for n in (32, 45) for output in ("mxfp4", "mxfp8")]
    for name, view in engines:
        config = SIXTEEN if name == "sixteen" else preset(name).tile.matrix
        chosen = jobs + (quantised if config.cols % 32 == 0 else [])
        with SimulatedEngine(config, view=view) as engine:
            for job, result in zip(chosen, engine.run(chosen, poison=0xFF), strict=True):
                if result.status != "OK" or not same_bits(expected(job), result.y):
                    return False
    return True
