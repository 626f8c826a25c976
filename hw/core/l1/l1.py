"""The L1: pipelines of loads, stores and lines over its banks."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ... import emit
from ...hbm.demand import rotate
from ...hbm.port import Request, Response, Status
from ..types import LineRequest, LineResponse
from .bank import Bank
from .line_port import LinePort
from .memory_side import MemorySide
from .mshrs import Mshrs
from .stride import StridePrefetcher
from .types import (
    LINE_PORTS,
    MSHR_BITS,
    Bulk,
    Events,
    Geometry,
    LoadAnswer,
    LoadRequest,
    Maintain,
    Op,
    StoreRequest,
)
from .walkers import BulkPrefetcher, Maintainer

__all__ = ["L1"]

STORE_PATIENCE = 3
LINE_PATIENCE = 3
"""Cycles in a row in which the bank was given to others, after which a store or line goes first."""


class L1(wiring.Component):
    """Write-back cache of the tile's memory, and the one point that orders accesses to it.

    Three pipelines of two cycles: loads, stores, and lines (fills, line ports, prefetches, maintenance). In
    the first cycle each bank takes one access; in the second the bank does it or says why not. A load that
    loses its bank is told to ask again; a store or line is tried again here.

    A store that misses does not wait: its bytes go into the way that the line will have. One line is asked
    for in a cycle, for loads first, then stores, then lines. After reset the tags are swept, a set a cycle.

    Parameters
    ----------
    config : CoreConfig
    ram_bytes : int
        Of the memory. A load outside is a fault; a store outside is dropped.

    Members
    -------
    load : In(LoadRequest), load_ready : Out(1), loaded : Out(LoadAnswer), one cycle later
    filled : Out(mshrs): loads that missed on it ask again
    store : In(stream of StoreRequest): taken when its access begins
    store_idle : Out(1): every store taken has been done
    ports : array of LINE_PORTS of {request : In(stream of LineRequest),
        response : Out(stream of LineResponse)}
    prefetch : In(stream of Bulk), prefetched : Out(stream of 4)
    maintain : In(stream of Maintain), maintained : Out(stream of 1)
    request : Out(stream of Request), response : In(stream of Response): to the memory (hw/hbm/slice.py)
    events : Out(Events)
    """

    def __init__(self, config, *, ram_bytes):
        self.config = config.l1
        self.geometry = Geometry(config=config.l1, ram_bytes=ram_bytes)
        port = wiring.Signature({"request": In(stream.Signature(LineRequest)),
                                 "response": Out(stream.Signature(LineResponse))})
        super().__init__({
            "load": In(LoadRequest), "load_ready": Out(1), "loaded": Out(LoadAnswer),
            "filled": Out(config.l1.mshrs),
            "store": In(stream.Signature(StoreRequest)), "store_idle": Out(1),
            "ports": Out(port).array(LINE_PORTS),
            "prefetch": In(stream.Signature(Bulk)), "prefetched": Out(stream.Signature(4)),
            "maintain": In(stream.Signature(Maintain)), "maintained": Out(stream.Signature(1)),
            "request": Out(stream.Signature(Request)), "response": In(stream.Signature(Response)),
            "events": Out(Events),
        })

    def elaborate(self, platform):
        m = Module()
        self._parts(m)
        self._start(m)
        self._loads(m)
        self._stores(m)
        self._lines(m)
        self._banks(m)
        self._memory(m)
        self._answers(m)
        return m

    def _parts(self, m):
        geometry, config = self.geometry, self.config
        self.banks = [emit.place(m, f"bank{b}", Bank(geometry)) for b in range(config.banks)]
        m.submodules.mshrs = self.mshrs = Mshrs(geometry)
        m.submodules.memory_side = self.memory_side = MemorySide()
        m.submodules.bulk = self.bulk = BulkPrefetcher(geometry)
        m.submodules.maintainer = self.maintainer = Maintainer(geometry)
        self.line_ports = []
        for k in range(LINE_PORTS):
            m.submodules[f"port{k}"] = port = LinePort(geometry)
            self.line_ports.append(port)
            wiring.connect(m, wiring.flipped(self.ports[k].request), port.request)
            wiring.connect(m, wiring.flipped(self.ports[k].response), port.response)
        # In the order of their bits in x_source, above that of the fill.
        self.sources = [*(port.x for port in self.line_ports), self.maintainer.x, self.bulk.x]
        if config.streams:
            m.submodules.stride = self.stride = StridePrefetcher(geometry)
            self.sources.append(self.stride.x)
        for inner, outer in ((self.bulk.i, self.prefetch), (self.bulk.o, self.prefetched),
                             (self.maintainer.i, self.maintain), (self.maintainer.o, self.maintained)):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, self.memory_side.request, wiring.flipped(self.request))

        def per_bank(name):
            return Signal(config.banks, name=name)

        # A pipeline's bank in the first cycle (wanted, given), and in the second.
        self.l_wants, self.s_wants, self.x_wants = (per_bank(f"{p}_wants") for p in ("load", "store", "line"))
        self.l_given, self.s_given, self.x_given = (per_bank(f"{p}_given") for p in ("load", "store", "line"))
        self.l_bank, self.s_bank, self.x_bank = (per_bank(f"{p}_bank") for p in ("load", "store", "line"))

    def _start(self, m):
        self.started = Signal()
        self.sweep_set = Signal(self.geometry.set_bits)
        with m.If(~self.started):
            m.d.sync += [self.sweep_set.eq(self.sweep_set + 1),
                         self.started.eq(self.sweep_set == self.config.sets - 1)]

    def _bank_of(self, line):
        """One-hot."""
        return (1 << self.geometry.bank(line))[:self.config.banks] if self.config.banks > 1 else 1

    def _of(self, pipeline, name):
        """A bit of the outcome of a pipeline's access in its second cycle."""
        return Cat(bank.o[name] for bank in self.banks) & pipeline != 0

    def _mshr_of(self, pipeline):
        value = 0
        for b, bank in enumerate(self.banks):
            value |= Mux(pipeline[b], bank.o.mshr, 0)
        return value

    def _loads(self, m):
        geometry, load = self.geometry, self.load
        line, inside = geometry.locate(load.address[6:])
        accepted = load.valid & self.started
        self.l_line, self.l_address = Signal(geometry.line_bits), Signal(34 + 3)
        self.l_stream, self.l_valid, self.l_inside = Signal(16), Signal(), Signal()
        m.d.comb += [self.load_ready.eq(self.started),
                     self.l_wants.eq(Mux(accepted & inside, self._bank_of(line), 0))]
        m.d.sync += [self.l_valid.eq(accepted), self.l_inside.eq(inside), self.l_bank.eq(self.l_given),
                     self.l_line.eq(line), self.l_address.eq(load.address[3:]), self.l_stream.eq(load.stream)]
        self.l_new_line, self.l_word = line, load.address[3:6]

    def _stores(self, m):
        geometry = self.geometry
        # The store whose access has begun. It is looked at in the second cycle, and tried again after it.
        self.s = s = Signal(StoreRequest)
        self.s_valid, looked = Signal(), Signal()
        self.s_line, inside = geometry.locate(s.address[6:])
        again, fails, done = Signal(), Signal(), Signal()
        self.s_done = done
        m.d.comb += [
            again.eq(self.s_valid & ~looked),
            done.eq(looked & (self._of(self.s_bank, "done") | ~inside)), fails.eq(looked & ~done),
            self.store_idle.eq(~self.s_valid),
        ]
        self.s_new = new = Signal(StoreRequest)
        m.d.comb += new.eq(Mux(again, s, self.store.payload))
        self.s_new_line, new_inside = geometry.locate(new.address[6:])
        begins = Signal()
        bank = self._bank_of(self.s_new_line)
        m.d.comb += [
            self.s_wants.eq(Mux((again | self.store.valid) & self.started & new_inside, bank, 0)),
            # Where the store before has failed, this one has not begun.
            begins.eq(((self.s_given != 0) | (self.started & ~new_inside)) & ~fails),
            self.store.ready.eq(begins & ~again),
        ]
        m.d.sync += looked.eq(0)
        with m.If(done):
            m.d.sync += self.s_valid.eq(0)
        with m.If(begins & (again | self.store.valid)):
            m.d.sync += [s.eq(new), self.s_valid.eq(1), looked.eq(1)]
        m.d.sync += self.s_bank.eq(Mux(fails, 0, self.s_given))
        self.s_fails = fails

    def _lines(self, m):
        geometry, response = self.geometry, self.response
        count = 1 + len(self.sources)
        self.x_source = Signal(count)
        fill_asks, fill_line = Signal(), self.mshrs.fill_place.line
        is_fill = response.valid & ~response.payload.write
        m.d.comb += [self.mshrs.fill.eq(response.payload.tag), fill_asks.eq(is_fill & ~self.x_source[0])]

        asks, last = Signal(count - 1), Signal(count - 1, init=1)
        # A prefetch without an MSHR would only take the bank from others.
        m.d.comb += asks.eq(Cat(source.ask & ((source.op != Op.PREFETCH) | self.mshrs.room_prefetch)
                                for source in self.sources))
        turn = rotate(m, asks, last)
        pick = Signal(count)
        m.d.comb += pick.eq(Mux(fill_asks, 1, turn << 1))
        self.x_new_line, self.x_op = Signal(geometry.line_bits), Signal(Op)
        m.d.comb += [self.x_new_line.eq(fill_line), self.x_op.eq(Op.FILL)]
        for k, source in enumerate(self.sources):
            with m.If(pick[1 + k]):
                m.d.comb += [self.x_new_line.eq(source.line), self.x_op.eq(source.op)]
        self.x_full = (Cat(port.full for port in self.line_ports) & pick[1:1 + LINE_PORTS]) != 0
        m.d.comb += self.x_wants.eq(Mux((pick != 0) & self.started, self._bank_of(self.x_new_line), 0))

        given = self.x_given != 0
        self.x_line, self.x_filling = Signal(geometry.line_bits), self.x_source[0]
        self.x_prefetches = Signal()
        m.d.sync += [self.x_prefetches.eq(self.x_op == Op.PREFETCH),
                     self.x_source.eq(Mux(given, pick, 0)), self.x_bank.eq(self.x_given),
                     self.x_line.eq(self.x_new_line)]
        with m.If(given & ~fill_asks):
            m.d.sync += last.eq(turn)

        # Second cycle.
        done, pending, poison = (self._of(self.x_bank, name) for name in ("done", "pending", "poison"))
        self.x_done, mshr = Signal(), Signal(MSHR_BITS)
        m.d.comb += [self.x_done.eq(done), mshr.eq(self._mshr_of(self.x_bank))]
        self.x_mshr = mshr
        for k, source in enumerate(self.sources):
            mine = self.x_source[1 + k]
            m.d.comb += [source.taken.eq(given & pick[1 + k]), source.done.eq(mine & self.x_done),
                         source.pending.eq(mine & pending), source.poison.eq(mine & poison),
                         source.mshr.eq(mshr)]
        fill_done = self.x_filling & self.x_done
        m.d.comb += [response.ready.eq(fill_done | response.valid & response.payload.write),
                     self.mshrs.release.eq(fill_done),
                     self.memory_side.answered.eq(response.valid & response.payload.write)]

        # The line that the access finds, and the one it leaves.
        found, new, mask = Signal(512), Signal(512), Signal(64)
        for b, bank in enumerate(self.banks):
            with m.If(self.x_bank[b]):
                m.d.comb += found.eq(bank.line)
        m.d.comb += [new.eq(response.payload.data), mask.eq(~self.mshrs.fill_mask)]
        self.x_mask = Signal(64)
        for k, port in enumerate(self.line_ports):
            m.d.comb += port.found.eq(found)
            with m.If(self.x_source[1 + k]):
                m.d.comb += [new.eq(port.data), mask.eq(port.mask)]
        m.d.comb += self.x_mask.eq(mask)
        spread, self.wide = Signal(512), Signal(512)
        m.d.comb += [spread.eq(Cat(mask[byte].replicate(8) for byte in range(64))),
                     self.wide.eq((found & ~spread) | (new & spread))]

    def _banks(self, m):
        # Who goes first in a bank: loads, which would be told to come back; but not for ever.
        store_waits, line_waits = Signal(range(STORE_PATIENCE + 1)), Signal(range(LINE_PATIENCE + 1))
        store_first, line_first = store_waits == STORE_PATIENCE, line_waits == LINE_PATIENCE
        for waits, wants, given in ((store_waits, self.s_wants, self.s_given),
                                    (line_waits, self.x_wants, self.x_given)):
            with m.If((given != 0) | (wants == 0)):
                m.d.sync += waits.eq(0)
            with m.Elif(waits != (1 << len(waits)) - 1):
                m.d.sync += waits.eq(waits + 1)
        lost_to_line = Mux(line_first, self.x_wants, 0)
        lost_to_store = Mux(store_first, self.s_wants & ~lost_to_line, 0)
        m.d.comb += [
            self.l_given.eq(self.l_wants & ~lost_to_line & ~lost_to_store),
            self.s_given.eq(self.s_wants & ~lost_to_line & ~self.l_given),
            self.x_given.eq(self.x_wants & ~self.l_given & ~self.s_given),
        ]

        # An older store to the same bytes that has not been done: in the second cycle of a load or line.
        l_hold = self.s_valid & (self.s.address[3:] == self.l_address)
        x_hold = self.s_valid & (self.s_line == self.x_line) & ~self.x_filling
        hold = Mux(l_hold, self.l_bank, 0) | Mux(x_hold, self.x_bank, 0)
        low, tag = self.geometry.bank_bits, self.geometry.bank_bits + self.geometry.set_bits
        response = self.response.payload
        bad, merges = response.status != Status.OK, self.mshrs.fill_mask != 0
        line_room = self.memory_side.room
        for b, bank in enumerate(self.banks):
            i = bank.i
            m.d.comb += [
                bank.valid.eq(self.l_given[b] | self.x_given[b] | (self.s_given[b] & ~self.s_fails)),
                bank.sweep.eq(~self.started), bank.sweep_set.eq(self.sweep_set), bank.hold.eq(hold[b]),
                bank.room.eq(self.mshrs.room & line_room),
                bank.room_prefetch.eq(self.mshrs.room_prefetch & line_room),
                bank.mshr.eq(self.mshrs.mshr), bank.bad.eq(bad), bank.merges.eq(merges),
                bank.wide.eq(self.wide),
                i.data.eq(self.s_new.data), i.mask.eq(self.s_new.mask), i.way.eq(self.mshrs.fill_place.way),
                i.full.eq(self.x_full),
            ]
            with m.If(self.l_given[b]):
                m.d.comb += [i.op.eq(Op.LOAD), i.set.eq(self.l_new_line[low:tag]),
                             i.tag.eq(self.l_new_line[tag:]), i.word.eq(self.l_word)]
            with m.Elif(self.s_given[b]):
                m.d.comb += [i.op.eq(Op.STORE), i.set.eq(self.s_new_line[low:tag]),
                             i.tag.eq(self.s_new_line[tag:]), i.word.eq(self.s_new.address[3:6])]
            with m.Else():
                m.d.comb += [i.op.eq(self.x_op), i.set.eq(self.x_new_line[low:tag]),
                             i.tag.eq(self.x_new_line[tag:])]

    def _memory(self, m):
        """One bank's wish a cycle."""
        geometry, side, mshrs = self.geometry, self.memory_side, self.mshrs
        wants, allow = Signal(len(self.banks)), Signal(len(self.banks))
        m.d.comb += wants.eq(Cat(bank.wants for bank in self.banks))
        by_load, by_store = Signal(), Signal()
        fill_only = self.x_bank & self.x_filling.replicate(len(self.banks))
        may = wants & Mux(side.room, wants, Mux(side.i.ready, fill_only, 0))
        m.d.comb += [by_load.eq((may & self.l_bank) != 0), by_store.eq(~by_load & ((may & self.s_bank) != 0)),
                     allow.eq(may & Mux(by_load, self.l_bank, Mux(by_store, self.s_bank, self.x_bank)))]
        line = Signal(geometry.line_bits)
        m.d.comb += line.eq(Mux(by_load, self.l_line, Mux(by_store, self.s_line, self.x_line)))

        ask, way = side.i.payload, Signal(self.config.ways)
        evicted, tag, through = Signal(512), Signal(geometry.tag_bits), Signal()
        for b, bank in enumerate(self.banks):
            m.d.comb += bank.allow.eq(allow[b])
            with m.If(allow[b]):
                m.d.comb += [ask.fetches.eq(bank.push.fetches), ask.writes.eq(bank.push.writes),
                             through.eq(bank.push.through), tag.eq(bank.push.tag), evicted.eq(bank.line),
                             way.eq(bank.way)]
        number = geometry.bank(line)
        place = line[geometry.bank_bits:geometry.bank_bits + geometry.set_bits]
        s_mask = Cat(Mux(self.s.address[3:6] == word, self.s.mask, 0) for word in range(8))
        m.d.comb += [
            # A full line that is installed over a clean one asks for nothing.
            side.i.valid.eq((allow != 0) & (ask.fetches | ask.writes)), ask.mshr.eq(mshrs.mshr),
            ask.line.eq(line), ask.write_line.eq(geometry.line(number, place, tag)),
            ask.mask.eq((1 << 64) - 1), ask.data.eq(evicted),
            mshrs.allocate.eq((allow != 0) & ask.fetches), mshrs.place.way.eq(way),
            mshrs.place.line.eq(geometry.line(number, place, Const(0, 1))),
            mshrs.store.eq(self._of(self.s_bank, "touches")), mshrs.store_mshr.eq(self._mshr_of(self.s_bank)),
            mshrs.store_mask.eq(s_mask),
            mshrs.wide.eq(self._of(self.x_bank, "touches")), mshrs.wide_mshr.eq(self.x_mshr),
            mshrs.wide_mask.eq(self.x_mask),
        ]
        m.d.comb += mshrs.prefetch.eq(~by_load & ~by_store & self.x_prefetches)
        with m.If(through):
            with m.If(by_store):
                m.d.comb += [ask.mask.eq(s_mask), ask.data.eq(self.s.data.replicate(8))]
            with m.Else():
                # Of a fill: the bytes that were stored.
                m.d.comb += [ask.mask.eq(Mux(self.x_filling, mshrs.fill_mask, self.x_mask)),
                             ask.data.eq(self.wide)]
        self.by_load, self.by_store, self.fetching = by_load, by_store, mshrs.allocate
        self.writing = side.i.valid & side.i.ready & ask.writes

    def _answers(self, m):
        loaded = self.loaded
        value = 0
        for b, bank in enumerate(self.banks):
            value |= Mux(self.l_bank[b], bank.word, 0)
        m.d.comb += [
            loaded.hit.eq(self._of(self.l_bank, "done")), loaded.data.eq(value),
            loaded.fault.eq(self.l_valid & ~self.l_inside | self._of(self.l_bank, "poison")),
            loaded.miss.eq(self._of(self.l_bank, "pending")), loaded.mshr.eq(self._mshr_of(self.l_bank)),
            self.filled.eq(self.mshrs.filled), self.bulk.busy.eq(self.mshrs.busy),
            self.maintainer.quiet.eq(self.memory_side.quiet),
        ]
        for port in self.line_ports:
            m.d.comb += port.filled.eq(self.mshrs.filled)
        if self.config.streams:
            m.d.comb += [
                self.stride.load.valid.eq(self.l_valid & self.l_inside & (loaded.hit | loaded.miss)),
                self.stride.load.stream.eq(self.l_stream), self.stride.load.line.eq(self.l_line),
                self.stride.store.valid.eq(self.s_done), self.stride.store.stream.eq(self.s.stream),
                self.stride.store.line.eq(self.s_line),
            ]
        events = self.events
        lines = self.fetching & ~self.by_load & ~self.by_store
        m.d.comb += [
            events.load_hit.eq(loaded.hit), events.load_miss.eq(self.fetching & self.by_load),
            events.load_again.eq(self.l_valid & ~(loaded.hit | loaded.fault | loaded.miss)),
            events.store_miss.eq(self.fetching & self.by_store),
            events.port_miss.eq(lines & ~self.mshrs.prefetch),
            events.prefetch.eq(lines & self.mshrs.prefetch),
            events.writeback.eq(self.writing), events.fill.eq(self.mshrs.release),
        ]
