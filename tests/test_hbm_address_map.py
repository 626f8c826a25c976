"""The address map is a bijection: exhaustively on small slices, at the edges and at random on the full."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw.config import ConfigError, HbmConfig, preset
from hw.hbm.address_map import LOCAL_BITS, AddressMap, Location, divide


class Mapper(wiring.Component):
    """All functions of the map, one after the other."""

    def __init__(self, config):
        self.map = AddressMap(config)
        super().__init__({"line": In(32), "channel": Out(6), "local": Out(LOCAL_BITS), "back": Out(32),
                          "o": Out(Location)})

    def elaborate(self, platform):
        m = Module()
        local, channel = self.map.split(self.line)
        m.d.comb += [self.local.eq(local), self.channel.eq(channel),
                     self.back.eq(self.map.join(self.local, self.channel))]
        m.d.comb += [self.o[name].eq(value) for name, value in self.map.locate(self.local).items()]
        return m


def evaluate(config, lines):
    """(channel, local, sid, bank, row, column, back) of each line, by the hardware."""
    mapper, found = Mapper(config), []
    fields = Cat(mapper.channel, mapper.local, mapper.o, mapper.back)
    packed = Signal(len(fields))
    m = Module()
    m.submodules.mapper = mapper
    m.d.comb += packed.eq(fields)

    async def bench(ctx):
        for line in lines:
            ctx.set(mapper.line, line)
            word, fields = ctx.get(packed), []
            for width in (6, LOCAL_BITS, 2, 4, 16, 4, 32):
                fields.append(word & (1 << width) - 1)
                word >>= width
            found.append(tuple(fields))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def place(config, line):
    """The map by its words: nested counters, innermost first, each with its own size."""
    sizes = [("low", 4), ("channel", config.pseudo_channels), ("group", config.bank_groups), ("high", 4),
             ("bank", config.banks // config.bank_groups), ("sid", config.stack_ids), ("row", config.rows)]
    digit = {}
    for name, size in sizes:
        line, digit[name] = divmod(line, size)
    assert line == 0
    return (digit["channel"], digit["sid"], digit["bank"] * config.bank_groups + digit["group"],
            digit["row"], digit["high"] * 4 + digit["low"])


def check(config, lines):
    found = evaluate(config, lines)
    seen = set()
    for line, (channel, local, sid, bank, row, column, back) in zip(lines, found):
        assert (channel, sid, bank, row, column) == place(config, line), line
        assert channel < config.pseudo_channels and sid < config.stack_ids and row < config.rows
        assert back == line and local < AddressMap(config).local_lines
        seen.add((channel, sid, bank, row, column))
    assert len(seen) == len(set(lines)) > 0


@pytest.mark.parametrize("channels,sids,groups", [(1, 3, 4), (3, 1, 2)])
def test_bijection_of_small_slices_exhaustively(channels, sids, groups):
    config = HbmConfig(pseudo_channels=channels, stack_ids=sids, bank_groups=groups, rows=64)
    check(config, range(AddressMap(config).lines))


@pytest.mark.parametrize("groups", [2, 4])
def test_full_slice_at_the_edges_and_at_random(groups):
    config = HbmConfig(pseudo_channels=6, bank_groups=groups)
    assert config == preset("full").tile.hbm or groups == 2
    lines, rng = AddressMap(config).lines, random.Random(groups)
    assert lines * 64 == config.capacity_bytes == 6 * 576 * 2**20
    chosen = {rng.randrange(lines) for _ in range(5_000)}
    for edge in (0, 24, 24 * 256, 24 * 256 * 3, 1 << 22, 1 << 24, 1 << 25, lines // 2, lines):
        chosen |= {line for line in range(edge - 30, edge + 30) if 0 <= line < lines}
    check(config, sorted(chosen))


def test_a_stream_changes_the_bank_group_every_256_bytes_and_closes_pages_within_4_kib():
    config = HbmConfig(pseudo_channels=6)
    local = [line for line in range(6 * 4 * 64) if line // 4 % 6 == 0]
    places = [place(config, line) for line in local]
    assert [bank % 4 for _, _, bank, _, _ in places[::4]] == [0, 1, 2, 3] * 16
    assert [len({(sid, bank, row) for _, sid, bank, row, _ in places[start:start + 64]})
            for start in range(0, len(places), 64)] == [4] * 4


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 6, 7, 12, 48, 63])
@pytest.mark.parametrize("maximum", [0, 1, 47, 1000])
def test_divide_is_exact(divisor, maximum):
    value = Signal(range(maximum + 1))
    quotient, remainder = divide(Cat(value, 0), divisor, maximum)
    q, r = Signal(16), Signal(16)
    m = Module()
    m.d.comb += [q.eq(quotient), r.eq(remainder)]

    async def bench(ctx):
        for number in range(maximum + 1):
            ctx.set(value, number)
            assert (ctx.get(q), ctx.get(r)) == divmod(number, divisor)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_pseudo_channel_of_too_many_lines_is_refused():
    with pytest.raises(ConfigError, match="hbm.rows = 65536"):
        AddressMap(HbmConfig(pseudo_channels=1, rows=65536))
