"""A small component on streams for the tests of the harness, with faults that are chosen while it runs."""

import numpy as np
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, enum, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from tb.build import Options, build


class Fault(enum.Enum, shape=4):
    """What the relay does wrong from now on."""

    NONE = 0
    DROP = 1       # loses the beat with a = 5
    WITHDRAW = 2   # takes valid back when it has to wait
    CHANGE = 3     # counts the payload up while it waits
    HANG = 4       # takes no input any more after the beat with a = 5
    REPEAT = 5     # gives every beat twice
    FLIP = 6       # inverts bit 3 of the result of the beat with a = 7
    PEEK = 7       # adds up payloads without looking at valid


class Relay(wiring.Component):
    """Adds the two halves of each beat and keeps a running number; four beats of storage.

    Members
    -------
    i : In(stream), array of 1
        a, b : 20 bits each.
    fault : In(stream)
        :class:`Fault`; takes effect at once.
    o : Out(stream)
        sum : 21 bits; number : 16 bits, of the beat since reset.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({"a": 20, "b": 20}))).array(1),
            "fault": In(stream.Signature(Fault)),
            "o": Out(stream.Signature(data.StructLayout({"sum": 21, "number": 16}))),
            "offset": In(unsigned(4)),
        })

    def elaborate(self, platform):
        m = Module()
        source = self.i[0]
        fault = Signal(Fault)
        number = Signal(16)
        peeked = Signal(20)
        stopped = Signal()
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=37, depth=4)

        m.d.comb += self.fault.ready.eq(1)
        with m.If(self.fault.valid):
            m.d.sync += fault.eq(self.fault.payload)

        m.d.comb += source.ready.eq(store.w_rdy & ~stopped)
        taken = source.valid & source.ready
        total = source.payload.a + source.payload.b + self.offset
        with m.If(fault == Fault.PEEK):
            m.d.sync += peeked.eq(peeked ^ source.payload.a)
        flip = (fault == Fault.FLIP) & (source.payload.a == 7)
        lost = (fault == Fault.DROP) & (source.payload.a == 5)
        m.d.comb += [
            store.w_data.eq(((total ^ (flip << 3) ^ peeked)[:21]) | (number << 21)),
            store.w_en.eq(taken & ~lost),
        ]
        with m.If(taken):
            m.d.sync += number.eq(number + 1)
            with m.If((fault == Fault.HANG) & (source.payload.a == 5)):
                m.d.sync += stopped.eq(1)

        waited = Signal(8)
        second = Signal()
        with m.If(self.o.valid & ~self.o.ready):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        withdrawn = (fault == Fault.WITHDRAW) & (waited == 2)
        grown = (fault == Fault.CHANGE) & (waited > 2)
        repeated = fault == Fault.REPEAT
        m.d.comb += [
            self.o.valid.eq(store.r_rdy & ~withdrawn),
            self.o.payload.eq(store.r_data + grown),
            store.r_en.eq(self.o.ready & self.o.valid & (~repeated | second)),
        ]
        with m.If(self.o.ready & self.o.valid):
            m.d.sync += second.eq(~second)
        return m


def relay_bench(*, waves=False):
    """The bench of :class:`Relay`; one build a variant serves all tests."""
    # The register of the fault is what a report of a hang shall show.
    return build(Relay(), name="relay", options=Options(waves=waves, probes=("stopped", "store.level")))


def beats(count, seed=0):
    """``count`` input beats with a = 0, 1, 2..., random b: uint64 [count], and the expected sums."""
    a = np.arange(count, dtype=np.uint64)
    b = np.random.default_rng(seed).integers(0, 1 << 20, size=count, dtype=np.uint64)
    return a | (b << np.uint64(20)), a + b


def fault_beat(fault):
    """The beat that selects ``fault``."""
    return np.array([fault.value], dtype=np.uint32)


def sums(result):
    """Sums and numbers in the output of a run."""
    words = result.outputs["o"].view("<u8").reshape(-1)
    return words & np.uint64((1 << 21) - 1), words >> np.uint64(21)
