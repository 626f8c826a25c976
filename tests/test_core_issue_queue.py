"""The issue queue against a list: the oldest that is ready leaves; wake-ups, kills, gated entries, room."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.config import core_preset
from hw.core.types import Unit
from hw.core.window.issue_queue import IssueQueue

CYCLES = 600
WAKES = 3
TAGS = 12  # few, so that wake-ups meet waiting sources


def simulate(queue, bench):
    simulator = Simulator(queue)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()


def entry_of(item):
    return {"valid": 1, "gated": item["gated"],
            "operation": {"unit": Unit.ALU, "age": item["age"], "immediate": item["mark"]},
            "rs1": {"tag": item["tags"][0], "ready": item["ready"][0]},
            "rs2": {"tag": item["tags"][1], "ready": item["ready"][1]}}


def item_of(age, mark, *, tags=(0, 0), ready=(1, 1), gated=0):
    return {"age": age, "mark": mark, "tags": tags, "ready": list(ready), "gated": gated}


def leaving(ctx, queue):
    """The mark of what is offered, or None."""
    return ctx.get(queue.o.operation.immediate) if ctx.get(queue.o.valid) else None


async def write(ctx, queue, items):
    """Entries are written at the edge of this cycle."""
    for i, port in enumerate(queue.i):
        ctx.set(port, entry_of(items[i]) if i < len(items) else {})
    await ctx.tick()
    for port in queue.i:
        ctx.set(port, {})


CONFIGS = {
    "tiny": core_preset("tiny"),
    "small": core_preset("small", queue=5, reorder_buffer=16),
    "full": core_preset("full", queue=8, reorder_buffer=32),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_random(name):
    config, rng = CONFIGS[name], random.Random(name)
    queue, width = IssueQueue(config, wakes=WAKES), config.width
    wrap = 2 * config.reorder_buffer
    seen = dict.fromkeys(("left", "not the oldest", "killed", "flushed", "no room", "blocked", "held"), 0)
    items, state = [], {"oldest": 0, "tail": 0, "mark": 0}  # items: oldest first

    async def cycle(ctx, pace):
        flush, wrong = rng.random() < 0.02, rng.random() < 0.06
        go, blocked = rng.random() < pace, rng.random() < 0.4
        room = len(items) <= config.queue - width
        assert ctx.get(queue.level) == len(items)
        assert ctx.get(queue.room) == room
        seen["no room"] += not room

        # Ages in flight are fewer than the reorder buffer has.
        state["oldest"] = items[0]["age"] if items else state["tail"]
        space = config.reorder_buffer - (state["tail"] - state["oldest"])
        age = rng.randrange(state["oldest"], state["tail"] + 1) if items else state["tail"]
        wrong = wrong and age < state["tail"]
        ctx.set(queue.kill, {"valid": wrong, "age": age % wrap})
        ctx.set(queue.flush, flush)
        ctx.set(queue.go, go)
        ctx.set(queue.blocked, blocked)

        fresh = []
        for _ in range(rng.randint(0, min(width, space // 2)) if room and not flush and not wrong else 0):
            state["tail"] += rng.randint(1, 2) if space > 2 * width + 2 else 1
            state["mark"] += 1
            fresh.append(item_of(state["tail"] - 1, state["mark"], gated=rng.random() < 0.2,
                                 tags=(rng.randrange(TAGS), rng.randrange(TAGS)),
                                 ready=(rng.random() < 0.5, rng.random() < 0.7)))
        slots = sorted(rng.sample(range(width), len(fresh)))
        for i, port in enumerate(queue.i):
            item = fresh[slots.index(i)] if i in slots else None
            ctx.set(port, entry_of(item | {"age": item["age"] % wrap}) if item else {})
        woken = set()
        for port in queue.wake:
            wake = {"valid": rng.random() < 0.4, "tag": rng.randrange(TAGS)}
            ctx.set(port, wake)
            woken |= {wake["tag"]} if wake["valid"] else set()

        alive = [item for item in items if not (wrong and item["age"] > age)]
        able = [item for item in alive if all(item["ready"])]
        allowed = [item for item in able if not (item["gated"] and blocked)]
        chosen = allowed[0] if allowed and go and not flush else None
        assert leaving(ctx, queue) == (chosen["mark"] if chosen else None)
        if chosen:
            assert (ctx.get(queue.o.rs1), ctx.get(queue.o.rs2)) == chosen["tags"]
            assert ctx.get(queue.o.operation.age) == chosen["age"] % wrap
            seen["left"] += 1
            seen["not the oldest"] += chosen is not items[0]
        seen["blocked"] += able != allowed
        seen["held"] += bool(allowed) and not go
        seen["killed"] += len(items) - len(alive)
        seen["flushed"] += flush and bool(items)

        await ctx.tick()
        for item in alive:
            item["ready"] = [ready or tag in woken for ready, tag in zip(item["ready"], item["tags"])]
        items[:] = [] if flush else [item for item in alive if item is not chosen] + fresh
        if wrong and not flush:
            state["tail"] = age + 1

    async def bench(ctx):
        for number in range(CYCLES):
            if number % 40 == 0:
                pace = rng.choice((0.1, 0.6, 1))
            try:
                await cycle(ctx, pace)
            except AssertionError as error:
                raise AssertionError(f"{name}, cycle {number}: {error}") from error

    simulate(queue, bench)
    assert seen["left"] > 100 and min(seen.values()) > 3, seen


def test_a_woken_source_counts_in_the_next_cycle():
    queue = IssueQueue(core_preset("tiny"), wakes=1)

    async def bench(ctx):
        ctx.set(queue.go, 1)
        await write(ctx, queue, [item_of(0, 1, tags=(7, 9), ready=(0, 0))])
        for tag, other in ((9, 8), (7, 9)):
            ctx.set(queue.wake[0], {"valid": 1, "tag": other})  # not the one that it waits for
            await ctx.tick()
            assert leaving(ctx, queue) is None
            ctx.set(queue.wake[0], {"valid": 1, "tag": tag})
            assert leaving(ctx, queue) is None
            await ctx.tick()
        ctx.set(queue.wake[0], {})
        assert leaving(ctx, queue) == 1
        await ctx.tick()
        assert leaving(ctx, queue) is None and ctx.get(queue.level) == 0

    simulate(queue, bench)


def test_a_place_forgets_what_was_ready_in_it():
    queue = IssueQueue(core_preset("tiny"), wakes=1)

    async def bench(ctx):
        ctx.set(queue.go, 1)
        await write(ctx, queue, [item_of(0, 1)])
        # A wake-up in the cycle in which the entry is written is not for this entry.
        ctx.set(queue.wake[0], {"valid": 1, "tag": 3})
        assert leaving(ctx, queue) == 1
        await write(ctx, queue, [item_of(1, 2, tags=(3, 3), ready=(0, 1))])
        ctx.set(queue.wake[0], {})
        for _ in range(3):
            assert leaving(ctx, queue) is None
            await ctx.tick()
        assert ctx.get(queue.level) == 1

    simulate(queue, bench)


def test_older_is_by_entry_even_where_ages_wrap():
    config = core_preset("small", queue=4)
    queue = IssueQueue(config, wakes=1)

    async def bench(ctx):
        last = 2 * config.reorder_buffer - 1
        await write(ctx, queue, [item_of(last, 1), item_of(0, 2)])
        await write(ctx, queue, [item_of(1, 3), item_of(2, 4)])
        assert not ctx.get(queue.room)
        ctx.set(queue.go, 1)
        ctx.set(queue.kill, {"valid": 1, "age": 0})  # 3 and 4
        order = []
        for _ in range(4):
            order.append(leaving(ctx, queue))
            await ctx.tick()
        assert order == [1, 2, None, None]

    simulate(queue, bench)
