"""The pipeline log: stages, and instructions that a misprediction or a trap makes void."""

import numpy as np
import pytest

from tb.core.konata import konata_log
from tb.core.pipe import PIPE, Stage

NOP = 0x13


def events(*rows):
    """Rows of (cycle, stage, age, pc)."""
    return np.array([(cycle, pc, NOP, age, stage) for cycle, stage, age, pc in rows], dtype=PIPE)


def test_an_instruction_from_dispatch_to_commit():
    lines = konata_log(events((10, Stage.DISPATCHED, 5, 0x80000000), (12, Stage.ISSUED, 5, 0),
                              (13, Stage.ISSUED, 5, 0), (15, Stage.DONE, 5, 0), (16, Stage.COMMITTED, 1, 0)))
    assert lines == [
        "Kanata\t0004", "C=\t10", "I\t0\t0\t0", "L\t0\t0\t80000000 addi zero, zero, 0",
        "L\t0\t1\tage 5, word 00000013", "S\t0\t0\tDs", "C\t2", "S\t0\t0\tEx", "C\t1", "C\t2", "S\t0\t0\tCm",
        "C\t1", "E\t0\t0\tCm", "R\t0\t0\t0"]


def retirements(lines):
    """Instruction number to kind: 0 retired, 1 flushed."""
    return {int(line.split("\t")[1]): int(line.split("\t")[3]) for line in lines if line.startswith("R")}


def test_kill_keeps_the_branch_and_what_is_older():
    rows = [(1, Stage.DISPATCHED, age, 4 * age) for age in (14, 15, 0, 1)]  # ages wrap
    lines = konata_log(events(*rows, (2, Stage.KILL, 15, 0), (3, Stage.DISPATCHED, 0, 8),
                              (4, Stage.COMMITTED, 3, 0)))
    assert retirements(lines) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 0}


def test_kill_by_a_branch_that_has_left_and_flush():
    lines = konata_log(events(
        (1, Stage.DISPATCHED, 3, 0), (1, Stage.DISPATCHED, 4, 4), (2, Stage.COMMITTED, 1, 0),
        (2, Stage.KILL, 3, 0), (3, Stage.DISPATCHED, 4, 16), (4, Stage.FLUSH, 0, 0)))
    assert retirements(lines) == {0: 0, 1: 1, 2: 1}


def test_nothing_to_show():
    with pytest.raises(ValueError, match="events: there are none"):
        konata_log(np.zeros(0, dtype=PIPE))
    with pytest.raises(ValueError, match="must be PIPE"):
        konata_log(np.zeros(1, dtype=np.uint64))
