"""The rename stage: takes bundles from the front end apart and dispatches them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..types import Unit, bundle, younger
from ..window.types import Layouts
from .count import ones
from .free_list import FreeList
from .table import RenameTable

__all__ = ["Rename"]


class Rename(wiring.Component):
    """Gives registers, ages, checkpoints and lanes to up to ``width`` instructions a cycle.

    A bundle is dispatched at once, but for two cuts: behind a SYSTEM instruction, after which the stage
    waits until that has committed, and before a second branch, since a group saves one checkpoint.
    Combinational: a bundle is dispatched in the cycle in which it is offered, if there is room.

    Parameters
    ----------
    config : CoreConfig

    Members
    -------
    i : In(stream of bundle)
    o : Out(array of renamed)
        Valid slots are dispatched in this cycle. Slots that are not lie anywhere.
    room : In(1): every structure behind has room for a whole group
    tail : In(age): age of the next instruction
    ready : In(physical): registers whose value can be read if selected from the next cycle on
    levels : In(array): entries in the queues of the integer lanes
    kill, restore : In: void instructions younger than a branch; back to its checkpoint. Nothing is dispatched
    resolved : In(restore): a checkpoint is not needed any more
    flush : In(1): back to committed state; nothing is dispatched
    system_done : In(1): the SYSTEM instruction has committed
    commits : In(array of Struct(valid, rd, tag)): committing instructions that write a register
    lookup : In(checkpoint), branch : Out(branch): what was predicted for a branch
    stalls : Out(Struct): why a bundle had to wait in this cycle: registers, checkpoints, room, system
    """

    def __init__(self, config):
        self.config = config
        self.layouts = layouts = Layouts(config)
        self._free = FreeList(width=config.width, physical=config.physical)
        self._table = RenameTable(width=config.width, physical=config.physical,
                                  checkpoints=config.checkpoints)
        commit = data.StructLayout({"valid": 1, "rd": 5, "tag": layouts.tag})
        super().__init__({
            "i": In(stream.Signature(bundle(config.width))), "o": Out(layouts.renamed).array(config.width),
            "room": In(1), "tail": In(layouts.age), "ready": In(config.physical),
            "levels": In(range(config.queue + 1)).array(config.alus),
            "kill": In(layouts.kill), "restore": In(layouts.restore), "resolved": In(layouts.restore),
            "flush": In(1), "system_done": In(1), "commits": In(commit).array(config.width),
            "lookup": In(layouts.checkpoint), "branch": Out(layouts.branch),
            "stalls": Out(data.StructLayout({"registers": 1, "checkpoints": 1, "room": 1, "system": 1})),
        })

    def elaborate(self, platform):
        m = Module()
        config, layouts, width = self.config, self.layouts, self.config.width
        m.submodules.free = free = self._free
        m.submodules.table = table = self._table
        slots = [self.i.payload.slots[i] for i in range(width)]

        # Which slots are dispatched now.
        start = Signal(range(width + 1))
        waiting = Signal()  # for the SYSTEM instruction dispatched last
        wanted = Signal(width)
        branches = Signal(width)
        systems = Signal(width)
        open_ = self.i.valid & ~waiting
        for i, slot in enumerate(slots):
            m.d.comb += [
                branches[i].eq((slot.unit == Unit.BRANCH) & (start <= i)),
                systems[i].eq((slot.unit == Unit.SYSTEM) & (start <= i)),
            ]
            if i:
                # Not behind a SYSTEM instruction, and not a second branch or behind one.
                open_ = open_ & ~systems[i - 1]
                if i > 1:
                    open_ = open_ & ~(branches[i - 1] & (branches[:i - 1] != 0))
            second = (branches[i] & (branches[:i] != 0)) if i else 0
            m.d.comb += wanted[i].eq(open_ & (start <= i) & (self.i.payload.count > i) & ~second)

        # A checkpoint for the branch of the group.
        busy = Signal(config.checkpoints)
        ages = [Signal(layouts.age, name=f"branch_age{c}") for c in range(config.checkpoints)]
        chosen = Signal(layouts.checkpoint)
        for c in reversed(range(config.checkpoints)):
            with m.If(~busy[c]):
                m.d.comb += chosen.eq(c)
        branch_here = Signal()
        advance = Signal()
        calm = ~self.kill.valid & ~self.flush
        checkpoint_free = Signal()
        m.d.comb += [
            branch_here.eq((wanted & branches) != 0),
            checkpoint_free.eq(~busy.all() | ~branch_here),
            advance.eq((wanted != 0) & self.room & free.room & checkpoint_free & calm),
        ]
        offered = self.i.valid & calm
        m.d.comb += [
            self.stalls.system.eq(offered & waiting),
            self.stalls.registers.eq(offered & ~waiting & ~free.room),
            self.stalls.checkpoints.eq(offered & ~waiting & ~checkpoint_free),
            self.stalls.room.eq(offered & ~waiting & ~self.room),
        ]

        # The bundle leaves when its last slot does.
        end = Signal(range(width + 1))
        m.d.comb += [
            end.eq(start + ones(wanted)),
            self.i.ready.eq(advance & (end == self.i.payload.count) | self.kill.valid | self.flush),
        ]
        with m.If(self.kill.valid | self.flush):
            m.d.sync += start.eq(0)
        with m.Elif(advance):
            m.d.sync += start.eq(Mux(end == self.i.payload.count, 0, end))
        with m.If(self.system_done | self.flush):
            m.d.sync += waiting.eq(0)
        with m.Elif(self.kill.valid):
            m.d.sync += waiting.eq(0)
        with m.Elif(advance & ((wanted & systems) != 0)):
            m.d.sync += waiting.eq(1)

        m.submodules.branches = known = Memory(shape=layouts.branch, depth=config.checkpoints, init=[])
        known_write, known_read = known.write_port(), known.read_port(domain="comb")
        m.d.comb += [
            known_write.addr.eq(chosen), known_write.en.eq(advance & branch_here),
            known_read.addr.eq(self.lookup), self.branch.eq(known_read.data),
        ]
        freed_checkpoints = Signal(config.checkpoints)
        for c in range(config.checkpoints):
            m.d.comb += freed_checkpoints[c].eq(
                self.flush | (self.resolved.valid & (self.resolved.id == c))
                | (self.kill.valid & younger(ages[c], self.kill.age)))
        taken = Mux(advance & branch_here, 1 << chosen, 0)[:config.checkpoints]
        m.d.sync += busy.eq(busy & ~freed_checkpoints | taken)

        m.d.comb += [
            free.advance.eq(advance), table.advance.eq(advance),
            free.flush.eq(self.flush), table.flush.eq(self.flush),
            table.restore.eq(self.restore), free.restore.eq(self.restore.valid),
            table.save.slots.eq(wanted & branches), table.save.id.eq(chosen),
        ]
        heads = Signal(free.pointer)  # head of the free list after the branch of the group
        m.submodules.heads = saved = Memory(shape=free.pointer, depth=config.checkpoints, init=[])
        saved_write, saved_read = saved.write_port(), saved.read_port(domain="comb")
        m.d.comb += [
            saved_write.addr.eq(chosen), saved_write.data.eq(heads), saved_write.en.eq(advance & branch_here),
            saved_read.addr.eq(self.restore.id), free.restored.eq(saved_read.data),
        ]

        # The integer lane with the fewest entries, and the next ones for more instructions.
        base = Signal(range(config.alus))
        least = self.levels[0]
        for lane in range(1, config.alus):
            with m.If(self.levels[lane] < least):
                m.d.comb += base.eq(lane)
            least = Mux(self.levels[lane] < least, self.levels[lane], least)

        turn = base
        for i, slot in enumerate(slots):
            out = self.o[i]
            writes = Signal(name=f"writes{i}")
            lane = Signal(range(config.alus), name=f"lane{i}")
            m.d.comb += [
                writes.eq(wanted[i] & slot.writes), free.takes[i].eq(writes),
                table.sources[i].rs1.eq(slot.rs1), table.sources[i].rs2.eq(slot.rs2),
                table.targets[i].valid.eq(writes), table.targets[i].rd.eq(slot.rd),
                table.targets[i].tag.eq(free.tags[i]),
                lane.eq(turn),
                out.valid.eq(advance & wanted[i]), out.decoded.eq(slot),
                out.age.eq(self.tail + ones(wanted[:i])),
                out.tag.eq(free.tags[i]), out.checkpoint.eq(chosen),
                out.lane.eq(lane),
            ]
            following = Mux(lane == config.alus - 1, 0, lane + 1)
            turn = Mux(wanted[i] & (slot.unit == Unit.ALU), following, lane)
            for field, register, reads in (("rs1", slot.rs1, slot.reads1), ("rs2", slot.rs2, slot.reads2)):
                tag = table.tags[i][field]
                within = 0
                for j in range(i):
                    within = within | (table.targets[j].valid & (table.targets[j].rd == register))
                m.d.comb += [
                    out[field].tag.eq(tag),
                    out[field].ready.eq(~reads | (self.ready.bit_select(tag, 1) & ~within)),
                ]
            with m.If(wanted[i] & branches[i]):
                m.d.comb += [heads.eq(free.heads[i]), known_write.data.target.eq(slot.target),
                             known_write.data.kind.eq(slot.kind), known_write.data.history.eq(slot.history),
                             known_write.data.returns.eq(slot.returns)]
                with m.If(advance):
                    for c in range(config.checkpoints):
                        with m.If(chosen == c):
                            m.d.sync += ages[c].eq(out.age)

            commit = self.commits[i]
            m.d.comb += [
                table.commits[i].eq(Cat(commit.valid, commit.rd, commit.tag)),
                free.freed[i].valid.eq(commit.valid), free.freed[i].tag.eq(table.replaced[i]),
            ]
        return m
