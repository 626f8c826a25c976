"""Performance counters against a model, cycle by cycle, and the events one by one."""

import random
from pathlib import Path

import pytest

from hw.core.config import core_preset
from hw.core.privileged.counters import EVENTS, Counters, Event
from tests.test_core_privileged_csr import RS, RW, M, run

INHIBIT, MCYCLE, MINSTRET = 0x320, 0xB00, 0xB02


class Model:
    """The counters of docs/core-csrs.md, a step a cycle."""

    def __init__(self, counters):
        self.count = {0: 0, 2: 0, **{n: 0 for n in range(3, 3 + counters)}}
        self.select = {n: 0 for n in range(3, 3 + counters)}
        self.inhibit, self.pulses, self.own = 0, 0, False

    def value(self, address):
        number = address & 31
        if address >> 5 == INHIBIT >> 5:
            return self.select.get(number, 0) if number else self.inhibit
        return self.count.get(number, 0)

    def step(self, write, retired, events):
        steps = {0: 1, 2: retired - (self.own and retired > 0)}
        steps |= {n: self.select[n] and self.pulses >> self.select[n] - 1 & 1 for n in self.select}
        for number, step in steps.items():
            if not self.inhibit >> number & 1:
                self.count[number] = (self.count[number] + step) & M
        self.own &= not retired
        self.pulses = events
        if write:
            address, value = write
            number = address & 31
            if address >> 5 != INHIBIT >> 5:
                if number in self.count:
                    self.count[number] = value
                self.own |= number == 2
            elif number == 0:
                self.inhibit = value & 0xFFFF_FFFD
            elif number in self.select:
                self.select[number] = value if value <= EVENTS else 0


@pytest.mark.parametrize("preset,counters", [("tiny", 1), ("full", 8), ("small", 29)])
def test_random_cycles_against_the_model(preset, counters):
    rng, model, compared, cycles = random.Random(counters), Model(counters), 0, 3_000
    width = core_preset(preset).width
    machine = [0xB00, 0xB02, 0x320, *range(0xB03, 0xB0D), *range(0x323, 0x32D)]

    async def scenario(bench):
        nonlocal compared
        ctx, unit = bench.ctx, bench.unit
        for _ in range(cycles):
            write = None
            address = rng.choice(machine)
            shadow = address + 0x100 if 0xB00 <= address < 0xB03 and rng.randrange(2) else address
            assert bench.read(shadow) == model.value(address), hex(shadow)
            compared += 1
            if rng.randrange(3) == 0:
                if address == INHIBIT:
                    value = rng.choice((0, 0, rng.getrandbits(12)))
                elif address >> 5 == INHIBIT >> 5:
                    value = rng.randrange(EVENTS + 4)
                else:
                    value = rng.choice((0, M, M - 1, (1 << 32) - 1, rng.getrandbits(64)))
                write = (address, value)
                bench.look(address, RW, value, False)
            retired, events = rng.randrange(width + 1), rng.getrandbits(EVENTS)
            ctx.set(unit.csr.valid, bool(write))
            ctx.set(unit.retired, retired)
            ctx.set(unit.events.as_value(), events)
            await ctx.tick()
            ctx.set(unit.csr.valid, 0)
            model.step(write, retired, events)

    run(scenario, preset, counters=counters)
    assert compared == cycles and sum(value > 0 for value in model.count.values()) >= 2


def test_an_event_is_counted_by_its_number_and_by_no_other():
    seen = 0

    async def scenario(bench):
        nonlocal seen
        ctx, unit = bench.ctx, bench.unit
        for event in Event:
            await bench.write(0x323, event.value)
            await bench.write(0x324, event.value % EVENTS + 1)
            await bench.write(0xB03, 0)
            await bench.write(0xB04, 0)
            ctx.set(getattr(unit.events, event.name.lower()), 1)
            for _ in range(7):
                await ctx.tick()
            ctx.set(getattr(unit.events, event.name.lower()), 0)
            await ctx.tick().repeat(3)
            assert (bench.read(0xB03), bench.read(0xB04)) == (7, 0), event
            seen += 1

    run(scenario, counters=2)
    assert seen == EVENTS


def test_instructions_are_counted_around_a_write_of_minstret():
    async def scenario(bench):
        ctx, unit = bench.ctx, bench.unit

        async def retire(count):
            ctx.set(unit.retired, count)
            await ctx.tick()
            ctx.set(unit.retired, 0)

        await retire(4)
        await retire(3)
        assert bench.read(MINSTRET) == 7
        await bench.write(MINSTRET, 100)
        await ctx.tick().repeat(5)
        await retire(1)
        assert bench.read(0xC02) == 100  # the writer itself is not counted
        await retire(2)
        assert bench.read(MINSTRET) == 102
        await bench.access(RS, MINSTRET, 0, True)  # a read is counted
        await retire(1)
        assert bench.read(MINSTRET) == 103
        # Stopped and started: the instruction which does it is counted by the new value.
        await bench.write(INHIBIT, 4)
        await retire(1)
        await retire(3)
        assert bench.read(MINSTRET) == 103
        await bench.write(MINSTRET, M)
        await retire(1)
        await bench.write(INHIBIT, 0)
        await retire(1)
        assert bench.read(MINSTRET) == 0

    run(scenario, "full")


def test_mcycle_counts_cycles_and_stops():
    async def scenario(bench):
        assert bench.read(MCYCLE) == 0
        await bench.ctx.tick().repeat(10)
        assert bench.read(MCYCLE) == bench.read(0xC00) == 10
        await bench.write(MCYCLE, M)
        assert bench.read(MCYCLE) == M
        await bench.ctx.tick()
        assert bench.read(MCYCLE) == 0
        await bench.write(INHIBIT, 1)
        stopped = bench.read(MCYCLE)
        await bench.ctx.tick().repeat(10)
        assert bench.read(MCYCLE) == stopped == 1

    run(scenario)


def test_time_is_the_input():
    async def scenario(bench):
        bench.ctx.set(bench.unit.time, 0x1234_5678_9ABC_DEF0)
        assert bench.read(0xC01) == 0x1234_5678_9ABC_DEF0

    run(scenario)


def test_the_documentation_lists_the_events():
    text = (Path(__file__).parent.parent / "docs" / "core-csrs.md").read_text()
    for event in Event:
        assert text.count(f"| {event.value} | {event.name.lower()} |") == 1
    assert [event.value for event in Event] == list(range(1, EVENTS + 1))


def test_more_counters_than_there_are_addresses_are_refused():
    with pytest.raises(ValueError, match=r"counters.counters = 30: must be a whole number from 0 to 29"):
        Counters(width=1, counters=30)
