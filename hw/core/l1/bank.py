"""A bank of the L1: tags, data, and what one access a cycle does to them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...hbm.demand import rotate
from ...hbm.vectors import lowest, select
from .types import MSHR_BITS, Op, WayState

__all__ = ["Bank", "Outcome", "Push"]

KEPT = 16
"""Cycles for which a line that was filled is not driven out."""


class Outcome(data.Struct):
    """Of the access in its second cycle.

    ``done``: it is over, or (LOAD, READ) what it asks for is there; else the others say why not, or nothing
    does: again soon. ``pending``: its line is on its way to ``mshr``, also if this access asked for it.
    ``touches``: a write put its bytes into a line that is pending. ``fetches``: it asks for the line.
    """

    done: unsigned(1)
    pending: unsigned(1)
    poison: unsigned(1)
    touches: unsigned(1)
    fetches: unsigned(1)
    mshr: unsigned(MSHR_BITS)


class Push(data.StructLayout):
    """What an access asks of the memory: ``fetches`` its own line, ``writes`` a line (of ``tag``, in the same
    set): with all of what the way holds, or ``through``: only the bytes the access itself has."""

    def __init__(self, geometry):
        super().__init__({"fetches": 1, "writes": 1, "through": 1, "tag": geometry.tag_bits})


class Bank(wiring.Component):
    """One access a cycle: tags and data are read at the end of its first cycle, all it changes is written at
    the end of its second, when its outcome is known.

    An access sees what the one before it wrote: tags and doublewords of stores are passed on; where it would
    need a wider part of the data it is not done.

    Parameters
    ----------
    geometry : Geometry

    Members
    -------
    valid : In(1), i : In(access): first cycle
    sweep : In(1), sweep_set : In: makes a set invalid; no access then
    Second cycle:
    hold : In(1): an older store to the same bytes waits, so this access must not be done
    room : In(1), room_prefetch : In(1), mshr : In(MSHR_BITS): the MSHR that a fetch would get
    bad : In(1): a FILL brings poison; merges : In(1): stores have gone into the line of this FILL
    wide : In(512): line of a WRITE or FILL, merged with ``line`` where it is not all new
    wants : Out(1), push : Out(Push); allow : In(1): what it asks of the memory is taken
    o : Out(Outcome)
    word : Out(64): of a LOAD; line : Out(512): the way of this line, else of the one that makes room
    way : Out(ways), one-hot: of ``line``
    """

    def __init__(self, geometry):
        self.geometry = geometry
        config = geometry.config
        self.module_name = f"l1_bank_{config.sets}x{config.ways}_{geometry.tag_bits}"
        super().__init__({
            "valid": In(1), "i": In(geometry.access()),
            "sweep": In(1), "sweep_set": In(geometry.set_bits),
            "hold": In(1), "room": In(1), "room_prefetch": In(1), "mshr": In(MSHR_BITS),
            "bad": In(1), "merges": In(1), "wide": In(512),
            "wants": Out(1), "push": Out(Push(geometry)), "allow": In(1),
            "o": Out(Outcome), "word": Out(64), "line": Out(512), "way": Out(config.ways),
        })

    def elaborate(self, platform):
        m = Module()
        geometry, ways = self.geometry, self.geometry.config.ways
        sets = geometry.config.sets
        entry = geometry.entry()

        # First cycle: read.
        valid, r = Signal(), Signal(geometry.access())
        m.d.sync += [valid.eq(self.valid), r.eq(self.i)]
        m.submodules.tags = tags = memory.Memory(
            shape=data.ArrayLayout(entry, ways), depth=sets, init=[])
        tag_write = tags.write_port(granularity=1)
        tag_read = tags.read_port(transparent_for=(tag_write,))
        m.d.comb += [tag_read.en.eq(self.valid), tag_read.addr.eq(self.i.set)]
        writes, reads = [], []
        for w in range(ways):
            m.submodules[f"data{w}"] = part = memory.Memory(
                shape=data.ArrayLayout(64, 8), depth=sets, init=[])
            writes.append(part.write_port(granularity=1))
            reads.append(part.read_port())
            m.d.comb += [reads[w].en.eq(self.valid), reads[w].addr.eq(self.i.set)]

        # Second cycle: which way.
        entries = tag_read.data
        is_fill = r.op == Op.FILL
        match, pending_ways, empty = Signal(ways), Signal(ways), Signal(ways)
        for w in range(ways):
            state = entries[w].state
            m.d.comb += [
                match[w].eq((entries[w].tag == r.tag) & (state != WayState.INVALID)),
                pending_ways[w].eq(state == WayState.PENDING), empty[w].eq(state == WayState.INVALID),
            ]
        hit, found, update = Signal(ways), Signal(), Signal()
        m.d.comb += [hit.eq(Mux(is_fill, r.way, match)), found.eq(hit != 0)]

        # Who has waited for a line gets it before it can be driven out again: otherwise two that want the
        # same way for their lines can go on fetching for ever.
        kept = Signal(ways)
        for w in range(ways):
            left, left_set = Signal(range(KEPT + 1), name=f"kept{w}"), Signal.like(r.set, name=f"kept_set{w}")
            m.d.comb += kept[w].eq((left != 0) & (left_set == r.set))
            m.d.sync += left.eq(Mux(left == 0, 0, left - 1))
            with m.If(update & is_fill & self.way[w]):
                m.d.sync += [left.eq(KEPT), left_set.eq(r.set)]

        # A new line takes an empty way, else each in its turn, but none that waits for its own line.
        last, turn, victim = Signal(ways, init=1), Signal(ways), Signal(ways)
        m.d.comb += [turn.eq(rotate(m, ~pending_ways & ~kept, last)),
                     victim.eq(Mux(empty != 0, lowest(empty), turn)),
                     self.way.eq(Mux(found, hit, victim))]
        chosen = Signal(entry)
        m.d.comb += [
            Value.cast(chosen).eq(select(self.way, [Value.cast(entries[w]) for w in range(ways)])),
            self.line.eq(select(self.way, [Value.cast(reads[w].data) for w in range(ways)])),
        ]

        # What was written in the cycle before is not in what was read.
        wrote, wrote_set, wrote_way = Signal(), Signal(geometry.set_bits), Signal(ways)
        wrote_words, wrote_word, wrote_line = Signal(8), Signal(64), Signal()
        stale = Signal()  # some part of ``line``
        same_set = wrote & (wrote_set == r.set)
        m.d.comb += stale.eq(same_set & ((wrote_way & self.way) != 0))
        old, forward = Signal(64), Signal()
        m.d.comb += [
            forward.eq(same_set & ((wrote_way & hit) != 0) & wrote_words.bit_select(r.word, 1)),
            old.eq(select(hit, [Value.cast(reads[w].data).word_select(r.word, 64) for w in range(ways)])),
            self.word.eq(Mux(forward, wrote_word, old)),
        ]
        stale_word = forward & wrote_line

        # What it asks of the memory.
        o, push = self.o, self.push
        absent, is_valid, is_pending, is_poison = (Signal(name=name) for name in (
            "absent", "is_valid", "is_pending", "is_poison"))
        m.d.comb += [
            absent.eq(valid & ~found), is_valid.eq(valid & found & (chosen.state == WayState.VALID)),
            is_pending.eq(valid & found & (chosen.state == WayState.PENDING)),
            is_poison.eq(valid & found & (chosen.state == WayState.POISON)),
        ]
        installs = (r.op == Op.WRITE) & r.full
        evicts = chosen.dirty
        room = Mux(r.op == Op.PREFETCH, self.room_prefetch, self.room)
        can_take = (self.way != 0) & ~(evicts & stale) & (installs | room)
        m.d.comb += push.tag.eq(chosen.tag)
        go = Signal()
        m.d.comb += go.eq(valid & ~self.hold & self.allow)
        asks = Signal()
        m.d.comb += self.wants.eq(valid & ~self.hold & asks)
        changed = Signal(entry)   # of the tag
        m.d.comb += changed.eq(chosen)
        write_data = Signal()

        def take(is_write):
            """The line is not there: it gets a way."""
            m.d.comb += [asks.eq(can_take), push.fetches.eq(~installs), push.writes.eq(evicts),
                         changed.tag.eq(r.tag), changed.dirty.eq(is_write), changed.mshr.eq(self.mshr),
                         changed.state.eq(Mux(installs, WayState.VALID, WayState.PENDING)),
                         o.mshr.eq(self.mshr), update.eq(go)]
            with m.If(go):
                m.d.comb += [o.fetches.eq(~installs), o.pending.eq(~installs)]
                m.d.sync += last.eq(self.way)

        with m.Switch(r.op):
            with m.Case(Op.LOAD, Op.READ):
                with m.If(absent):
                    take(0)
                with m.If(~self.hold):
                    m.d.comb += o.poison.eq(is_poison)
                    with m.If(is_pending):
                        m.d.comb += [o.pending.eq(1), o.mshr.eq(chosen.mshr)]
                    with m.If(is_valid):
                        m.d.comb += o.done.eq(Mux(r.op == Op.LOAD, ~stale_word, ~stale))
            with m.Case(Op.STORE, Op.WRITE):
                fresh = Mux(r.op == Op.STORE, ~stale_word, r.full | ~stale)
                with m.If(absent):
                    take(1)
                    m.d.comb += [o.done.eq(go), o.touches.eq(go & ~installs), write_data.eq(go)]
                with m.If(is_poison):
                    # The poison is the memory's; the line is fetched again when it is wanted.
                    m.d.comb += [asks.eq(1), push.writes.eq(1), push.through.eq(1), o.done.eq(go),
                                 update.eq(go), changed.state.eq(WayState.INVALID), changed.dirty.eq(0)]
                with m.If((is_valid | is_pending) & fresh & ~self.hold):
                    m.d.comb += [o.done.eq(1), o.touches.eq(is_pending), o.mshr.eq(chosen.mshr),
                                 update.eq(~chosen.dirty), changed.dirty.eq(1), write_data.eq(1)]
            with m.Case(Op.PREFETCH):
                with m.If(absent):
                    take(0)
                    m.d.comb += o.done.eq(go)
                with m.If(valid & found):
                    m.d.comb += o.done.eq(1)
            with m.Case(Op.CLEAN, Op.FLUSH, Op.INVALIDATE):
                with m.If(absent & ~self.hold):
                    m.d.comb += o.done.eq(1)
                with m.If(r.op != Op.CLEAN):
                    m.d.comb += changed.state.eq(WayState.INVALID)
                m.d.comb += changed.dirty.eq(0)
                with m.If(is_valid & chosen.dirty & (r.op != Op.INVALIDATE)):
                    m.d.comb += [asks.eq(~stale), push.writes.eq(1), o.done.eq(go), update.eq(go)]
                with m.Elif((is_valid | is_poison) & ~self.hold):
                    m.d.comb += [o.done.eq(1), update.eq(1)]
                    with m.If(is_poison & (r.op == Op.CLEAN)):
                        m.d.comb += update.eq(0)
            with m.Case(Op.FILL):
                m.d.comb += changed.state.eq(WayState.VALID)
                with m.If(valid & self.bad):
                    m.d.comb += [
                        changed.state.eq(Mux(self.merges, WayState.INVALID, WayState.POISON)),
                        changed.dirty.eq(0), asks.eq(self.merges & ~stale), push.writes.eq(1),
                        push.through.eq(1), o.done.eq(go | ~self.merges), update.eq(o.done)]
                with m.Elif(valid):
                    m.d.comb += [o.done.eq(~(self.merges & stale)), update.eq(o.done), write_data.eq(o.done)]

        # Changes.
        merged = Cat(Mux(r.mask[b], r.data.word_select(b, 8), self.word.word_select(b, 8)) for b in range(8))
        is_store, words = Signal(), Signal(8)
        line = Signal(512)
        m.d.comb += [
            is_store.eq(r.op == Op.STORE), words.eq(Mux(is_store, 1 << r.word, 0xFF)),
            line.eq(Mux(is_store, merged.replicate(8), self.wide)),
            tag_write.addr.eq(Mux(self.sweep, self.sweep_set, r.set)),
            tag_write.en.eq(Mux(self.sweep, (1 << ways) - 1, Mux(update, self.way, 0))),
        ]
        for w in range(ways):
            m.d.comb += [
                tag_write.data[w].eq(Mux(self.sweep, Const(0, Value.cast(changed).shape()), changed)),
                writes[w].addr.eq(r.set), Value.cast(writes[w].data).eq(line),
                writes[w].en.eq(Mux(write_data & self.way[w], words, 0)),
            ]
        m.d.sync += [wrote.eq(write_data), wrote_set.eq(r.set), wrote_way.eq(self.way),
                     wrote_words.eq(words), wrote_word.eq(merged), wrote_line.eq(~is_store)]
        return m
