"""Data of writes that wait, and the merging of partial writes with what memory holds."""

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .ecc import BURST_WORDS, POISON, checks
from .vectors import encode, lowest

__all__ = ["WriteBuffer"]

BURST = 256
STORED = BURST + BURST_WORDS
"""A burst in the buffer: data, and a bit a word of 64 bits that is known to be bad."""


def _spread(mask):
    """A bit a byte to a bit a bit."""
    return Cat(mask[byte].replicate(8) for byte in range(len(mask)))


class WriteBuffer(wiring.Component):
    """A region of four lines for each entry of the write queue.

    Members
    -------
    slot : In(1)
    free : Out(1), region : Out(6): a region to give away, while ``take``; give : In(1), given : In(6): back
    accept : In(1), accept_region : In(6), accept_line : In(2), accept_data : In(512), accept_mask : In(64),
        accept_scrub : In(1): a line to store; not in a slot with ``busy``
    fetch_region : In(6), fetch_burst : In(3): a burst to write to the device in the next slot: wdata, wcheck
    merge_fetch : In(1), merge_region : In(6), merge_burst : In(3): a burst of memory arrives in the next slot
    read : In(256), corrected : In(4), bad : In(4): in the next slot: what arrived
    busy : Out(1): a burst is merged in this slot
    answer : Out(1), answer_id : Out(10), answer_bursts : Out(8), answer_drop : Out(1): to the write queue
    scrubbed : Out(1): a scrub found something to correct

    A partial burst of which a word could not be corrected keeps this word bad, unless all its bytes are
    written: it goes back to the device with two wrong check bits.
    """

    def __init__(self, *, entries):
        self.entries = entries
        super().__init__({
            "slot": In(1), "free": Out(1), "region": Out(6), "take": In(1), "give": In(1), "given": In(6),
            "accept": In(1), "accept_region": In(6), "accept_line": In(2), "accept_data": In(512),
            "accept_mask": In(64), "accept_scrub": In(1),
            "fetch_region": In(6), "fetch_burst": In(3), "wdata": Out(256), "wcheck": Out(32),
            "merge_fetch": In(1), "merge_region": In(6), "merge_burst": In(3), "read": In(256),
            "corrected": In(BURST_WORDS), "bad": In(BURST_WORDS), "busy": Out(1),
            "answer": Out(1), "answer_id": Out(10), "answer_bursts": Out(8), "answer_drop": Out(1),
            "scrubbed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        n = self.entries
        m.submodules.data = store = memory.Memory(shape=2 * STORED, depth=4 * n, init=[])
        m.submodules.masks = masks = memory.Memory(shape=64, depth=4 * n, init=[])
        write = store.write_port(granularity=STORED)
        fetch, old = store.read_port(), store.read_port()
        write_mask, mask = masks.write_port(), masks.read_port()

        # Regions.
        regions = Signal(n, init=(1 << n) - 1)
        index = Signal(n)
        m.d.comb += [index.eq(lowest(regions)), self.free.eq(regions != 0), self.region.eq(encode(index))]
        m.d.sync += regions.eq((regions & ~Mux(self.take, index, 0))
                               | Mux(self.give, (Const(1, 1) << self.given)[:n], 0))
        scrub = Signal(n)
        taken = Const(1, 1) << self.accept_region
        with m.If(self.accept):
            m.d.sync += scrub.eq(Mux(self.accept_scrub, scrub | taken, scrub & ~taken))

        # To the device.
        half = Signal()
        m.d.comb += [fetch.en.eq(self.slot), fetch.addr.eq(Cat(self.fetch_burst[1:], self.fetch_region))]
        m.d.sync += half.eq(self.fetch_burst[0])
        burst = Signal(STORED)
        m.d.comb += [burst.eq(Mux(half, fetch.data[STORED:], fetch.data[:STORED])),
                     self.wdata.eq(burst[:BURST]), self.wcheck.eq(Cat(
                         checks(burst[64 * word:64 * word + 64])
                         ^ Mux(burst[BURST + word], POISON, 0) for word in range(BURST_WORDS)))]

        # Merging: the burst of memory arrives, old data and mask are read; in the next slot they are one.
        merge, region, place = Signal(), Signal(6), Signal(3)
        m.d.sync += [merge.eq(self.merge_fetch), region.eq(self.merge_region), place.eq(self.merge_burst)]
        address = Cat(self.merge_burst[1:], self.merge_region)
        m.d.comb += [old.en.eq(self.slot), old.addr.eq(address), mask.en.eq(self.slot), mask.addr.eq(address)]
        bytes_written, ours, merged = Signal(32), Signal(BURST), Signal(STORED)
        every = _spread(bytes_written)
        still_bad = Cat(self.bad[word] & ~bytes_written[8 * word:8 * word + 8].all()
                        for word in range(BURST_WORDS))
        m.d.comb += [
            bytes_written.eq(Mux(place[0], mask.data[32:], mask.data[:32])),
            ours.eq(Mux(place[0], old.data[STORED:STORED + BURST], old.data[:BURST])),
            merged.eq(Cat((ours & every) | (self.read & ~every), still_bad)),
            self.busy.eq(merge), self.answer.eq(merge), self.answer_id.eq(region),
            self.answer_bursts.eq(Const(1, 1) << place),
            self.answer_drop.eq(scrub.bit_select(region, 1) & (self.corrected == 0)),
            self.scrubbed.eq(merge & scrub.bit_select(region, 1) & (self.corrected != 0)),
        ]
        m.d.comb += [write_mask.addr.eq(Cat(self.accept_line, self.accept_region)),
                     write_mask.data.eq(self.accept_mask), write_mask.en.eq(self.slot & self.accept)]
        with m.If(merge):
            m.d.comb += [write.addr.eq(Cat(place[1:], region)), write.data.eq(Cat(merged, merged)),
                         write.en.eq(Mux(self.slot, Mux(place[0], 0b10, 0b01), 0))]
        with m.Else():
            zero = Const(0, BURST_WORDS)
            m.d.comb += [write.addr.eq(Cat(self.accept_line, self.accept_region)),
                         write.data.eq(Cat(self.accept_data[:BURST], zero, self.accept_data[BURST:], zero)),
                         write.en.eq((self.slot & self.accept).replicate(2))]
        return EnableInserter(self.slot)(m)
