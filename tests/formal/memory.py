"""What is proved of the store queue: what a load finds is what stores before it left, byte by byte."""

from amaranth.hdl import Array, Assert, Assume, Const, Cover, Module, Mux, Signal

from hw.core.config import CoreConfig
from hw.core.memory.ring import index_bits
from tb.planted import Bug

from .hbm import Harness, Proof

__all__ = ["PROOFS"]

LANE = 5
"""The watched byte is this one of doubleword 0."""


def tiny(stores):
    return CoreConfig(width=1, alus=1, reorder_buffer=4 * stores, physical=64, checkpoints=1, queue=1,
                      loads=1, stores=stores)


class LoadsFindTheLastStore(Harness):
    """Stores of any size and offset, in one of two doublewords, with their operands in any order; kills,
    flushes, commits and drains at any time. One load, dispatched at any time, searches in any cycle.

    A byte of memory is watched: it has what was drained. When the load is dispatched, the youngest store
    before it that has the byte tells its value, else memory does; that is what the load must find.
    """

    def __init__(self, load, stores):
        super().__init__()
        self.load, self.config = load, tiny(stores)
        for name, width in (("push", 1), ("offset", 3), ("other", 1), ("size", 2), ("value", 64),
                            ("give_address", 1), ("address_of", index_bits(stores)), ("give_value", 1),
                            ("value_of", index_bits(stores)), ("take_done", 1), ("commit", 1), ("drain", 1),
                            ("kills", 1), ("survivors", index_bits(stores) + 1), ("flush", 1),
                            ("dispatch_load", 1), ("retire_load", 1), ("mask", 8)):
            setattr(self, name, self.free(width, name))

    def elaborate(self, platform):
        m = Module()
        config, n = self.config, self.config.stores
        bits = index_bits(n)
        m.submodules.dut = dut = self.load("memory.store_queue").StoreQueue(config)

        head, committed, tail = (Signal(bits + 1, name=f"model_{name}") for name in (
            "head", "committed", "tail"))
        at = {name: Array(Signal(width, name=f"{name}{i}") for i in range(n)) for name, width in (
            ("address", 4), ("value", 64), ("has_byte", 1), ("byte", 8), ("addressed", 1), ("valued", 1),
            ("done", 1), ("age", len(dut.kill.age)))}
        age = Signal(len(dut.kill.age))
        memory = Signal(8)
        live, expected, position = Signal(), Signal(8), Signal(bits + 1)
        in_flight, uncommitted = (tail - head)[:bits + 1], (tail - committed)[:bits + 1]

        # -- dispatch
        push, spot = Signal(), tail[:bits]
        aligned = (self.offset & Array([0, 1, 3, 7])[self.size]) == 0
        within = (LANE - self.offset)[:4]
        m.d.comb += [
            push.eq(self.push & dut.room & ~self.kills & ~self.flush), Assume(aligned),
            dut.dispatch_valid.eq(self.push & dut.room), dut.dispatch[0].store.eq(1),
            dut.dispatch[0].age.eq(age), dut.dispatch[0].op.eq(self.size),
            Assert(~push | (in_flight < n)), Assert(~push | (dut.index[0] == spot)),
        ]
        with m.If(push):
            m.d.sync += [
                at["address"][spot].eq(self.offset | (self.other << 3)), at["value"][spot].eq(self.value),
                at["has_byte"][spot].eq(~self.other & (self.offset <= LANE)
                                        & (within < (Const(1, 4) << self.size))),
                at["byte"][spot].eq(self.value.word_select(within[:3], 8)),
                at["addressed"][spot].eq(0), at["valued"][spot].eq(0), at["done"][spot].eq(0),
                at["age"][spot].eq(age), age.eq(age + 1)]

        # -- operands
        def waits(index, given):
            known = ((index - head[:bits])[:bits] < in_flight) & ~given[index]
            return known

        m.d.comb += [
            dut.place_valid.eq(self.give_address & waits(self.address_of, at["addressed"])),
            dut.place_index.eq(self.address_of), dut.place_address.eq(at["address"][self.address_of]),
            dut.value.valid.eq(self.give_value & waits(self.value_of, at["valued"])),
            dut.value.index.eq(self.value_of), dut.value.value.eq(at["value"][self.value_of]),
            dut.done_taken.eq(self.take_done & dut.done.valid),
        ]
        with m.If(dut.place_valid):
            m.d.sync += at["addressed"][self.address_of].eq(1)
        with m.If(dut.value.valid):
            m.d.sync += at["valued"][self.value_of].eq(1)
        for i in range(n):
            with m.If(dut.done_taken & (dut.done.age == at["age"][i])
                      & ((i - committed[:bits])[:bits] < uncommitted)):
                m.d.sync += at["done"][i].eq(1)

        # -- commit, kill, flush
        commit, kept = Signal(), Signal(bits + 1)
        m.d.comb += [
            commit.eq(self.commit & (uncommitted != 0) & at["done"][committed[:bits]]
                      & ~(live & (committed == position)) & ~self.kills),
            dut.commit.eq(commit), dut.flush.eq(self.flush), dut.kill.valid.eq(self.kills),
            Assume(~self.kills | (self.survivors < uncommitted)),
            kept.eq(committed + self.survivors), dut.kill.age.eq(age - (uncommitted - self.survivors) - 1),
        ]
        m.d.sync += [committed.eq(committed + commit), tail.eq(Mux(
            self.flush, committed + commit, Mux(self.kills, kept, tail + push)))]
        with m.If(self.kills):
            m.d.sync += age.eq(dut.kill.age + 1)
        with m.If(self.flush):
            m.d.sync += age.eq(age - uncommitted + commit)

        # -- memory
        first, drained = dut.first, Signal()
        m.d.comb += [
            drained.eq(self.drain & dut.first_valid), dut.first_taken.eq(drained),
            Assert(dut.first_valid == (head != committed)), Assert(dut.head == head),
            Assert(~drained | (at["has_byte"][head[:bits]] == ((first.address[3:] == 0) & first.mask[LANE]))),
        ]
        with m.If(drained):
            m.d.sync += head.eq(head + 1)
            with m.If((first.address[3:] == 0) & first.mask[LANE]):
                m.d.sync += memory.eq(first.data.word_select(LANE, 8))

        # -- the load
        last = memory
        for back in range(n, 0, -1):
            place = (tail - back)[:bits]
            last = Mux((in_flight >= back) & at["has_byte"][place], at["byte"][place], last)
        begins = ~live & self.dispatch_load & ~self.kills & ~self.flush
        gone = self.flush | (self.kills & ((kept - head)[:bits + 1] < (position - head)[:bits + 1]))
        with m.If(begins):
            m.d.sync += [live.eq(1), expected.eq(last), position.eq(tail)]
        with m.Elif(live & (gone | (self.retire_load & (committed == position)))):
            m.d.sync += live.eq(0)
        found, where = dut.found, Signal(n)
        forwarded = Signal()
        searches = live & self.mask[LANE]
        m.d.comb += [
            dut.search_position.eq(position), dut.search_line.eq(0), dut.search_mask.eq(self.mask),
            Assert(~(searches & ~found.unknown & (found.where == 0)) | (memory == expected)),
            dut.read_index.eq(self._index(where)),
            Assert(~(forwarded & live) | (dut.read_data.word_select(LANE, 8) == expected)),
        ]
        # As the load pipeline does: searched in X, read in M.
        m.d.sync += [where.eq(found.where), forwarded.eq(
            searches & ~found.unknown & (found.where != 0) & found.covers & found.known & ~gone)]

        wrapped, killed = Signal(), Signal()
        m.d.sync += [wrapped.eq(wrapped | (head == n)), killed.eq(killed | self.kills)]
        m.d.comb += [Cover(forwarded & live & killed & (in_flight == n)),
                     Cover(forwarded & live & wrapped),
                     Cover(searches & ~found.unknown & (found.where == 0) & wrapped & (memory == 1))]
        return m

    def _index(self, one_hot):
        index = 0
        for i in range(1, self.config.stores):
            index = index | Mux(one_hot[i], i, 0)
        return index


