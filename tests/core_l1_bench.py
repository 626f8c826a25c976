"""An L1 under Verilator between random or directed traffic and a memory with random latency.

`Bytes` is the byte-level model: what each byte may be, given what was accepted and answered.
"""

import random
from collections import deque

from hw.core.address import RAM
from hw.core.config import CoreConfig, L1Config
from hw.core.l1 import L1
from hw.core.l1.types import LINE_PORTS
from hw.core.types import LineStatus
from hw.hbm.port import Status
from tests.verilated import Verilated

__all__ = ["Bench", "Bytes", "Memory", "config", "pattern"]


def config(**l1):
    return CoreConfig(l1=L1Config(**l1))


def pattern(line):
    """What memory holds at first."""
    return bytes((line * 37 + b * 11 + (line >> 3)) & 0xFF for b in range(64))


class Memory:
    """The slice as the L1 sees it: a request is done when it is taken, its answer comes later, in order
    within its class."""

    def __init__(self, *, lines, latency, stall, seed):
        self.lines, self.latency, self.stall = lines, latency, stall
        self.random = random.Random(seed)
        self.data, self.poison = {}, set()
        self.answers = [deque(), deque()]
        self.offered = None
        self.reads = self.writes = 0
        self.log = []
        self.spacing, self.next_slot = 0, 0

    def line(self, number):
        return self.data.setdefault(number, bytearray(pattern(number)))

    def take(self, cycle, request):
        number = request["line"]
        assert number < self.lines, f"cycle {cycle}: the L1 asks for line {number} of {self.lines}"
        self.log.append((cycle, request["write"], number))
        low, high = self.latency
        self.next_slot = max(self.next_slot + self.spacing, cycle)
        due = self.next_slot + self.random.randint(low, high)
        answer = {"tag": request["tag"], "write": request["write"], "status": Status.OK.value, "data": 0}
        if request["write"]:
            self.writes += 1
            line = self.line(number)
            for b in range(64):
                if request["mask"] >> b & 1:
                    line[b] = request["data"] >> 8 * b & 0xFF
            if request["mask"] == (1 << 64) - 1:
                self.poison.discard(number)
        else:
            self.reads += 1
            answer["data"] = int.from_bytes(self.line(number), "little")
            if number in self.poison:
                answer["status"] = Status.POISON.value
        self.answers[request["tag"] >> 6].append((due, answer))

    def offer(self, cycle):
        """The answer on the stream; it stays until it is taken."""
        if self.offered is None:
            due = [queue for queue in self.answers if queue and queue[0][0] <= cycle]
            if due and self.random.random() >= self.stall:
                self.offered = self.random.choice(due)
        return self.offered[0][1] if self.offered is not None else None

    def taken(self):
        self.offered.popleft()
        self.offered = None

    @property
    def idle(self):
        return not any(self.answers)


