"""Bulk range reads: checked once, then turned into lines by each pseudo-channel for itself.

A legal range goes to all pseudo-channels. Each has a :class:`RangeGenerator`, which walks the rows and makes
only the lines that lie in its own pseudo-channel, so that nothing in the slice has to carry the lines of all.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ConfigError
from .address_map import LINES_PER_GRAIN, LOCAL_BITS, AddressMap, divide
from .demand import rotate
from .port import BulkLine, Range, RangeAnswer, Status

__all__ = ["BURST_BYTES", "LegalRange", "RangeChecker", "RangeGenerator"]

#: Ranges are made of bursts of 32 bytes.
BURST_BYTES = 32
_BURST_SHIFT = 5
_BURSTS_PER_GRAIN = 8
#: Segments of one context which wait for their lines to be made.
SEGMENTS = 4
#: Stages between the choice of a row and its segment.
_STAGES = 2


def unit_bits(config):
    """Bits of the number of a burst in the slice."""
    return max(_BURST_SHIFT, (AddressMap(config).lines * 2 - 1).bit_length())


class LegalRange(data.StructLayout):
    """A range that was found legal, in bursts of 32 bytes: ``rows`` of ``length``, ``stride`` apart."""

    def __init__(self, config):
        bits = unit_bits(config)
        super().__init__({"tag": unsigned(8), "start": unsigned(bits), "rows": unsigned(16),
                          "length": unsigned(15), "stride": unsigned(bits)})


class RangeChecker(wiring.Component):
    """Answers each range and gives the legal ones to all pseudo-channels. One range a cycle.

    Members
    -------
    range : In(stream of Range)
    answer : Out(stream of RangeAnswer), in the order of the ranges
    o : Out(stream of LegalRange), array of pseudo_channels
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "range": In(stream.Signature(Range)), "answer": Out(stream.Signature(RangeAnswer)),
            "o": Out(stream.Signature(LegalRange(config))).array(config.pseudo_channels),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        bursts = AddressMap(config).lines * 2
        bits = unit_bits(config)

        # First stage: what can be said of each field, and the distance of the last row from the first.
        asked = self.range.payload
        first_valid, first_leaves = Signal(), Signal()
        first = Signal(LegalRange(config))
        bad, outside = Signal(), Signal()
        distance = Signal(bits + 16)
        m.d.comb += self.range.ready.eq(~first_valid | first_leaves)
        with m.If(self.range.ready):
            start, stride = asked.address >> _BURST_SHIFT, asked.stride >> _BURST_SHIFT
            many = asked.rows > 1
            m.d.sync += [
                first_valid.eq(self.range.valid),
                first.tag.eq(asked.tag), first.rows.eq(asked.rows), first.start.eq(start),
                first.length.eq(asked.bytes >> _BURST_SHIFT), first.stride.eq(stride),
                bad.eq((asked.rows == 0) | (asked.bytes == 0)
                       | (asked.address[:_BURST_SHIFT] | asked.bytes[:_BURST_SHIFT]
                          | Mux(many, asked.stride[:_BURST_SHIFT], 0)).any()),
                outside.eq((start >= bursts) | (many & (stride >= bursts))),
                distance.eq(Mux(many, (asked.rows - 1)[:16] * stride[:bits], 0)),
            ]

        # Second stage: the end, and the hand-out; each taker may be slow by itself.
        takers = config.pseudo_channels + 1
        waiting, taken = Signal(takers), Signal(takers)
        legal, answer = Signal(LegalRange(config)), Signal(RangeAnswer)
        done = (waiting & ~taken) == 0
        m.d.comb += first_leaves.eq(done)
        m.d.sync += waiting.eq(waiting & ~taken)
        beyond = first.start + distance + first.length > bursts
        with m.If(done & first_valid):
            ok = ~(bad | outside | beyond)
            m.d.sync += [
                waiting.eq(Cat(1, ok.replicate(config.pseudo_channels))), legal.eq(first),
                answer.tag.eq(first.tag),
                answer.status.eq(Mux(bad, Status.BAD_RANGE,
                                     Mux(outside | beyond, Status.OUT_OF_RANGE, Status.OK))),
            ]
        m.d.comb += [self.answer.payload.eq(answer), self.answer.valid.eq(waiting[0]),
                     taken[0].eq(self.answer.ready)]
        for c in range(config.pseudo_channels):
            m.d.comb += [self.o[c].payload.eq(legal), self.o[c].valid.eq(waiting[c + 1]),
                         taken[c + 1].eq(self.o[c].ready)]
        return m


class Segment(data.Struct):
    """Lines ``first`` ... ``last`` of a pseudo-channel which one row of a range asks for. ``late``: without
    the lower half of the first line; ``early``: without the upper half of the last; ``final``: no more lines
    of this range here."""

    tag: unsigned(8)
    first: unsigned(LOCAL_BITS)
    last: unsigned(LOCAL_BITS)
    late: unsigned(1)
    early: unsigned(1)
    final: unsigned(1)


