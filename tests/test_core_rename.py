"""Free list, rename table and rename stage against models in Python, under random groups and kills."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from hw.core.config import core_preset
from hw.core.rename.free_list import FreeList
from hw.core.rename.rename import Rename
from hw.core.rename.table import RenameTable
from hw.core.types import ControlKind, Unit

CYCLES = 500


def simulate(component, bench):
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()


class FreeModel:
    """Registers in a queue: handed out at its left end, given back at its right end.

    ``flying``: handed out, not committed, oldest first. ``homes``: those of the architectural registers.
    """

    def __init__(self, physical):
        self.free, self.flying, self.homes = deque(range(32, physical)), deque(), list(range(32))
        self.physical, self.taken = physical, 0

    def take(self):
        self.flying.append(self.free.popleft())
        self.taken += 1
        return self.flying[-1]

    def back_to(self, taken):
        while self.taken > taken:
            self.free.appendleft(self.flying.pop())
            self.taken -= 1

    def commit(self, rd):
        """The register that rd had before."""
        replaced, self.homes[rd] = self.homes[rd], self.flying.popleft()
        self.free.append(replaced)
        return replaced

    def check(self):
        """Each register is in one place."""
        assert sorted([*self.free, *self.flying, *self.homes]) == list(range(self.physical))


@pytest.mark.parametrize("width,physical", [(1, 33), (1, 40), (2, 34), (2, 48), (4, 48)])
def test_free_list(width, physical):
    free, model, rng = FreeList(width=width, physical=physical), FreeModel(physical), random.Random(width)
    seen = {"taken": 0, "full": 0, "restored": 0, "flushed": 0}

    async def bench(ctx):
        pace = 1
        for number in range(CYCLES):
            if number % 50 == 0:
                pace = rng.choice((0.1, 0.5, 1))
            committed = model.taken - len(model.flying)
            room = len(model.flying) <= physical - 32 - width
            assert ctx.get(free.room) == room
            seen["full"] += not room
            takes = rng.getrandbits(width)
            ctx.set(free.takes, takes)
            expected, heads, wanted = list(model.free), [], 0
            for i in range(width):
                if takes >> i & 1:
                    if wanted < len(expected):
                        assert ctx.get(free.tags[i]) == expected[wanted]
                    wanted += 1
                heads.append((model.taken + wanted) % (2 * (physical - 32)))
            assert [ctx.get(head) for head in free.heads] == heads

            advance, flush, restore = room and rng.random() < 0.8, rng.random() < 0.03, rng.random() < 0.1
            commits = 0 if flush or rng.random() > pace else rng.randint(0, min(width, len(model.flying)))
            point = rng.randint(committed + commits, model.taken)
            ctx.set(free.advance, advance)
            ctx.set(free.flush, flush)
            ctx.set(free.restore, restore)
            ctx.set(free.restored, point % (2 * (physical - 32)))
            chosen = sorted(rng.sample(range(width), commits))
            for i in range(width):
                tag = model.commit(rng.randrange(1, 32)) if i in chosen else rng.randrange(physical)
                ctx.set(free.freed[i], {"valid": i in chosen, "tag": tag})
            await ctx.tick()
            if flush:
                model.back_to(committed)
            elif restore:
                model.back_to(point)
            elif advance:
                for _ in range(wanted):
                    model.take()
            model.check()
            seen["taken"] += wanted * advance
            seen["restored"] += restore
            seen["flushed"] += flush

    simulate(free, bench)
    assert seen["taken"] > 80 and min(seen.values()) > 5, seen


@pytest.mark.parametrize("width,checkpoints", [(1, 2), (2, 3), (4, 8)])
def test_rename_table(width, checkpoints):
    physical = 96
    table, rng = RenameTable(width=width, physical=physical, checkpoints=checkpoints), random.Random(width)
    now, committed, saved = list(range(32)), list(range(32)), {}
    seen = {"looked up": 0, "within the group": 0, "restored": 0, "flushed": 0}

    def writes():
        return [{"valid": rng.random() < 0.7, "rd": rng.randrange(1, 6), "tag": rng.randrange(physical)}
                for _ in range(width)]

    async def bench(ctx):
        nonlocal now, committed
        for _ in range(CYCLES):
            targets, commits = writes(), writes()
            flush, advance = rng.random() < 0.03, rng.random() < 0.8
            if flush:
                commits = [change | {"valid": 0} for change in commits]
            slot, place = rng.randrange(width), rng.randrange(checkpoints)
            save = rng.random() < 0.5
            restore = saved and rng.random() < 0.2
            back = rng.choice(list(saved)) if restore else 0
            ctx.set(table.advance, advance)
            ctx.set(table.flush, flush)
            ctx.set(table.save, {"slots": save << slot, "id": place})
            ctx.set(table.restore, {"valid": bool(restore), "id": back})
            after, old = list(now), list(committed)
            for i in range(width):
                sources = {"rs1": rng.randrange(6), "rs2": rng.randrange(32)}
                ctx.set(table.sources[i], sources)
                ctx.set(table.targets[i], targets[i])
                ctx.set(table.commits[i], commits[i])
                for field, register in sources.items():
                    assert ctx.get(table.tags[i][field]) == after[register]
                    seen["looked up"] += 1
                    seen["within the group"] += after[register] != now[register]
                assert ctx.get(table.replaced[i]) == old[commits[i]["rd"]]
                for state, change in ((after, targets[i]), (old, commits[i])):
                    if change["valid"]:
                        state[change["rd"]] = change["tag"]
                if i == slot:
                    kept = list(after)
            await ctx.tick()
            before = committed
            committed = old
            if flush:
                now = list(before)
            elif restore:
                now = list(saved[back])
            elif advance:
                now = after
            if save and advance:
                saved[place] = kept
            seen["restored"] += bool(restore)
            seen["flushed"] += flush

    simulate(table, bench)
    assert seen["looked up"] == 2 * width * CYCLES and seen["restored"] > 40 and seen["flushed"] > 5, seen
    assert width == 1 or seen["within the group"] > 50


class RenameModel:
    """The stage's state: registers, table, checkpoints, the instructions in flight, and the bundle's rest."""

    def __init__(self, config):
        self.config = config
        self.registers = FreeModel(config.physical)
        self.table = list(range(32))
        self.committed = list(range(32))
        self.checkpoints = [None] * config.checkpoints
        self.flying = deque()  # instructions, oldest first
        self.head = self.tail = 0  # as ages, but unlimited
        self.waiting = False
        self.rest = []

    @property
    def branches(self):
        return [entry for entry in self.flying if entry["branch"] and not entry["resolved"]]

    def group(self):
        """What would be dispatched of the rest of the bundle."""
        chosen, branch = [], False
        for slot in [] if self.waiting else self.rest:
            if slot["unit"] == Unit.BRANCH:
                if branch:
                    break
                branch = True
            chosen.append(slot)
            if slot["unit"] == Unit.SYSTEM:
                break
        return chosen, branch

    def dispatch(self, group, ready, levels):
        """Instructions as the stage should show them, now in flight."""
        lane, shown, fresh = levels.index(min(levels)), [], set()
        checkpoint = next((c for c, user in enumerate(self.checkpoints) if user is None), None)
        for slot in group:
            sources = {}
            for field, reads in (("rs1", slot["reads1"]), ("rs2", slot["reads2"])):
                tag = self.table[slot[field]]
                sources[field] = {"tag": tag, "ready": int(
                    not reads or (ready >> tag & 1 and slot[field] not in fresh))}
            entry = {"slot": slot, "age": self.tail, "branch": slot["unit"] == Unit.BRANCH, "resolved": False,
                     "tag": None, "sources": sources, "lane": None, "checkpoint": None}
            if slot["unit"] == Unit.ALU:
                entry["lane"], lane = lane, (lane + 1) % self.config.alus
            if slot["writes"]:
                entry["tag"] = self.table[slot["rd"]] = self.registers.take()
                fresh.add(slot["rd"])
            if entry["branch"]:
                entry["checkpoint"] = checkpoint
                self.checkpoints[checkpoint] = entry
                entry["saved"] = list(self.table), self.registers.taken
            self.tail += 1
            self.flying.append(entry)
            shown.append(entry)
            self.waiting |= slot["unit"] == Unit.SYSTEM
        del self.rest[:len(group)]
        return shown

    def forget(self, dropped):
        for entry in dropped:
            if entry["branch"] and not entry["resolved"]:
                self.checkpoints[entry["checkpoint"]] = None

    def resolve(self, branch):
        branch["resolved"] = True
        self.checkpoints[branch["checkpoint"]] = None

    def kill(self, branch):
        while self.flying[-1] is not branch:
            self.forget([self.flying.pop()])
        self.table, taken = list(branch["saved"][0]), branch["saved"][1]
        self.registers.back_to(taken)
        self.resolve(branch)
        self.tail = branch["age"] + 1
        self.waiting, self.rest = False, []

    def flush(self):
        self.forget(self.flying)
        self.flying.clear()
        self.registers.back_to(self.registers.taken - len(self.registers.flying))
        self.table = list(self.committed)
        self.tail = self.head
        self.waiting, self.rest = False, []

    def commit(self, entry):
        assert self.flying.popleft() is entry
        self.head += 1
        if entry["slot"]["writes"]:
            self.committed[entry["slot"]["rd"]] = entry["tag"]
            self.registers.commit(entry["slot"]["rd"])


def random_slot(rng):
    unit = rng.choices(
        [Unit.ALU, Unit.BRANCH, Unit.LOAD, Unit.STORE, Unit.SYSTEM, Unit.MULTIPLY, Unit.NONE],
        [16, 9, 5, 3, 1, 3, 2])[0]
    rd, rs1, rs2 = (rng.choice((rng.randrange(4), rng.randrange(32))) for _ in range(3))
    writes = rd != 0 and unit not in (Unit.STORE, Unit.NONE) and rng.random() < 0.9
    return {
        "pc": rng.getrandbits(64), "word": rng.getrandbits(32), "unit": unit, "op": rng.getrandbits(4),
        "immediate": rng.getrandbits(32) - (1 << 31), "rd": rd, "rs1": rs1, "rs2": rs2, "writes": writes,
        "reads1": rs1 != 0 and rng.random() < 0.8, "reads2": rs2 != 0 and rng.random() < 0.5,
        "kind": rng.choice(list(ControlKind)), "target": rng.getrandbits(64),
        "history": rng.getrandbits(16), "returns": rng.getrandbits(6)}


CONFIGS = {
    # Few registers, so that they can run out before the reorder buffer is full.
    "tiny": core_preset("tiny", physical=36, checkpoints=1),
    "small": core_preset("small", physical=40, checkpoints=3, reorder_buffer=16),
    "full": core_preset("full", physical=48, checkpoints=5, reorder_buffer=32),
    # More instructions in a group than twice the lanes.
    "one lane": core_preset("full", physical=40, alus=1, checkpoints=4, reorder_buffer=16),
    "three lanes": core_preset("full", width=8, physical=48, alus=3, checkpoints=8, reorder_buffer=32),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_rename(name):
    config, rng = CONFIGS[name], random.Random(name)
    rename, model, width = Rename(config), RenameModel(config), config.width
    seen = dict.fromkeys(("dispatched", "killed", "flushed", "second branch", "system", "registers",
                          "checkpoints", "room", "looked up"), 0)

    async def cycle(ctx):
        flush = rng.random() < 0.02
        open_branches = model.branches
        branch = rng.choice(open_branches) if open_branches and rng.random() < 0.6 * model.pace else None
        wrong = branch is not None and rng.random() < 0.3
        # Committed: a prefix, without branches that are not resolved, SYSTEM alone.
        commits, system_done = [], 0
        moves = 0 if flush or rng.random() > model.pace else rng.randint(0, width)
        for entry in list(model.flying)[:moves]:
            if entry["branch"] and not entry["resolved"]:
                break
            if entry["slot"]["unit"] == Unit.SYSTEM:
                system_done = not commits
                commits += [entry] * system_done
                break
            commits.append(entry)
        if not model.rest and rng.random() < 0.8:
            model.rest = [random_slot(rng) for _ in range(rng.randint(1, width))]
            model.count, model.bundle = len(model.rest), list(model.rest)
        room, ready = rng.random() < 0.9, rng.getrandbits(config.physical)
        levels = [rng.randrange(config.queue + 1) for _ in range(config.alus)]

        ctx.set(rename.i.valid, bool(model.rest))
        if model.rest:
            slots = model.bundle + [{}] * (width - model.count)
            ctx.set(rename.i.payload, {"count": model.count, "slots": slots})
        ctx.set(rename.room, room)
        ctx.set(rename.tail, model.tail % (2 * config.reorder_buffer))
        ctx.set(rename.ready, ready)
        for port, level in zip(rename.levels, levels):
            ctx.set(port, level)
        age = branch["age"] % (2 * config.reorder_buffer) if branch else 0
        place = branch["checkpoint"] if branch else 0
        ctx.set(rename.kill, {"valid": wrong, "age": age})
        ctx.set(rename.restore, {"valid": wrong, "id": place})
        ctx.set(rename.resolved, {"valid": branch is not None, "id": place})
        ctx.set(rename.flush, flush)
        ctx.set(rename.system_done, system_done)
        for i, port in enumerate(rename.commits):
            entry = commits[i] if i < len(commits) else None
            ctx.set(port, {"valid": entry is not None and entry["slot"]["writes"],
                           "rd": entry["slot"]["rd"] if entry else 0,
                           "tag": (entry["tag"] or 0) if entry else 0})
        if open_branches:
            asked = rng.choice(open_branches)
            ctx.set(rename.lookup, asked["checkpoint"])
            for field in ("target", "kind", "history", "returns"):
                got = ctx.get(rename.branch[field])
                assert got == asked["slot"][field], f"branch: {field}"
            seen["looked up"] += 1

        group, has_branch = model.group()
        fits = len(model.registers.flying) <= config.physical - 32 - width
        place = None in model.checkpoints or not has_branch
        full = model.tail - model.head > config.reorder_buffer - width
        if full:
            room = False
            ctx.set(rename.room, 0)
        calm = not flush and not wrong
        advance = bool(group) and fits and place and room and calm
        stalls = {"registers": not fits, "checkpoints": not place, "room": not room}
        stalled = {key: int(bool(model.rest) and calm and not model.waiting and value)
                   for key, value in stalls.items()} | {
            "system": int(bool(model.rest) and calm and model.waiting)}
        for key, value in stalled.items():
            assert ctx.get(rename.stalls[key]) == value, f"stall: {key}"
            seen[key] += value
        seen["second branch"] += advance and len(group) < len(model.rest) and \
            model.rest[len(group)]["unit"] == Unit.BRANCH
        first = model.count - len(model.rest) if model.rest else 0
        ends = len(group) == len(model.rest)
        shown = model.dispatch(group, ready, levels) if advance else []
        for i, out in enumerate(rename.o):
            entry = shown[i - first] if first <= i < first + len(shown) else None
            assert ctx.get(out.valid) == (entry is not None), f"slot {i}"
            if entry is None:
                continue
            slot = entry["slot"]
            assert ctx.get(out.age) == entry["age"] % (2 * config.reorder_buffer)
            for field in ("rs1", "rs2"):
                got = {key: ctx.get(out[field][key]) for key in ("tag", "ready")}
                if slot[f"reads{field[2]}"]:
                    assert got == entry["sources"][field], f"slot {i}: {field}"
                else:
                    assert got["ready"]
            for field in ("pc", "word", "immediate", "rd", "writes"):
                assert ctx.get(out.decoded[field]) == slot[field]
            if entry["tag"] is not None:
                assert ctx.get(out.tag) == entry["tag"]
            if entry["branch"]:
                assert ctx.get(out.checkpoint) == entry["checkpoint"]
            if entry["lane"] is not None:
                assert ctx.get(out.lane) == entry["lane"], f"slot {i}: lane"
            seen["dispatched"] += 1
        if model.bundle and calm and (advance or model.rest):
            assert ctx.get(rename.i.ready) == (advance and ends)

        await ctx.tick()
        for entry in commits:
            model.commit(entry)
        if system_done:
            model.waiting = False
        if flush:
            model.flush()
        elif wrong:
            model.kill(branch)
        elif branch is not None:
            model.resolve(branch)
        seen["killed"] += wrong
        seen["flushed"] += flush
        model.registers.check()

    async def bench(ctx):
        model.count, model.bundle = 0, []
        for number in range(CYCLES):
            if number % 50 == 0:
                model.pace = rng.choice((0.05, 0.5, 1))
            try:
                await cycle(ctx)
            except AssertionError as error:
                raise AssertionError(f"{name}, cycle {number}: {error}") from error

    simulate(rename, bench)
    # Wide stages have more checkpoints than are busy here.
    assert seen.pop("checkpoints") > (3 if width < 4 else -1)
    assert seen.pop("second branch") > (3 if width > 1 else -1)
    assert seen["dispatched"] > 100 and min(seen.values()) > 3, seen
