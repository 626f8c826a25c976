"""The command trace that the device writes: one record a command, in the order of time for each device."""

import enum

import numpy as np

__all__ = ["Bus", "Mark", "OPS", "RECORD", "records", "read_trace"]

#: Names of operations by the number that the trace has; 0 is no operation.
OPS = ("NOP", "ACT", "PRE", "PREA", "REFPB", "REFAB", "MRS", "RD", "RDA", "WR", "WRA", "UNKNOWN")

RECORD = np.dtype([("ck", "<i8"), ("device", "u1"), ("bus", "u1"), ("op", "u1"), ("stack", "u1"),
                   ("bank", "u1"), ("reserved", "u1"), ("value", "<u2")])
"""`value` is a row, a column, or what MRS writes to register `bank`; of a mark the temperature."""


class Bus(enum.IntEnum):
    """Where a record belongs; a mark is no command, and its `op` is a :class:`Mark`."""

    ROW = 0
    COLUMN = 1
    MARK = 2


class Mark(enum.IntEnum):
    """Reset, a new temperature input, the end of the trace."""

    RESET = 0
    TEMPERATURE = 1
    END = 2


def read_trace(path):
    """The records of a trace file, as an array of :data:`RECORD`.

    Raises
    ------
    ValueError
        The file is cut, or holds no record.
    """
    size = path.stat().st_size
    if size == 0 or size % RECORD.itemsize:
        raise ValueError(f"{path} has {size} bytes; a trace has a whole number of records of "
                         f"{RECORD.itemsize}")
    return np.fromfile(path, dtype=RECORD)


def records(commands):
    """An array of :data:`RECORD` from tuples (ck, device, operation's name or Mark, stack, bank, value)."""
    rows = []
    for ck, device, op, stack, bank, value in commands:
        if isinstance(op, Mark):
            rows.append((ck, device, Bus.MARK, op, stack, bank, 0, value))
        else:
            number = OPS.index(op)
            bus = Bus.COLUMN if number >= OPS.index("RD") else Bus.ROW
            rows.append((ck, device, bus, number, stack, bank, 0, value))
    return np.array(rows, dtype=RECORD)
