"""What a retired instruction did, as the core's trace port tells it (RVFI form), and a difference in it.

A record is one instruction in program order:

- ``order`` counts from 0; every record counts, one that traps too.
- ``insn``: the word; meaningless (not compared) when the fetch itself faulted.
- ``pc_rdata`` its address, ``pc_wdata`` that of the next instruction (of the handler after a trap).
- ``trap``: the instruction raised an exception: no register is written and no memory accessed.
- ``intr``: the first instruction of a handler, entered by an interrupt before it.
- ``cause``: mcause of the interrupt if ``intr``, else of the exception if ``trap``, else 0.
- ``rd_addr``, ``rd_wdata``: the register written, both 0 if none is.
- ``mem_addr``: address of the access, 0 if there is none. ``mem_rmask``, ``mem_wmask``: one bit a byte from
  that address on: 0x01, 0x03, 0x0F or 0xFF. ``mem_rdata``, ``mem_wdata``: the bytes as they are in memory,
  the byte at ``mem_addr`` lowest, not extended, zero above the mask.
- ``cycle``: when it was committed; not compared.
"""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np

__all__ = ["COMPARED", "HISTORY", "Mismatch", "RECORD", "Record"]

RECORD = np.dtype([
    ("order", "<u8"), ("insn", "<u4"), ("pc_rdata", "<u8"), ("pc_wdata", "<u8"),
    ("trap", "u1"), ("intr", "u1"), ("cause", "<u8"), ("rd_addr", "u1"), ("rd_wdata", "<u8"),
    ("mem_addr", "<u8"), ("mem_rmask", "u1"), ("mem_wmask", "u1"), ("mem_rdata", "<u8"), ("mem_wdata", "<u8"),
    ("cycle", "<u8"),
])
"""A record in an array or a file: packed, little-endian, no gaps."""

COMPARED = list(RECORD.names[:-1])
"""Fields that are compared."""

HISTORY = 32
"""Records kept to be shown before a mismatch."""

Record = namedtuple("Record", RECORD.names)
Record.__doc__ = "One record as Python integers; its fields are those of RECORD."


@dataclass(frozen=True)
class Mismatch:
    """The first record which is not as the model has it.

    Parameters
    ----------
    index : place in the array that was compared.
    expected : Record of the model.
    got : Record that was compared with it.
    fields : names of the fields that differ; empty if ``reason`` is about something else.
    reason : one sentence.
    history : up to HISTORY Records before it, oldest first, equal in both.
    """

    index: int
    expected: Record
    got: Record
    fields: tuple
    reason: str
    history: tuple
