"""The CLINT: random accesses of every size with stalls against bytes; the lines; an interrupt withdrawn."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.address import CLINT
from hw.core.privileged.clint import Clint, Offset

M = (1 << 64) - 1
MSIP, MTIMECMP, MTIME = (CLINT + offset.value for offset in (Offset.MSIP, Offset.MTIMECMP, Offset.MTIME))


class Bench:
    def __init__(self, ctx, clint):
        self.ctx, self.clint = ctx, clint

    async def access(self, address, size, data=None, stall=0):
        """Value read, of 2 ** size bytes; data: a write of them. Cycles in between are checked by `lines`."""
        ctx, clint = self.ctx, self.clint
        request, shift, count = clint.request.payload, 8 * (address & 7), 1 << size
        assert ctx.get(clint.request.ready)
        mask = (1 << count) - 1 << (address & 7)
        for port, value in ((request.write, data is not None), (request.address, address),
                            (request.size, size), (request.data, (data or 0) << shift), (request.mask, mask)):
            ctx.set(port, value)
        ctx.set(clint.request.valid, 1)
        ctx.set(clint.response.ready, 0)
        await ctx.tick()
        ctx.set(clint.request.valid, 0)
        for port in (request.write, request.address, request.data, request.mask):
            ctx.set(port, -1)
        assert not ctx.get(clint.response.valid)
        await ctx.tick()
        answer = ctx.get(clint.response.payload.data)
        for _ in range(stall):
            assert ctx.get(clint.response.valid) and ctx.get(clint.response.payload.data) == answer
            assert not ctx.get(clint.request.ready)
            await ctx.tick()
        ctx.set(clint.response.ready, 1)
        assert ctx.get(clint.response.valid) and not ctx.get(clint.response.payload.fault)
        lines = ctx.get(clint.software), ctx.get(clint.timer)
        await ctx.tick()
        assert not ctx.get(clint.response.valid) and ctx.get(clint.request.ready)
        return answer >> shift & (1 << 8 * count) - 1, lines


def run(scenario, **options):
    clint, finished = Clint(**options), False

    async def bench(ctx):
        nonlocal finished
        await scenario(Bench(ctx, clint))
        finished = True

    simulator = Simulator(clint)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert finished


def test_after_reset_no_interrupt_is_pending():
    async def scenario(bench):
        assert (await bench.access(MTIMECMP, 3)) == (M, (0, 0))
        assert (await bench.access(MSIP, 2)) == (0, (0, 0))
        time, _ = await bench.access(MTIME, 3)
        assert time == 6  # one a cycle; an access takes three

    run(scenario)


def test_random_accesses_against_bytes():
    rng, compared, expected = random.Random(1), 0, bytearray(0x10000)
    expected[0x4000:0x4008] = b"\xff" * 8

    async def scenario(bench):
        nonlocal compared
        for _ in range(1_500):
            size = rng.randrange(4)
            base = rng.choice((0, 0, 4, 0x4000, 0x4000, 0x4008, 0xBFF0, 0xBFF8, rng.randrange(0x10000) & ~7))
            offset = (base & ~7) + (rng.randrange(8) >> size << size)
            data = rng.choice((None, rng.getrandbits(8 << size)))
            got, lines = await bench.access(CLINT + offset, size, data, rng.choice((0, 0, 1, 3)))
            if not 0xBFF8 <= offset < 0xC000:  # time goes on
                assert got == int.from_bytes(expected[offset:offset + (1 << size)], "little"), hex(offset)
                compared += 1
            if data is not None:
                for i, byte in enumerate(data.to_bytes(1 << size, "little")):
                    if offset + i == 0:
                        expected[0] = byte & 1
                    elif 0x4000 <= offset + i < 0x4008:
                        expected[offset + i] = byte
            assert lines[0] == expected[0]

    run(scenario)
    assert compared > 1_000


@pytest.mark.parametrize("divider", [1, 2, 5])
def test_time_and_the_timer_line(divider):
    async def scenario(bench):
        ctx, clint = bench.ctx, bench.clint
        await bench.access(MTIMECMP, 3, 50)
        await ctx.tick().until(clint.time == 49)
        while ctx.get(clint.time) == 49:
            assert not ctx.get(clint.timer)
            await ctx.tick()
        assert ctx.get(clint.time) == 50 and not ctx.get(clint.timer)
        await ctx.tick()
        assert ctx.get(clint.timer)
        start = ctx.get(clint.time)
        await ctx.tick().repeat(10 * divider)
        assert ctx.get(clint.time) == start + 10 and ctx.get(clint.timer)

    run(scenario, divider=divider)


def test_a_store_that_withdraws_an_interrupt_is_answered_after_the_line_has_fallen():
    async def scenario(bench):
        assert (await bench.access(MTIMECMP, 3, 0))[1] == (0, 1)
        assert (await bench.access(MTIMECMP + 4, 2, 1))[1] == (0, 0)
        assert (await bench.access(MSIP, 2, 1))[1] == (1, 0)
        assert (await bench.access(MSIP, 2, 0))[1] == (0, 0)

    run(scenario)


def test_time_is_written_and_compared_unsigned():
    async def scenario(bench):
        await bench.access(MTIME, 3, M - 100)
        assert (await bench.access(MTIMECMP, 3, 1))[1] == (0, 1)
        assert (await bench.access(MTIME, 3, 0))[0] > M - 100
        assert (await bench.access(MTIME, 3))[0] < 10
        await bench.access(MTIME + 4, 2, 7)
        assert (await bench.access(MTIME, 3))[0] >> 32 == 7

    run(scenario)


def test_a_divider_which_is_none_is_refused():
    with pytest.raises(ValueError, match=r"clint.divider = 0: must be a whole number of at least 1"):
        Clint(divider=0)
