"""Multiplication against Python integers, one started every cycle or with gaps, at every latency."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from hw.core.execute.multiply import Multiplier
from tests.test_core_execute_alu import EDGES, MASK, signed


def expected(op, narrow, a, b):
    """MUL, MULH, MULHSU, MULHU, MULW by their words."""
    if narrow:
        return signed(a * b, 32) & MASK
    left = signed(a) if op in (1, 2) else a
    right = signed(b) if op == 1 else b
    return (left * right >> (64 if op else 0)) & MASK


def run(latency, cases, gaps):
    multiplier, rng, waiting, compared = Multiplier(latency), random.Random(latency), deque(), 0

    async def bench(ctx):
        nonlocal compared
        queue, cycle = deque(cases), 0
        while queue or waiting:
            start = bool(queue) and not (gaps and rng.randrange(3) == 0)
            ctx.set(multiplier.valid, start)
            # What is not valid is rubbish, and leaves no trace.
            op, narrow, a, b = queue.popleft() if start else (rng.randrange(4), rng.randrange(2),
                                                             rng.getrandbits(64), rng.getrandbits(64))
            for port, value in ((multiplier.op, op), (multiplier.narrow, narrow), (multiplier.a, a),
                                (multiplier.b, b)):
                ctx.set(port, value)
            if start:
                waiting.append((cycle + latency, (op, narrow, a, b)))
            due = bool(waiting) and waiting[0][0] == cycle
            assert ctx.get(multiplier.done) == due
            if due:
                case = waiting.popleft()[1]
                assert ctx.get(multiplier.value) == expected(*case), case
                compared += 1
            await ctx.tick()
            cycle += 1

    simulator = Simulator(multiplier)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert compared == len(cases) > 0


@pytest.mark.parametrize("op,narrow", [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)])
def test_edges(op, narrow):
    run(3, [(op, narrow, a, b) for a in EDGES for b in EDGES], gaps=False)


@pytest.mark.parametrize("latency", [2, 3, 4, 8])
def test_random_with_gaps(latency):
    rng = random.Random(latency)
    cases = []
    for _ in range(1_000):
        op, narrow = rng.choice(((0, 0), (1, 0), (2, 0), (3, 0), (0, 1)))
        cases.append((op, narrow, rng.getrandbits(64), rng.choice((rng.getrandbits(64), rng.choice(EDGES)))))
    run(latency, cases, gaps=True)


def test_a_latency_which_is_none_is_refused():
    with pytest.raises(ValueError, match=r"multiplier.latency = 1: must be a whole number of at least 2"):
        Multiplier(1)
