"""What surrounds a load-store unit in its tests: a reorder buffer, an L1 and devices, all in Python."""

import dataclasses
import random
from dataclasses import dataclass, field

from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.core import address
from hw.core.memory.lsu import LoadStoreUnit
from hw.core.types import Cause, age_bits

RAM_BYTES = 1 << 16
LINE = address.LINE
WINDOWS = address.CLINT, address.CONTROL, address.HOST
STUCK = 600  # cycles without a commit


@dataclass(kw_only=True)
class Odds:
    """Probabilities, a cycle unless said otherwise."""

    dispatch: float = 0.7
    issue: float = 0.6
    kill: float = 0.03
    flush: float = 0.01
    commit: float = 0.7
    busy: float = 0.1        # the L1 does not take a load
    again: float = 0.1       # nor answer it
    store: float = 0.7       # it takes a store
    evict: float = 0.03
    fill: float = 0.3
    device: float = 0.5
    load: float = 0.45       # of the instructions
    other: float = 0.15
    wild: float = 0.04       # of the accesses: misaligned, or nowhere
    devices: float = 0.06
    poisoned: float = 0.03
    reuse: float = 0.4       # of the loads: of a store's bytes
    lines: int = 3


@dataclass
class Instruction:
    kind: str
    age: int
    op: int = 0
    address: int = 0
    value: int = 0
    tag: int = 0
    writes: int = 1
    index: int = 0
    issued: bool = False
    valued: bool = False
    done: bool = False
    result: int = 0
    fault: tuple = None
    serial: int = 0

    @property
    def size(self):
        return 1 << (self.op & 3)

    @property
    def mask(self):
        """Bytes, from the address on."""
        return (1 << self.size) - 1


class Ram:
    """Bytes; what was never written is a function of its address."""

    def __init__(self):
        self.bytes = {}

    def read(self, at, size):
        return sum(self.bytes.get(at + i, (at + i) * 37 & 255) << 8 * i for i in range(size))

    def write(self, at, size, value, mask=255):
        for i in range(size):
            if mask >> i & 1:
                self.bytes[at + i] = value >> 8 * i & 255


def extended(value, op):
    bits = 8 << (op & 3)
    value &= (1 << bits) - 1
    if not op & 4 and value >> bits - 1:
        value -= 1 << bits
    return value & (1 << 64) - 1


def _bits(i):
    """Bytes of the doubleword that a store writes, and their bits."""
    lanes = i.mask << (i.address & 7)
    return lanes, sum(255 << 8 * b for b in range(8) if lanes >> b & 1)


class L1Double:
    """Lines come and go; a store that is taken is seen by loads of later cycles."""

    def __init__(self, config, rng, odds):
        self.rng, self.odds, self.mshrs = rng, odds, config.l1.mshrs
        self.ram, self.present, self.poisoned, self.pending = Ram(), set(), set(), {}
        self.answer, self.busy_stores, self.counts = None, 0, {"hit": 0, "miss": 0, "again": 0, "fault": 0}

    def begin(self, ctx, dut):
        rng, odds = self.rng, self.odds
        filled = 0
        for mshr in list(self.pending):
            if rng.random() < odds.fill:
                filled |= 1 << mshr
                self.present.add(self.pending.pop(mshr))
        for line in list(self.present):
            if rng.random() < odds.evict:
                self.present.discard(line)
        self.busy_stores = max(0, self.busy_stores - rng.randrange(2))
        ctx.set(dut.l1_filled, filled)
        ctx.set(dut.l1_load_ready, rng.random() >= odds.busy)
        garbage = {"hit": 0, "data": rng.getrandbits(64), "fault": 0, "miss": 0, "mshr": rng.randrange(64)}
        ctx.set(dut.l1_loaded, {**garbage, **(self.answer or {})})
        ctx.set(dut.l1_store.ready, rng.random() < odds.store)
        ctx.set(dut.l1_store_idle, self.busy_stores == 0)

    def end(self, ctx, dut):
        """Takes what was offered."""
        self.answer = None
        if ctx.get(dut.l1_load.valid):
            at = ctx.get(dut.l1_load.address)
            assert address.RAM <= at < address.RAM + RAM_BYTES, f"the L1 was asked for {at:#x}"
            if ctx.get(dut.l1_load_ready):
                self.answer = self._answer(at)
        if ctx.get(dut.l1_store.valid) and ctx.get(dut.l1_store.ready):
            store = ctx.get(dut.l1_store.payload)
            assert address.RAM <= store.address < address.RAM + RAM_BYTES
            self.ram.write(store.address & ~7, 8, store.data, store.mask)
            self.busy_stores = 3
            return store.address, store.mask, store.data
        return None

    def _answer(self, at):
        line = at // LINE
        kind = "again"
        answer = {}
        if self.rng.random() >= self.odds.again:
            if line in self.present:
                kind = "fault" if line in self.poisoned else "hit"
                answer = {kind: 1}
                if kind == "hit":
                    answer["data"] = self.ram.read(at & ~7, 8)
            else:
                mshr = next((m for m, pending in self.pending.items() if pending == line), None)
                if mshr is None:
                    free = [m for m in range(self.mshrs) if m not in self.pending]
                    mshr = self.rng.choice(free) if free else None
                if mshr is not None:
                    self.pending[mshr] = line
                    answer, kind = {"miss": 1, "mshr": mshr}, "miss"
        self.counts[kind] += 1
        return answer


