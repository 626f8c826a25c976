"""Instruction cache with next-line prefetch."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..address import ADDRESS_BITS, RAM
from ..types import LineRequest, LineResponse, LineStatus

__all__ = ["InstructionCache", "LINE_BITS", "Slot"]

LINE_BITS = ADDRESS_BITS - 6
"""Of a line's number."""


class Slot(enum.Enum, shape=1):
    """A line being fetched; also the tag of its request."""

    DEMAND = 0
    PREFETCH = 1


class InstructionCache(wiring.Component):
    """Set-associative, lines of 64 bytes, replaced first in, first out.

    The line asked for in one cycle is looked up in the next: ``hit`` with its ``data``, or ``fault`` if it is
    outside the memory or the memory answered with an error; else, while it is ``wanted``, it is fetched. The
    asker repeats its line until then. A line with an error is not kept: ``fault`` stays until the next miss.
    The line after the one looked up is prefetched if it is absent. At most one fetch of each Slot at once.

    Parameters
    ----------
    sets, ways : of the cache.
    ram_bytes : bytes of memory, from address RAM on.

    Members
    -------
    line : In(LINE_BITS), asked for; inside : In(1): the *looked up* line is inside the memory
    wanted : In(1), of the lookup
    hit, fault : Out(1); data : Out(512)
    invalidate : In(1): forgets everything, and what is being fetched too
    request, response : line port
    miss, prefetch : Out(1): pulses, a fetch begins
    """

    def __init__(self, *, sets, ways, ram_bytes):
        self.sets, self.ways, self.ram_bytes = sets, ways, ram_bytes
        super().__init__({
            "line": In(LINE_BITS), "inside": In(1), "wanted": In(1),
            "hit": Out(1), "fault": Out(1), "data": Out(512), "invalidate": In(1),
            "request": Out(stream.Signature(LineRequest)), "response": In(stream.Signature(LineResponse)),
            "miss": Out(1), "prefetch": Out(1)})

    def elaborate(self, platform):
        m = Module()
        set_bits = (self.sets - 1).bit_length()
        valid = [Signal(self.sets, name=f"valid{way}") for way in range(self.ways)]

        # Lookup: tags and data of the line asked for, tags of the one after it.
        current, following = Signal(LINE_BITS), Signal(LINE_BITS)
        m.d.sync += [current.eq(self.line), following.eq(self.line + 1)]
        present, present_after = Signal(self.ways), Signal(self.ways)
        fill, fill_way, fill_line = Signal(), Signal(range(self.ways)), Signal(LINE_BITS)
        fill_set = fill_line[:set_bits]
        chosen = 0
        for way in range(self.ways):
            m.submodules[f"tags{way}"] = tags = memory.Memory(
                shape=unsigned(LINE_BITS - set_bits), depth=self.sets, init=[])
            m.submodules[f"lines{way}"] = lines = memory.Memory(
                shape=unsigned(512), depth=self.sets, init=[])
            tag_write, line_write = tags.write_port(), lines.write_port()
            # Transparent: a line filled at the edge at which it is asked for is there.
            tag, tag_after = (tags.read_port(transparent_for=(tag_write,)) for _ in range(2))
            line = lines.read_port(transparent_for=(line_write,))
            m.d.comb += [
                tag.addr.eq(self.line), line.addr.eq(self.line), tag_after.addr.eq(self.line + 1),
                present[way].eq(valid[way].bit_select(current[:set_bits], 1)
                                & (tag.data == current[set_bits:])),
                present_after[way].eq(valid[way].bit_select(following[:set_bits], 1)
                                      & (tag_after.data == following[set_bits:])),
            ]
            chosen = chosen | Mux(present[way], line.data, 0)
            writes = fill & (fill_way == way)
            m.d.comb += [tag_write.en.eq(writes), tag_write.addr.eq(fill_set),
                         tag_write.data.eq(fill_line[set_bits:]),
                         line_write.en.eq(writes), line_write.addr.eq(fill_set),
                         line_write.data.eq(self.response.payload.data)]
            with m.If(self.invalidate):
                m.d.sync += valid[way].eq(0)
            with m.Elif(writes):
                m.d.sync += valid[way].eq(valid[way] | (1 << fill_set))

        failed, failed_line = Signal(), Signal(LINE_BITS)
        m.d.comb += [
            self.data.eq(chosen),
            self.fault.eq(~self.inside | (failed & (failed_line == current))),
            self.hit.eq((present != 0) & ~self.fault),
        ]

        # The way that is filled: each set's in turn.
        if self.ways > 1:
            m.submodules.turns = turns = memory.Memory(shape=unsigned(fill_way.shape().width),
                                                       depth=self.sets, init=[])
            turn, turn_write = turns.read_port(domain="comb"), turns.write_port()
            m.d.comb += [turn.addr.eq(fill_set), fill_way.eq(turn.data), turn_write.en.eq(fill),
                         turn_write.addr.eq(fill_set), turn_write.data.eq(turn.data + 1)]

        # Fetches: a slot is busy from its decision to its answer; `send` from the decision to the transfer.
        busy, stale = Signal(2), Signal(2)
        slot_line = [Signal(LINE_BITS, name=f"{slot.name.lower()}_line") for slot in Slot]
        coming = [busy[slot.value] & ~stale[slot.value] for slot in Slot]
        send, send_slot = Signal(), Signal(Slot)
        free = Signal()
        last = (RAM + self.ram_bytes) // 64 - 1
        m.d.comb += [
            free.eq(~send | self.request.ready),
            self.miss.eq(self.wanted & ~self.hit & ~self.fault & free & ~busy[0] & ~self.invalidate
                         & ~(coming[1] & (slot_line[1] == current))),
            self.prefetch.eq(self.wanted & ~self.fault & ~self.miss & free & ~busy[1] & ~self.invalidate
                             & (present_after == 0) & (current != last)
                             & ~(coming[0] & (slot_line[0] == following))),
            self.request.valid.eq(send),
            self.request.payload.tag.eq(send_slot),
            self.request.payload.line.eq(Mux(send_slot == Slot.PREFETCH, slot_line[1], slot_line[0])),
        ]
        with m.If(self.request.ready):
            m.d.sync += send.eq(0)
        answered = Signal(2)
        for slot, begins, line in ((Slot.DEMAND, self.miss, current),
                                   (Slot.PREFETCH, self.prefetch, following)):
            k = slot.value
            m.d.comb += answered[k].eq(self.response.valid & (self.response.payload.tag == k))
            with m.If(begins):
                m.d.sync += [busy[k].eq(1), stale[k].eq(0), slot_line[k].eq(line), send.eq(1),
                             send_slot.eq(slot)]
            with m.Elif(answered[k]):
                m.d.sync += busy[k].eq(0)
            with m.Elif(self.invalidate):
                m.d.sync += stale[k].eq(1)

        # Answers.
        status = self.response.payload.status
        kept = (answered & ~stale).any() & ~self.invalidate
        m.d.comb += [
            self.response.ready.eq(1),
            fill_line.eq(Mux(answered[1], slot_line[1], slot_line[0])),
            fill.eq(kept & (status == LineStatus.OK)),
        ]
        with m.If(self.miss | self.invalidate):
            m.d.sync += failed.eq(0)
        with m.If(answered[0] & kept & (status != LineStatus.OK)):
            m.d.sync += [failed.eq(1), failed_line.eq(fill_line)]
        return m
