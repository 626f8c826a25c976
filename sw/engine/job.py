"""Jobs of the matrix engine and the plan by which a product becomes jobs."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from golden.formats import MXTensor
from golden.matmul import MODES, mode_name
from hw.config import MatrixConfig

__all__ = ["Job", "JobError", "LANES", "balanced_width", "rows_of_c", "supersteps", "Superstep"]

#: Columns of a quad that one pass works on, and passes that cover a quad, by mode.
LANES = {"mxfp4_mxfp4": 4, "mxfp8_mxfp4": 2, "mxfp8_mxfp8": 1}
OUTPUTS = ("binary32", "mxfp4", "mxfp8")


class JobError(ValueError):
    """A job that the engine cannot do; the message names field, value and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Y = C + X . W^T on a run of neighbouring units.

    Attributes
    ----------
    x : MXTensor [M, K]; w : MXTensor [N, K]
    c : float32 [M, N], or None
    units : (first unit, number of units)
    width : columns a unit takes in a superstep; None: the least that needs no more supersteps
    output : "binary32", "mxfp4" or "mxfp8" (blocks along N)
    """

    x: MXTensor
    w: MXTensor
    c: np.ndarray | None = None
    units: tuple[int, int] | None = None
    width: int | None = None
    output: str = "binary32"

    def __post_init__(self):
        if self.x.k != self.w.k:
            raise JobError(f"x has K = {self.x.k} and w has K = {self.w.k}: they must be equal")
        if self.output not in OUTPUTS:
            raise JobError(f"output is {self.output!r}; allowed are {', '.join(OUTPUTS)}")
        if self.c is not None and self.c.shape != (self.m, self.n):
            raise JobError(f"c has shape {self.c.shape}; it must be {(self.m, self.n)}")

    @property
    def m(self):
        return self.x.shape[0]

    @property
    def n(self):
        return self.w.shape[0]

    @property
    def k(self):
        return self.x.k

    @property
    def mode(self):
        return mode_name(self.x.format, self.w.format)

    def placed(self, config: MatrixConfig) -> "Job":
        """The same job with units and width chosen where they were open, checked against ``config``."""
        first, count = self.units or (0, config.units)
        if not 0 < count <= config.units - first or first < 0:
            raise JobError(f"units is {(first, count)}; the engine has units 0 to {config.units - 1}")
        granule = 4 if self.output == "binary32" else 32
        if config.cols % granule:
            raise JobError(f"output is {self.output!r}; units of {config.cols} columns give binary32 only")
        width = balanced_width(self.n, count, config.cols, granule) if self.width is None else self.width
        if not 0 < width <= config.cols or width % granule:
            raise JobError(f"width is {width}; it must be a multiple of {granule} up to {config.cols}")
        if self.m > config.accumulator_rows:
            raise JobError(f"M is {self.m}; a job takes at most accumulator_rows = {config.accumulator_rows}")
        return dataclasses.replace(self, units=(first, count), width=width)


def balanced_width(n, units, cols, granule=4):
    """Columns a unit so that the units share N evenly in the least number of supersteps."""
    steps = max(1, math.ceil(n / (units * cols)))
    width = math.ceil(n / (units * steps))
    return min(cols, max(granule, math.ceil(width / granule) * granule))


@dataclass(frozen=True)
class Superstep:
    """Columns ``start`` ... of a job for one unit: ``columns`` valid ones, ``subtiles`` for the whole run."""

    start: int
    columns: int
    subtiles: int

    @property
    def quads(self):
        return math.ceil(self.columns / 4)


def supersteps(job, unit):
    """The supersteps of a placed ``job`` as ``unit`` (0 is the first of its run) sees them."""
    stride = job.units[1] * job.width
    steps = []
    for start in range(0, job.n, stride):
        lead = min(job.n - start, job.width)
        own = start + unit * job.width
        columns = max(0, min(job.n - own, job.width))
        lanes = LANES[job.mode]
        subtiles = min(4 // lanes, math.ceil(min(lead, 4) / lanes))
        steps.append(Superstep(own, columns, subtiles))
    return steps


def rows_of_c(job, unit, cols):
    """Rows of C for one unit: uint8 [rows, 4 * cols]."""
    parts = []
    for step in supersteps(job, unit):
        if step.columns:
            row = np.zeros((job.m, cols), np.float32)
            row[:, :step.columns] = job.c[:, step.start:step.start + step.columns]
            parts.append(row)
    return np.concatenate(parts).view(np.uint8) if parts else np.zeros((0, 4 * cols), np.uint8)


assert set(LANES) == set(MODES)
