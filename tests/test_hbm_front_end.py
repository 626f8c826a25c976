"""Demand front end: one response a request, in order within a class, whatever the pseudo-channels do."""

import random
from collections import defaultdict, deque

import pytest

from hw.config import HbmConfig
from hw.hbm.address_map import AddressMap
from hw.hbm.demand import DemandFrontEnd
from hw.hbm.port import Status
from hw.hbm.reorder import ResponseRing
from tests.hbm_streams import receiver, sender, simulate

CONFIG = HbmConfig(pseudo_channels=3, rows=64)
LINES = AddressMap(CONFIG).lines


class ChannelDouble:
    """A pseudo-channel of a few lines of Python: takes demands, replies to reads in any order."""

    def __init__(self, port, reply, rng, *, stall, poison=lambda local: False):
        self.port, self.reply, self.rng, self.stall, self.poison = port, reply, rng, stall, poison
        self.store = defaultdict(int)
        self.waiting, self.writes = [], []

    def take(self, word):
        line = word["line"]
        if word["write"]:
            kept = self.store[line]
            for byte in range(64):
                if word["mask"] >> byte & 1:
                    kept = kept & ~(0xFF << 8 * byte) | word["data"] & 0xFF << 8 * byte
            self.store[line] = kept
            self.writes.append((line, word["data"]))
        else:
            status = Status.POISON if self.poison(line) else Status.OK
            self.waiting.append({"slot": word["slot"], "status": status, "data": self.store[line]})

    async def answer(self, ctx):
        while True:
            if not self.waiting or self.rng.random() < self.stall:
                await ctx.tick()
                continue
            ctx.set(self.reply.payload, self.waiting.pop(self.rng.randrange(len(self.waiting))))
            ctx.set(self.reply.valid, 1)
            await ctx.tick().until(self.reply.ready)
            ctx.set(self.reply.valid, 0)

    def benches(self, seed):
        return [receiver(self.port, self.take, stall=self.stall, seed=seed), self.answer]


