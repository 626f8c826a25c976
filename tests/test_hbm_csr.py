"""Registers and scrubber of the HBM slice."""

import pytest

from hw.config import HbmConfig
from hw.hbm.address_map import AddressMap
from hw.hbm.csr import VERSION, Index, Registers
from hw.hbm.scrub import DAILY, Scrubber
from tests.hbm_streams import receiver, sender, simulate

CONFIG = HbmConfig(pseudo_channels=3, stack_ids=1, rows=64)


def accesses(words, *, counters=(), temperature=0, state=()):
    """Answers to register accesses, and at the end the value of each signal that ``state`` picks."""
    registers, got, end = Registers(CONFIG), [], []

    async def setup(ctx):
        ctx.set(registers.temperature_in, temperature)
        for channel, fields in enumerate(counters):
            for name, value in fields.items():
                ctx.set(registers.counters[channel][name], value)
            ctx.set(registers.scrub_line[channel], 1000 + channel)

    async def finished(ctx):
        while len(got) < len(words):
            await ctx.tick()
        end.extend(ctx.get(getattr(registers, name)) for name in state)

    simulate(registers, setup, sender(registers.csr, words, stall=0.3), finished,
             background=[receiver(registers.answer, lambda word: got.append(word["data"]), stall=0.3)])
    return got, end


def read(index):
    return {"write": 0, "index": getattr(index, "value", index), "data": 0}


def write(index, data):
    return {"write": 1, "index": getattr(index, "value", index), "data": data}


def test_controls_keep_what_is_written_and_answer_the_value_before():
    got, end = accesses(
        [read(Index.ID), read(Index.SCRUB_INTERVAL), write(Index.SCRUB_INTERVAL, 5),
         read(Index.SCRUB_INTERVAL),
         write(Index.ALL_BANK, 1), read(Index.ALL_BANK), write(Index.ID, 77), read(Index.ID),
         write(Index.READS, 3), read(Index.READS), write(200, 1), read(200)],
        state=("scrub_interval", "all_bank"))
    identity = VERSION | 3 << 8
    assert got == [identity, DAILY, DAILY, 5, 0, 1, identity, identity, 0, 0, 0, 0]
    assert end == [5, 1]


@pytest.mark.parametrize("sensor", [0, 1, 2])
def test_temperature_can_be_overridden_and_given_back(sensor):
    for value, seen in ((None, sensor), (4, 0), (5, 1), (6, 2), (2, sensor)):
        words = [write(Index.TEMPERATURE, value)] if value is not None else [read(Index.ID)]
        assert accesses(words, temperature=sensor, state=("temperature",))[1] == [seen]


def test_counters_are_those_of_the_chosen_pseudo_channel():
    names = ["reads", "writes", "activates", "row_hits", "refreshes_due", "refreshes_served", "corrected",
             "uncorrected", "first_valid", "scrubbed"]
    counters = [{name: channel if name == "first_valid" else 100 * channel + place + (1 << 31)
                 for place, name in enumerate(names)} for channel in range(2)]
    indices = [Index[name.upper()] for name in names]
    for channel in range(2):
        got, _ = accesses([write(Index.CHANNEL, channel), *(read(index) for index in indices),
                           read(Index.SCRUB_LINE)], counters=counters)
        assert got == [0, *(counters[channel][name] for name in names), 1000 + channel]
    assert set(accesses([write(Index.CHANNEL, 3), *(read(index) for index in indices)],
                        counters=counters)[0]) == {0}


@pytest.mark.parametrize("interval,stall", [(1, 0.0), (7, 0.0), (7, 0.9), (3, 0.5)])
def test_scrubber_leaves_no_line_out(interval, stall):
    scrubber, lines = Scrubber(CONFIG), [[] for _ in range(3)]
    cycles = 400

    async def bench(ctx):
        ctx.set(scrubber.interval, interval)
        for _ in range(cycles):
            await ctx.tick()

    simulate(scrubber, bench, background=[
        receiver(port, lambda word, c=c: lines[c].append(word["line"]), stall=stall if c else 0.0, seed=c)
        for c, port in enumerate(scrubber.o)])
    for found in lines:
        assert found == list(range(len(found))) and len(found) > 20
    assert abs(len(lines[0]) - cycles // interval) <= 2


def test_scrubber_starts_again_after_the_last_line_and_stops_at_interval_0():
    # One PC of 16,384 lines, a line a cycle.
    config = HbmConfig(pseudo_channels=1, stack_ids=1, rows=64)
    total = AddressMap(config).local_lines
    scrubber, lines = Scrubber(config), []

    async def bench(ctx):
        ctx.set(scrubber.interval, 1)
        ctx.set(scrubber.o[0].ready, 1)
        await ctx.tick().repeat(total - 3)
        for _ in range(10):
            _, _, valid, line = await ctx.tick().sample(scrubber.o[0].valid, scrubber.o[0].payload.line)
            lines.append(line)
            assert valid
        ctx.set(scrubber.interval, 0)
        await ctx.tick().repeat(3)
        for _ in range(10):
            _, _, valid = await ctx.tick().sample(scrubber.o[0].valid)
            assert not valid

    simulate(scrubber, bench)
    assert total == 16384 and lines == [(lines[0] + step) % total for step in range(10)]
    assert {total - 1, 0} <= set(lines)
