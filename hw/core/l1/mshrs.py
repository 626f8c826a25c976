"""The lines that are being fetched: where each goes, and which of its bytes were stored meanwhile."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...hbm.vectors import encode, lowest
from .types import MSHR_BITS

__all__ = ["Mshrs", "Place"]


class Place(data.StructLayout):
    """A way; ``line``: the lowest line of its bank and set."""

    def __init__(self, geometry):
        super().__init__({"line": geometry.bank_bits + geometry.set_bits, "way": geometry.config.ways})


class Mshrs(wiring.Component):
    """Miss-status holding registers.

    Bytes that are stored while a line is fetched go straight into its way; here is which they are, so that
    the fill leaves them alone.

    Parameters
    ----------
    geometry : Geometry

    Members
    -------
    mshr : Out(MSHR_BITS): the next one, while ``room``; ``room_prefetch``: for a prefetch
    allocate : In(1), prefetch : In(1), place : In(Place): it is taken, by a prefetch, for this way
    store, store_mshr, store_mask : In: a store touches bytes of a line; wide, wide_mshr, wide_mask : In:
        a WRITE does (both also in the cycle of their allocation)
    fill : In(MSHR_BITS); fill_place : Out(Place), fill_mask : Out(64): of this one, in the same cycle
    release : In(1): ``fill`` is done
    busy : Out(mshrs); filled : Out(mshrs): a pulse in the cycle after release
    """

    def __init__(self, geometry):
        self.geometry = geometry
        count = geometry.config.mshrs
        super().__init__({
            "mshr": Out(MSHR_BITS), "room": Out(1), "room_prefetch": Out(1),
            "allocate": In(1), "prefetch": In(1), "place": In(Place(geometry)),
            "store": In(1), "store_mshr": In(MSHR_BITS), "store_mask": In(64),
            "wide": In(1), "wide_mshr": In(MSHR_BITS), "wide_mask": In(64),
            "fill": In(MSHR_BITS), "fill_place": Out(Place(geometry)), "fill_mask": Out(64),
            "release": In(1), "busy": Out(count), "filled": Out(count),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.geometry.config
        count = config.mshrs
        m.submodules.places = places = memory.Memory(shape=Place(self.geometry), depth=count, init=[])
        write, read = places.write_port(), places.read_port(domain="comb")

        prefetches = Signal(count)
        free = Signal(count)
        held = Signal(range(count + 1))  # by prefetches
        released = Signal(count)
        taken = Signal(count)
        m.d.comb += [
            free.eq(lowest(~self.busy)), self.mshr.eq(encode(free)), self.room.eq(free != 0),
            self.room_prefetch.eq(self.room & (held < config.prefetch_mshrs)),
            write.en.eq(self.allocate), write.addr.eq(self.mshr), write.data.eq(self.place),
            read.addr.eq(self.fill), self.fill_place.eq(read.data),
        ]
        with m.If(self.release):
            m.d.comb += released.eq(1 << self.fill)
        with m.If(self.allocate):
            m.d.comb += taken.eq(free)
        leaves = (released & prefetches) != 0
        m.d.sync += [
            self.busy.eq((self.busy | taken) & ~released), self.filled.eq(released),
            held.eq(held + (self.allocate & self.prefetch) - leaves),
        ]
        with m.If(self.allocate):
            m.d.sync += prefetches.eq(prefetches & ~free | self.prefetch.replicate(count) & free)

        masks = [Signal(64, name=f"stored{k}") for k in range(count)]
        with m.Switch(self.fill):
            for k in range(count):
                with m.Case(k):
                    m.d.comb += self.fill_mask.eq(masks[k])
        for k in range(count):
            by_store = self.store & (self.store_mshr == k)
            by_wide = self.wide & (self.wide_mshr == k)
            with m.If(taken[k] | by_store | by_wide):
                kept = masks[k] & ~taken[k].replicate(64)
                m.d.sync += masks[k].eq(kept | self.store_mask & by_store.replicate(64)
                                        | self.wide_mask & by_wide.replicate(64))
        return m