class Devices:
    """Every read gives another value; addresses with bit 12 answer with a fault."""

    def __init__(self, rng, odds):
        self.rng, self.odds, self.request, self.log, self.reads = rng, odds, None, [], 0

    def begin(self, ctx, dut):
        chance = self.rng.random() < self.odds.device
        ctx.set(dut.mmio_request.ready, chance and self.request is None)
        answers = self.request is not None and self.rng.random() < self.odds.device
        ctx.set(dut.mmio_response.valid, answers)
        if answers:
            write, at, _, _, _ = self.request
            fault = at >> 12 & 1
            value = self.rng.getrandbits(64)
            ctx.set(dut.mmio_response.payload, {"data": value, "fault": fault})
            self.log.append((*self.request, value, fault))
            self.request = None

    def end(self, ctx, dut):
        if ctx.get(dut.mmio_request.valid) and ctx.get(dut.mmio_request.ready):
            r = ctx.get(dut.mmio_request.payload)
            self.request = (r.write, r.address, r.size, r.data, r.mask)


@dataclass
class Tally:
    """What was compared, and what happened. ``forwarded``: loads with a store's value."""

    cycles: int = 0
    loads: int = 0
    stores: int = 0
    faults: int = 0
    device_loads: int = 0
    device_stores: int = 0
    kills: int = 0
    flushes: int = 0
    forwarded: int = 0
    l1: dict = field(default_factory=dict)


