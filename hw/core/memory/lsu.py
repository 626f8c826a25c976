"""The load-store unit: queues, the load pipeline, devices."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.vectors import encode

from ..address import ADDRESS_BITS, RAM
from ..types import Cause, younger
from .access import extend, lanes, place, size_mask, to_bit_zero
from .device import DeviceAccess
from .load_queue import LoadQueue, Wait, load_entry
from .port import (
    LoadAnswer,
    LoadRequest,
    MmioRequest,
    MmioResponse,
    StoreRequest,
    dispatch_slot,
    fault_report,
    issue,
    issue_data,
    load_result,
    mark,
    trace_access,
)
from .ring import index_bits, position_before
from .store_queue import StoreQueue, found_store

__all__ = ["LoadStoreUnit"]


class LoadStoreUnit(wiring.Component):
    """Loads and stores from dispatch to commit and, for stores, to memory.

    A load takes two cycles: in X its address is found, the L1 read and the older stores searched; in M it
    has its value, from the youngest older store that overlaps if that has all its bytes, else from the L1.
    A load never passes a store without address. Without an answer it goes to sleep in the load queue, and
    comes again through X when what it waits for has happened; these have priority over new loads. One load a
    cycle; 3 cycles from one X to the next of the same load.

    A store is done when its address and its data are there: one cycle after the later one, one a cycle.
    Committed stores leave in order, one a cycle to the L1. Accesses to devices wait until the L1 has done
    all stores before; loads from devices also until they are the oldest instruction.

    Loads of one address are not kept in order against writes by others than this core: a FENCE does that.

    Parameters
    ----------
    config : CoreConfig
    ram_bytes : int
        Bytes of RAM; a multiple of 8.

    Members
    -------
    dispatch : In(array(width) of dispatch_slot), dispatch_valid : In(1)
        In program order. Void in a cycle of a kill or flush.
    load_index, store_index : Out(array(width) of indexes)
        The entry that each slot gets, from the slots before it, in the same cycle.
    room : Out(1)
        A group of ``width`` loads and ``width`` stores fits, whatever happens in this cycle.
    issue_load : In(issue), load_ready : Out(1)
        A load in X. ``load_ready``, early in a cycle, allows one in the next.
    issue_address : In(issue), issue_data : In(issue_data)
        A store's address and data in X, in any order.
    loaded : Out(load_result), store_done : Out(mark), fault : Out(fault_report)
        A load's value in M; a store is done; a load or store cannot be done.
    kill : In(mark), flush : In(1)
        What is strictly younger than kill.age, or not committed, vanishes; from this cycle on nothing is
        answered for it.
    head_valid : In(1), head_age : In(age)
        The oldest instruction that is not committed.
    commit_loads, commit_stores : In(range(width + 1))
        The oldest so many are committed; with a flush in the same cycle they stay.
    device_load : Out(1)
        The oldest instruction reads a device: no interrupt may be taken in this cycle.
    idle : Out(1)
        All committed stores are in memory.
    forwarded : Out(1)
        A load has its value from a store in the queue.
    l1_load, l1_load_ready, l1_loaded, l1_filled, l1_store, l1_store_idle
        The L1's ports (port.py).
    mmio_request : Out(stream of MmioRequest), mmio_response : In(stream of MmioResponse)
    trace_load, trace_store : Out(trace_access)
        With ``loaded`` and ``store_done``.
    """

    def __init__(self, config, *, ram_bytes):
        if not isinstance(ram_bytes, int) or ram_bytes % 8 or not 8 <= ram_bytes <= (1 << ADDRESS_BITS) - RAM:
            raise ValueError(f"ram_bytes = {ram_bytes!r}: must be a multiple of 8 that fits in "
                             f"{ADDRESS_BITS} address bits above {RAM:#x}")
        self.config, self.ram_bytes = config, ram_bytes
        width = config.width
        super().__init__({
            "dispatch": In(data.ArrayLayout(dispatch_slot(config), width)), "dispatch_valid": In(1),
            "load_index": Out(data.ArrayLayout(index_bits(config.loads), width)),
            "store_index": Out(data.ArrayLayout(index_bits(config.stores), width)), "room": Out(1),
            "issue_load": In(issue(config.loads)), "load_ready": Out(1),
            "issue_address": In(issue(config.stores)), "issue_data": In(issue_data(config)),
            "loaded": Out(load_result(config)), "store_done": Out(mark(config)),
            "fault": Out(fault_report(config)),
            "kill": In(mark(config)), "flush": In(1),
            "head_valid": In(1), "head_age": In(mark(config)["age"].shape),
            "commit_loads": In(range(width + 1)), "commit_stores": In(range(width + 1)),
            "device_load": Out(1), "idle": Out(1), "forwarded": Out(1),
            "l1_load": Out(LoadRequest), "l1_load_ready": In(1), "l1_loaded": In(LoadAnswer),
            "l1_filled": In(config.l1.mshrs), "l1_store": Out(stream.Signature(StoreRequest)),
            "l1_store_idle": In(1),
            "mmio_request": Out(stream.Signature(MmioRequest)),
            "mmio_response": In(stream.Signature(MmioResponse)),
            "trace_load": Out(trace_access(config)), "trace_store": Out(trace_access(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.loads = loads = LoadQueue(config)
        m.submodules.stores = stores = StoreQueue(config)
        m.submodules.device = device = DeviceAccess()

        for queue in (loads, stores):
            m.d.comb += [
                queue.dispatch.eq(self.dispatch), queue.dispatch_valid.eq(self.dispatch_valid),
                queue.kill.eq(self.kill), queue.flush.eq(self.flush)]
        m.d.comb += [
            self.load_index.eq(loads.index), self.store_index.eq(stores.index),
            self.room.eq(loads.room & stores.room), loads.positions.eq(stores.position),
            loads.commit.eq(self.commit_loads), stores.commit.eq(self.commit_stores),
            loads.store_head.eq(stores.head), loads.store_known.eq(stores.known),
            loads.store_data.eq(stores.has_data), loads.filled.eq(self.l1_filled),
        ]
        self._load_pipeline(m, loads, stores, device)
        self._stores(m, stores)
        self._towards_memory(m, loads, stores, device)
        return m

    def _load_pipeline(self, m, loads, stores, device):
        config = self.config
        # -- the cycle before X: a load that comes again, or room for a new one
        again, again_index = Signal(), Signal.like(loads.wake_index)
        m.d.comb += self.load_ready.eq(~loads.wake_valid)
        m.d.sync += [again.eq(loads.wake_valid), again_index.eq(loads.wake_index)]

        # -- X
        x_valid, x_index, x_address = Signal(), Signal.like(loads.wake_index), Signal(64)
        x_new, x_answered, x_map = Signal(), Signal(), Signal(data.StructLayout(
            {"misaligned": 1, "ram": 1, "device": 1}))
        entry, size = loads.entry, loads.entry.op[:2]
        new_address = (self.issue_load.a + self.issue_load.immediate)[:64]
        m.d.comb += [
            x_new.eq(~again), x_index.eq(Mux(again, again_index, self.issue_load.index)),
            x_valid.eq((again | self.issue_load.valid) & ~loads.void.bit_select(x_index, 1)),
            loads.read_index.eq(x_index), x_address.eq(Mux(again, loads.address, new_address)),
            loads.place_valid.eq(self.issue_load.valid & x_new), loads.place_index.eq(x_index),
            loads.place_address.eq(x_address),
            *[x_map[name].eq(value) for name, value in place(x_address, size, self.ram_bytes).items()],
            x_answered.eq(device.holds & x_map.device & (x_index == loads.head_index)),
            self.l1_load.valid.eq(x_valid & x_map.ram), self.l1_load.address.eq(x_address),
            self.l1_load.stream.eq(entry.stream),
            stores.search_position.eq(entry.position), stores.search_line.eq(x_address[3:ADDRESS_BITS]),
            stores.search_mask.eq(lanes(x_address[:3], size)),
        ]

        # -- M
        m_valid, m_index, m_address = Signal(), Signal.like(x_index), Signal(64)
        m_map, m_entry = Signal.like(x_map), Signal(load_entry(config))
        m_found, m_taken, m_answered = Signal(found_store(config)), Signal(), Signal()
        m_filled = Signal.like(self.l1_filled)
        m.d.sync += [
            m_valid.eq(x_valid), m_index.eq(x_index), m_address.eq(x_address), m_map.eq(x_map),
            m_entry.eq(entry), m_found.eq(stores.found), m_taken.eq(self.l1_load_ready),
            m_answered.eq(x_answered), m_filled.eq(self.l1_filled),
        ]
        live, done, failed, asleep = Signal(), Signal(), Signal(), Signal()
        doubleword, cause, wait = Signal(64), Signal(Cause), Signal(Wait)
        where = Signal.like(stores.read_index)
        answer = self.l1_loaded
        just_filled = (self.l1_filled | m_filled).bit_select(answer.mshr, 1)
        m.d.comb += [
            live.eq(m_valid & ~self.flush & ~(self.kill.valid & younger(m_entry.age, self.kill.age))),
            where.eq(encode(m_found.where)), stores.read_index.eq(where), doubleword.eq(answer.data),
            cause.eq(Cause.LOAD_FAULT), asleep.eq(live & ~done & ~failed), wait.eq(Wait.TURN),
        ]
        with m.If(m_map.misaligned):
            m.d.comb += [failed.eq(live), cause.eq(Cause.MISALIGNED_LOAD)]
        with m.Elif(m_answered):
            m.d.comb += [doubleword.eq(device.value), done.eq(live & ~device.fault),
                         failed.eq(live & device.fault)]
        with m.Elif(m_map.device):
            m.d.comb += wait.eq(Wait.DEVICE)
        with m.Elif(~m_map.ram):
            m.d.comb += failed.eq(live)
        with m.Elif(m_found.unknown):
            m.d.comb += wait.eq(Wait.ADDRESS)
        with m.Elif(m_found.where != 0):
            m.d.comb += [self.forwarded.eq(done),
                         doubleword.eq(stores.read_data), done.eq(live & m_found.covers & m_found.known),
                         wait.eq(Mux(m_found.covers, Wait.DATA, Wait.DRAIN))]
        with m.Elif(m_taken):
            m.d.comb += [done.eq(live & answer.hit), failed.eq(live & answer.fault)]
            with m.If(answer.miss & ~just_filled):
                m.d.comb += wait.eq(Wait.FILL)

        raw = Signal(64)
        m.d.comb += [
            raw.eq(to_bit_zero(doubleword, m_address[:3])),
            loads.sleep.valid.eq(asleep), loads.sleep.index.eq(m_index), loads.sleep.wait.eq(wait),
            loads.sleep.store.eq(position_before(where, m_entry.position)),
            loads.sleep.mshr.eq(answer.mshr),
            self.loaded.valid.eq(done), self.loaded.tag.eq(m_entry.tag),
            self.loaded.writes.eq(m_entry.writes), self.loaded.age.eq(m_entry.age),
            self.loaded.value.eq(extend(raw, m_entry.op)),
        ]
        self._trace(m, self.trace_load, done, m_entry.age, m_address, m_entry.op[:2], raw)
        # A store's fault waits: it is kept in the store queue.
        m.d.comb += [
            self.fault.valid.eq(failed | (stores.done.valid & stores.done_faulty)),
            self.fault.age.eq(Mux(failed, m_entry.age, stores.done.age)),
            self.fault.tval.eq(Mux(failed, m_address, stores.done_address)),
            self.fault.cause.eq(Mux(failed, cause, self._store_cause(stores))),
            stores.done_taken.eq(stores.done.valid & ~(stores.done_faulty & failed)),
        ]

    def _store_cause(self, stores):
        found = place(stores.done_address, stores.done_size, self.ram_bytes)
        return Mux(found["misaligned"], Cause.MISALIGNED_STORE.value, Cause.STORE_FAULT.value)

    def _stores(self, m, stores):
        address = Signal(64)
        found = place(address, stores.size, self.ram_bytes)
        raw = to_bit_zero(stores.done_data, stores.done_address[:3])
        m.d.comb += [
            address.eq(self.issue_address.a + self.issue_address.immediate),
            stores.place_valid.eq(self.issue_address.valid), stores.place_index.eq(self.issue_address.index),
            stores.place_address.eq(address), stores.place_device.eq(found["device"]),
            stores.place_fault.eq(~(found["device"] | found["ram"])), stores.value.eq(self.issue_data),
            self.store_done.valid.eq(stores.done.valid & ~stores.done_faulty),
            self.store_done.age.eq(stores.done.age),
        ]
        self._trace(m, self.trace_store, self.store_done.valid, stores.done.age, stores.done_address,
                    stores.done_size, raw)

    def _towards_memory(self, m, loads, stores, device):
        first, load = stores.first, loads.head_entry
        m.d.comb += [
            self.l1_store.valid.eq(stores.first_valid & ~stores.first_device),
            self.l1_store.payload.eq(first),
            stores.first_taken.eq((self.l1_store.valid & self.l1_store.ready) | device.store_done),
            self.idle.eq(~stores.pending & self.l1_store_idle),
        ]
        # A device store stays the first until it is done: a load that is the oldest has none before it then.
        oldest = self.head_valid & (load.age == self.head_age) & (stores.head == load.position)
        is_store = stores.first_valid & stores.first_device
        m.d.comb += [
            device.store_valid.eq(is_store & self.l1_store_idle),
            device.load_valid.eq(loads.head_device & oldest & self.l1_store_idle & ~self.flush & ~is_store),
            device.forget.eq(self.commit_loads != 0), device.abandon.eq(self.flush),
            loads.answered.eq(device.answered), self.device_load.eq(device.loading),
        ]
        with m.If(is_store):
            m.d.comb += [
                device.access.address.eq(first.address), device.access.size.eq(stores.first_size),
                device.access.data.eq(first.data), device.access.mask.eq(first.mask)]
        with m.Else():
            m.d.comb += [
                device.access.address.eq(loads.head_address), device.access.size.eq(load.op),
                device.access.mask.eq(lanes(loads.head_address[:3], load.op[:2]))]
        m.d.comb += [
            self.mmio_request.payload.eq(device.request.payload),
            self.mmio_request.valid.eq(device.request.valid),
            device.request.ready.eq(self.mmio_request.ready),
            device.response.payload.eq(self.mmio_response.payload),
            device.response.valid.eq(self.mmio_response.valid),
            self.mmio_response.ready.eq(device.response.ready),
        ]

    def _trace(self, m, port, valid, age, address, size, raw):
        bits = Signal(64, name=f"{port.as_value().name}_bits")
        m.d.comb += [
            bits.eq(Mux(size[1], Mux(size[0], ~0, 0xFFFF_FFFF), Mux(size[0], 0xFFFF, 0xFF))),
            port.valid.eq(valid), port.age.eq(age), port.address.eq(address),
            port.mask.eq(size_mask(size)), port.data.eq(raw & bits),
        ]