class Bytes:
    """What a byte may be. A store changes it when it is accepted; a write of a line at some time from its
    request to its answer, so that in between, and where another write came in, there are several values."""

    def __init__(self):
        self.values = {}
        self.flying = []   # [line, {byte: value}, {bytes that others wrote meanwhile}]
        self.watchers = []  # reads of lines under way: (line, [set of values] * 64)

    def of(self, address):
        if address not in self.values:
            self.values[address] = {pattern((address - RAM) // 64)[address % 64]}
        return self.values[address]

    def _add(self, address, value):
        for line, sets in self.watchers:
            if line == address // 64:
                sets[address % 64].add(value)

    def store(self, address, data, mask):
        for b in range(8):
            if mask >> b & 1:
                here, value = address + b, data >> 8 * b & 0xFF
                self.values[here] = {value}
                self._add(here, value)
                for line, written, others in self.flying:
                    if line == here // 64 and here % 64 in written:
                        self.values[here].add(written[here % 64])
                        others.add(here % 64)

    def write_begins(self, line, data, mask):
        written = {b: data >> 8 * b & 0xFF for b in range(64) if mask >> b & 1}
        mine = [line, written, set()]
        for b, value in written.items():
            self.of(line * 64 + b).add(value)
            self._add(line * 64 + b, value)
            for other, theirs, others in self.flying:
                if other == line and b in theirs:
                    others.add(b)
                    mine[2].add(b)
        self.flying.append(mine)
        return mine

    def write_ends(self, mine):
        self.flying = [one for one in self.flying if one is not mine]
        line, written, others = mine
        for b, value in written.items():
            if b not in others:
                self.values[line * 64 + b] = {value}

    def load(self, address, data):
        """The first byte that cannot be, as (address, got, allowed); else None."""
        for b in range(8):
            here, value = address + b, data >> 8 * b & 0xFF
            if value not in self.of(here):
                return here, value, self.of(here)
            if not any(line == here // 64 and here % 64 in written for line, written, _ in self.flying):
                self.values[here] = {value}
        return None

    def read_begins(self, line):
        mine = (line, [set(self.of(line * 64 + b)) for b in range(64)])
        self.watchers.append(mine)
        return mine

    def read_ends(self, mine, data):
        self.watchers = [one for one in self.watchers if one is not mine]
        for b in range(64):
            value = data >> 8 * b & 0xFF
            if value not in mine[1][b]:
                return mine[0] * 64 + b, value, mine[1][b]
        return None


class Bench:
    """One simulation. A test gives ``traffic``, an async function of the bench, which calls `cycle` with what
    it wants to put on the ports.

    `cycle` returns a dict: load_ready, store (taken), ports (taken, one a port), answers (of the ports),
    loaded (answer to the load of the cycle before), filled, events.
    """

    def __init__(self, core, *, lines=1 << 12, latency=(5, 30), stall=0.2, request_stall=0.2, seed=1):
        self.l1 = L1(core, ram_bytes=64 * lines)
        self.core = core
        self.memory = Memory(lines=lines, latency=latency, stall=stall, seed=seed)
        self.random = random.Random(seed + 1)
        self.request_stall = request_stall
        self.now = 0
        self.counts = {}

    def run(self, traffic):
        """Run the coroutine function ``traffic``; nothing in it ever waits for anything but `cycle`."""
        self.dut = Verilated(self.l1, name="l1")
        self.dut.settle()
        while not self.dut.get("load_ready"):
            self.dut.tick()
        running = traffic(self)
        try:
            running.send(None)
        except StopIteration:
            return
        raise AssertionError("the traffic waits for something outside")

    async def cycle(self, *, load=None, store=None, ports=(None,) * LINE_PORTS,
                    answers_ready=(1,) * LINE_PORTS, prefetch=None, maintain=None):
        dut, memory = self.dut, self.memory
        give, get = dut.set, dut.get
        address, stream = load if load else (0, 0)
        give("load", int(load is not None) | address << 1 | stream << 41)
        for name, payload, layout in (("store", store, STORE), ("prefetch", prefetch, BULK),
                                      ("maintain", maintain, MAINTAIN)):
            give(f"{name}__valid", payload is not None)
            if payload is not None:
                give(f"{name}__payload", _packed(payload, layout))
        give("prefetched__ready", 1)
        give("maintained__ready", 1)
        for k, request in enumerate(ports):
            give(f"ports__{k}__request__valid", request is not None)
            give(f"ports__{k}__response__ready", answers_ready[k])
            if request is not None:
                give(f"ports__{k}__request__payload", _packed(request, LINE_REQUEST))
        answer = memory.offer(self.now)
        give("response__valid", answer is not None)
        if answer is not None:
            give("response__payload", _packed(answer, RESPONSE))
        give("request__ready", self.random.random() >= self.request_stall)
        dut.settle()

        got = {"load_ready": get("load_ready"), "store": store is not None and get("store__ready"),
               "idle": get("store_idle"), "filled": get("filled"), "loaded": _plain(get("loaded"), LOADED),
               "events": _plain(get("events"), EVENTS),
               "prefetch": prefetch is not None and get("prefetch__ready"),
               "maintain": maintain is not None and get("maintain__ready"),
               "prefetched": get("prefetched__payload") if get("prefetched__valid") else None,
               "maintained": get("maintained__valid"),
               "ports": [request is not None and get(f"ports__{k}__request__ready")
                         for k, request in enumerate(ports)],
               "answers": [None] * LINE_PORTS}
        for k in range(LINE_PORTS):
            if answers_ready[k] and get(f"ports__{k}__response__valid"):
                got["answers"][k] = _plain(get(f"ports__{k}__response__payload"), LINES)
        if answer is not None and get("response__ready"):
            memory.taken()
        if get("request__ready") and get("request__valid"):
            memory.take(self.now, _plain(get("request__payload"), REQUEST))
        for name, bit in got["events"].items():
            self.counts[name] = self.counts.get(name, 0) + bit
        self.now += 1
        dut.tick()
        return got

    async def line(self, port, **request):
        """One access through a line port, to its end."""
        give = {"write": 0, "tag": 0, "line": 0, "mask": 0, "data": 0} | request
        for _ in range(5000):
            ports = [None] * LINE_PORTS
            ports[port] = give
            got = await self.cycle(ports=ports)
            give = None if got["ports"][port] else give
            if got["answers"][port]:
                return got["answers"][port]
        raise AssertionError(f"port {port}: no answer to line {request.get('line'):#x}")

    async def load(self, address, stream=0):
        """One load to its end: (data, fault)."""
        waits = None
        for _ in range(5000):
            got = await self.cycle(load=(address, stream) if waits is None else None)
            if waits is not None and got["filled"] >> waits & 1:
                waits = None
                continue
            if waits is None:
                got = await self.cycle()
                loaded = got["loaded"]
                if loaded["hit"] or loaded["fault"]:
                    return loaded["data"], loaded["fault"]
                if loaded["miss"]:
                    waits = loaded["mshr"]
        raise AssertionError(f"no answer to a load of {address:#x}")

    async def store(self, address, data, mask=0xFF, stream=0):
        payload = {"address": address, "data": data, "mask": mask, "stream": stream}
        for _ in range(5000):
            if (await self.cycle(store=payload))["store"]:
                return
        raise AssertionError(f"a store to {address:#x} is not taken")


LOADED = (("hit", 1), ("data", 64), ("fault", 1), ("miss", 1), ("mshr", 6))
STORE = (("address", 40), ("data", 64), ("mask", 8), ("stream", 16))
BULK = (("address", 40), ("rows", 16), ("bytes", 20), ("stride", 40), ("semaphore", 4))
MAINTAIN = (("operation", 2), ("address", 40), ("bytes", 40))
LINE_REQUEST = (("write", 1), ("tag", 4), ("line", 34), ("mask", 64), ("data", 512))
RESPONSE = (("tag", 8), ("write", 1), ("status", 2), ("data", 512))
REQUEST = (("write", 1), ("tag", 8), ("line", 32), ("mask", 64), ("data", 512))
LINES = (("tag", 4), ("status", 2), ("data", 512))
EVENTS = tuple((name, 1) for name in (
    "load_hit", "load_miss", "load_again", "store_miss", "port_miss", "prefetch", "writeback", "fill"))
OK, POISON, OUT_OF_RANGE = (LineStatus[name].value for name in ("OK", "POISON", "OUT_OF_RANGE"))


def _plain(value, layout):
    fields = {}
    for name, width in layout:
        fields[name] = value & ((1 << width) - 1)
        value >>= width
    return fields


def _packed(fields, layout):
    value = at = 0
    for name, width in layout:
        value |= (int(fields[name]) & (1 << width) - 1) << at
        at += width
    return value
