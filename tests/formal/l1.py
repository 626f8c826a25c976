"""What is proved of the L1: a byte reads as what was last stored to it, wherever it is meanwhile."""

from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

from amaranth.hdl import (
    Array,
    Assert,
    Assume,
    Cat,
    Const,
    Elaboratable,
    Fragment,
    Module,
    Mux,
    Shape,
    Signal,
    Value,
)

from hw.core.address import RAM
from hw.core.config import CoreConfig, L1Config
from hw.core.l1.types import WayState
from hw.hbm.port import Status
from tb.planted import Bug

from .hbm import Harness, Proof

__all__ = ["PROOFS"]

LANE = 5
"""The watched byte is this one of a line, and of its first doubleword; bit 0 stands for all its bits."""

LINES = 6
"""Three of each set of two ways."""

WATCHED = 0
"""The line of the watched byte. Of tags and sets only equality matters."""

DEPTH, LONG = 9, 11
"""Cycles in `make test` and in `make nightly`."""


class Rows(Elaboratable):
    """amaranth.lib.memory.Memory of a bank, as registers ``rows`` that a harness can look at."""

    def __init__(self, *, shape, depth, init):
        self.shape, self.depth = shape, depth
        self.rows = [Signal(shape, name=f"row{k}") for k in range(depth)]
        self.writes, self.reads = [], []

    def _port(self, ports, enables):
        port = SimpleNamespace(en=Signal(enables), addr=Signal(range(self.depth)), data=Signal(self.shape))
        ports.append(port)
        return port

    def write_port(self, *, granularity):
        return self._port(self.writes, self.shape.length)

    def read_port(self, *, transparent_for=()):
        port = self._port(self.reads, 1)
        port.transparent = bool(transparent_for)
        return port

    def elaborate(self, platform):
        m = Module()
        write, read = self.writes[0], self.reads[0]
        width = Shape.cast(self.shape).width // self.shape.length
        mask = Cat(bit.replicate(width) for bit in write.en)
        now, new = [Value.cast(row) for row in self.rows], []
        for k, row in enumerate(now):
            new.append(Mux(write.addr == k, row & ~mask | Value.cast(write.data) & mask, row))
            m.d.sync += row.eq(new[k])
        with m.If(read.en):
            m.d.sync += Value.cast(read.data).eq(Array(new if read.transparent else now)[read.addr])
        return m


