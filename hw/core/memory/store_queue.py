"""Stores from dispatch until they are in memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.vectors import encode

from ..address import ADDRESS_BITS
from ..types import age_bits, younger
from .access import lanes, repeat
from .port import StoreRequest, dispatch_slot, issue_data, mark
from .ring import index_bits, newest, oldest, position_after, span, spot

__all__ = ["StoreQueue", "pc_hash"]


def pc_hash(pc):
    """16 bits by which the L1's prefetcher tells instructions apart."""
    return (pc[2:18] ^ pc[18:34])[:16]


def found_store(config):
    """What a load's search found: ``unknown``: an older store has no address yet; ``where``: the youngest of
    the older stores that overlaps, one-hot; ``covers``: it has all bytes; ``known``: its data is there."""
    return data.StructLayout({"unknown": 1, "where": config.stores, "covers": 1, "known": 1})


class StoreQueue(wiring.Component):
    """A ring of ``config.stores`` entries, from dispatch, in program order, until the store is in memory.

    Positions (ring.py): ``head`` is the oldest entry, from ``committed`` on nothing is committed. Address and
    data come in any order; when both are there the store is done, one a cycle, the oldest first. An address
    that cannot be stored to makes it a fault instead. Committed stores leave in order.

    Members
    -------
    dispatch, dispatch_valid : In: a group
    index : Out(array of indexes), position : Out(array of positions): where a store in each slot goes; a
        load's older stores end before ``position``
    room : Out(1): a group of stores fits
    place_valid, place_index, place_address, place_fault, place_device : In: an address, 64 bits, checked
    value : In(issue_data)
    size : Out(2): of the store in ``place_index``
    kill, flush, commit : In
    done : Out(mark); done_faulty : Out(1): it is a fault; done_taken : In(1)
    done_address : Out(64), done_data : Out(64): doubleword, done_size : Out(2)
    search_position, search_line, search_mask : In; found : Out: of a load, same cycle
    read_index : In; read_data : Out(64): a store's doubleword, same cycle
    head, known : Out(position): ``known``: stores before it have addresses (one cycle late)
    has_data : Out(one bit an entry)
    first_valid, first : Out: the oldest committed store; first_device, first_size : Out; first_taken : In(1)
    pending : Out(1): there are committed stores
    """

    def __init__(self, config):
        self.config = config
        n = config.stores
        bits = index_bits(n)
        slots = data.ArrayLayout(dispatch_slot(config), config.width)
        super().__init__({
            "dispatch": In(slots), "dispatch_valid": In(1),
            "index": Out(data.ArrayLayout(bits, config.width)),
            "position": Out(data.ArrayLayout(bits + 1, config.width)), "room": Out(1),
            "place_valid": In(1), "place_index": In(bits), "place_address": In(64), "place_fault": In(1),
            "place_device": In(1), "size": Out(2), "value": In(issue_data(config)),
            "kill": In(mark(config)), "flush": In(1), "commit": In(range(config.width + 1)),
            "done": Out(mark(config)), "done_faulty": Out(1), "done_taken": In(1), "done_address": Out(64),
            "done_data": Out(64), "done_size": Out(2),
            "search_position": In(bits + 1), "search_line": In(ADDRESS_BITS - 3), "search_mask": In(8),
            "found": Out(found_store(config)), "read_index": In(bits), "read_data": Out(64),
            "head": Out(bits + 1), "known": Out(bits + 1), "has_data": Out(n),
            "first_valid": Out(1), "first": Out(StoreRequest), "first_device": Out(1), "first_size": Out(2),
            "first_taken": In(1), "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, n = self.config, self.config.stores
        bits, width = index_bits(n), config.width
        head, committed, tail = (Signal(bits + 1, name=name) for name in ("head", "committed", "tail"))
        ages = [Signal(age_bits(config), name=f"age{i}") for i in range(n)]
        lines = [Signal(ADDRESS_BITS - 3, name=f"line{i}") for i in range(n)]
        masks = [Signal(8, name=f"mask{i}") for i in range(n)]
        has_address, has_data, faulty, device, told = (Signal(n, name=name) for name in (
            "has_address", "has_data", "faulty", "device", "told"))

        kept = data.StructLayout({"size": 2, "stream": 16, "age": age_bits(config)})
        m.submodules.kept = table = memory.Memory(shape=kept, depth=n, init=[])
        m.submodules.addresses = addresses = memory.Memory(shape=64, depth=n, init=[])
        m.submodules.values = values = memory.Memory(shape=64, depth=n, init=[])
        kept_of_place, kept_of_value, kept_of_done, kept_of_first = (
            table.read_port(domain="comb") for _ in range(4))
        address_of_done, address_of_first = (addresses.read_port(domain="comb") for _ in range(2))
        value_of_done, value_of_first, value_of_read = (values.read_port(domain="comb") for _ in range(3))

        # -- dispatch
        accept = Signal()
        m.d.comb += accept.eq(self.dispatch_valid & ~self.kill.valid & ~self.flush)
        allocated = Signal(n)
        position, spots = tail, []
        for k in range(width):
            slot = self.dispatch[k]
            m.d.comb += [self.index[k].eq(position[:bits]), self.position[k].eq(position)]
            taken = Signal(n, name=f"slot_spot{k}")
            m.d.comb += taken.eq(Mux(accept & slot.store, spot(self.index[k], n), 0))
            spots.append(taken)
            port = table.write_port()
            m.d.comb += [
                port.en.eq(accept & slot.store), port.addr.eq(self.index[k]), port.data.size.eq(slot.op),
                port.data.stream.eq(pc_hash(slot.pc)), port.data.age.eq(slot.age)]
            after = Signal(bits + 1, name=f"position_after{k}")
            m.d.comb += after.eq(position + slot.store)
            position = after
        for taken in spots:
            allocated = allocated | taken
        for i in range(n):
            for k in range(width):
                with m.If(spots[k][i]):
                    m.d.sync += ages[i].eq(self.dispatch[k].age)
        used = Signal(bits + 1)
        m.d.comb += [used.eq(tail - head), self.room.eq(used <= n - width)]

        # -- address and data
        placed, valued = Signal(n), Signal(n)
        address = self.place_address
        m.d.comb += [
            kept_of_place.addr.eq(self.place_index), self.size.eq(kept_of_place.data.size),
            kept_of_value.addr.eq(self.value.index),
            placed.eq(Mux(self.place_valid, spot(self.place_index, n), 0)),
            valued.eq(Mux(self.value.valid, spot(self.value.index, n), 0)),
        ]
        address_write, value_write = addresses.write_port(), values.write_port()
        m.d.comb += [
            address_write.en.eq(self.place_valid), address_write.addr.eq(self.place_index),
            address_write.data.eq(address),
            value_write.en.eq(self.value.valid), value_write.addr.eq(self.value.index),
            value_write.data.eq(repeat(self.value.value, kept_of_value.data.size)),
        ]
        mask = Signal(8)
        # A store that cannot be done overlaps nothing.
        m.d.comb += mask.eq(Mux(self.place_fault, 0, lanes(address[:3], self.size)))
        for i in range(n):
            with m.If(placed[i]):
                m.d.sync += [lines[i].eq(address[3:ADDRESS_BITS]), masks[i].eq(mask)]
        m.d.sync += [
            has_address.eq((has_address | placed) & ~allocated),
            has_data.eq((has_data | valued) & ~allocated),
            faulty.eq((faulty & ~placed) | Mux(self.place_fault, placed, 0)),
            device.eq((device & ~placed) | Mux(self.place_device, placed, 0)),
        ]
        m.d.comb += self.has_data.eq(has_data)

        # -- done
        in_flight, killed, ready, pick = (Signal(n, name=name) for name in (
            "in_flight", "killed", "ready", "pick"))
        done_index = Signal(bits)
        m.d.comb += [
            in_flight.eq(span(committed, tail, n)),
            killed.eq(Mux(self.kill.valid, in_flight & Cat(younger(age, self.kill.age) for age in ages), 0)),
            ready.eq(has_address & (has_data | faulty) & ~told & in_flight & ~killed),
            pick.eq(oldest(ready, head[:bits], n)), done_index.eq(encode(pick)),
            kept_of_done.addr.eq(done_index), address_of_done.addr.eq(done_index),
            value_of_done.addr.eq(done_index),
            self.done.valid.eq((ready != 0) & ~self.flush), self.done.age.eq(kept_of_done.data.age),
            self.done_faulty.eq((faulty & pick) != 0), self.done_address.eq(address_of_done.data),
            self.done_data.eq(value_of_done.data), self.done_size.eq(kept_of_done.data.size),
        ]
        m.d.sync += told.eq((told | Mux(self.done_taken, pick, 0)) & ~allocated)

        # -- search
        older, hits = Signal(n), Signal(n)
        where = self.found.where
        m.d.comb += [
            older.eq(span(head, self.search_position, n)),
            hits.eq(older & has_address & Cat(
                (line == self.search_line) & ((own & self.search_mask) != 0)
                for line, own in zip(lines, masks))),
            where.eq(newest(hits, self.search_position[:-1], n)),
            self.found.unknown.eq((older & ~has_address) != 0),
            self.found.covers.eq((where & Cat((self.search_mask & ~own) == 0 for own in masks)) != 0),
            self.found.known.eq((where & has_data) != 0),
            value_of_read.addr.eq(self.read_index), self.read_data.eq(value_of_read.data),
        ]
        unknown, known = Signal(n), Signal(bits + 1)
        m.d.comb += unknown.eq(span(head, tail, n) & ~has_address)
        m.d.sync += known.eq(Mux(
            unknown != 0, position_after(encode(oldest(unknown, head[:bits], n)), head), tail))
        m.d.comb += [self.known.eq(known), self.head.eq(head)]

        # -- towards memory
        first_size = kept_of_first.data.size
        m.d.comb += [
            kept_of_first.addr.eq(head), address_of_first.addr.eq(head), value_of_first.addr.eq(head),
            self.pending.eq(head != committed), self.first_valid.eq(self.pending),
            self.first.address.eq(address_of_first.data), self.first.data.eq(value_of_first.data),
            self.first.mask.eq(lanes(address_of_first.data[:3], first_size)),
            self.first.stream.eq(kept_of_first.data.stream),
            self.first_size.eq(first_size), self.first_device.eq(device.bit_select(head[:bits], 1)),
        ]

        # -- ends of the ring
        next_committed = Signal(bits + 1)
        m.d.comb += next_committed.eq(committed + self.commit)
        m.d.sync += [head.eq(head + self.first_taken), committed.eq(next_committed)]
        with m.If(self.flush):
            m.d.sync += tail.eq(next_committed)
        with m.Elif(killed != 0):
            m.d.sync += tail.eq(position_after(encode(oldest(killed, head[:bits], n)), head))
        with m.Elif(accept):
            m.d.sync += tail.eq(position)
        return m
