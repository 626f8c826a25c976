"""What is proved of the core's back end: renaming, and the order of the reorder buffer."""

from unittest.mock import patch

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data

from hw.core.config import CoreConfig
from hw.core.types import Unit
from tb.planted import Bug

from .hbm import Harness, Proof

__all__ = ["PROOFS"]


def small(width, **fields):
    """As little of a core as may be configured."""
    return CoreConfig(**dict(width=width, alus=1, reorder_buffer=4, physical=36, checkpoints=2, queue=width,
                             loads=2, stores=2) | fields)


class FreeListConserves(Harness):
    """A watched register, of any number: it is handed out when those that were free before it have been, and
    only then; so no register is handed out twice, and none is lost. Any takes, commits, restores, flushes."""

    PLACES = 4
    FREE = ("*watched_tag*",)

    def __init__(self, load, width):
        super().__init__()
        self.width = width
        self.list = load("rename.free_list").FreeList(width=width, physical=32 + self.PLACES)
        self.takes, self.advance = self.free(width, "takes"), self.free(1, "advance")
        self.restore, self.older, self.flush = (
            self.free(1, "restore"), self.free(3, "older"), self.free(1, "flush"))
        self.commits = self.free(width, "commits")
        self.freed = [self.free(6, f"freed{i}") for i in range(width)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.list = free = self.list
        places, width = self.PLACES, self.width
        watched = Signal(6, name="watched_tag")
        started = Signal()
        m.d.sync += [watched.eq(watched), started.eq(1)]
        # Registers handed out and not committed; committed so far; and where the watched one stands, from the
        # oldest that is handed out on: those at ``out`` and behind are free.
        out, base = Signal(range(places + 1)), Signal(3)
        home, place = Signal(), Signal(range(places))
        at_home, stands = Signal(), Signal(range(places))
        m.d.comb += [Assume(watched < 32 + places),
                     at_home.eq(Mux(started, home, watched < 32)),
                     stands.eq(Mux(started, place, watched[:2]))]
        total = sum(self.commits[i] for i in range(width))
        m.d.comb += [
            Assume(total <= out), Assume(~self.flush | (total == 0)), Assume(~self.advance | free.room),
            Assume(~self.restore | ((self.older >= total) & (self.older <= out))),
            free.takes.eq(self.takes), free.advance.eq(self.advance), free.flush.eq(self.flush),
            free.restore.eq(self.restore), free.restored.eq(base + self.older),
        ]
        count, is_home, where = 0, at_home, stands
        enters, entry = 0, 0
        for i, port in enumerate(free.freed):
            m.d.comb += [port.valid.eq(self.commits[i]), port.tag.eq(self.freed[i])]
            # What slot i commits is a home from here on; only a home can be replaced, and only once.
            replaced = self.commits[i] & (self.freed[i] == watched)
            is_home = is_home | (self.commits[i] & ~at_home & (where == count))
            m.d.comb += Assume(~replaced | (is_home & ~enters))
            entry = Mux(replaced, places - total + count, entry)
            enters = enters | replaced
            is_home = is_home & ~replaced
            count = count + self.commits[i]
        m.d.sync += [home.eq(is_home), place.eq(Mux(enters, entry, where - total)), base.eq(base + total)]
        taken = sum(self.takes[i] for i in range(width))
        m.d.sync += out.eq(Mux(self.flush, 0, Mux(self.restore, self.older,
                                                  out + Mux(self.advance, taken, 0))) - total)
        m.d.comb += Assert(free.room == (out <= places - width))
        before = 0
        for i in range(width):
            expected = ~at_home & (stands == out + before)
            takes = free.room & self.takes[i]
            m.d.comb += [Assert(~takes | ((free.tags[i] == watched) == expected)),
                         Assert(~takes | (free.heads[i] == (base + out + before + 1)[:3])),
                         Cover(takes & expected & started & (watched < 32)),
                         Cover(takes & ~expected & (base == 5))]
            before = before + self.takes[i]
        return m


class TableIsTheLatest(Harness):
    """What the table gives for register ``name`` is the newest value, also after a group in which it is
    written, after going back to any checkpoint that was saved, and after a flush."""

    def __init__(self, load, width, name):
        super().__init__()
        self.width, self.name = width, name
        self.table = load("rename.table").RenameTable(width=width, physical=64, checkpoints=2)
        self.inputs = [self.free(Value.cast(port).shape(), f"in_{n}") for n, port in enumerate(self._ports())]

    def _ports(self):
        table = self.table
        return [*table.targets, *table.commits, *table.sources, table.advance, table.save, table.restore,
                table.flush]

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        m.d.comb += [Value.cast(port).eq(value) for port, value in zip(self._ports(), self.inputs)]
        name = self.name
        bits = len(table.targets[0].tag)
        now, home = Signal(bits, init=name), Signal(bits, init=name)
        saved, kept = [Signal(bits, name=f"saved{c}") for c in range(2)], Signal(2)
        slots = table.save.slots
        m.d.comb += [
            Assume((slots & (slots - 1))[:self.width] == 0),
            Assume(~table.restore.valid | kept.bit_select(table.restore.id, 1)),
            Assume(~table.restore.valid | ~table.advance),
        ]
        newest = back = now
        homes = home
        within = Signal()
        for i in range(self.width):
            for register, tag in ((table.sources[i].rs1, table.tags[i].rs1),
                                  (table.sources[i].rs2, table.tags[i].rs2)):
                m.d.comb += Assert((register != name) | (tag == newest))
            commit, change = table.commits[i], table.targets[i]
            m.d.comb += Assume(~table.flush | ~commit.valid)
            m.d.comb += Assert((commit.rd != name) | (table.replaced[i] == homes))
            homes = Mux(commit.valid & (commit.rd == name), commit.tag, homes)
            newest = Mux(change.valid & (change.rd == name), change.tag, newest)
            back = Mux(slots[i], newest, back)
        restored = Mux(table.restore.id, saved[1], saved[0])
        m.d.sync += [
            home.eq(homes),
            now.eq(Mux(table.flush, home, Mux(table.restore.valid, restored,
                                              Mux(table.advance, newest, now)))),
        ]
        for c in range(2):
            with m.If(table.advance & (slots != 0) & (table.save.id == c)):
                m.d.sync += [saved[c].eq(back), kept[c].eq(1)]
        m.d.sync += within.eq(table.restore.valid & (restored != now) & (restored != home))
        m.d.comb += [Cover(within & (now == 50)), Cover(kept.all() & table.flush & (now != home))]
        return m


class RegistersAreConserved(Harness):
    """Any instructions, kills, flushes and commits that the window allows: a register that is handed out is
    held by nobody, registers do not become fewer, and a source is the newest older value of its register.

    The instructions in flight stand in a list of four, and the registers of committed state in a table, both
    made here from what the stage shows. Instructions use x1.
    """

    NAMES = 2

    def __init__(self, load, width):
        super().__init__()
        self.config = small(width)
        self.width = width
        # Its parts may have the bug as well.
        parts = {"FreeList": load("rename.free_list").FreeList,
                 "RenameTable": load("rename.table").RenameTable}
        module = load("rename.rename")
        with patch.multiple(module, **parts):
            self.rename = module.Rename(self.config)
        slot = data.StructLayout({"kind": 2, "writes": 1, "rd": 1, "rs1": 1})
        self.slots = [self.free(slot, f"slot{i}") for i in range(width)]
        self.valid, self.more = self.free(1, "valid"), self.free(1, "more")
        self.room, self.commit = self.free(1, "room"), self.free(2, "commit")
        self.branch, self.resolves = self.free(2, "branch"), self.free(1, "resolves")
        self.wrong, self.flush = self.free(1, "wrong"), self.free(1, "flush")

    def elaborate(self, platform):
        m = Module()
        m.submodules.rename = rename = self.rename
        width, places = self.width, self.config.reorder_buffer
        layout = data.StructLayout({"writes": 1, "rd": 1, "tag": 6, "open": 1, "checkpoint": 1, "system": 1})
        flying = [Signal(layout, name=f"flying{n}") for n in range(places)]
        count, tail = Signal(range(places + 1)), Signal(3)
        homes = [Signal(6, init=n, name=f"home{n}") for n in range(self.NAMES)]

        # The bundle stays until it has been taken.
        held, before = Signal(), [Signal.like(slot, name=f"before{i}") for i, slot in enumerate(self.slots)]
        more = Signal()
        clears = self.wrong | self.flush
        m.d.sync += [held.eq(self.valid & ~rename.i.ready & ~clears), more.eq(self.more)]
        m.d.comb += Assume(~held | (self.valid & (more == self.more)))
        units = {0: Unit.ALU, 1: Unit.BRANCH, 2: Unit.SYSTEM, 3: Unit.LOAD}
        m.d.comb += [rename.i.valid.eq(self.valid),
                     rename.i.payload.count.eq(Mux(self.more, width, 1))]
        for slot, old, port in zip(self.slots, before, rename.i.payload.slots):
            m.d.sync += old.eq(slot)
            m.d.comb += [Assume(~held | (slot.as_value() == old.as_value())),
                         Assume((slot.rd != 0) | ~slot.writes),
                         port.writes.eq(slot.writes), port.rd.eq(slot.rd), port.rs1.eq(slot.rs1),
                         port.reads1.eq(1)]
            with m.Switch(slot.kind):
                for kind, unit in units.items():
                    with m.Case(kind):
                        m.d.comb += port.unit.eq(unit)

        # What the window does: a branch is resolved once, and commits later; SYSTEM commits alone.
        chosen = Signal(layout)
        for n, entry in enumerate(flying):
            with m.If(self.branch == n):
                m.d.comb += chosen.eq(entry)
        resolves = Signal()
        m.d.comb += [
            resolves.eq(self.resolves | self.wrong),
            Assume(~resolves | ((self.branch < count) & chosen.open)),
            Assume(self.commit <= width), Assume(self.commit <= count),
            Assume(~self.flush | (self.commit == 0)),
        ]
        for n in range(width):
            entry = flying[n]
            m.d.comb += Assume((self.commit <= n) | ~entry.open)
            m.d.comb += Assume((self.commit <= n) | ~entry.system | (self.commit == 1))
        age = (tail - count + self.branch)[:3]
        m.d.comb += [
            rename.tail.eq(tail), rename.room.eq(self.room & (count <= places - width)),
            rename.flush.eq(self.flush), rename.kill.valid.eq(self.wrong), rename.kill.age.eq(age),
            rename.restore.valid.eq(self.wrong), rename.restore.id.eq(chosen.checkpoint),
            rename.resolved.valid.eq(resolves), rename.resolved.id.eq(chosen.checkpoint),
            rename.system_done.eq((self.commit != 0) & flying[0].system),
        ]
        for n, port in enumerate(rename.commits):
            m.d.comb += [port.valid.eq((self.commit > n) & flying[n].writes), port.rd.eq(flying[n].rd),
                         port.tag.eq(flying[n].tag)]

        # The list and the table, a step on.
        stays = [entry.as_value() for entry in flying]
        for n in range(places):
            value = layout(flying[n].as_value())
            shut = Signal(layout, name=f"shut{n}")
            m.d.comb += [shut.eq(value), shut.open.eq(value.open & ~(resolves & (self.branch == n)))]
            stays[n] = shut.as_value()
        entered, fresh = 0, []
        for out, slot in zip(rename.o, self.slots):
            new = Signal(layout, name=f"new{len(fresh)}")
            m.d.comb += [new.writes.eq(slot.writes), new.rd.eq(slot.rd), new.tag.eq(out.tag),
                         new.open.eq(slot.kind == 1), new.checkpoint.eq(out.checkpoint),
                         new.system.eq(slot.kind == 2)]
            fresh.append((out.valid, entered, new))
            entered = entered + out.valid
        left = Signal(range(places + 1))
        m.d.comb += left.eq(Mux(self.flush, 0, Mux(self.wrong, self.branch + 1, count)) - self.commit)
        with m.If(self.flush):
            m.d.sync += [count.eq(0), tail.eq(tail - count)]
        with m.Elif(self.wrong):
            m.d.comb += Assume(self.commit <= self.branch)
            m.d.sync += [count.eq(left), tail.eq(age + 1)]
        with m.Else():
            m.d.sync += [count.eq(left + entered), tail.eq(tail + entered)]
        for n, entry in enumerate(flying):
            value = stays[n]
            for step in range(1, width + 1):
                value = Mux(self.commit == step, stays[n + step] if n + step < places else 0, value)
            for valid, place, new in fresh:
                value = Mux(valid & ((left + place) == n), new.as_value(), value)
            m.d.sync += entry.as_value().eq(value)
        for name in range(1, self.NAMES):
            value = homes[name]
            for n in range(width):
                entry = flying[n]
                value = Mux((self.commit > n) & entry.writes & (entry.rd == name), entry.tag, value)
            m.d.sync += homes[name].eq(value)

        # The claims.
        writers = sum((count > n) & entry.writes for n, entry in enumerate(flying))
        opened = sum((count > n) & entry.open for n, entry in enumerate(flying))
        m.d.comb += [Assert(rename._free.room == (writers <= 4 - width)),
                     Assert(~rename.stalls.checkpoints | (opened == self.config.checkpoints))]
        older = [((count > n) & entry.writes, entry.rd, entry.tag) for n, entry in enumerate(flying)]
        for (valid, _, new), out, slot in zip(fresh, rename.o, self.slots):
            newest = slot.rs1
            for register in range(1, self.NAMES):
                newest = Mux(slot.rs1 == register, homes[register], newest)
            for is_older, rd, tag in older:
                newest = Mux(is_older & (rd == slot.rs1), tag, newest)
            m.d.comb += Assert(~valid | (out.rs1.tag == newest))
            takes = valid & slot.writes
            for is_older, _, tag in older:
                m.d.comb += Assert(~takes | ~is_older | (new.tag != tag))
            for home in homes:
                m.d.comb += Assert(~takes | (new.tag != home))
            m.d.comb += Assert(~takes | (new.tag < self.NAMES) | (new.tag >= 32))
            older.append((takes, slot.rd, new.tag))
        killed, flushed = Signal(), Signal()
        m.d.sync += [killed.eq(killed | (self.wrong & (self.branch + 1 < count))),
                     flushed.eq(flushed | (self.flush & (count != 0)))]
        reused = rename.o[0].valid & self.slots[0].writes & (rename.o[0].tag < 32)
        m.d.comb += [Cover(killed & reused), Cover(flushed & reused), Cover(rename.stalls.registers),
                     Cover(rename.stalls.checkpoints), Cover(Cat(out.valid for out in rename.o).all())]
        return m


class InstructionsRetireInOrder(Harness):
    """A watched instruction is at the head when all before it have retired, and at no other time: so it
    retires once, in its place, never after a kill or a flush; it is done when its lane has said so."""

    def __init__(self, load, width, entries):
        super().__init__()
        self.config = small(width, reorder_buffer=entries)
        self.buffer = load("window.reorder_buffer").ReorderBuffer(self.config, finishers=1, readers=1)
        bits = self.config.reorder_buffer.bit_length()
        self.enters, self.watch = self.free(range(width + 1), "enters"), self.free(range(width + 1), "watch")
        self.retire, self.flush = self.free(range(width + 1), "retire"), self.free(1, "flush")
        self.kills, self.kill = self.free(1, "kills"), self.free(bits, "kill")
        self.ends, self.end = self.free(1, "ends"), self.free(bits, "end")

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        width, places = self.config.width, self.config.reorder_buffer
        count = Signal(range(places + 1))
        watched, ahead, told = Signal(), Signal(range(places)), Signal()
        head = Signal(places.bit_length())
        calm = ~self.kills & ~self.flush
        m.d.comb += [
            Assume(self.enters <= width), Assume(self.retire <= width), Assume(self.retire <= count),
            Assume(~self.flush | (self.retire == 0)), Assume(buffer.room | (self.enters == 0)),
            Assume(calm | (self.enters == 0)),
            # Only what has not retired, and not in this cycle either, kills.
            Assume(~self.kills | ((self.kill < count) & (self.kill >= self.retire))),
            # What is not void, and in flight, ends.
            Assume(~self.ends | ((self.end < count) & (self.end >= self.retire) & ~self.flush
                                 & ~(self.kills & (self.end > self.kill)))),
            buffer.retire.eq(self.retire), buffer.flush.eq(self.flush), buffer.kill.valid.eq(self.kills),
            buffer.kill.age.eq(head + self.kill), buffer.done[0].valid.eq(self.ends),
            buffer.done[0].age.eq(head + self.end),
        ]
        begins = Signal()
        m.d.comb += begins.eq(~watched & (self.watch < self.enters))
        for i, slot in enumerate(buffer.i):
            m.d.comb += [slot.valid.eq(self.enters > i), slot.age.eq(buffer.tail + i),
                         slot.decoded.word.eq(begins & (self.watch == i))]
        left = Mux(self.flush, 0, Mux(self.kills, self.kill + 1, count)) - self.retire
        m.d.sync += [head.eq(head + self.retire), count.eq(left + self.enters)]
        gone = (ahead < self.retire) | self.flush | (self.kills & (ahead > self.kill))
        with m.If(watched):
            m.d.sync += [watched.eq(~gone), ahead.eq(ahead - self.retire),
                         told.eq(told | (self.ends & (self.end == ahead)))]
        with m.Elif(begins):
            m.d.sync += [watched.eq(1), ahead.eq(left + self.watch), told.eq(0)]
        m.d.comb += [Assert(buffer.room == (count <= places - width)),
                     Assert(buffer.tail == (head + count)[:len(head)])]
        wrapped, killed = Signal(), Signal()
        m.d.sync += [wrapped.eq(wrapped | (head == places)), killed.eq(killed | self.kills)]
        for i, out in enumerate(buffer.heads):
            here = watched & (ahead == i)
            m.d.comb += [
                Assert(out.valid == (count > i)), Assert(~out.valid | (out.age == (head + i)[:len(head)])),
                Assert(~out.valid | (out.instruction.word[0] == here)), Assert(~here | (out.done == told)),
                Cover(here & told & wrapped & killed),
            ]
        return m


PROOFS = {
    **{f"free list, width {width}": Proof(
        package="hw.core",
        what="a watched register is handed out after those that were free before it, and not otherwise: "
             f"36 registers, {width} a cycle",
        harness=lambda load, width=width: FreeListConserves(load, width), free=FreeListConserves.FREE,
        mode="unbounded", cover_depth=12, bugs=bugs)
       for width, bugs in (
           (1, (Bug(what="a flush does not give registers back", module="hw.core.rename.free_list",
                    right="m.d.sync += head.eq(committed)", wrong="m.d.sync += head.eq(head)"),)),
           (2, (Bug(what="two registers given back leave one place", module="hw.core.rename.free_list",
                    right="left.eq(committed + ones(valid[:i]))", wrong="left.eq(committed)"),)))},
    **{f"rename table, x{name}": Proof(
        package="hw.core",
        what=f"x{name} reads as its newest value, after checkpoints and flushes too: 2 a cycle, 2 "
             "checkpoints",
        harness=lambda load, name=name: TableIsTheLatest(load, 2, name), mode="unbounded", cover_depth=8,
        bugs=bugs)
       for name, bugs in (
           (1, (Bug(what="a checkpoint lacks what its own branch writes", module="hw.core.rename.table",
                    right="before = (self.save.slots >> i) != 0",
                    wrong="before = (self.save.slots >> i) > 1"),)),
           (31, (Bug(what="a flush goes back to no more than the newest", module="hw.core.rename.table",
                     right="m.d.sync += table.eq(committed)", wrong="m.d.sync += table.eq(table)"),)))},
    **{f"renaming, width {width}": Proof(
        package="hw.core",
        what="no register is handed out twice, none is lost, sources are the newest older values: "
             f"36 registers, {width} a cycle, 2 checkpoints, 4 instructions in flight",
        harness=lambda load, width=width: RegistersAreConserved(load, width),
        mode="bounded", depth=depth, cover_depth=10, bugs=bugs)
       for width, depth, bugs in (
           (1, 7, (
               Bug(what="a checkpoint of a younger branch stays busy after a kill",
                   module="hw.core.rename.rename",
                   right="| (self.kill.valid & younger(ages[c], self.kill.age)))", wrong=")"),
           )),
           (2, 6, (
               Bug(what="the head behind a branch is that before it", module="hw.core.rename.rename",
                   right="heads.eq(free.heads[i])", wrong="heads.eq(free.heads[i] - writes)"),
           )))},
    "reorder buffer": Proof(
        package="hw.core",
        what="instructions retire in the order in which they entered, once, and not after a kill: 2 a cycle",
        harness=lambda load: InstructionsRetireInOrder(load, 2, 4), mode="unbounded", cover_depth=12,
        bugs=(Bug(what="a kill takes the branch too", module="hw.core.window.reorder_buffer",
                  right="m.d.sync += tail.eq(self.kill.age + 1)", wrong="m.d.sync += tail.eq(self.kill.age)"),
              Bug(what="what was done in a place stays done", module="hw.core.window.reorder_buffer",
                  right="done & ~entered | finished", wrong="done | finished"),
              Bug(what="a full buffer takes more", module="hw.core.window.reorder_buffer",
                  right="self.room.eq(used <= count - config.width)",
                  wrong="self.room.eq(used <= count - 1)"))),
}
"""All proofs, by name."""
