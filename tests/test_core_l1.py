"""The L1 under random traffic against a byte-level model, and what its ports promise, one by one."""

import random

import pytest

from hw.core.address import RAM
from hw.core.config import core_preset
from hw.core.l1.types import LINE_PORTS
from tests.core_l1_bench import OK, OUT_OF_RANGE, POISON, Bench, Bytes, config, pattern

CYCLES = 4000
TINY = core_preset("tiny")


class Traffic:
    """Random loads, stores and lines over ``lines`` lines that share few sets; every answer is checked."""

    def __init__(self, bench, *, cycles, lines, seed):
        self.bench, self.cycles = bench, cycles
        self.random = random.Random(seed)
        self.pool = sorted(self.random.sample(range(bench.memory.lines), lines))
        self.model = Bytes()
        self.waits = {}      # address of a load -> the MSHR it waits for, or None
        self.asked = None    # address of the load of the cycle before
        self.store = None
        self.requests = [None] * LINE_PORTS
        self.open = [[] for _ in range(LINE_PORTS)]
        self.compared = {"load": 0, "read": 0, "again": 0, "write": 0, "store": 0}
        self.patience = 0

    def address(self):
        # Few words, so that loads and stores meet.
        return RAM + 64 * self.random.choice(self.pool) + 8 * self.random.choice((0, 0, 1, 7))

    def line_request(self, port):
        line = RAM // 64 + self.random.choice(self.pool)
        mask = self.random.choice((0, (1 << 64) - 1, self.random.getrandbits(64), 0xFF, 0xF0))
        return {"write": port and self.random.random() < 0.4, "tag": self.random.randrange(16), "line": line,
                "mask": mask, "data": self.random.getrandbits(512)}

    def fail(self, what, wrong):
        address, got, allowed = wrong
        raise AssertionError(f"cycle {self.bench.now}: {what}: byte {address:#x} is {got:#04x}, may be "
                             f"{', '.join(f'{value:#04x}' for value in sorted(allowed))}")

    async def run(self, bench):
        r = self.random
        rates = (0.5, 0.5, 0.3)
        for cycle in range(self.cycles):
            if cycle % 500 == 0:
                rates = r.choice(((0.5, 0.5, 0.3), (1, 1, 1), (0.1, 0.9, 0), (0.9, 0.1, 0), (0.3, 0.3, 0.9)))
            await self.step(rates, cycle)
        for _ in range(3000):
            await self.step((0, 0, 0), None)
            if not any(self.open) and not any(self.requests) and not self.store and bench.memory.idle:
                break
        else:
            raise AssertionError(f"not idle at cycle {bench.now}: accesses open at the ports "
                                 f"{[len(one) for one in self.open]}, loads {self.waits}, store {self.store}, "
                                 f"requests to memory at the end {bench.memory.log[-12:]}")

    def _load(self, rate):
        """A new load, or one that waits no more."""
        r = self.random
        woken = [address for address, mshr in self.waits.items() if mshr is None]
        if woken and r.random() < 0.7:
            return r.choice(woken)
        if r.random() < rate and len(self.waits) < 6:
            return self.address()
        return None

    async def step(self, rates, cycle):
        r, bench, model = self.random, self.bench, self.model
        load = self._load(rates[0])
        if self.store is None and r.random() < rates[1]:
            mask = r.choice((0xFF, 0x0F, 1 << r.randrange(8), r.getrandbits(8)))
            self.store = {"address": self.address(), "data": r.getrandbits(64), "mask": mask,
                          "stream": r.randrange(4)}
        for port in range(LINE_PORTS):
            if self.requests[port] is None and r.random() < rates[2]:
                self.requests[port] = self.line_request(port)
        got = await bench.cycle(
            load=(load, load >> 6 & 3) if load is not None else None, store=self.store, ports=self.requests,
            answers_ready=[r.random() < 0.7 for _ in range(LINE_PORTS)])

        # The load of the cycle before: before the store of this one, after those before it.
        self._loaded(got)
        for address, mshr in self.waits.items():
            if mshr is not None and got["filled"] >> mshr & 1:
                self.waits[address] = None
        self.asked = load if load is not None and got["load_ready"] else None
        self.before = {load + b: set(model.of(load + b)) for b in range(8)} if self.asked else {}
        if got["store"]:
            model.store(self.store["address"], self.store["data"], self.store["mask"])
            self.compared["store"] += 1
            self.store = None
        self._lines(got)

    def _loaded(self, got):
        loaded, address = got["loaded"], self.asked
        assert loaded["hit"] + loaded["fault"] + loaded["miss"] <= (address is not None)
        if address is None:
            return
        assert not loaded["fault"], f"cycle {self.bench.now}: load of {address:#x} is a fault"
        if loaded["miss"]:
            self.waits[address] = loaded["mshr"]
        elif loaded["hit"]:
            self.waits.pop(address, None)
            self.compared["load"] += 1
            for b in range(8):
                value = loaded["data"] >> 8 * b & 0xFF
                # A write of a line may have come in between: what it may be now, or could be before.
                allowed = self.before[address + b]
                if value not in allowed:
                    self.fail("load", (address + b, value, allowed))
        else:
            self.compared["again"] += 1
            self.waits[address] = None

    def _lines(self, got):
        model = self.model
        for port in range(LINE_PORTS):
            answer = got["answers"][port]
            if answer:
                request, mine = self.open[port].pop(0)
                assert answer["tag"] == request["tag"] and answer["status"] == OK, (answer, request)
                if request["write"]:
                    model.write_ends(mine)
                    self.compared["write"] += 1
                else:
                    wrong = model.read_ends(mine, answer["data"])
                    if wrong:
                        self.fail(f"port {port}", wrong)
                    self.compared["read"] += 1
            if got["ports"][port]:
                request = self.requests[port]
                begin = (model.write_begins(request["line"], request["data"], request["mask"])
                         if request["write"] else model.read_begins(request["line"]))
                self.open[port].append((request, begin))
                self.requests[port] = None



SHAPES = {
    "tiny": TINY,
    "one bank, one way": config(banks=1, sets=2, ways=1, mshrs=2, streams=0, prefetch_mshrs=1),
    "small": core_preset("small"),
}


@pytest.mark.parametrize("latency,stall", [((1, 3), 0), ((5, 60), 0.3)], ids=["quick", "slow"])
@pytest.mark.parametrize("shape", SHAPES)
def test_random_traffic(shape, latency, stall):
    core = SHAPES[shape]
    bench = Bench(core, latency=latency, stall=stall, request_stall=stall, seed=3)
    lines = 3 * core.l1.banks * core.l1.ways
    traffic = Traffic(bench, cycles=CYCLES if shape != "small" else CYCLES // 4, lines=min(lines, 24), seed=7)
    bench.run(traffic.run)
    print(traffic.compared, bench.counts)
    for kind in ("load", "read", "write", "store", "again"):
        assert traffic.compared[kind] > 20, traffic.compared
    assert bench.counts["writeback"] and bench.counts["fill"]
