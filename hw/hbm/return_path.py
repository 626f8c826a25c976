"""From the data pins to those who asked: correction, halves to lines, demand replies, bulk lines in order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from .address_map import Location
from .ecc import BURST_WORDS, EccCorrect, syndromes
from .port import BulkLine, ChannelData, Reply, Status
from .queue import Kind

__all__ = ["ReadTag", "ReturnPath"]

IN_FLIGHT = 64
"""Reads between command and data at most; a device with CL = 24 ns at 16 Gb/s has 50."""


class ReadTag(data.Struct):
    """Of a burst under way: ``id`` is the slot of a demand read, the place of a bulk line, or the region of
    a partial write; ``burst`` : in its grain; ``location`` : its line."""

    kind: Kind
    id: 10
    burst: 3
    location: Location


class ReturnPath(wiring.Component):
    """Takes bursts in the order of the read commands. Everything runs in every tile cycle.

    A burst is registered with its syndrome, corrected in the next cycle, and a reply leaves in that cycle.
    Bulk lines have a place each from acceptance on and leave in order.

    Members
    -------
    slot : In(1)
    issue : In(1), tag : In(ReadTag): a read command decided in this slot
    rdata, rcheck, rvalid : In: of the device
    place : Out(10), room : Out(1): of the next bulk line; alloc : In(1), line : In(BulkLine): it is taken
    reply : Out(stream of Reply): never more under way than ``demand_reads``
    data : Out(stream of ChannelData)
    merge_fetch, merge_region, merge_burst, read, corrected, bad : to the write buffer
    arrived : Out(1), location : Out(Location): in one cycle, of corrected and bad
    empty : Out(1): no bulk line under way
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "slot": In(1), "issue": In(1), "tag": In(ReadTag),
            "rdata": In(256), "rcheck": In(32), "rvalid": In(1),
            "place": Out(10), "room": Out(1), "alloc": In(1), "line": In(BulkLine),
            "reply": Out(stream.Signature(Reply)), "data": Out(stream.Signature(ChannelData)),
            "merge_fetch": Out(1), "merge_region": Out(6), "merge_burst": Out(3),
            "read": Out(256), "corrected": Out(BURST_WORDS), "bad": Out(BURST_WORDS),
            "arrived": Out(1), "location": Out(Location), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.tags = tags = fifo.SyncFIFO(width=ReadTag.as_shape().size, depth=IN_FLIGHT)
        tag = Signal(ReadTag)
        arrives = self.rvalid & self.slot
        m.d.comb += [tags.w_en.eq(self.issue & self.slot), tags.w_data.eq(self.tag), tags.r_en.eq(arrives),
                     tag.eq(tags.r_data)]

        # Arrival: registers; they keep until the next slot at least, for the write buffer.
        burst, syndrome, arrived = Signal(256), Signal(32), Signal(ReadTag)
        m.d.sync += self.arrived.eq(arrives)
        with m.If(arrives):
            m.d.sync += [burst.eq(self.rdata), syndrome.eq(syndromes(self.rdata, self.rcheck)),
                         arrived.eq(tag)]
        correct = emit.place(m, "correct", EccCorrect())
        poison = correct.bad != 0
        m.d.comb += [
            correct.data.eq(burst), correct.syndrome.eq(syndrome),
            self.read.eq(correct.o), self.corrected.eq(correct.corrected), self.bad.eq(correct.bad),
            self.location.eq(arrived.location),
            self.merge_fetch.eq(self.rvalid & (tag.kind == Kind.MERGE)),
            self.merge_region.eq(tag.id), self.merge_burst.eq(tag.burst),
        ]

        # Demand: the first half waits for the second.
        m.submodules.first = first = memory.Memory(shape=257, depth=256, init=[])
        put = first.write_port()
        get = first.read_port(transparent_for=(put,))
        mine = self.arrived & (arrived.kind == Kind.DEMAND)
        m.d.comb += [put.en.eq(mine & ~arrived.burst[0]), put.addr.eq(arrived.id),
                     put.data.eq(Cat(correct.o, poison)), get.addr.eq(tag.id), get.en.eq(arrives)]
        m.submodules.replies = replies = fifo.SyncFIFO(width=Reply.as_shape().size,
                                                       depth=self.config.queues.demand_reads)
        made, fresh = Signal(Reply), Signal()
        m.d.comb += [
            fresh.eq(mine & arrived.burst[0]), made.slot.eq(arrived.id),
            made.status.eq(Mux(poison | get.data[-1], Status.POISON, Status.OK)),
            made.data.eq(Cat(get.data[:256], correct.o)),
            self.reply.valid.eq(fresh | replies.r_rdy),
            self.reply.payload.eq(Mux(replies.r_rdy, replies.r_data, made.as_value())),
            replies.r_en.eq(self.reply.ready), replies.w_data.eq(made),
            replies.w_en.eq(fresh & (replies.r_rdy | ~self.reply.ready)),
        ]
        self._bulk(m, arrived, correct.o, poison)
        return m

    def _bulk(self, m, arrived, corrected, poison):
        """Lines in order: a ring of places, and a bit for each half that is there."""
        depth = self.config.queues.return_lines
        bits = depth.bit_length() - 1
        m.submodules.lines = lines = memory.Memory(shape=BulkLine, depth=depth, init=[])
        put_line = lines.write_port()
        get_line = lines.read_port(transparent_for=(put_line,))
        head, tail, next_head = Signal(bits + 1), Signal(bits + 1), Signal(bits + 1)
        leaves = self.data.valid & self.data.ready
        enters = self.alloc & self.slot
        m.d.comb += [
            self.place.eq(tail[:bits]), self.room.eq((tail ^ head) != depth), self.empty.eq(head == tail),
            put_line.en.eq(enters), put_line.addr.eq(tail[:bits]), put_line.data.eq(self.line),
            next_head.eq(head + leaves), get_line.addr.eq(next_head[:bits]),
        ]
        m.d.sync += [head.eq(next_head), tail.eq(tail + enters)]

        mine = self.arrived & (arrived.kind == Kind.BULK)
        line, o = get_line.data, self.data.payload
        gone = Mux(leaves, Const(1, 1) << head[:bits], 0)
        there, bad, burst = [], [], []
        for half in range(2):
            ring = memory.Memory(shape=257, depth=depth, init=[])
            m.submodules[f"half{half}"] = ring
            put = ring.write_port()
            get = ring.read_port(transparent_for=(put,))
            done = Signal(depth, name=f"done{half}")
            m.d.comb += [
                put.addr.eq(arrived.id[:bits]), put.en.eq(mine & (arrived.burst[0] == half)),
                put.data.eq(Cat(corrected, poison)), get.addr.eq(next_head[:bits]),
            ]
            m.d.sync += done.eq((done | Mux(put.en, Const(1, 1) << put.addr, 0)) & ~gone)
            there.append(done.bit_select(head[:bits], 1) | ~line.halves[half])
            bad.append(line.halves[half] & get.data[256])
            burst.append(get.data[:256])
        m.d.comb += [
            self.data.valid.eq((head != tail) & there[0] & there[1]),
            o.tag.eq(line.tag), o.halves.eq(line.halves), o.last.eq(line.last),
            o.status.eq(Mux(bad[0] | bad[1], Status.POISON, Status.OK)), o.data.eq(Cat(burst)),
        ]
