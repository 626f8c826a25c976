"""Loads from dispatch to commit, and what those wait for that had no answer yet."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.vectors import encode

from ..address import ADDRESS_BITS
from ..types import OP_BITS, age_bits, younger
from .port import MSHR_BITS, dispatch_slot, mark
from .ring import index_bits, oldest, position_after, span, spot
from .store_queue import pc_hash

__all__ = ["LoadQueue", "Wait", "load_entry"]


class Wait(enum.Enum, shape=3):
    """What a load without an answer waits for."""

    TURN = 0     # nothing: the L1 could not take it or asked to try again
    ADDRESS = 1  # all older stores have an address
    DATA = 2     # a store's data is there
    DRAIN = 3    # a store is in memory
    FILL = 4     # the L1 has filled an MSHR
    DEVICE = 5   # it is the oldest instruction, and the device has answered


def load_entry(config):
    """What does not change of a load. ``position``: where its older stores end in the store queue."""
    return data.StructLayout({
        "op": OP_BITS, "tag": range(config.physical), "writes": 1, "age": age_bits(config), "stream": 16,
        "position": index_bits(config.stores) + 1})


def sleep(config):
    """A load in entry ``index`` goes to sleep; ``store``: position of the store it waits for."""
    return data.StructLayout({
        "valid": 1, "index": index_bits(config.loads), "wait": Wait, "store": index_bits(config.stores) + 1,
        "mshr": MSHR_BITS})


class LoadQueue(wiring.Component):
    """A ring of ``config.loads`` entries, from dispatch to commit, in program order.

    Of the loads whose wait is over, the oldest is proposed each cycle (``wake_valid``), and is then no longer
    asleep. Those that wait for their turn are proposed at most every second cycle, so that new loads find
    the port free.

    Members
    -------
    dispatch, dispatch_valid, positions : In: a group, and its positions in the store queue
    index : Out(array of indexes); room : Out(1)
    kill, flush, commit : In
    sleep : In(sleep)
    wake_valid : Out(1), wake_index : Out
    void : Out(one bit an entry): dropped in this cycle
    read_index : In; entry : Out(load_entry), address : Out(40): same cycle
    place_valid, place_index, place_address : In: an address to keep
    store_head, store_known, store_data : In: of the store queue
    filled : In(one bit an MSHR)
    head_index : Out, head_device : Out(1): the oldest waits for its device; head_entry, head_address : Out
    answered : In(1): the device has answered the oldest
    """

    def __init__(self, config):
        self.config = config
        n, store_bits = config.loads, index_bits(config.stores)
        bits = index_bits(n)
        super().__init__({
            "dispatch": In(data.ArrayLayout(dispatch_slot(config), config.width)), "dispatch_valid": In(1),
            "positions": In(data.ArrayLayout(store_bits + 1, config.width)),
            "index": Out(data.ArrayLayout(bits, config.width)), "room": Out(1),
            "kill": In(mark(config)), "flush": In(1), "commit": In(range(config.width + 1)),
            "sleep": In(sleep(config)), "wake_valid": Out(1), "wake_index": Out(bits), "void": Out(n),
            "read_index": In(bits), "entry": Out(load_entry(config)), "address": Out(ADDRESS_BITS),
            "place_valid": In(1), "place_index": In(bits), "place_address": In(ADDRESS_BITS),
            "store_head": In(store_bits + 1), "store_known": In(store_bits + 1),
            "store_data": In(config.stores), "filled": In(config.l1.mshrs),
            "head_index": Out(bits), "head_device": Out(1), "head_entry": Out(load_entry(config)),
            "head_address": Out(ADDRESS_BITS), "answered": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, n, width = self.config, self.config.loads, self.config.width
        bits = index_bits(n)
        head, tail = Signal(bits + 1, name="head"), Signal(bits + 1, name="tail")
        positions = [Signal.like(self.store_head, name=f"position{i}") for i in range(n)]
        stores = [Signal.like(self.store_head, name=f"store{i}") for i in range(n)]
        ages = [Signal(age_bits(config), name=f"age{i}") for i in range(n)]
        mshrs = [Signal.like(self.sleep.mshr, name=f"mshr{i}") for i in range(n)]
        turn, on_address, on_data, on_drain, on_fill, on_device, woken = (Signal(n, name=name) for name in (
            "turn", "on_address", "on_data", "on_drain", "on_fill", "on_device", "woken"))

        m.submodules.entries = entries = memory.Memory(shape=load_entry(config), depth=n, init=[])
        m.submodules.addresses = addresses = memory.Memory(shape=ADDRESS_BITS, depth=n, init=[])

        # -- dispatch
        accept, allocated = Signal(), Signal(n)
        m.d.comb += accept.eq(self.dispatch_valid & ~self.kill.valid & ~self.flush)
        position, spots = tail, []
        for k in range(width):
            slot = self.dispatch[k]
            taken = Signal(n, name=f"slot_spot{k}")
            port = entries.write_port()
            after = Signal(bits + 1, name=f"position_after{k}")
            m.d.comb += [
                self.index[k].eq(position[:bits]),
                taken.eq(Mux(accept & slot.load, spot(self.index[k], n), 0)),
                port.en.eq(accept & slot.load), port.addr.eq(self.index[k]),
                port.data.op.eq(slot.op), port.data.tag.eq(slot.tag), port.data.writes.eq(slot.writes),
                port.data.age.eq(slot.age), port.data.stream.eq(pc_hash(slot.pc)),
                port.data.position.eq(self.positions[k]), after.eq(position + slot.load),
            ]
            spots.append(taken)
            allocated = allocated | taken
            position = after
        for i in range(n):
            for k in range(width):
                with m.If(spots[k][i]):
                    m.d.sync += [ages[i].eq(self.dispatch[k].age), positions[i].eq(self.positions[k])]
        used = Signal(bits + 1)
        m.d.comb += [used.eq(tail - head), self.room.eq(used <= n - width)]

        # -- contents
        entry_read, head_read = entries.read_port(domain="comb"), entries.read_port(domain="comb")
        address_read, head_address = addresses.read_port(domain="comb"), addresses.read_port(domain="comb")
        address_write = addresses.write_port()
        m.d.comb += [
            entry_read.addr.eq(self.read_index), self.entry.eq(entry_read.data),
            address_read.addr.eq(self.read_index), self.address.eq(address_read.data),
            head_read.addr.eq(head), self.head_entry.eq(head_read.data),
            head_address.addr.eq(head), self.head_address.eq(head_address.data),
            address_write.en.eq(self.place_valid), address_write.addr.eq(self.place_index),
            address_write.data.eq(self.place_address),
        ]

        # -- what ends a wait
        live, killed = Signal(n), Signal(n)
        m.d.comb += [
            live.eq(span(head, tail, n)),
            killed.eq(Mux(self.kill.valid, live & Cat(younger(age, self.kill.age) for age in ages), 0)),
            self.void.eq(Mux(self.flush, ~0, killed)),
        ]
        known, addressed, gone, valued, filling = (Signal(n, name=name) for name in (
            "known", "addressed", "gone", "valued", "filling"))
        reach = Signal.like(self.store_head)
        m.d.comb += [
            # Distances from the store queue's head: a position alone does not tell one lap from the next.
            reach.eq(self.store_known - self.store_head),
            addressed.eq(Cat((p - self.store_head)[:len(reach)] <= reach for p in positions)),
            gone.eq(Cat((p - self.store_head)[len(reach) - 1] for p in stores)),
            valued.eq(Cat(self.store_data.bit_select(p[:-1], 1) for p in stores)),
            filling.eq(on_fill & Cat(self.filled.bit_select(mshr, 1) for mshr in mshrs)),
        ]
        answered, urgent, patient, ready, pick = (Signal(n, name=name) for name in (
            "answered", "urgent", "patient", "ready", "pick"))
        paused = Signal()
        m.d.comb += [
            answered.eq(Mux(self.answered, on_device & spot(head[:bits], n), 0)),
            urgent.eq((on_address & addressed) | (on_data & (gone | valued)) | (on_drain & gone)
                      | filling | woken),
            patient.eq(Mux(paused, 0, turn)),
            ready.eq((urgent | patient) & live & ~self.void),
            pick.eq(oldest(ready, head[:bits], n)),
            self.wake_valid.eq(ready != 0), self.wake_index.eq(encode(pick)),
        ]
        m.d.sync += paused.eq((pick & turn) != 0)

        # -- going to sleep
        slept = Signal(n)
        m.d.comb += slept.eq(Mux(self.sleep.valid, spot(self.sleep.index, n), 0))
        kept = ~allocated & ~pick
        for vector, wait in ((turn, Wait.TURN), (on_address, Wait.ADDRESS), (on_data, Wait.DATA),
                             (on_drain, Wait.DRAIN)):
            m.d.sync += vector.eq((vector & kept) | Mux(self.sleep.wait == wait, slept, 0))
        m.d.sync += [
            on_fill.eq((on_fill & kept & ~filling) | Mux(self.sleep.wait == Wait.FILL, slept, 0)),
            on_device.eq((on_device & kept & ~answered) | Mux(self.sleep.wait == Wait.DEVICE, slept, 0)),
            woken.eq((woken | filling | answered) & kept),
        ]
        for i in range(n):
            with m.If(slept[i]):
                m.d.sync += [stores[i].eq(self.sleep.store), mshrs[i].eq(self.sleep.mshr)]
        m.d.comb += [
            self.head_index.eq(head), self.head_device.eq((on_device & live & spot(head[:bits], n)) != 0)]

        # -- ends of the ring
        next_head = Signal(bits + 1)
        m.d.comb += next_head.eq(head + self.commit)
        m.d.sync += head.eq(next_head)
        with m.If(self.flush):
            m.d.sync += tail.eq(next_head)
        with m.Elif(killed != 0):
            m.d.sync += tail.eq(position_after(encode(oldest(killed, head[:bits], n)), head))
        with m.Elif(accept):
            m.d.sync += tail.eq(position)
        return m
