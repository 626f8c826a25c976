"""Bugs planted in the load-store unit, one line each: the bench of its surroundings finds every one."""

import importlib
import sys
import types

import pytest

import hw.core
import hw.core.memory.lsu
from hw.core.config import core_preset
from tb.planted import Bug
from tests.core_memory_bench import RAM_BYTES, Bench, Odds

PACKAGE = "hw.core.memory"
ALIASES = Odds(devices=0, wild=0, poisoned=0, lines=0, reuse=0.7, commit=0.3, fill=1, evict=0)
# A flush would free what hangs.
MISSES = Odds(devices=0, wild=0, poisoned=0, lines=1, reuse=0, load=0.8, fill=0.2, evict=0.3, kill=0, flush=0,
              issue=1, dispatch=1)
KILLS = Odds(kill=0.2, flush=0, wild=0)
FAULTS = Odds(devices=0, wild=0.7, poisoned=0, kill=0, flush=0, issue=0.3, dispatch=1)
DEVICES = Odds(devices=0.7, wild=0, flush=0.05, poisoned=0)

BUGS = [
    (KILLS, Bug(what="a killed store stays in the queue", module="hw.core.memory.store_queue",
                right="with m.Elif(killed != 0):", wrong="with m.Elif(killed[0]):")),
    (ALIASES, Bug(what="forwarding takes the oldest store, not the youngest",
                  module="hw.core.memory.store_queue",
                  right="where.eq(newest(hits, self.search_position[:-1], n))",
                  wrong="where.eq(oldest(hits, head[:-1], n))")),
    (ALIASES, Bug(what="a store that has some of the bytes is forwarded", module="hw.core.memory.store_queue",
                  right="(self.search_mask & ~own) == 0", wrong="(self.search_mask & own) != 0")),
    (ALIASES, Bug(what="a store's data of an earlier lap is forwarded", module="hw.core.memory.store_queue",
                  right="has_data.eq((has_data | valued) & ~allocated)",
                  wrong="has_data.eq(has_data | valued)")),
    (ALIASES, Bug(what="loads pass stores without address", module="hw.core.memory.lsu",
                  right="with m.Elif(m_found.unknown):", wrong="with m.Elif(m_found.unknown & 0):")),
    (ALIASES, Bug(what="a load sees stores that are younger", module="hw.core.memory.store_queue",
                  right="older.eq(span(head, self.search_position, n))",
                  wrong="older.eq(span(head, tail, n))")),
    (Odds(), Bug(what="a load in M outlives a kill", module="hw.core.memory.lsu",
                 right="~self.flush & ~(self.kill.valid & younger(m_entry.age, self.kill.age))",
                 wrong="~self.flush")),
    (Odds(flush=0.05), Bug(what="a flush drops what is committed in the same cycle",
                           module="hw.core.memory.store_queue",
                           right="m.d.sync += tail.eq(next_committed)",
                           wrong="m.d.sync += tail.eq(committed)")),
    (MISSES, Bug(what="a fill in the cycle of the answer is missed", module="hw.core.memory.lsu",
                       right="with m.If(answer.miss & ~just_filled):", wrong="with m.If(answer.miss):")),
    (MISSES, Bug(what="a wake-up is lost where another load is older", module="hw.core.memory.load_queue",
                 right="woken.eq((woken | filling | answered) & kept)",
                 wrong="woken.eq((woken & kept) | (answered & kept))")),
    (Odds(), Bug(what="a fault has the doubleword's address", module="hw.core.memory.lsu",
                 right="self.fault.tval.eq(Mux(failed, m_address, stores.done_address))",
                 wrong="self.fault.tval.eq(Mux(failed, m_address & ~7, stores.done_address))")),
    (FAULTS, Bug(what="a store's fault is lost beside a load's", module="hw.core.memory.lsu",
                         right="stores.done.valid & ~(stores.done_faulty & failed)",
                         wrong="stores.done.valid")),
    (DEVICES, Bug(what="a device is read before it is the load's turn", module="hw.core.memory.lsu",
                  right="loads.head_device & oldest &", wrong="loads.head_device &")),
    (Odds(), Bug(what="loads of a byte are not extended by their sign", module="hw.core.memory.access",
                 right="sign = value[bits - 1] & ~is_unsigned",
                 wrong="sign = value[bits - 1] & ~is_unsigned & (bits != 8)")),
]


def planted(bug, config):
    """A unit with the bug, from copies of its modules."""
    ours = {name: sys.modules.pop(name) for name in list(sys.modules)
            if name == PACKAGE or name.startswith(PACKAGE + ".")}
    try:
        copy = types.ModuleType(bug.module)
        copy.__package__, copy.__file__ = PACKAGE, str(bug.path)
        importlib.import_module(PACKAGE)
        sys.modules[bug.module] = copy
        exec(compile(bug.source(), str(bug.path), "exec"), copy.__dict__)
        unit = importlib.import_module(PACKAGE + ".lsu").LoadStoreUnit
        return unit(config, ram_bytes=RAM_BYTES)
    finally:
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
            del sys.modules[name]
        sys.modules.update(ours)
        hw.core.memory = ours[PACKAGE]


@pytest.mark.parametrize("odds,bug", BUGS, ids=[bug.what for _, bug in BUGS])
def test_a_planted_bug_is_found(odds, bug):
    config = core_preset("tiny")
    unit = planted(bug, config)
    assert type(unit) is not hw.core.memory.lsu.LoadStoreUnit
    with pytest.raises(AssertionError):
        Bench(config, seed=1, odds=odds, dut=unit).run(3000)