PROOFS = {
    f"store queue of {stores}": Proof(
        package="hw.core",
        what="a load is forwarded, or finds in memory, what the youngest store before it has written to its "
             f"byte: {stores} stores of 1 to 8 bytes in two doublewords",
        harness=lambda load, stores=stores: LoadsFindTheLastStore(load, stores),
        mode="bounded", depth=depth, cover_depth=9, bugs=bugs)
    for stores, depth, bugs in (
        (2, 9, (
            Bug(what="the oldest store is forwarded", module="hw.core.memory.store_queue",
                right="where.eq(newest(hits, self.search_position[:-1], n))",
                wrong="where.eq(oldest(hits, head[:-1], n))"),
            Bug(what="a store that has some of the bytes is forwarded", module="hw.core.memory.store_queue",
                right="(self.search_mask & ~own) == 0", wrong="(self.search_mask & own) != 0"),
            Bug(what="data of an earlier lap is forwarded", module="hw.core.memory.store_queue",
                right="has_data.eq((has_data | valued) & ~allocated)",
                wrong="has_data.eq(has_data | valued)"),
            Bug(what="younger stores are found", module="hw.core.memory.store_queue",
                right="older.eq(span(head, self.search_position, n))", wrong="older.eq(span(head, tail, n))"),
            Bug(what="a kill takes one store too few", module="hw.core.memory.store_queue",
                right="(encode(oldest(killed, head[:bits], n)), head))",
                wrong="(encode(oldest(killed, head[:bits], n)), head) + 1)"),
        )),
    )
}
"""All proofs, by name."""
