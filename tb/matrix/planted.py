"""Every planted bug through the checker that all results go through: is it found, and is its place named?"""

from dataclasses import dataclass

import numpy as np

from golden.matmul import MODES
from hw.config import MatrixConfig
from tb.planted import planted_engine
from tb.report import CheckFailure

from .check import check
from .operands import random_job
from .python_view import PythonEngine

__all__ = ["CONFIG", "Verdict", "jobs", "verdict"]

#: One quad column: bugs are in what repeats, so the smallest engine has them all.
CONFIG = MatrixConfig(units=1, rows=32, cols=4, accumulator_rows=4, output_rows=4)
#: Probability that a stream stands still in a cycle; results are fetched slowly.
STALL = {"weights__0": 0.2, "activations": 0.2, "c__0": 0.2, "o__0": 0.8}
SEED = 3


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the checks said of an engine: the report's place and sentence, or None where all was right."""

    bug: str | None
    tensor: str | None = None
    index: tuple | None = None
    sentence: str | None = None

    @property
    def caught(self):
        """Whether the check failed and named the first wrong element."""
        return self.index is not None


def jobs():
    """A few short jobs that touch every part of an engine: 60 to 150 cycles each."""
    rng = np.random.default_rng(SEED)
    chosen = [random_job(rng, m, n, k, mode, kind=kind, c=c) for mode, m, n, k, kind, c in (
        ("mxfp4_mxfp4", 4, 8, 65, "codes", False), ("mxfp8_mxfp8", 3, 5, 40, "codes", True),
        ("mxfp8_mxfp4", 3, 8, 65, "codes", False), ("mxfp8_mxfp8", 1, 2, 97, "codes", False),
        ("mxfp4_mxfp4", 1, 4, 97, "codes", True), ("mxfp4_mxfp4", 4, 32, 32, "codes", False),
        ("mxfp4_mxfp4", 3, 4, 0, "codes", True))]
    # A block of activations and one of weights that are NaN, and a C of -0 that nothing is added to.
    chosen[0].x.scales[1, 1] = 0xFF
    chosen[0].w.scales[2, 0] = 0xFF
    chosen[-1].c[0, :] = -0.0
    assert {job.mode for job in chosen} == set(MODES)
    return chosen


def verdict(bug=None) -> Verdict:
    """Run :func:`jobs` on the engine with the bug of that name, or on the right one, in Amaranth's simulator.

    A hang, or a run that goes wrong without a report, is not a verdict: it is raised.
    """
    design = None if bug is None else lambda: planted_engine(bug, CONFIG)
    engine = PythonEngine(CONFIG, design)
    try:
        check(engine, jobs(), test=f"planted bug {bug!r}", seed=SEED, stall=STALL, max_cycles=4_000)
    except CheckFailure as failure:
        report = failure.report
        return Verdict(bug=bug, tensor=report.tensor, index=report.index, sentence=report.problem)
    return Verdict(bug=bug)

