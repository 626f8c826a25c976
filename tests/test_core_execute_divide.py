"""Division against Python integers: special cases, edges, random sizes; latency, waiting results, kills."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.execute.divide import Divider
from hw.core.types import DivOp
from tests.test_core_execute_alu import EDGES, MASK, signed

LOWEST = 1 << 63


def magnitudes(op, narrow, a, b):
    bits = 32 if narrow else 64
    if op in (DivOp.DIVU, DivOp.REMU):
        return a & (1 << bits) - 1, b & (1 << bits) - 1
    return signed(a, bits), signed(b, bits)


def expected(op, narrow, a, b):
    """DIV, DIVU, REM, REMU and their W forms by their words."""
    left, right = magnitudes(op, narrow, a, b)
    if right == 0:
        quotient, remainder = -1, left
    else:
        quotient = abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)
        remainder = left - quotient * right
    return signed(quotient if op in (DivOp.DIV, DivOp.DIVU) else remainder, 32 if narrow else 64) & MASK


def latency(op, narrow, a, b):
    left, right = magnitudes(op, narrow, a, b)
    steps = max(abs(left).bit_length(), 1) - abs(right).bit_length() + 1
    return 2 + (max(steps, 0) if right else 0)


def run(bench):
    divider = Divider()
    simulator = Simulator(divider)
    simulator.add_clock(1e-9)

    async def limited(ctx):
        await bench(ctx, divider)

    simulator.add_testbench(limited)
    simulator.run()


async def start(ctx, divider, op, narrow, a, b):
    for port, value in ((divider.op, op.value), (divider.narrow, narrow), (divider.a, a), (divider.b, b),
                        (divider.valid, 1)):
        ctx.set(port, value)
    assert ctx.get(divider.ready) and not ctx.get(divider.busy)
    await ctx.tick()
    ctx.set(divider.valid, 0)
    for port in (divider.op, divider.a, divider.b):  # held by the divider from here on
        ctx.set(port, 5)


async def finish(ctx, divider):
    """(cycles since the start, value), with done taken."""
    for cycle in range(1, 70):
        assert ctx.get(divider.busy) and not ctx.get(divider.ready)
        if ctx.get(divider.done):
            value = ctx.get(divider.value)
            await ctx.tick()
            return cycle, value
        await ctx.tick()
    raise AssertionError("the divider does not finish")


def divide_all(cases):
    compared = 0

    async def bench(ctx, divider):
        nonlocal compared
        for case in cases:
            await start(ctx, divider, *case)
            assert await finish(ctx, divider) == (latency(*case), expected(*case)), case
            compared += 1

    run(bench)
    assert compared == len(cases) > 0


SPECIAL = [
    # op, narrow, a, b, result (RISC-V unprivileged specification, table of division by zero and overflow)
    (DivOp.DIV, 0, 7, 0, MASK), (DivOp.DIV, 0, LOWEST, 0, MASK), (DivOp.DIVU, 0, 7, 0, MASK),
    (DivOp.REM, 0, LOWEST, 0, LOWEST), (DivOp.REM, 0, -7 & MASK, 0, -7 & MASK),
    (DivOp.REMU, 0, MASK, 0, MASK),
    (DivOp.DIV, 0, LOWEST, MASK, LOWEST), (DivOp.REM, 0, LOWEST, MASK, 0),
    (DivOp.DIVU, 0, LOWEST, MASK, 0), (DivOp.REMU, 0, LOWEST, MASK, LOWEST),
    (DivOp.DIV, 0, 0, 0, MASK), (DivOp.REM, 0, 0, 0, 0),
    (DivOp.DIV, 1, 7, 1 << 32, MASK), (DivOp.DIVU, 1, 7, 0, MASK),
    (DivOp.REM, 1, 0x8000_0000, 0, 0xFFFF_FFFF_8000_0000),
    (DivOp.REMU, 1, 0x8000_0000, 0, 0xFFFF_FFFF_8000_0000),
    (DivOp.DIV, 1, 0x8000_0000, 0xFFFF_FFFF, 0xFFFF_FFFF_8000_0000),
    (DivOp.REM, 1, 0x8000_0000, 0xFFFF_FFFF, 0),
    (DivOp.DIVU, 1, 0xFFFF_FFFF, 1, MASK), (DivOp.REMU, 1, 0xFFFF_FFFF, 0x8000_0001, 0x7FFF_FFFE),
    (DivOp.DIV, 0, -7 & MASK, 2, -3 & MASK), (DivOp.REM, 0, -7 & MASK, 2, MASK),
    (DivOp.DIV, 0, 7, -2 & MASK, -3 & MASK), (DivOp.REM, 0, 7, -2 & MASK, 1),
]


def test_special_cases_have_the_values_of_the_specification():
    assert all(expected(*case[:4]) == case[4] for case in SPECIAL)
    divide_all([case[:4] for case in SPECIAL])


@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("op", DivOp, ids=lambda op: op.name)
def test_edges_and_random_sizes(op, narrow):
    rng = random.Random(op.value * 2 + narrow)
    edges = [0, 1, 2, 7, MASK, LOWEST, LOWEST - 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]
    cases = [(op, narrow, a, b) for a in edges for b in edges]
    for _ in range(120):
        a, b = (rng.getrandbits(rng.randint(1, 64)) for _ in range(2))
        cases.append((op, narrow, a if rng.randrange(2) else -a & MASK, b if rng.randrange(2) else -b & MASK))
    cases += [(op, narrow, rng.choice(EDGES), rng.choice(EDGES)) for _ in range(40)]
    divide_all(cases)


def test_a_result_waits_until_it_is_taken():
    async def bench(ctx, divider):
        ctx.set(divider.take, 0)
        await start(ctx, divider, DivOp.DIVU, 0, 100, 7)
        await ctx.tick().until(divider.done)
        for _ in range(5):
            assert ctx.get(divider.done) and ctx.get(divider.value) == 14 and not ctx.get(divider.ready)
            await ctx.tick()
        ctx.set(divider.take, 1)
        await ctx.tick()
        assert not ctx.get(divider.done) and ctx.get(divider.ready)

    run(bench)


def test_kill_in_every_cycle_of_a_division_and_nothing_left_over():
    case = (DivOp.DIV, 0, -1000 & MASK, 3)
    last = latency(*case)
    killed = 0

    async def bench(ctx, divider):
        nonlocal killed
        for cycle in range(1, last + 1):
            ctx.set(divider.take, 0)
            await start(ctx, divider, *case)
            for _ in range(cycle - 1):
                assert not ctx.get(divider.done)
                await ctx.tick()
            assert ctx.get(divider.done) == (cycle == last)
            ctx.set(divider.kill, 1)
            assert not ctx.get(divider.done) and not ctx.get(divider.ready)
            await ctx.tick()
            ctx.set(divider.kill, 0)
            ctx.set(divider.take, 1)
            assert ctx.get(divider.ready) and not ctx.get(divider.busy)
            await start(ctx, divider, DivOp.REMU, 0, 12345, 67)
            assert (await finish(ctx, divider))[1] == 12345 % 67
            killed += 1
        ctx.set(divider.kill, 1)  # nothing to a division which starts in this cycle
        await start(ctx, divider, DivOp.REMU, 0, 9, 5)
        ctx.set(divider.kill, 0)
        assert (await finish(ctx, divider))[1] == 4

    run(bench)
    assert killed == last