class ByteReadsAsStored(Harness):
    """Loads and stores of the first and the last doubleword of 6 lines, in any cycle. Memory takes requests
    and answers them whenever it likes, lines as poisoned too, in order among reads.

    A byte of line WATCHED is followed; its value changes when a store is taken. A load that hits has it, and
    is a fault only if memory said so. The L1 begins at rest, with any lines in any ways, clean, dirty or
    poisoned, that agree with the memory. ``reaches``: also claims that a line never comes back.
    """

    FREE = ("*memory_byte*", "*memory_poison*", "*never_poisoned*", "*model_value*", "*applied_value*",
            "*.row?", "*l1.started", "*l1.load_ready")

    def __init__(self, load, *, reaches=False):
        super().__init__()
        self.reaches = reaches
        core = CoreConfig(l1=L1Config(banks=1, sets=2, ways=2, mshrs=2, streams=0, prefetch_mshrs=1))
        self.bank, self.module = load("l1.bank"), load("l1.l1")
        self.parts = {
            "Bank": self.bank.Bank, "Mshrs": load("l1.mshrs").Mshrs,
            "MemorySide": partial(load("l1.memory_side").MemorySide, depth=2),
            "LinePort": partial(load("l1.line_port").LinePort, depth=2)}
        with patch.object(self.module, "LINE_PORTS", 1):
            self.l1 = self.module.L1(core, ram_bytes=64 * LINES)
        for name, width in (("load", 1), ("load_line", 3), ("load_last", 1),
                            ("store", 1), ("store_line", 3), ("store_last", 1), ("store_lane", 1),
                            ("store_rest", 1), ("store_bit", 1), ("takes", 1), ("answers", 1),
                            ("answer_write", 1), ("other_bit", 1), ("other_bad", 1)):
            setattr(self, name, self.free(width, name))

    def elaborate(self, platform):
        m = Module()
        l1 = self.l1
        # Lines are not kept for long: that is for progress only, and would need many more cycles.
        memories = []

        def memory(**arguments):
            memories.append(Rows(**arguments))
            return memories[-1]

        with patch.multiple(self.module, LINE_PORTS=1, **self.parts), patch.multiple(
                self.bank, KEPT=1, memory=SimpleNamespace(Memory=memory)):
            m.submodules.l1 = Fragment.get(l1, platform)
        tags, *parts = memories

        # -- memory: of the watched line the byte and whether it is poisoned, of others anything
        byte, poison, never = (Signal(name=name) for name in (
            "memory_byte", "memory_poison", "never_poisoned"))
        m.d.sync += never.eq(never)
        request, response = l1.request, l1.response
        asked, here = request.payload, Signal()
        taken, reads, writes = Signal(), Signal(range(3)), Signal(5)
        queue = [Signal(6 + 1 + 1, name=f"read{k}") for k in range(2)]
        m.d.comb += [request.ready.eq(self.takes), taken.eq(request.valid & request.ready),
                     here.eq(asked.line == WATCHED)]
        write_here = taken & asked.write & here
        with m.If(write_here):
            with m.If(asked.mask[LANE]):
                m.d.sync += byte.eq(asked.data[8 * LANE])
            with m.If(asked.mask.all()):
                m.d.sync += poison.eq(0)
        held, held_write = Signal(), Signal()
        kind, pop = Mux(held, held_write, self.answer_write), Signal()
        answer = response.payload
        m.d.comb += [
            response.valid.eq((held | self.answers) & Mux(kind, writes != 0, reads != 0)),
            answer.write.eq(kind), pop.eq(response.valid & response.ready & ~kind),
        ]
        with m.If(~kind):
            m.d.comb += [answer.tag.eq(queue[0][:6]), answer.data.eq(queue[0][6] << 8 * LANE),
                         answer.status.eq(Mux(queue[0][7], Status.POISON, Status.OK))]
        entry = Cat(asked.tag[:6], Mux(here, byte, self.other_bit), Mux(here, poison, self.other_bad))
        enters, at = taken & ~asked.write, reads - pop
        m.d.sync += [
            held.eq(response.valid & ~response.ready), held_write.eq(kind),
            writes.eq(writes + (taken & asked.write) - (response.valid & response.ready & kind)),
            reads.eq(reads + enters - pop),
            queue[0].eq(Mux(enters & (at == 0), entry, Mux(pop, queue[1], queue[0]))),
            queue[1].eq(Mux(enters & (at == 1), entry, queue[1])),
        ]
        m.d.comb += [Assert(~enters | (at < 2)), Assert(~taken | (asked.line < LINES))]

        # -- accesses
        def address(line, last):
            return Const(RAM, 40) | Cat(Const(0, 3), last.replicate(3), line)

        m.d.comb += [
            l1.load.valid.eq(self.load), l1.load.address.eq(address(self.load_line, self.load_last)),
            l1.store.valid.eq(self.store), l1.store.payload.address.eq(
                address(self.store_line, self.store_last)),
            l1.store.payload.mask.eq(Cat(
                self.store_lane if b == LANE else self.store_rest for b in range(8))),
            l1.store.payload.data.eq(self.store_bit << 8 * LANE),
        ]
        value = Signal(name="model_value")
        stored = Signal()
        m.d.comb += stored.eq(self.store & l1.store.ready & (self.store_line == WATCHED) & ~self.store_last
                              & self.store_lane)
        m.d.sync += value.eq(Mux(stored, self.store_bit, value))

        # -- the L1 when it begins: at rest, with any lines
        begun, applied = Signal(), Signal(name="applied_value")
        m.d.sync += begun.eq(1)
        here_now, unique, right = [], 1, 1
        assumed = [l1.started]
        for row in tags.rows:
            for way in row:
                assumed.append((way.state != WayState.PENDING) & (way.tag < LINES // 2)
                               & (~way.dirty | (way.state == WayState.VALID)))
            both = (row[0].state != WayState.INVALID) & (row[1].state != WayState.INVALID)
            unique = unique & ~(both & (row[0].tag == row[1].tag))
        first_set = tags.rows[WATCHED % len(tags.rows)]
        for way, part in zip(first_set, parts):
            here_now.append((way.state != WayState.INVALID) & (way.tag == WATCHED // len(tags.rows)))
            bit = Value.cast(part.rows[WATCHED % len(tags.rows)])[8 * LANE]
            valid = here_now[-1] & (way.state == WayState.VALID)
            right = right & (~valid | (bit == applied))
            assumed += [~valid | way.dirty | ~poison,
                        ~(here_now[-1] & (way.state == WayState.POISON)) | poison,
                        ~valid | way.dirty | (byte == applied)]
        assumed += [unique, right, value == applied, ~(never & poison),
                    Cat(*here_now).any() | (byte == applied)]
        for one in assumed:
            m.d.comb += Assume(begun | one)
        waiting = l1.s_valid & (l1.s_line == WATCHED) & (l1.s.address[3:6] == 0) & l1.s.mask[LANE]
        with m.If(waiting & l1.s_done):
            m.d.sync += applied.eq(l1.s.data[8 * LANE])
        # What the claim rests on: a line is in one way, and that way has what was done so far.
        m.d.comb += [Assert(~l1.started | unique), Assert(~l1.started | right),
                     Assert(value == Mux(waiting, l1.s.data[8 * LANE], applied))]

        # -- the load's answer
        looks, expected, mine = Signal(), Signal(), Signal()
        loaded = l1.loaded
        m.d.sync += [mine.eq(self.load & l1.load_ready & (self.load_line == WATCHED)),
                     looks.eq(~self.load_last), expected.eq(value)]
        found = loaded.data[8 * LANE]
        checked = mine & looks & loaded.hit
        m.d.comb += [Assert(~checked | (found == expected)), Assert(~(mine & loaded.fault) | ~never),
                     Assert(loaded.hit + loaded.fault + loaded.miss <= 1)]

        # -- what has to be possible: what was stored is driven out, fetched again, and found
        left, back = Signal(name="left"), Signal(name="back")
        m.d.sync += [left.eq(left | (write_here & asked.mask.all())), back.eq(back | (left & enters & here))]
        if self.reaches:
            m.d.comb += Assert(~(checked & back & ~found))
        return m


PROOFS = {
    "L1": Proof(
        package="hw.core",
        what="a load that hits has what was last stored to its byte: 1 bank of 2 sets of 2 ways, 2 MSHRs",
        harness=ByteReadsAsStored, near_miss=lambda load: ByteReadsAsStored(load, reaches=True),
        mode="reduced", depth=DEPTH, cover_depth=11, free=ByteReadsAsStored.FREE, bugs=(
            Bug(what="a fill takes the place of bytes stored while it was on its way",
                module="hw.core.l1.mshrs",
                right="by_store = self.store & (self.store_mshr == k)",
                wrong="by_store = self.store & (self.store_mshr == k) & taken[k]"),
            Bug(what="dirty bytes are lost when a line is driven out", module="hw.core.l1.bank",
                right="push.writes.eq(evicts)", wrong="push.writes.eq(0)"),
            Bug(what="a load does not see the store of the cycle before", module="hw.core.l1.bank",
                right="forward.eq(same_set & ((wrote_way & hit) != 0)",
                wrong="forward.eq(0 & ((wrote_way & hit) != 0)"),
        )),
}
"""All proofs, by name."""
