"""Requests into the queues: one line a slot, hazards, merging of neighbours."""

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import AddressMap, Location
from .port import BulkLine, Demand, ScrubLine
from .queue import Grain, Kind, Request

__all__ = ["Intake"]

PATIENCE = 8
"""Demand lines in a row while a bulk line waits; slots a stuck demand line lets others go first."""

SCRUB_PATIENCE = 64
"""Slots after which a waiting scrub goes before others."""


class Intake(wiring.Component):
    """Chooses a line in each slot and puts it into the read queue, the write queue or both.

    A read waits for older writes of its line, a write for older reads and writes of its line; meanwhile
    ``drain`` asks for writing. A partial write, by halves of 32 bytes, and a scrub also read. A line of the
    same grain as the youngest entry joins this entry if both are writes, or neighbours of a bulk stream.

    Members
    -------
    slot, running : In(1)
    demand, bulk, scrub : In(stream)
    bank : Out(6), row : Out(16): of the chosen line; hit : In(1): this row is open
    request : Out(Request): for both queues, but for kind and id
    probe_bursts : Out(8)
    read_push, read_merge, write_push, write_merge : Out(1)
    read_kind : Out(Kind), read_id, write_id : Out(10), read_bursts, write_bursts, write_waits : Out(8)
    read_count, write_count, read_tail_stays, write_tail_stays, read_found, write_found : In, of the queues
    demand_room : In(1): a demand read may be under way more; demand_read : Out(1): one is
    place : In(10), room : In(1), alloc : Out(1): of the return path
    free : In(1), region : In(6), take : Out(1), busy : In(1): of the write buffer
    accept : Out(1), accept_region : Out(6), accept_line : Out(2), accept_scrub : Out(1): to it
    drain : Out(1)
    waiting : Out(1): some line waits at the entrance
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "slot": In(1), "running": In(1), "demand": In(stream.Signature(Demand)),
            "bulk": In(stream.Signature(BulkLine)), "scrub": In(stream.Signature(ScrubLine)),
            "hit": In(1), "request": Out(Request), "probe_bursts": Out(8),
            "read_push": Out(1), "read_merge": Out(1), "write_push": Out(1), "write_merge": Out(1),
            "read_kind": Out(Kind), "read_id": Out(10), "write_id": Out(10),
            "read_bursts": Out(8), "write_bursts": Out(8), "write_waits": Out(8),
            "read_count": In(7), "write_count": In(7), "read_tail_stays": In(1), "write_tail_stays": In(1),
            "read_found": In(1), "write_found": In(1), "demand_room": In(1), "demand_read": Out(1),
            "place": In(10), "room": In(1), "alloc": Out(1),
            "free": In(1), "region": In(6), "take": Out(1), "busy": In(1),
            "accept": Out(1), "accept_region": Out(6), "accept_line": Out(2), "accept_scrub": Out(1),
            "drain": Out(1), "waiting": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        queues = self.config.queues
        demand, bulk, scrub = self.demand.payload, self.bulk.payload, self.scrub.payload

        # -- choice
        let_go = Signal(range(PATIENCE + 1))   # slots in which bulk goes first
        in_a_row = Signal(range(PATIENCE))
        scrub_waits = Signal(range(SCRUB_PATIENCE + 1))
        is_scrub, is_bulk, is_demand = Signal(), Signal(), Signal()
        m.d.comb += [
            is_scrub.eq(self.scrub.valid & ((scrub_waits == SCRUB_PATIENCE)
                                            | ~(self.demand.valid | self.bulk.valid))),
            is_bulk.eq(self.bulk.valid & ~is_scrub & (~self.demand.valid | (let_go != 0))),
            is_demand.eq(self.demand.valid & ~is_scrub & ~is_bulk),
            self.waiting.eq(self.demand.valid | self.bulk.valid | self.scrub.valid),
        ]
        local = Mux(is_demand, demand.line, Mux(is_bulk, bulk.line, scrub.line))
        place = Signal(Location)
        fields = AddressMap(self.config).locate(local)
        m.d.comb += [getattr(place, name).eq(value) for name, value in fields.items()]
        grain = Signal(Grain)
        line = place.column[:2]
        m.d.comb += [grain.high.eq(place.column[2:]), grain.bank.eq(Cat(place.bank, place.sid)),
                     grain.row.eq(place.row)]

        # -- which bursts to write, and which of these to read first
        halves = [demand.mask[:32], demand.mask[32:]]
        some = Cat(half.any() for half in halves)
        whole = Cat(half.all() for half in halves)
        is_write = (is_demand & demand.write) | is_scrub
        writes = Mux(is_scrub, 0b11, some)
        partial = Signal(2)
        m.d.comb += partial.eq(Mux(is_scrub, 0b11, some & ~whole))
        reads = Mux(is_write, partial, Mux(is_bulk, bulk.halves, 0b11))
        shift = Cat(Const(0, 1), line)
        line_bursts = Signal(8)
        m.d.comb += [
            line_bursts.eq(Const(0b11, 2) << shift), self.probe_bursts.eq(line_bursts),
            self.read_bursts.eq(reads << shift), self.write_bursts.eq(writes << shift),
            self.write_waits.eq(partial << shift),
        ]

        # -- may it join the youngest entry?
        read_open, read_grain, read_line = Signal(), Signal(Grain), Signal(2)
        write_open, write_grain, write_region = Signal(), Signal(Grain), Signal(6)
        read_joins = (is_bulk & read_open & self.read_tail_stays & (line == read_line + 1)
                      & (read_grain.as_value() == grain.as_value()))
        write_joins = (is_demand & write_open & self.write_tail_stays
                       & (write_grain.as_value() == grain.as_value()))

        # -- may it enter?
        read_limit = Mux(is_bulk, queues.read_entries - queues.reserved_entries, queues.read_entries)
        read_fits = read_joins | (self.read_count < read_limit)
        write_fits = (write_joins | (self.free & (self.write_count < queues.write_entries))) & ~self.busy
        hazard = self.write_found | (is_write & self.read_found)
        allowed, enter = Signal(), Signal()
        m.d.comb += [
            allowed.eq(self.running & ~hazard & Mux(
                is_write, write_fits & ((partial == 0) | (self.read_count < queues.read_entries)),
                read_fits & Mux(is_bulk, self.room, self.demand_room))),
            self.demand.ready.eq(self.slot & is_demand & allowed),
            self.bulk.ready.eq(self.slot & is_bulk & allowed),
            self.scrub.ready.eq(self.slot & is_scrub & allowed),
            enter.eq(allowed & (is_demand | is_bulk | is_scrub)),
        ]
        does_write = enter & is_write & (writes != 0)
        does_read = enter & (~is_write | (partial != 0))
        region = Mux(write_joins, write_region, self.region)
        m.d.comb += [
            self.request.grain.eq(grain), self.request.close.eq(is_bulk & bulk.close),
            self.read_push.eq(does_read & ~read_joins), self.read_merge.eq(does_read & read_joins),
            self.read_kind.eq(Mux(is_write, Kind.MERGE, Mux(is_bulk, Kind.BULK, Kind.DEMAND))),
            # A bulk entry is named after the place of its grain's first line, present or not.
            self.read_id.eq(Mux(is_write, region, Mux(is_bulk, self.place - line, demand.slot))),
            self.write_push.eq(does_write & ~write_joins), self.write_merge.eq(does_write & write_joins),
            self.write_id.eq(region), self.take.eq(self.write_push),
            self.accept.eq(does_write), self.accept_region.eq(region), self.accept_line.eq(line),
            self.accept_scrub.eq(is_scrub),
            self.alloc.eq(enter & is_bulk), self.demand_read.eq(enter & is_demand & ~demand.write),
        ]
        with m.If(does_read):
            m.d.sync += [read_open.eq(is_bulk), read_grain.eq(grain), read_line.eq(line)]
        with m.Elif(~self.read_tail_stays):
            m.d.sync += read_open.eq(0)
        with m.If(does_write):
            m.d.sync += [write_open.eq(is_demand), write_grain.eq(grain), write_region.eq(region)]
        with m.Elif(~self.write_tail_stays):
            m.d.sync += write_open.eq(0)

        # -- fairness, and asking for writes that somebody waits for
        with m.If(is_demand & ~allowed):
            m.d.sync += [let_go.eq(PATIENCE), in_a_row.eq(0)]
        with m.Elif(is_demand & self.bulk.valid):
            m.d.sync += in_a_row.eq(in_a_row + 1)
            with m.If(in_a_row == PATIENCE - 1):
                m.d.sync += [let_go.eq(1), in_a_row.eq(0)]
        with m.Elif(let_go != 0):
            m.d.sync += let_go.eq(let_go - 1)
        with m.If(self.scrub.valid & ~(is_scrub & allowed)):
            with m.If(scrub_waits != SCRUB_PATIENCE):
                m.d.sync += scrub_waits.eq(scrub_waits + 1)
        with m.Else():
            m.d.sync += scrub_waits.eq(0)
        wanted = Signal(range(2 * PATIENCE + 1))
        m.d.comb += self.drain.eq(wanted != 0)
        with m.If(self.write_found & (is_demand | is_bulk | is_scrub)):
            m.d.sync += wanted.eq(2 * PATIENCE)
        with m.Elif(wanted != 0):
            m.d.sync += wanted.eq(wanted - 1)
        return EnableInserter(self.slot)(m)
