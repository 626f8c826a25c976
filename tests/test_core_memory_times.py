"""Times of the load-store unit, in cycles from X."""

from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.core.address import CLINT, RAM
from hw.core.config import core_preset
from hw.core.memory.lsu import LoadStoreUnit


class Hits:
    """A unit whose L1 always hits; what happens in each cycle is recorded.

    ``plan``: cycle -> list of (port, value); fields of a value that are not given are 0.
    """

    def __init__(self, plan, cycles, preset="small", answers=None):
        self.dut = LoadStoreUnit(core_preset(preset), ram_bytes=1 << 20)
        self.loaded, self.done, self.stored, self.ready, self.bus = {}, {}, {}, {}, []
        self.indexes = []
        m = Module()
        m.submodules.dut = dut = self.dut
        simulator = Simulator(m)
        simulator.add_clock(1e-9)

        async def bench(ctx):
            asked = None
            for signal, value in ((dut.l1_load_ready, 1), (dut.l1_store.ready, 1), (dut.l1_store_idle, 1),
                                  (dut.mmio_request.ready, 1)):
                ctx.set(signal, value)
            pulses = []
            for cycle in range(cycles):
                hit = {"hit": 1, "data": 0x0101010101010101 * (asked or 0)} if asked is not None else {}
                ctx.set(dut.l1_loaded, (answers or {}).get(cycle, hit))
                for signal, zero in pulses:
                    ctx.set(signal, zero)
                pulses = []
                for name, value in plan.get(cycle, []):
                    signal = dut.dispatch[0] if name == "dispatch" else getattr(dut, name)
                    ctx.set(signal, value)
                    pulses.append((signal, {} if isinstance(value, dict) else 0))
                if ctx.get(dut.loaded.valid):
                    self.loaded[ctx.get(dut.loaded.age)] = cycle, ctx.get(dut.loaded.value)
                if ctx.get(dut.store_done.valid):
                    self.done[ctx.get(dut.store_done.age)] = cycle
                if ctx.get(dut.l1_store.valid):
                    self.stored[cycle] = ctx.get(dut.l1_store.payload.address)
                self.ready[cycle] = ctx.get(dut.load_ready)
                taken = ctx.get(dut.mmio_request.valid)
                if taken:
                    self.bus.append(cycle)
                asked = ctx.get(dut.l1_load.address) >> 3 & 255 if ctx.get(dut.l1_load.valid) else None
                await ctx.tick()
                ctx.set(dut.mmio_response.valid, taken)

        simulator.add_testbench(bench)
        simulator.run()


def load(age, **fields):
    return [("dispatch", {"load": 1, "age": age, "op": 3, "writes": 1, **fields}), ("dispatch_valid", 1)]


def store(age, op=3):
    return [("dispatch", {"store": 1, "age": age, "op": op}), ("dispatch_valid", 1)]


def x(port, index, at):
    return [(port, {"valid": 1, "index": index, "a": at, "immediate": 0})]


def value(index, number):
    return [("issue_data", {"valid": 1, "index": index, "value": number})]


def test_one_load_a_cycle():
    plan = {c: load(c) for c in range(12)}
    for c in range(12):
        plan.setdefault(c + 2, []).extend(x("issue_load", c, RAM + 8 * c))
    seen = Hits(plan, 20)
    assert seen.loaded == {c: (c + 3, 0x0101010101010101 * c) for c in range(12)}
    assert all(seen.ready.values())


def test_a_forwarded_value_comes_as_early_as_a_hit():
    plan = {0: store(0), 1: load(1), 2: x("issue_address", 0, RAM + 8) + value(0, 1234),
            3: x("issue_load", 0, RAM + 8)}
    seen = Hits(plan, 8)
    assert seen.loaded == {1: (4, 1234)} and seen.done == {0: 3}


def test_a_load_waits_for_addresses_and_data():
    """An address in cycle 6 lets the load into X in cycle 9; the data, too, into M three cycles later."""
    plan = {0: store(0), 1: load(1), 2: x("issue_load", 0, RAM + 8), 6: x("issue_address", 0, RAM + 8),
            12: value(0, 77)}
    seen = Hits(plan, 20)
    assert seen.loaded == {1: (15, 77)} and seen.done == {0: 13}
    assert [c for c, ready in seen.ready.items() if not ready] == [8, 13]
    plan[6] = x("issue_address", 0, RAM + 16)
    assert Hits(plan, 20).loaded == {1: (10, 0x0101010101010101)}


def test_a_part_of_the_bytes_waits_for_memory():
    plan = {0: store(0, op=0), 1: load(1), 2: x("issue_address", 0, RAM + 9) + value(0, 1),
            3: x("issue_load", 0, RAM + 8), 10: [("commit_stores", 1)]}
    seen = Hits(plan, 20)
    # Committed in 10, at the L1 in 11; in X in 13.
    assert seen.stored == {11: RAM + 9} and seen.loaded == {1: (14, 0x0101010101010101)}


def test_one_store_a_cycle():
    plan = {c: store(c) for c in range(8)}
    for c in range(8):
        plan.setdefault(c + 1, []).extend(x("issue_address", c, RAM + 8 * c) + value(c, c))
        plan.setdefault(c + 4, []).append(("commit_stores", 1))
    seen = Hits(plan, 20)
    assert seen.done == {c: c + 2 for c in range(8)}
    assert seen.stored == {c + 5: RAM + 8 * c for c in range(8)}


def test_a_miss_comes_again_when_it_is_filled():
    plan = {0: load(0), 1: x("issue_load", 0, RAM + 8), 9: [("l1_filled", 1 << 5)]}
    seen = Hits(plan, 20, answers={2: {"miss": 1, "mshr": 5}})
    assert seen.loaded == {0: (11, 0x0101010101010101)} and not seen.ready[9]
    # What is filled while the answer says miss is not lost.
    for cycle in (1, 2):
        plan = {**plan, 9: []}
        plan[cycle] = plan.get(cycle, []) + [("l1_filled", 1 << 5)]
        assert Hits(plan, 20, answers={2: {"miss": 1, "mshr": 5}}).loaded == {0: (5, 0x0101010101010101)}


def test_a_device_is_read_by_the_oldest_only():
    plan = {0: load(3), 1: x("issue_load", 0, CLINT), 8: [("head_age", 3), ("head_valid", 1)]}
    seen = Hits(plan, 20)
    assert seen.bus == [9] and list(seen.loaded) == [3] and seen.loaded[3][0] == 13