class Bench:
    """Random programs through a LoadStoreUnit, each commit compared with a sequential memory."""

    def __init__(self, config, *, seed, odds=None, respect=True, dut=None):
        self.config, self.seed, self.respect = config, seed, respect
        self.rng, self.odds = random.Random(seed), odds or Odds()
        self.dut = dut or LoadStoreUnit(config, ram_bytes=RAM_BYTES)
        self.l1, self.devices = L1Double(config, self.rng, self.odds), Devices(self.rng, self.odds)
        self.buffer, self.next_age, self.tally = [], 0, Tally()
        self.memory, self.drains, self.device_stores = Ram(), [], []
        self.serial = self.stuck = self.first_age = 0
        self.may_load = False
        self.ages = 1 << age_bits(config)
        base = address.RAM + self.rng.randrange(0, RAM_BYTES // LINE - 8) * LINE
        self.lines = [base + LINE * i for i in range(self.odds.lines)]
        # The last bytes of RAM, and a line that memory has lost.
        self.lines.append(address.RAM + RAM_BYTES - LINE)
        self.lost = base + LINE * self.odds.lines
        self.l1.poisoned.add(self.lost // LINE)

    def say(self, what):
        waits = [f"{i.kind}@{i.address:#x} issued {i.issued} done {i.done}" for i in self.buffer[:4]]
        return f"seed {self.seed}, cycle {self.tally.cycles}: {what}; oldest: {waits}"

    def run(self, cycles):
        m = Module()
        m.submodules.dut = self.dut
        simulator = Simulator(m)
        simulator.add_clock(1e-9)

        async def bench(ctx):
            while self.tally.cycles < cycles:
                await self.cycle(ctx)
            # To the end: nothing may be left.
            self.odds = dataclasses.replace(self.odds, dispatch=0, kill=0, flush=0)
            while self.buffer or not ctx.get(self.dut.idle):
                assert self.tally.cycles < cycles + 4000, self.say("the end is not reached")
                await self.cycle(ctx)
            assert not self.drains and not self.device_stores
            assert not self.respect or not (self.devices.log or self.devices.request)

        simulator.add_testbench(bench)
        simulator.run()
        self.tally.l1 = self.l1.counts
        return self.tally

    # -- one cycle

    async def cycle(self, ctx):
        rng, odds, dut = self.rng, self.odds, self.dut
        self.l1.begin(ctx, dut)
        self.devices.begin(ctx, dut)
        commits, trap = self._commits(rng.random() < odds.commit)
        left = self.buffer[len(commits):]
        flush = trap or rng.random() < odds.flush
        if flush and not trap and self.respect and ctx.get(dut.device_load):
            flush = False
        kill = rng.choice(left) if left and rng.random() < odds.kill else None
        void = set()
        if kill:
            void |= {i.serial for i in left if i.serial > kill.serial}
        if flush:
            void |= {i.serial for i in left}
        ctx.set(dut.kill, {"valid": kill is not None, "age": kill.age if kill else rng.randrange(self.ages)})
        ctx.set(dut.flush, flush)
        ctx.set(dut.commit_loads, sum(i.kind == "load" for i in commits))
        ctx.set(dut.commit_stores, sum(i.kind == "store" for i in commits))
        ctx.set(dut.head_valid, bool(self.buffer))
        ctx.set(dut.head_age, self.buffer[0].age if self.buffer else rng.randrange(self.ages))
        self._issue(ctx, [i for i in self.buffer if i.serial not in void])
        fresh = self._dispatch(ctx, bool(ctx.get(dut.room)))
        self._outputs(ctx, void)
        for instruction in commits:
            self._compare(instruction)
        taken = self.l1.end(ctx, dut)
        if taken:
            self._drained(taken)
        self.devices.end(ctx, dut)
        self._devices_drained()
        self.buffer = [i for i in left if i.serial not in void]
        if not flush and not kill:
            self.buffer += fresh
        # Ages follow each other: what vanished gives its ages back, as a reorder buffer does.
        last = self.buffer[-1].age if self.buffer else None
        if kill or flush or fresh:
            if last is not None:
                self.next_age = (last + 1) % self.ages
            elif flush:
                self.next_age = (commits[-1].age + 1) % self.ages if commits else self.first_age
        self.first_age = self.buffer[0].age if self.buffer else self.next_age
        self.tally.kills += kill is not None
        self.tally.flushes += flush
        self.stuck = 0 if commits or flush or kill or not self.buffer else self.stuck + 1
        assert self.stuck < STUCK, self.say(f"nothing was committed for {STUCK} cycles")
        self.tally.cycles += 1
        await ctx.tick()

    def _commits(self, chance):
        """Instructions committed in this cycle; whether the next one traps."""
        commits = []
        if chance:
            for instruction in self.buffer[:self.config.width]:
                if instruction.fault:
                    # A trap is taken alone.
                    if not commits:
                        self._compare_fault(instruction)
                        return [], True
                    break
                if not instruction.done:
                    break
                commits.append(instruction)
        return commits, False

    def _dispatch(self, ctx, room):
        dut, rng, width = self.dut, self.rng, self.config.width
        count = rng.randrange(width + 1) if rng.random() < self.odds.dispatch and room else 0
        count = min(count, self.config.reorder_buffer - len(self.buffer))
        fresh = [self._make(k) for k in range(count)]
        ctx.set(dut.dispatch_valid, 1 if fresh else rng.randrange(2))
        for k in range(width):
            i = fresh[k] if k < count else None
            ctx.set(dut.dispatch[k], {
                "load": i is not None and i.kind == "load", "store": i is not None and i.kind == "store",
                "age": i.age if i else rng.randrange(self.ages), "op": i.op if i else 0,
                "tag": i.tag if i else 0, "writes": i.writes if i else 0, "pc": rng.getrandbits(64)})
        for k, i in enumerate(fresh):
            i.index = ctx.get(dut.load_index[k] if i.kind == "load" else dut.store_index[k])
        return fresh

    def _make(self, slot):
        rng, odds = self.rng, self.odds
        self.serial += 1
        age = (self.next_age + slot) % self.ages
        kind = rng.choices(["load", "store", "other"],
                           [odds.load, 1 - odds.load - odds.other, odds.other])[0]
        if kind == "other":
            return Instruction("other", age, done=True, serial=self.serial)
        op = rng.choice([0, 1, 2, 3, 3, 4, 5, 6]) if kind == "load" else rng.randrange(4)
        size = 1 << (op & 3)
        place = rng.random()
        if place < odds.devices:
            at = rng.choice(WINDOWS) + rng.choice([0, 8, 0x1000, 0xFFF8])
        elif place < odds.devices + odds.poisoned:
            at = self.lost
        else:
            # Two doublewords of each line: nearly every access overlaps another one.
            at = rng.choice(self.lines) + rng.choice([0, LINE - 8])
        at += rng.randrange(0, 8, size)
        stores = [i for i in self.buffer if i.kind == "store"]
        if kind == "load" and stores and rng.random() < odds.reuse:
            # Within a store's doubleword, and within the store where it is the smaller one.
            store = rng.choice(stores)
            at = (store.address & ~(size - 1)) + rng.randrange(0, max(store.size, size), size)
        if rng.random() < odds.wild:
            at = rng.choice([at + 1, at ^ 1 << 63, at | 1 << 40, rng.getrandbits(64), rng.getrandbits(32),
                             address.RAM - size, address.RAM + RAM_BYTES, address.HOST + 0x10000])
        return Instruction(kind, age, op=op, address=at % (1 << 64), value=rng.getrandbits(64),
                           tag=rng.randrange(self.config.physical), writes=rng.randrange(2),
                           serial=self.serial)

    def _issue(self, ctx, live):
        dut, rng, odds = self.dut, self.rng, self.odds

        def choose(kind, done):
            if rng.random() >= odds.issue:
                return None
            waiting = [i for i in live if i.kind == kind and not done(i)]
            return rng.choice(waiting[:rng.randrange(1, 9)]) if waiting else None

        def operands(i):
            immediate = rng.choice([0, rng.randrange(-(1 << 31), 1 << 31)])
            return {"valid": 1, "index": i.index, "a": (i.address - immediate) % (1 << 64),
                    "immediate": immediate}

        nothing = {"valid": 0, "index": 0, "a": rng.getrandbits(64), "immediate": 0}
        load = choose("load", lambda i: i.issued) if self.may_load else None
        store = choose("store", lambda i: i.issued)
        value = choose("store", lambda i: i.valued)
        ctx.set(dut.issue_load, operands(load) if load else nothing)
        ctx.set(dut.issue_address, operands(store) if store else nothing)
        ctx.set(dut.issue_data, {"valid": value is not None, "index": value.index if value else 0,
                                 "value": value.value if value else rng.getrandbits(64)})
        for i in (load, store):
            if i:
                i.issued = True
        if value:
            value.valued = True

    def _outputs(self, ctx, void):
        dut = self.dut
        self.may_load = bool(ctx.get(dut.load_ready))
        for port, trace, kind in ((dut.loaded, dut.trace_load, "load"),
                                  (dut.store_done, dut.trace_store, "store")):
            assert ctx.get(port.valid) == ctx.get(trace.valid)
            if not ctx.get(port.valid):
                continue
            i = self._find(ctx.get(port.age), void, kind)
            assert i.issued and not i.done and not i.fault, self.say(f"{kind} done twice or too early")
            i.done = True
            seen = ctx.get(trace)
            value = i.value if kind == "store" else seen.data
            assert (seen.age, seen.address, seen.mask, seen.data) == (
                i.age, i.address, i.mask, value & (1 << 8 * i.size) - 1), self.say("trace")
            if kind == "load":
                answer = self.l1.answer or {}
                self.tally.forwarded += not answer.get("hit") and not self._is_device(i.address)
                result = ctx.get(port)
                i.result = result.value
                assert (result.tag, result.writes) == (i.tag, i.writes)
                assert result.value == extended(seen.data, i.op), self.say("extension")
            else:
                assert i.valued, self.say("a store was done without its data")
        if ctx.get(dut.fault.valid):
            fault = ctx.get(dut.fault)
            i = self._find(fault.age, void, None)
            assert i.issued and not i.done and not i.fault, self.say("a fault of something done")
            i.fault = (fault.cause, fault.tval)
        assert not ctx.get(dut.idle) or not self.drains and not self.device_stores, self.say("idle too early")

    def _find(self, age, void, kind):
        found = [i for i in self.buffer if i.age == age and i.serial not in void]
        assert len(found) == 1, self.say(f"an answer for age {age}, which is void or unknown")
        assert kind in (None, found[0].kind)
        return found[0]

    # -- what is compared

    def _expected_fault(self, i):
        """Cause that the address alone gives."""
        if i.address % i.size:
            return Cause.MISALIGNED_LOAD if i.kind == "load" else Cause.MISALIGNED_STORE
        ram = address.RAM <= i.address < address.RAM + RAM_BYTES
        if not ram and not self._is_device(i.address):
            return Cause.LOAD_FAULT if i.kind == "load" else Cause.STORE_FAULT
        return None

    @staticmethod
    def _is_device(at):
        return any(base <= at < base + address.DEVICE_BYTES for base in WINDOWS)

    def _compare(self, i):
        assert i.kind == "other" or self._expected_fault(i) is None, self.say("an impossible access was done")
        offset = i.address & 7
        if i.kind == "store" and self._is_device(i.address):
            self.device_stores.append(i)
        elif i.kind == "store":
            self.memory.write(i.address, i.size, i.value)
            self.drains.append(i)
            self.tally.stores += 1
        elif i.kind == "load" and self._is_device(i.address):
            seen = self._device_read(i)
            assert i.result == extended(seen[5] >> 8 * offset, i.op), self.say("a device's value")
            assert not seen[6]
            self.tally.device_loads += 1
        elif i.kind == "load":
            expected = extended(self.memory.read(i.address, i.size), i.op)
            assert i.result == expected, self.say(
                f"load of {i.size} bytes at {i.address:#x}: expected {expected:#x}, got {i.result:#x}")
            self.tally.loads += 1

    def _device_read(self, i):
        assert not self.device_stores, self.say("a device was read before an older store was there")
        seen = self.devices.log[-1]
        assert seen[:3] == (0, i.address, i.op & 3) and seen[4] == i.mask << (i.address & 7), self.say(
            f"the last device access {seen} is not this load's")
        self.devices.log = []
        return seen

    def _compare_fault(self, i):
        cause, tval = i.fault
        expected = self._expected_fault(i)
        if expected is None:
            assert i.kind == "load" and cause == Cause.LOAD_FAULT, self.say(f"cause {cause}")
            if self._is_device(i.address):
                assert self._device_read(i)[6], self.say("a device's fault")
            else:
                assert i.address // LINE == self.lost // LINE, self.say("a fault of a sound line")
        else:
            assert cause == expected, self.say(f"expected {expected}, got {cause}")
        assert tval == i.address, self.say(f"tval {tval:#x}, address {i.address:#x}")
        self.tally.faults += 1

    def _drained(self, taken):
        at, mask, value = taken
        assert self.drains, self.say("a store that is not committed went to the L1")
        i = self.drains.pop(0)
        lanes, bits = _bits(i)
        assert (at, mask, value & bits) == (i.address, lanes, i.value << 8 * (i.address & 7) & bits), (
            self.say("a store's bytes or order"))

    def _devices_drained(self):
        log = self.devices.log
        if not self.respect:
            # Reads that were given up.
            log[:] = [access for k, access in enumerate(log) if access[0] or k == len(log) - 1]
        while log and log[0][0]:
            write, at, size, value, mask, _, _ = log.pop(0)
            assert self.device_stores, self.say("a device store that is not committed")
            i = self.device_stores.pop(0)
            assert not any(other.serial < i.serial for other in self.drains), self.say("device store's order")
            lanes, bits = _bits(i)
            assert (at, size, mask, value & bits) == (
                i.address, i.op & 3, lanes, i.value << 8 * (i.address & 7) & bits), self.say("a device store")
            self.tally.device_stores += 1
        assert len(log) <= 1, self.say("a device was read twice")
