"""Streams of the HBM tests in the Amaranth simulator: senders and receivers that stall at random."""

import random

from amaranth.sim import Simulator


def payload(view):
    """A payload as dict of ints (a Signal of a plain shape: itself)."""
    return {name: int(getattr(view[name], "value", view[name])) for name in view.shape().members} \
        if hasattr(view, "shape") and hasattr(view.shape(), "members") else view


def sender(port, words, *, stall=0.0, seed=0):
    """Testbench: sends ``words``; waits before each with probability ``stall``."""
    rng = random.Random(seed)

    async def bench(ctx):
        for word in words:
            while rng.random() < stall:
                await ctx.tick()
            ctx.set(port.payload, word)
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)
    return bench


def receiver(port, take, *, stall=0.0, seed=0):
    """Background process: gives every word to ``take`` as a dict; checks that a waiting word stays."""
    rng = random.Random(~seed)

    async def bench(ctx):
        held = None
        while True:
            ready = rng.random() >= stall
            ctx.set(port.ready, ready)
            _, _, valid, word = await ctx.tick().sample(port.valid, port.payload)
            if held is not None:
                assert valid and payload(word) == held, "a waiting word was withdrawn or changed"
            held = None
            if valid:
                if ready:
                    take(payload(word))
                else:
                    held = payload(word)
    return bench


def simulate(component, *benches, background=()):
    """Runs ``benches`` to their end."""
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.run()