class RangeGenerator(wiring.Component):
    """The lines of ranges which lie in one pseudo-channel.

    Several ranges are active at once, each in its context. A context walks its rows, one a cycle of all
    contexts together, and keeps those with lines here as segments. Lines are made, one a cycle, from one
    context until it has made a grain of lines, or comes to a multiple of one, or to its end; then from the
    next. Lines of a range come in the order of rows and addresses. A range with one row and no lines here is
    gone in one cycle.

    The last segment of a range waits until it is known to be the last: its ``final`` is part of it.

    Parameters
    ----------
    config : HbmConfig
        ``queues.ranges`` contexts, ``queues.bulk_grain`` lines a turn, a power of two.

    Members
    -------
    index : In(6): the number of this pseudo-channel, constant
    i : In(stream of LegalRange)
    o : Out(stream of BulkLine)
    """

    def __init__(self, config):
        self.config = config
        self.contexts, self.grain = config.queues.ranges, config.queues.bulk_grain
        if self.grain & (self.grain - 1):
            raise ConfigError("queues.bulk_grain", self.grain, "a power of two")
        super().__init__({"index": In(6), "i": In(stream.Signature(LegalRange(config))),
                          "o": Out(stream.Signature(BulkLine))})

    @property
    def module_name(self):
        config = self.config
        return (f"hbm_range_generator_p{config.pseudo_channels}_s{config.stack_ids}_g{config.bank_groups}"
                f"_r{config.rows}_c{self.contexts}_n{self.grain}")

    def elaborate(self, platform):
        m = Module()
        queues = []
        for c in range(self.contexts):
            queue = fifo.SyncFIFO(width=Segment.as_shape().size, depth=SEGMENTS)
            m.submodules[f"segments{c}"] = queue
            queues.append(queue)
        self._walk(m, queues)
        self._make_lines(m, queues)
        return m

    def _walk(self, m, queues):
        """Ranges to rows to segments."""
        config, contexts = self.config, self.contexts
        address_map = AddressMap(config)
        bits = unit_bits(config)

        # A range goes to a context that has no rows left; best to one that has no segments either.
        rows_left = [Signal(16, name=f"rows_left{c}") for c in range(contexts)]
        position = [Signal(bits + 1, name=f"position{c}") for c in range(contexts)]
        ranges = [Signal(LegalRange(config), name=f"range{c}") for c in range(contexts)]
        in_walk = [Signal(range(SEGMENTS + _STAGES + 2), name=f"in_walk{c}") for c in range(contexts)]
        free, empty = Signal(contexts), Signal(contexts)
        loaded = Signal(contexts, init=1)
        m.d.comb += [free.eq(Cat(left == 0 for left in rows_left)),
                     empty.eq(free & Cat(count == 0 for count in in_walk))]
        load = rotate(m, Mux(empty != 0, empty, free), loaded)
        m.d.comb += self.i.ready.eq(free != 0)
        loads = self.i.valid & self.i.ready
        with m.If(loads):
            m.d.sync += loaded.eq(load)

        # A row a cycle, of a context that has room for a segment more.
        can_walk = Signal(contexts)
        walked = Signal(contexts, init=1)
        m.d.comb += can_walk.eq(Cat((left != 0) & (count < SEGMENTS + 1)
                                    for left, count in zip(rows_left, in_walk)))
        walk = rotate(m, can_walk, walked)
        row = Signal(data.StructLayout({"valid": 1, "context": contexts, "tag": 8, "final": 1,
                                        "first": bits, "last": bits}))
        m.d.sync += [row.valid.eq(can_walk != 0), row.context.eq(walk)]
        with m.If(can_walk != 0):
            m.d.sync += walked.eq(walk)
        for c in range(contexts):
            with m.If(walk[c]):
                m.d.sync += [
                    row.tag.eq(ranges[c].tag), row.final.eq(rows_left[c] == 1), row.first.eq(position[c]),
                    row.last.eq(position[c] + ranges[c].length - 1),
                    position[c].eq(position[c] + ranges[c].stride), rows_left[c].eq(rows_left[c] - 1),
                ]
            with m.If(loads & load[c]):
                m.d.sync += [ranges[c].eq(self.i.payload), position[c].eq(self.i.payload.start),
                             rows_left[c].eq(self.i.payload.rows)]

        # Its first and last grain of 256 bytes, as grain of a pseudo-channel and pseudo-channel.
        ends = Signal(data.StructLayout({
            "valid": 1, "context": contexts, "tag": 8, "final": 1, "first": LOCAL_BITS, "first_channel": 6,
            "first_burst": 3, "last": LOCAL_BITS, "last_channel": 6, "last_burst": 3}))
        m.d.sync += [ends.valid.eq(row.valid), ends.context.eq(row.context), ends.tag.eq(row.tag),
                     ends.final.eq(row.final)]
        for end in ("first", "last"):
            local, channel = divide(row[end][3:], config.pseudo_channels,
                                    address_map.lines // LINES_PER_GRAIN - 1)
            m.d.sync += [ends[end].eq(local), ends[f"{end}_channel"].eq(channel),
                         ends[f"{end}_burst"].eq(row[end][:3])]

        # The part of it that lies here.
        low, high = Signal(LOCAL_BITS), Signal(signed(LOCAL_BITS + 1))
        first_burst, last_burst = Signal(3), Signal(3)
        own = Signal()
        segment = Signal(Segment)
        m.d.comb += [
            low.eq(ends.first + (ends.first_channel > self.index)),
            high.eq(ends.last - (ends.last_channel < self.index)),
            first_burst.eq(Mux(ends.first_channel == self.index, ends.first_burst, 0)),
            last_burst.eq(Mux(ends.last_channel == self.index, ends.last_burst, _BURSTS_PER_GRAIN - 1)),
            own.eq(ends.valid & (low <= high)),
            segment.tag.eq(ends.tag), segment.final.eq(ends.final),
            segment.first.eq(Cat(first_burst[1:], low)), segment.late.eq(first_burst[0]),
            segment.last.eq(Cat(last_burst[1:], high)), segment.early.eq(~last_burst[0]),
        ]

        # The newest segment of a context waits until it is known whether it is its range's last.
        for c, queue in enumerate(queues):
            newest, waits = Signal(Segment, name=f"newest{c}"), Signal(name=f"waits{c}")
            event = ends.valid & ends.context[c]
            arrives = event & own
            # A place was counted for it; only a last one that comes early finds the queue full.
            pushes = waits & (arrives | (newest.final & queue.w_rdy))
            m.d.comb += [queue.w_data.eq(newest.as_value()), queue.w_en.eq(pushes)]
            with m.If(arrives):
                m.d.sync += [newest.eq(segment), waits.eq(1)]
            with m.Else():
                with m.If(pushes):
                    m.d.sync += waits.eq(0)
                with m.If(event & ends.final & waits & ~pushes):
                    m.d.sync += newest.final.eq(1)
            # Rows on their way and segments, each of which has its place in the queue or as the newest.
            m.d.sync += in_walk[c].eq(in_walk[c] + walk[c] - (event & ~own) - (queue.r_en & queue.r_rdy))

    def _make_lines(self, m, queues):
        """Segments to lines, a grain of a context after the other."""
        contexts, grain = self.contexts, self.grain
        groups = self.config.bank_groups
        has = Signal(contexts)
        m.d.comb += has.eq(Cat(queue.r_rdy for queue in queues))
        turn, last_turn = Signal(contexts), Signal(contexts, init=1)
        stays, goes_on = Signal(), Signal()
        cursor = [Signal(LOCAL_BITS, name=f"cursor{c}") for c in range(contexts)]
        begun = Signal(contexts)
        other = rotate(m, has, last_turn)
        m.d.comb += [goes_on.eq(stays & (has & last_turn).any()), turn.eq(Mux(goes_on, last_turn, other))]

        segment, line, started = Signal(Segment), Signal(LOCAL_BITS), Signal()
        for c, queue in enumerate(queues):
            with m.If(turn[c]):
                m.d.comb += [segment.as_value().eq(queue.r_data), started.eq(begun[c]),
                             line.eq(Mux(begun[c], cursor[c], data.View(Segment, queue.r_data).first))]
        at_end = Signal()
        made = Signal(BulkLine)
        last_grain, grain_now = segment.last[2:], line[2:]
        # The page is met again ``groups`` grains later, unless this is its last quarter.
        leaves_page = (line[2 + (groups.bit_length() - 1):][:2] == 3) | (grain_now + groups > last_grain)
        m.d.comb += [
            at_end.eq(line == segment.last),
            made.tag.eq(segment.tag), made.line.eq(line), made.last.eq(at_end & segment.final),
            made.halves.eq(Cat(~(segment.late & ~started), ~(segment.early & at_end))),
            made.close.eq(leaves_page & (at_end | (line[:2] == 3))),
        ]

        count, so_far = Signal(range(grain + 1)), Signal(range(grain + 1))
        valid, held = Signal(), Signal(BulkLine)
        moves = (has != 0) & (~valid | self.o.ready)
        boundary = line[:grain.bit_length() - 1].all() | (so_far == grain - 1)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(held), so_far.eq(Mux(goes_on, count, 0))]
        with m.If(~valid | self.o.ready):
            m.d.sync += valid.eq(has != 0)
        with m.If(moves):
            m.d.sync += [held.eq(made), last_turn.eq(turn), stays.eq(~boundary), count.eq(so_far + 1)]
        for c, queue in enumerate(queues):
            with m.If(moves & turn[c]):
                m.d.comb += queue.r_en.eq(at_end)
                m.d.sync += [cursor[c].eq(line + 1), begun[c].eq(~at_end)]
