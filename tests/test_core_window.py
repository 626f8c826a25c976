"""Scoreboard, registers, reorder buffer, oldest fault, commit and its trace, each against a model."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.config import core_preset
from hw.core.trace import CommitTrace
from hw.core.types import Cause, SystemOp, Unit
from hw.core.window.commit import Commit, Waits
from hw.core.window.registers import Registers, Scoreboard
from hw.core.window.reorder_buffer import OldestFault, ReorderBuffer

CYCLES = 300
TINY, SMALL = core_preset("tiny"), core_preset("small", reorder_buffer=8, physical=48)
CONFIGS = {"tiny": TINY, "small": SMALL, "full": core_preset("full", reorder_buffer=16, physical=64)}


def simulate(component, bench):
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("name", CONFIGS)
def test_scoreboard(name):
    config, rng = CONFIGS[name], random.Random(name)
    board, ready, compared = Scoreboard(config, wakes=3), set(range(32)), 0

    async def bench(ctx):
        nonlocal ready, compared
        for _ in range(CYCLES):
            sets = []
            for ports in (board.wake, board.allocated):
                sets.append(set())
                for port in ports:
                    tag, valid = rng.randrange(config.physical), rng.random() < 0.5
                    ctx.set(port, {"valid": valid, "tag": tag})
                    sets[-1] |= {tag} if valid else set()
            woken, allocated = sets
            assert ctx.get(board.ready) == sum(1 << tag for tag in ready | woken)
            ready = (ready | woken) - allocated
            compared += 1
            await ctx.tick()

    simulate(board, bench)
    assert compared == CYCLES


def test_registers():
    registers, rng = Registers(SMALL, reads=4, writes=3), random.Random(1)
    values, compared = dict.fromkeys(range(SMALL.physical), 0), 0

    async def bench(ctx):
        nonlocal compared
        for _ in range(CYCLES):
            written = rng.sample(range(SMALL.physical), 3)
            tags = [*written[:2], rng.randrange(SMALL.physical), rng.randrange(SMALL.physical)]
            results = [{"valid": rng.random() < 0.7, "writes": rng.random() < 0.7, "tag": tag,
                        "value": rng.getrandbits(64)} for tag in written]
            for port, result in zip(registers.results, results):
                ctx.set(port, result)
            for port, tag, value in zip(registers.tags, tags, registers.values):
                ctx.set(port, tag)
                assert ctx.get(value) == values[tag]  # of the cycle before: no bypass
                compared += values[tag] != 0
            await ctx.tick()
            values.update({r["tag"]: r["value"] for r in results if r["valid"] and r["writes"]})

    simulate(registers, bench)
    assert compared > CYCLES


@pytest.mark.parametrize("name", CONFIGS)
def test_reorder_buffer(name):
    config, rng = CONFIGS[name], random.Random(name)
    buffer = ReorderBuffer(config, finishers=2, readers=1)
    width, places = config.width, config.reorder_buffer
    entries, state = [], {"head": 0}
    seen = dict.fromkeys(("retired", "killed", "flushed", "full", "hints", "faults"), 0)

    async def cycle(ctx, pace):
        head, flush = state["head"], rng.random() < 0.02
        room = len(entries) <= places - width
        assert ctx.get(buffer.room) == room
        assert ctx.get(buffer.tail) == (head + len(entries)) % (2 * places)
        seen["full"] += not room
        for i, out in enumerate(buffer.heads):
            assert ctx.get(out.valid) == (i < len(entries))
            if i < len(entries):
                entry, found = entries[i], out.instruction
                assert (ctx.get(out.pc), ctx.get(found.word)) == (entry["pc"], entry["word"])
                assert ctx.get(out.age) == (head + i) % (2 * places)
                assert ctx.get(out.done) == entry["done"]
                assert (ctx.get(found.load), ctx.get(found.store), ctx.get(found.system)) == tuple(
                    entry["unit"] == unit for unit in (Unit.LOAD, Unit.STORE, Unit.SYSTEM))
                assert (ctx.get(found.rd), ctx.get(found.writes), ctx.get(found.tag)) == (
                    entry["rd"], entry["writes"], entry["tag"])
        if entries:
            asked = rng.randrange(len(entries))
            ctx.set(buffer.ages[0], (head + asked) % (2 * places))
            assert ctx.get(buffer.pcs[0]) == entries[asked]["pc"]

        done = 0
        while done < min(width, len(entries)) and entries[done]["done"]:
            done += 1
        retire = 0 if flush or rng.random() > pace else rng.randint(0, done)
        kill = rng.randrange(retire, len(entries)) if len(entries) > retire and rng.random() < 0.1 else None
        fresh = [{"pc": rng.getrandbits(64), "word": rng.getrandbits(32), "unit": rng.choice(list(Unit)),
                  "rd": rng.randrange(32), "writes": rng.getrandbits(1),
                  "tag": rng.randrange(config.physical), "exception": rng.random() < 0.3}
                 for _ in range(rng.randint(0, width) if room and not flush and kill is None else 0)]
        slots = sorted(rng.sample(range(width), len(fresh)))
        for i, port in enumerate(buffer.i):
            if i not in slots:
                ctx.set(port, {"age": rng.randrange(2 * places)})
                continue
            place = slots.index(i)
            entry = fresh[place]
            ctx.set(port, {"valid": 1, "age": (head + len(entries) + place) % (2 * places),
                           "tag": entry["tag"],
                           "decoded": {key: entry[key] for key in ("pc", "word", "unit", "rd", "writes",
                                                                   "exception")}})
        alive = len(entries) if kill is None else kill + 1
        odds = 0.7 if alive > retire and not flush else 0
        finished = [rng.randrange(retire, alive) if rng.random() < odds else None for _ in buffer.done]
        for port, index in zip(buffer.done, finished):
            ctx.set(port, {"valid": index is not None, "age": (head + (index or 0)) % (2 * places)})
        ctx.set(buffer.retire, retire)
        ctx.set(buffer.flush, flush)
        ctx.set(buffer.kill, {"valid": kill is not None, "age": (head + (kill or 0)) % (2 * places)})
        await ctx.tick()
        for index in finished:
            if index is not None:
                entries[index]["done"] = True
        for entry in fresh:
            entry["done"] = entry["unit"] == Unit.NONE and not entry["exception"]
            seen["hints"] += entry["done"]
            seen["faults"] += entry["unit"] == Unit.NONE and entry["exception"]
        seen["killed"] += 0 if flush else len(entries) - alive
        seen["flushed"] += flush and bool(entries)
        seen["retired"] += retire
        entries[:] = [] if flush else entries[retire:alive] + fresh
        state["head"] += retire

    async def bench(ctx):
        for number in range(CYCLES):
            if number % 30 == 0:
                pace = rng.choice((0.1, 1, 1))
            await cycle(ctx, pace)

    simulate(buffer, bench)
    assert seen["retired"] > 2 * places and min(seen.values()) > 1, seen


def test_oldest_fault():
    config, rng = SMALL, random.Random(1)
    oldest, wrap = OldestFault(config, sources=3), 2 * config.reorder_buffer
    seen = {"kept": 0, "replaced": 0, "killed": 0}

    async def bench(ctx):
        kept, base = None, 0  # kept: (age, cause, tval)
        for number in range(CYCLES):
            if kept is None and rng.random() < 0.3:
                base = number  # ages in flight are base .. base + 7
            ages = rng.sample(range(base, base + config.reorder_buffer), 3)
            kill, flush = rng.randrange(base, base + 8) if rng.random() < 0.2 else None, rng.random() < 0.1
            ctx.set(oldest.kill, {"valid": kill is not None, "age": (kill or 0) % wrap})
            ctx.set(oldest.flush, flush)
            candidates = [kept] if kept else []
            for port, age in zip(oldest.i, ages):
                fault = (age, rng.randrange(16), rng.getrandbits(64))
                valid = rng.random() < 0.3 and not (kept and age == kept[0])
                ctx.set(port, {"valid": valid, "age": age % wrap, "cause": fault[1], "tval": fault[2]})
                candidates += [fault] if valid else []
            alive = [] if flush else [fault for fault in candidates if kill is None or fault[0] <= kill]
            best = min(alive, default=None)
            await ctx.tick()
            assert ctx.get(oldest.o.valid) == (best is not None)
            if best:
                assert (ctx.get(oldest.o.age), ctx.get(oldest.o.cause), ctx.get(oldest.o.tval)) == (
                    best[0] % wrap, *best[1:])
            seen["kept"] += best is not None and best is kept
            seen["replaced"] += best is not None and kept is not None and best is not kept
            seen["killed"] += kept is not None and kept not in alive
            kept = best

    simulate(oldest, bench)
    assert min(seen.values()) > 5, seen


class Driver:
    """Commit with instructions at its heads; the rest of the core is played by the tests."""

    PC = 0x8000_0000

    def __init__(self, ctx, commit):
        self.ctx, self.commit = ctx, commit

    def heads(self, *instructions):
        """Each a dict: done, load, store, system, word, rd, tag; the first has age 3."""
        for i, port in enumerate(self.commit.heads):
            fields = instructions[i] if i < len(instructions) else None
            if fields is None:
                self.ctx.set(port, {})
                continue
            rest = {key: value for key, value in fields.items() if key != "done"}
            self.ctx.set(port, {"valid": 1, "done": fields.get("done", 1), "age": 3 + i,
                                "pc": self.PC + 4 * i,
                                "instruction": rest | {"writes": int(fields.get("rd", 0) != 0)}})

    async def system(self, op, *, word=0, rd=0, tag=0, source=0, reads=0):
        """A SYSTEM instruction is dispatched, and is the oldest in the cycle after."""
        self.heads()
        self.ctx.set(self.commit.dispatched[0], {
            "valid": 1, "tag": tag, "rs1": {"tag": source},
            "decoded": {"unit": Unit.SYSTEM, "op": op, "reads1": reads, "writes": rd != 0}})
        await self.ctx.tick()
        self.ctx.set(self.commit.dispatched[0], {})
        self.heads({"done": 0, "system": 1, "word": word, "rd": rd, "tag": tag}, {"rd": 9})

    def get(self, *names):
        values = []
        for name in names:
            value = self.commit
            for part in name.split("."):
                value = value[part] if not hasattr(value, part) else getattr(value, part)
            values.append(self.ctx.get(value))
        return values[0] if len(values) == 1 else tuple(values)

    async def leaves(self, pc, *, invalidate=0):
        """The restart comes in the next cycle, for one cycle, in which nothing commits."""
        assert not self.get("flush")
        await self.ctx.tick()
        assert self.get("flush", "restart.valid", "restart.invalidate") == (1, 1, invalidate)
        assert self.get("restart.pc") == pc
        assert self.get("retire", "trap.valid", "csr.valid", "mret") == (0, 0, 0, 0)
        self.heads()
        await self.ctx.tick()
        assert not self.get("flush")


def commits(config=SMALL):
    """Decorator: the function, given a Driver, is a test."""

    def test(bench):
        def run():
            commit = Commit(config)

            async def started(ctx):
                ctx.set(commit.vector, 0x1234_5678)
                ctx.set(commit.epc, 0x9ABC)
                await bench(Driver(ctx, commit), ctx, commit)

            simulate(commit, started)
        return run
    return test


@commits(CONFIGS["full"])
async def test_commit_goes_up_to_what_is_not_done(d, ctx, commit):
    for done in range(16):
        d.heads(*({"done": done >> i & 1, "load": i & 1, "store": int(i == 2), "rd": i, "tag": 40 + i}
                  for i in range(4)))
        count = next((i for i in range(4) if not done >> i & 1), 4)
        assert d.get("retire", "loads", "stores") == (count, count // 2, int(count > 2))
        for i, port in enumerate(commit.commits):
            assert ctx.get(port.valid) == (0 < i < count)
            assert not ctx.get(port.valid) or (ctx.get(port.rd), ctx.get(port.tag)) == (i, 40 + i)
        await ctx.tick()


@commits()
async def test_commit_stops_before_a_fault_and_then_traps(d, ctx, commit):
    d.heads({"rd": 1}, {"done": 0, "load": 1, "rd": 2})
    ctx.set(commit.fault, {"valid": 1, "age": 4, "cause": Cause.LOAD_FAULT.value, "tval": 0x77})
    assert d.get("retire", "trap.valid") == (1, 0)
    await ctx.tick()
    d.heads({"done": 0, "load": 1, "rd": 2})
    ctx.set(commit.fault, {"valid": 1, "age": 3, "cause": Cause.LOAD_FAULT.value, "tval": 0x77})
    assert d.get("retire", "loads", "waits") == (0, 0, Waits.NOTHING)
    assert d.get("trap.valid", "trap.interrupt", "trap.cause", "trap.pc", "trap.tval") == (
        1, 0, Cause.LOAD_FAULT.value, d.PC, 0x77)
    await d.leaves(0x1234_5678)


@commits()
async def test_an_interrupt_goes_before_everything_but_waits_for_a_head(d, ctx, commit):
    ctx.set(commit.interrupt, {"valid": 1, "cause": 7})
    d.heads()
    assert d.get("trap.valid", "waits") == (0, Waits.EMPTY)
    d.heads({"rd": 1}, {"rd": 2})
    ctx.set(commit.hold, 1)
    assert d.get("trap.valid", "retire") == (0, 2)
    ctx.set(commit.hold, 0)
    ctx.set(commit.fault, {"valid": 1, "age": 3, "cause": 2, "tval": 5})
    assert d.get("trap.valid", "trap.interrupt", "trap.cause", "trap.pc", "trap.tval", "retire") == (
        1, 1, 7, d.PC, 0, 0)
    await d.leaves(0x1234_5678)
    ctx.set(commit.fault, {})
    await d.system(SystemOp.CSR, rd=4, tag=40)
    assert d.get("trap.valid", "csr.valid", "system_done", "retire", "result.valid") == (1, 0, 0, 0, 0)


@commits()
async def test_csr(d, ctx, commit):
    ctx.set(commit.operand, 0xABCD)
    ctx.set(commit.csr_value, 0x55)
    for funct3, field, reads, operand in ((1, 6, 1, 0xABCD), (2, 6, 1, 0xABCD), (2, 0, 0, 0), (5, 17, 0, 17)):
        word = 0x340 << 20 | field << 15 | funct3 << 12 | 4 << 7 | 0x73
        await d.system(SystemOp.CSR, word=word, rd=4, tag=40, source=13, reads=reads)
        assert d.get("csr.valid", "csr.address", "csr.funct3", "source") == (1, 0x340, funct3, 13)
        assert d.get("csr.operand", "csr.source_zero") == (operand, field == 0)
        assert d.get("system_done", "retire", "next_pc", "trap.valid") == (1, 1, d.PC + 4, 0)
        assert d.get("result.valid", "result.writes", "result.tag", "result.value") == (1, 1, 40, 0x55)
        assert d.get("wake.valid", "wake.tag") == (1, 40)
        await ctx.tick()
        assert not d.get("flush")
    ctx.set(commit.csr_illegal, 1)
    await d.system(SystemOp.CSR, word=0x1234_5073, rd=4, tag=40)
    assert d.get("trap.valid", "trap.cause", "trap.tval") == (1, Cause.ILLEGAL.value, 0x1234_5073)
    assert d.get("system_done", "retire", "result.valid", "wake.valid") == (0, 0, 0, 0)
    await d.leaves(0x1234_5678)


@commits()
async def test_system_instructions(d, ctx, commit):
    for op, cause, tval in ((SystemOp.ECALL, Cause.ECALL_M, 0), (SystemOp.EBREAK, Cause.BREAKPOINT, d.PC)):
        await d.system(op)
        assert d.get("trap.valid", "trap.cause", "trap.tval", "retire") == (1, cause.value, tval, 0)
        await d.leaves(0x1234_5678)
    await d.system(SystemOp.MRET)
    assert d.get("mret", "retire", "system_done", "trap.valid", "next_pc") == (1, 1, 1, 0, 0x9ABC)
    await d.leaves(0x9ABC)
    for op in (SystemOp.FENCE, SystemOp.FENCE_I):
        await d.system(op)
        for _ in range(3):
            assert d.get("retire", "system_done", "waits") == (0, 0, Waits.STORES_DRAIN)
            await ctx.tick()
        ctx.set(commit.idle, 1)
        assert d.get("retire", "system_done") == (1, 1)
        if op == SystemOp.FENCE_I:
            await d.leaves(d.PC + 4, invalidate=1)
        else:
            await ctx.tick()
            assert not d.get("flush")
        ctx.set(commit.idle, 0)


@commits()
async def test_wfi_ends_and_the_next_instruction_is_interrupted(d, ctx, commit):
    await d.system(SystemOp.WFI)
    for _ in range(3):
        assert d.get("retire", "trap.valid", "waits") == (0, 0, Waits.INTERRUPT)
        await ctx.tick()
    ctx.set(commit.wake_up, 1)
    ctx.set(commit.interrupt, {"valid": 1, "cause": 3})
    assert d.get("retire", "system_done", "trap.valid") == (1, 1, 0)
    await ctx.tick()
    d.heads({"rd": 3})
    assert d.get("retire", "trap.valid", "trap.cause") == (0, 1, 3)


@commits()
async def test_waits(d, ctx, commit):
    for fields, waits in (({}, Waits.EXECUTION), ({"load": 1}, Waits.LOAD), ({"store": 1}, Waits.STORE)):
        d.heads({"done": 0} | fields)
        assert d.get("waits") == waits
        await ctx.tick()


def record(ctx, port):
    """The fields of a record that are not 0."""
    names = ("order", "insn", "pc_rdata", "pc_wdata", "trap", "intr", "cause", "rd_addr", "rd_wdata",
             "mem_addr", "mem_rmask", "mem_wmask", "mem_rdata", "mem_wdata")
    if not ctx.get(port.valid):
        return None
    return {name: ctx.get(port[name]) for name in names if ctx.get(port[name])}


def test_trace_records():
    trace, pc = CommitTrace(SMALL, results=2), 0x8000_0000
    ports = [(trace.dispatched[i], trace.heads[i]) for i in range(2)]
    structs = (*trace.results, trace.branch, trace.load, trace.store, trace.trap, trace.result)

    async def step(ctx, *settings):
        """Set, tick, and set everything to 0 again."""
        for port, value in settings:
            ctx.set(port, value)
        await ctx.tick()
        for port in (*structs, *(port for pair in ports for port in pair)):
            ctx.set(port, {})
        for port in (trace.retire, trace.system_ends):
            ctx.set(port, 0)
        return [record(ctx, port) for port in trace.o]

    def head(age, **instruction):
        return {"valid": 1, "age": age, "pc": pc + 4 * age, "instruction": {"word": 100 + age} | instruction}

    async def bench(ctx):
        for age in (0, 2, 4):
            await step(ctx, *((ports[i][0], {"valid": 1, "age": age + i, "decoded": {
                "pc": pc + 4 * (age + i), "target": pc + 4 * (age + i) + 4}}) for i in range(2)))
        await step(ctx, (trace.results[0], {"valid": 1, "writes": 1, "age": 0, "value": 0x11}),
                   (trace.results[1], {"valid": 1, "writes": 0, "age": 1, "value": 0x22}))
        await step(ctx, (trace.load, {"valid": 1, "age": 2, "address": 0x90, "mask": 3, "data": 0xABCD}),
                   (trace.results[1], {"valid": 1, "writes": 1, "age": 2, "value": 0xABCD}),
                   (trace.branch, {"valid": 1, "age": 1, "next_pc": 0x7000}))
        await step(ctx, (trace.store, {"valid": 1, "age": 3, "address": 0x98, "mask": 1, "data": 0xEF}))
        # Two in a cycle; a value that is not written does not show.
        assert await step(ctx, (ports[0][1], head(0, rd=5, writes=1)), (ports[1][1], head(1, rd=6)),
                          (trace.retire, 2)) == [
            {"insn": 100, "pc_rdata": pc, "pc_wdata": pc + 4, "rd_addr": 5, "rd_wdata": 0x11},
            {"order": 1, "insn": 101, "pc_rdata": pc + 4, "pc_wdata": 0x7000}]
        assert await step(ctx, (ports[0][1], head(2, rd=7, writes=1, load=1)),
                          (ports[1][1], head(3, store=1)), (trace.retire, 2)) == [
            {"order": 2, "insn": 102, "pc_rdata": pc + 8, "pc_wdata": pc + 12, "rd_addr": 7,
             "rd_wdata": 0xABCD, "mem_addr": 0x90, "mem_rmask": 3, "mem_rdata": 0xABCD},
            {"order": 3, "insn": 103, "pc_rdata": pc + 12, "pc_wdata": pc + 16, "mem_addr": 0x98,
             "mem_wmask": 1, "mem_wdata": 0xEF}]
        # An exception is a record without its register and memory access.
        ctx.set(trace.vector, 0x4000)
        assert await step(ctx, (ports[0][1], head(4, rd=8, writes=1, load=1)),
                          (trace.trap, {"valid": 1, "cause": 5})) == [
            {"order": 4, "insn": 104, "pc_rdata": pc + 16, "pc_wdata": 0x4000, "trap": 1, "cause": 5}, None]
        # An interrupt is none; the next record is marked, whatever that is, and no other.
        assert await step(ctx, (ports[0][1], head(5)), (trace.trap, {
            "valid": 1, "interrupt": 1, "cause": 7})) == [None, None]
        assert await step(ctx) == [None, None]
        ctx.set(trace.next_pc, 0x5000)
        assert await step(ctx, (ports[0][1], head(5, rd=9, writes=1, system=1)), (trace.retire, 1),
                          (trace.system_ends, 1),
                          (trace.result, {"valid": 1, "writes": 1, "value": 0x33})) == [
            {"order": 5, "insn": 105, "pc_rdata": pc + 20, "pc_wdata": 0x5000, "intr": 1,
             "cause": 1 << 63 | 7, "rd_addr": 9, "rd_wdata": 0x33}, None]
        assert await step(ctx, (ports[0][1], head(0)), (trace.retire, 1)) == [
            {"order": 6, "insn": 100, "pc_rdata": pc, "pc_wdata": pc + 4}, None]

    simulate(trace, bench)
