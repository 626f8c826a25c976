"""Programs of misses on the model; timelines of instructions; how misses in flight are counted."""

import numpy as np
import pytest

from golden.riscv import Hart
from tb.core.memory import REQUEST
from tb.core.misses import DATA, LOADS, PLACES, in_flight, miss_program
from tb.core.pipe import PIPE, Stage
from tb.core.reference import load_memory, run_reference
from tb.core.timeline import draw_timelines, flights

FIRST = (DATA - 0x8000_0000) // 64


def requests(*times, lines=PLACES):
    return np.array([(taken, answered, FIRST + place, 0) for (taken, answered), place in zip(times, lines)],
                    dtype=REQUEST)


@pytest.mark.parametrize("dependent", [False, True])
def test_program_loads_each_line_in_both_turns(dependent):
    image = miss_program(dependent=dependent)
    assert run_reference(image, ram_bytes=1 << 20).exit_code == 0
    hart = Hart(load_memory(image, 1 << 20))
    loads = [record for record in (hart.step() for _ in range(40)) if record.mem_rmask]
    assert len(loads) == 2 * LOADS
    assert [record.pc_rdata for record in loads[:LOADS]] == [
        image.symbols["loads"] + 4 * n for n in range(LOADS)]
    assert {record.mem_addr for record in loads[LOADS:]} == {DATA + 64 * place for place in PLACES}


def test_in_flight():
    chain = requests(*((10 * n, 10 * n + 10) for n in range(8)))
    assert in_flight(chain)[1] == 1
    together = requests(*((n, 80 + n) for n in range(8)))
    other = np.array([(0, 100, 3, 0), (0, 100, FIRST, 1)], dtype=REQUEST)
    reads, most = in_flight(np.concatenate([other, together]))
    assert most == 8 and len(reads) == 8
    with pytest.raises(ValueError, match="each once"):
        in_flight(together[:7])


def test_flights(tmp_path):
    events = np.array([
        (5, 0x80000000, 0x13, 3, Stage.DISPATCHED), (5, 0x80000004, 0x93, 4, Stage.DISPATCHED),
        (6, 0, 0, 3, Stage.ISSUED), (7, 0, 0, 3, Stage.DONE), (7, 0, 0, 4, Stage.ISSUED),
        (8, 0, 0, 1, Stage.COMMITTED), (9, 0x80000008, 0x13, 5, Stage.DISPATCHED), (9, 0, 0, 4, Stage.KILL),
        (12, 0, 0, 4, Stage.DONE), (13, 0, 0, 1, Stage.COMMITTED),
        (14, 0x80000008, 0x13, 5, Stage.DISPATCHED),
        (14, 0, 0, 0, Stage.FLUSH)], dtype=PIPE)
    first, second = flights(events)
    assert list(first.spans()) == [("waits", 5, 6), ("runs", 6, 7), ("done", 7, 8)]
    assert list(second.spans()) == [("waits", 5, 7), ("runs", 7, 12), ("done", 12, 13)]
    path = draw_timelines(tmp_path / "x.png", [("two", [first, second], requests((0, 9), (1, 9)))])
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="must be PIPE"):
        flights(np.zeros(1, dtype=REQUEST))
