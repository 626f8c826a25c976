"""Free physical registers, in a ring."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .count import ones

__all__ = ["FreeList"]


class FreeList(wiring.Component):
    """Hands out registers at ``head`` and takes them back at ``committed``.

    The ring has exactly as many places as there are registers beside the 32 that hold architectural state.
    Places from ``committed`` to ``head`` were handed out to instructions that have not committed: their
    registers are still written there, so going back to an older head takes them all back. An instruction
    that commits leaves its place to the register that its rd had before.

    Parameters
    ----------
    width : int
        Registers taken, and given back, a cycle.
    physical : int
        32 and a power of two.

    Members
    -------
    takes : In(width)
        Slots that want a register. ``tags[i]`` is slot i's, ``heads[i]`` the head after slot i.
    advance : In(1)
        Slots get what they want at the edge; only with ``room``.
    room : Out(1)
        At least ``width`` registers are free.
    restore, restored : In(1), In(pointer)
        Back to an older head.
    flush : In(1)
        Back to the committed head. Before ``restore``.
    freed : In(array of Struct(valid, tag))
        Registers that committing instructions replace, in program order.
    """

    def __init__(self, *, width, physical):
        self.places = physical - 32
        if self.places < width or self.places & (self.places - 1):
            raise ValueError(f"physical = {physical}: must be 32 and a power of two of at least {width}")
        self.width = width
        self.physical = physical
        tag = self.tag = (physical - 1).bit_length()
        pointer = self.pointer = (self.places - 1).bit_length() + 1
        freed = data.StructLayout({"valid": 1, "tag": tag})
        super().__init__({
            "takes": In(width), "tags": Out(tag).array(width), "heads": Out(pointer).array(width),
            "advance": In(1), "room": Out(1), "restore": In(1), "restored": In(pointer), "flush": In(1),
            "freed": In(freed).array(width),
        })

    def elaborate(self, platform):
        m = Module()
        index = self.pointer - 1
        ring = Array(Signal(self.tag, init=32 + i, name=f"ring{i}") for i in range(self.places))
        head = Signal(self.pointer)
        committed = Signal(self.pointer)

        out = Signal(self.pointer)
        m.d.comb += [out.eq(head - committed), self.room.eq(out <= self.places - self.width)]
        for i in range(self.width):
            place = Signal(index, name=f"place{i}")
            m.d.comb += [
                place.eq(head + ones(self.takes[:i])),
                self.tags[i].eq(ring[place]),
                self.heads[i].eq(head + ones(self.takes[:i + 1])),
            ]

        with m.If(self.flush):
            m.d.sync += head.eq(committed)
        with m.Elif(self.restore):
            m.d.sync += head.eq(self.restored)
        with m.Elif(self.advance):
            m.d.sync += head.eq(self.heads[-1])

        valid = [freed.valid for freed in self.freed]
        for i in range(self.width):
            left = Signal(index, name=f"left{i}")
            m.d.comb += left.eq(committed + ones(valid[:i]))
            with m.If(valid[i]):
                m.d.sync += ring[left].eq(self.freed[i].tag)
        m.d.sync += committed.eq(committed + ones(valid))
        return m
