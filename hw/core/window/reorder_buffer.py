"""The reorder buffer: all instructions in flight, in program order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..rename.count import ones
from ..types import Unit, younger
from .types import Layouts

__all__ = ["OldestFault", "ReorderBuffer"]


class ReorderBuffer(wiring.Component):
    """Instructions enter at ``tail`` and leave at the head, up to ``width`` a cycle.

    Parameters
    ----------
    config : CoreConfig
    finishers : int
        Instructions that can become done in a cycle.
    readers : int
        Lanes that read the address of an instruction.

    Members
    -------
    i : In(array of renamed): valid slots enter at the edge; only while ``room``
    room : Out(1), tail : Out(age)
    done : In(array of done)
    heads : Out(array of head): the oldest instructions
    retire : In: as many of them leave at the edge
    kill, flush : In: instructions younger than an age, or all, have left after the edge
    ages : In(array of age), pcs : Out(array of 64): addresses of instructions in flight
    """

    def __init__(self, config, *, finishers, readers):
        self.config = config
        layouts = Layouts(config)
        super().__init__({
            "i": In(layouts.renamed).array(config.width), "room": Out(1), "tail": Out(layouts.age),
            "done": In(layouts.done).array(finishers), "heads": Out(layouts.head).array(config.width),
            "retire": In(range(config.width + 1)), "kill": In(layouts.kill), "flush": In(1),
            "ages": In(layouts.age).array(readers), "pcs": Out(64).array(readers),
        })

    def elaborate(self, platform):
        m = Module()
        config, count = self.config, self.config.reorder_buffer
        layouts = Layouts(config)
        index = layouts.age - 1
        m.submodules.entries = entries = Memory(shape=layouts.instruction, depth=count, init=[])
        m.submodules.pcs = pcs = Memory(shape=64, depth=count, init=[])
        head, tail = Signal(layouts.age), Signal(layouts.age)
        done = Signal(count)
        used = Signal(layouts.age)
        m.d.comb += [used.eq(tail - head), self.tail.eq(tail), self.room.eq(used <= count - config.width)]

        def at(valid, age):
            return (valid << age[:index])[:count]

        entered, finished = 0, 0
        for slot in self.i:
            decoded = slot.decoded
            write, pc_write = entries.write_port(), pcs.write_port()
            m.d.comb += [
                write.addr.eq(slot.age[:index]), write.en.eq(slot.valid),
                write.data.word.eq(decoded.word),
                write.data.rd.eq(decoded.rd), write.data.writes.eq(decoded.writes),
                write.data.tag.eq(slot.tag), write.data.load.eq(decoded.unit == Unit.LOAD),
                write.data.store.eq(decoded.unit == Unit.STORE),
                write.data.system.eq(decoded.unit == Unit.SYSTEM),
                pc_write.addr.eq(slot.age[:index]), pc_write.en.eq(slot.valid),
                pc_write.data.eq(decoded.pc),
            ]
            entered = entered | at(slot.valid, slot.age)
            finished = finished | at(slot.valid & (decoded.unit == Unit.NONE) & ~decoded.exception, slot.age)
        for event in self.done:
            finished = finished | at(event.valid, event.age)
        m.d.sync += done.eq(done & ~entered | finished)

        for i, out in enumerate(self.heads):
            age = Signal(layouts.age, name=f"age{i}")
            read, pc_read = entries.read_port(domain="comb"), pcs.read_port(domain="comb")
            m.d.comb += [
                age.eq(head + i), read.addr.eq(age[:index]), pc_read.addr.eq(age[:index]),
                out.pc.eq(pc_read.data),
                out.valid.eq(used > i), out.done.eq(done.bit_select(age[:index], 1)), out.age.eq(age),
                out.instruction.eq(read.data),
            ]
        for age, pc in zip(self.ages, self.pcs):
            read = pcs.read_port(domain="comb")
            m.d.comb += [read.addr.eq(age[:index]), pc.eq(read.data)]

        m.d.sync += head.eq(head + self.retire)
        with m.If(self.flush):
            m.d.sync += tail.eq(head)
        with m.Elif(self.kill.valid):
            m.d.sync += tail.eq(self.kill.age + 1)
        with m.Else():
            m.d.sync += tail.eq(tail + ones([slot.valid for slot in self.i]))
        return m


class OldestFault(wiring.Component):
    """Keeps the exception of the oldest instruction that has one.

    Members
    -------
    i : In(array of fault): in any order
    kill, flush : In
    o : Out(fault): registered
    """

    def __init__(self, config, *, sources):
        self.layouts = Layouts(config)
        super().__init__({
            "i": In(self.layouts.fault).array(sources), "kill": In(self.layouts.kill), "flush": In(1),
            "o": Out(self.layouts.fault),
        })

    def elaborate(self, platform):
        m = Module()
        kept = self.o
        for i, new in enumerate([self.o, *self.i]):
            alive = new.valid & ~(self.kill.valid & younger(new.age, self.kill.age)) & ~self.flush
            chosen = Signal(self.layouts.fault, name=f"chosen{i}")
            if i == 0:
                m.d.comb += [chosen.eq(new), chosen.valid.eq(alive)]
            else:
                takes = alive & (~kept.valid | younger(kept.age, new.age))
                m.d.comb += chosen.eq(Mux(takes, new, kept))
            kept = chosen
        m.d.sync += self.o.eq(kept)
        return m