def requests(rng, count, *, classes=4, lines=24, outside=0.05):
    """Requests on few lines, so that they meet; write data are all different."""
    asked = []
    for number in range(count):
        line = rng.randrange(lines) * (LINES // lines)
        if rng.random() < outside:
            line = rng.choice([LINES, LINES + 1, 1 << 31, (1 << 32) - 1])
        tag = rng.randrange(classes) << 6 | rng.randrange(64)
        asked.append({"write": int(rng.random() < 0.4), "tag": tag,
                      "line": line, "mask": rng.choice([(1 << 64) - 1, rng.getrandbits(64), 0]),
                      "data": rng.getrandbits(480) << 32 | number})
    return asked


def expectations(asked, poison):
    """Responses by class: a dictionary of lines, in the order of requests."""
    store, expected = defaultdict(int), defaultdict(deque)
    for ask in asked:
        line, data, status = ask["line"], 0, Status.OK
        if line >= LINES:
            status = Status.OUT_OF_RANGE
        elif ask["write"]:
            mask = int.from_bytes(bytes(255 * (ask["mask"] >> byte & 1) for byte in range(64)), "little")
            store[line] = store[line] & ~mask | ask["data"] & mask
        else:
            data, status = store[line], Status.POISON if poison(line) else Status.OK
        expected[ask["tag"] >> 6].append((ask, status, data))
    return expected


@pytest.mark.parametrize("depth,stall,source_stall,sink_stall", [
    (64, 0.0, 0.0, 0.0), (64, 0.5, 0.3, 0.3), (4, 0.2, 0.0, 0.7), (1, 0.5, 0.1, 0.2), (8, 0.9, 0.0, 0.0),
])
@pytest.mark.parametrize("classes", [1, 4])
def test_every_request_is_answered_once_in_order_and_with_its_data(depth, stall, source_stall, sink_stall,
                                                                   classes):
    rng = random.Random(f"{depth} {stall} {classes}")
    count = 250
    front, got = DemandFrontEnd(CONFIG, depth=depth), []
    asked = requests(rng, count, classes=classes)
    channel_of = {ask["line"]: ask["line"] // 4 % 3 for ask in asked}
    local_of = {ask["line"]: ask["line"] // 12 * 4 + ask["line"] % 4 for ask in asked}
    doubles = [ChannelDouble(front.demand[c], front.reply[c], random.Random(c), stall=stall,
                             poison=lambda local: local % 7 == 5) for c in range(3)]
    expected = expectations(asked, lambda line: local_of[line] % 7 == 5)

    def take(word):
        ask, status, data = expected[word["tag"] >> 6].popleft()
        assert (word["tag"], word["write"], Status(word["status"]), word["data"]) == \
            (ask["tag"], ask["write"], status, data)
        if ask["write"] and status == Status.OK:
            written = doubles[channel_of[ask["line"]]].writes
            assert (local_of[ask["line"]], ask["data"]) in written, "answered before it was ordered"
        got.append(word)

    async def finished(ctx):
        for _ in range(count * 60):
            await ctx.tick()
            if len(got) == count:
                break
        for _ in range(20):
            await ctx.tick()

    simulate(front, sender(front.request, asked, stall=source_stall, seed=1), finished,
             background=[receiver(front.response, take, stall=sink_stall, seed=2),
                         *(bench for c, double in enumerate(doubles) for bench in double.benches(c + 3))])
    assert len(got) == count and not any(expected.values())
    statuses = {Status(word["status"]) for word in got}
    assert statuses == {Status.OK, Status.POISON, Status.OUT_OF_RANGE}


def test_idle_latency_is_one_cycle_in_and_none_out():
    front = DemandFrontEnd(CONFIG)

    async def bench(ctx):
        ctx.set(front.request.payload, {"write": 0, "tag": 0x41, "line": 5, "mask": 0, "data": 0})
        ctx.set(front.request.valid, 1)
        ctx.set(front.demand[1].ready, 1)
        ctx.set(front.response.ready, 1)
        assert ctx.get(front.request.ready)
        await ctx.tick()
        ctx.set(front.request.valid, 0)
        assert ctx.get(front.demand[1].valid)
        slot = ctx.get(front.demand[1].payload.slot)
        await ctx.tick()
        assert not ctx.get(front.response.valid)
        ctx.set(front.reply[1].payload, {"slot": slot, "status": Status.OK, "data": 77})
        ctx.set(front.reply[1].valid, 1)
        assert ctx.get(front.response.valid) and ctx.get(front.reply[1].ready)
        assert ctx.get(front.response.payload.tag) == 0x41 and ctx.get(front.response.payload.data) == 77
        await ctx.tick()
        ctx.set(front.reply[1].valid, 0)
        assert not ctx.get(front.response.valid)

    simulate(front, bench)


def test_one_request_a_cycle():
    front, got, count = DemandFrontEnd(CONFIG), [], 120
    asked = [{"write": 0, "tag": (number % 4) << 6, "line": 4 * number, "mask": 0, "data": 0}
             for number in range(count)]
    doubles = [ChannelDouble(front.demand[c], front.reply[c], random.Random(c), stall=0.0) for c in range(3)]
    cycles = [0]

    async def finished(ctx):
        while len(got) < count:
            await ctx.tick()
            cycles[0] += 1

    simulate(front, sender(front.request, asked), finished,
             background=[receiver(front.response, got.append),
                         *(bench for c, double in enumerate(doubles) for bench in double.benches(c))])
    assert cycles[0] < count + 15


def test_a_stuck_class_lets_the_others_out():
    ring, got = ResponseRing(depth=4, data_bits=8), []

    async def bench(ctx):
        slots = []
        for tag in (0x00, 0x40, 0x00, 0x40):
            ctx.set(ring.opening.payload, {"tag": tag | len(slots), "write": 0})
            ctx.set(ring.opening.valid, 1)
            slots.append(ctx.get(ring.slot))
            await ctx.tick()
        ctx.set(ring.opening.valid, 0)
        assert len(set(slots)) == 4
        for index in (3, 2, 1, 0):  # class 0 is complete only at the end
            ctx.set(ring.complete, {"slot": slots[index], "status": Status.OK, "data": index})
            ctx.set(ring.complete_valid, 1)
            await ctx.tick()
            ctx.set(ring.complete_valid, 0)
            for _ in range(5):
                await ctx.tick()

    simulate(ring, bench, background=[receiver(ring.response, got.append)])
    assert [(word["tag"], word["data"]) for word in got] == [(0x41, 1), (0x43, 3), (0x00, 0), (0x02, 2)]


def test_depth_is_checked():
    with pytest.raises(ValueError, match="depth = 3"):
        ResponseRing(depth=3)
