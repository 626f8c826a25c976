"""What the matrix engine is asked to do, and what it answers.

A job is Y[m, n] = C[m, n] + X[m, k] . W[n, k]^T (docs/numbers.md). It goes to a run of neighbouring units.
Each takes ``width`` columns at a time; unit i of the run has columns i*width ... of every superstep of
units*width columns.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from ..numbers.formats import Mode

__all__ = ["Output", "Status", "Command", "Response", "UnitCommand", "ROW_BITS", "COLUMN_BITS", "DEPTH_BITS"]

ROW_BITS = 13
COLUMN_BITS = 24
DEPTH_BITS = 24


class Output(enum.Enum, shape=2):
    """Form of the result rows. Code 3 is not a form."""

    BINARY32 = 0
    MXFP4 = 1
    MXFP8 = 2


class Status(enum.Enum, shape=3):
    """Answer to a job. Anything but OK means that the job was not started and no stream was touched."""

    OK = 0
    ILLEGAL_MODE = 1
    ILLEGAL_OUTPUT = 2
    ILLEGAL_ROWS = 3
    ILLEGAL_WIDTH = 4
    ILLEGAL_UNITS = 5


class Command(data.Struct):
    """A job as it enters the engine.

    ``m`` rows (at most accumulator_rows), ``n`` columns, ``k`` elements, any of them 0; ``first_unit`` and
    ``units`` name the run of units; ``width`` is a multiple of 4, at most a unit's columns (of 32 where the
    output is MX, whose blocks lie along n). ``has_c``: rows of C come in before each superstep.
    ``mode`` and ``output`` are raw codes: illegal ones are answered, not undefined.
    """

    tag: unsigned(8)
    mode: unsigned(2)
    output: unsigned(2)
    has_c: unsigned(1)
    first_unit: unsigned(7)
    units: unsigned(7)
    width: unsigned(9)
    m: unsigned(16)
    n: unsigned(COLUMN_BITS)
    k: unsigned(DEPTH_BITS)


class Response(data.Struct):
    """Answer to a job, in the order of the commands, after its last row has left the engine."""

    tag: unsigned(8)
    status: Status


class UnitCommand(data.Struct):
    """A legal job as one unit gets it: m and n are not 0, ``first`` < n, ``stride`` = units * width."""

    mode: Mode
    output: Output
    has_c: unsigned(1)
    width: unsigned(9)
    m: unsigned(ROW_BITS)
    n: unsigned(COLUMN_BITS)
    k: unsigned(DEPTH_BITS)
    first: unsigned(16)
    stride: unsigned(16)
