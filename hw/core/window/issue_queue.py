"""An issue queue: instructions wait for their operands, and the oldest that is ready is taken."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...hbm.vectors import encode, lowest, select
from ..rename.count import ones
from ..types import younger
from .types import Layouts

__all__ = ["IssueQueue"]


class IssueQueue(wiring.Component):
    """Entries with two sources each; one leaves a cycle.

    Parameters
    ----------
    config : CoreConfig
    wakes : int
        Registers that can become ready in a cycle.

    Members
    -------
    i : In(array of entry)
        Written at the edge; only while ``room``.
    room : Out(1)
        A whole group fits.
    level : Out
        Entries taken.
    wake : In(array of wake)
        A source woken in this cycle counts from the next one on (also in an entry written at this edge only
        if that says so itself).
    o : Out(issued)
        The oldest instruction whose sources are ready, while ``go``. It has left after the edge.
    go : In(1)
    blocked : In(1)
        Entries marked ``gated`` are not taken.
    kill, flush : In
        Void instructions are not offered, and have left after the edge.
    """

    def __init__(self, config, *, wakes):
        self.config = config
        self.wakes = wakes
        self.layouts = layouts = Layouts(config)
        super().__init__({
            "i": In(layouts.entry).array(config.width), "room": Out(1),
            "level": Out(range(config.queue + 1)), "wake": In(layouts.wake).array(wakes),
            "o": Out(layouts.issued), "go": In(1), "blocked": In(1), "kill": In(layouts.kill), "flush": In(1),
        })

    @property
    def module_name(self):
        c = self.config
        return f"issue_queue_{c.width}_{c.queue}_{self.wakes}_{self.layouts.operation.size}"

    def elaborate(self, platform):
        m = Module()
        config, layouts, count = self.config, self.layouts, self.config.queue
        m.submodules.operations = operations = Memory(shape=layouts.operation, depth=count, init=[])
        read = operations.read_port(domain="comb")

        taken = Signal(count)
        gated = Signal(count)
        ready1, ready2 = Signal(count), Signal(count)
        tags1 = [Signal(layouts.tag, name=f"rs1_{e}") for e in range(count)]
        tags2 = [Signal(layouts.tag, name=f"rs2_{e}") for e in range(count)]
        ages = [Signal(layouts.age, name=f"age_{e}") for e in range(count)]
        # older[e]: the entries that were there before e.
        older = [Signal(count, name=f"older_{e}") for e in range(count)]

        void = Signal(count)
        able = Signal(count)
        for e in range(count):
            m.d.comb += void[e].eq(self.kill.valid & younger(ages[e], self.kill.age))
        m.d.comb += able.eq(taken & ready1 & ready2 & ~void
                            & ~(gated & self.blocked.replicate(count)))
        chosen = Signal(count)
        for e in range(count):
            m.d.comb += chosen[e].eq(able[e] & ((older[e] & able) == 0))
        place = Signal(range(count))
        m.d.comb += [
            place.eq(encode(chosen)),
            read.addr.eq(place),
            self.o.valid.eq((chosen != 0) & self.go & ~self.flush),
            self.o.operation.eq(read.data),
            self.level.eq(ones(taken)),
            self.room.eq(ones(taken) <= count - config.width),
        ]
        for tags, out in ((tags1, self.o.rs1), (tags2, self.o.rs2)):
            m.d.comb += out.eq(select(chosen, tags))

        for e in range(count):
            for ready, tags in ((ready1, tags1), (ready2, tags2)):
                woken = 0
                for wake in self.wake:
                    woken = woken | (wake.valid & (wake.tag == tags[e]))
                with m.If(woken):
                    m.d.sync += ready[e].eq(1)

        leaves = Signal(count)
        m.d.comb += leaves.eq(Mux(self.go, chosen, 0))

        # Room for a group: the lowest free entries, one after the other.
        free = ~taken
        written = 0
        entered = []
        for i, entry in enumerate(self.i):
            here = Signal(count, name=f"place{i}")
            m.d.comb += here.eq(Mux(entry.valid, lowest(free), 0))
            write = operations.write_port()
            m.d.comb += [write.addr.eq(encode(here)), write.data.eq(entry.operation),
                         write.en.eq(entry.valid)]
            for e in range(count):
                with m.If(here[e]):
                    m.d.sync += [
                        tags1[e].eq(entry.rs1.tag), ready1[e].eq(entry.rs1.ready),
                        tags2[e].eq(entry.rs2.tag), ready2[e].eq(entry.rs2.ready),
                        ages[e].eq(entry.operation.age), gated[e].eq(entry.gated),
                        older[e].eq(taken & ~void & ~leaves | written),
                    ]
            entered.append(here)
            written = written | here
            free = free & ~here
        m.d.sync += taken.eq(Mux(self.flush, 0, taken & ~void & ~leaves | written))
        for e in range(count):
            # A place that is written anew is older than nothing that was there.
            with m.If(~Cat(here[e] for here in entered).any()):
                m.d.sync += older[e].eq(older[e] & ~void & ~leaves)
        return m
