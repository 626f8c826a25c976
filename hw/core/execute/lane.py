"""Lanes: what an issue queue selected is executed in the next cycle."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..types import Cause, Resolve, SourceA, Unit, younger
from ..window.types import Layouts
from .alu import Alu
from .branch import Branch
from .divide import Divider
from .multiply import Multiplier

__all__ = ["IntegerLane", "OperandLane"]


def _void(kill, flush, age):
    """1 if an instruction of this age is not wanted any more."""
    return flush | (kill.valid & younger(age, kill.age))


class OperandLane(wiring.Component):
    """A lane that only reads an operand, for the load-store unit.

    Members
    -------
    issue : In(issued), kill, flush : In
    tag : Out, value : In(64): read port of the registers
    o : Out(issued): the operation a cycle later, valid unless it is void; ``operand``: its first source
    """

    def __init__(self, config):
        layouts = self.layouts = Layouts(config)
        super().__init__({
            "issue": In(layouts.issued), "kill": In(layouts.kill), "flush": In(1),
            "tag": Out(layouts.tag), "value": In(64),
            "o": Out(layouts.issued), "operand": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        x = Signal(self.layouts.issued)
        m.d.sync += x.eq(self.issue)
        m.d.comb += [
            self.tag.eq(x.rs1), self.o.eq(x),
            self.o.valid.eq(x.valid & ~_void(self.kill, self.flush, x.operation.age)),
            self.operand.eq(Mux(x.operation.reads1, self.value, 0)),
        ]
        return m


class IntegerLane(wiring.Component):
    """An ALU; branches too in the first lane, multiplications and divisions in the last.

    Parameters
    ----------
    config : CoreConfig
    index : int

    Members
    -------
    issue : In(issued), kill, flush : In
    tags : Out(array of 2), values : In(array of 2): read ports of the registers
    age : Out, pc : In(64): read port of addresses
    wakes : Out(array of wake), results : Out(array of result)
        The ALU's; in the last lane then the multiplier's and the divider's.
    blocked : Out(1), in the last lane: no division may be selected. dividing : Out(1): one is under way
    lookup : Out(checkpoint), known : In(branch), in the first lane: what was predicted
    resolve : Out(Resolve), mispredict : Out(kill), restore, resolved : Out(restore), finished : Out(done),
    fault : Out(fault), in the first lane: outcome of a branch, one cycle after its execution
    """

    def __init__(self, config, index):
        self.config = config
        self.layouts = layouts = Layouts(config)
        self.branches = index == 0
        self.multiplies = index == config.alus - 1
        results = 3 if self.multiplies else 1
        members = {
            "issue": In(layouts.issued), "kill": In(layouts.kill), "flush": In(1),
            "tags": Out(layouts.tag).array(2), "values": In(64).array(2),
            "age": Out(layouts.age), "pc": In(64),
            "wakes": Out(layouts.wake).array(results), "results": Out(layouts.result).array(results),
        }
        if self.multiplies:
            members |= {"blocked": Out(1), "dividing": Out(1)}
        if self.branches:
            members |= {
                "lookup": Out(layouts.checkpoint), "known": In(layouts.branch), "resolve": Out(Resolve),
                "mispredict": Out(layouts.kill), "restore": Out(layouts.restore),
                "resolved": Out(layouts.restore), "finished": Out(layouts.done), "fault": Out(layouts.fault),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        x = Signal(self.layouts.issued)
        m.d.sync += x.eq(self.issue)
        operation = x.operation
        live = Signal()
        a, b = Signal(64), Signal(64)
        m.d.comb += [
            live.eq(x.valid & ~_void(self.kill, self.flush, operation.age)),
            self.tags[0].eq(x.rs1), self.tags[1].eq(x.rs2), self.age.eq(operation.age),
            b.eq(Mux(operation.b_immediate, operation.immediate, Mux(operation.reads2, self.values[1], 0))),
        ]
        with m.Switch(operation.a):
            with m.Case(SourceA.RS1):
                m.d.comb += a.eq(Mux(operation.reads1, self.values[0], 0))
            with m.Case(SourceA.PC):
                m.d.comb += a.eq(self.pc)

        m.submodules.alu = alu = Alu()
        result, wake = self.results[0], self.wakes[0]
        single = (self.issue.operation.unit == Unit.ALU) | (self.issue.operation.unit == Unit.BRANCH)
        m.d.comb += [
            alu.op.eq(operation.op), alu.narrow.eq(operation.narrow), alu.a.eq(a), alu.b.eq(b),
            wake.valid.eq(self.issue.valid & self.issue.operation.writes & single),
            wake.tag.eq(self.issue.operation.tag),
            result.valid.eq(live & ((operation.unit == Unit.ALU) | (operation.unit == Unit.BRANCH))),
            result.writes.eq(operation.writes), result.completes.eq(operation.unit == Unit.ALU),
            result.tag.eq(operation.tag), result.age.eq(operation.age), result.value.eq(alu.value),
        ]
        if self.branches:
            self._branch(m, operation, live, a)
        if self.multiplies:
            self._multiply(m, operation, live, a, b)
            self._divide(m, operation, live, a, b)
        return m

    def _branch(self, m, operation, live, a):
        m.submodules.branch = branch = Branch()
        here = Signal()
        m.d.comb += [
            here.eq(live & (operation.unit == Unit.BRANCH)),
            self.lookup.eq(operation.checkpoint),
            branch.op.eq(operation.op), branch.a.eq(a),
            branch.b.eq(Mux(operation.reads2, self.values[1], 0)), branch.pc.eq(self.pc),
            branch.immediate.eq(operation.immediate), branch.target.eq(self.known.target),
        ]
        with m.If(operation.unit == Unit.BRANCH):
            m.d.comb += self.results[0].value.eq(branch.value)
        right = here & ~branch.misaligned
        wrong = right & branch.mispredicted
        m.d.sync += [
            self.resolve.valid.eq(right), self.resolve.mispredicted.eq(wrong),
            self.resolve.taken.eq(branch.taken), self.resolve.kind.eq(self.known.kind),
            self.resolve.pc.eq(self.pc), self.resolve.next_pc.eq(branch.next_pc),
            self.resolve.history.eq(self.known.history), self.resolve.returns.eq(self.known.returns),
            self.mispredict.valid.eq(wrong), self.mispredict.age.eq(operation.age),
            self.restore.valid.eq(wrong), self.restore.id.eq(operation.checkpoint),
            self.resolved.valid.eq(right), self.resolved.id.eq(operation.checkpoint),
            self.finished.valid.eq(right), self.finished.age.eq(operation.age),
            self.fault.valid.eq(here & branch.misaligned), self.fault.age.eq(operation.age),
            self.fault.cause.eq(Cause.MISALIGNED_FETCH), self.fault.tval.eq(branch.next_pc),
        ]

    def _multiply(self, m, operation, live, a, b):
        latency = self.config.multiply_latency
        m.submodules.multiplier = multiplier = Multiplier(latency)
        starts = Signal()
        m.d.comb += [
            starts.eq(live & (operation.unit == Unit.MULTIPLY)), multiplier.valid.eq(starts),
            multiplier.op.eq(operation.op), multiplier.narrow.eq(operation.narrow),
            multiplier.a.eq(a), multiplier.b.eq(b),
        ]
        valid, age, tag, writes = starts, operation.age, operation.tag, operation.writes
        for stage in range(1, latency + 1):
            held = Signal(name=f"held{stage}")
            ages, tags = Signal.like(age, name=f"age{stage}"), Signal.like(tag, name=f"tag{stage}")
            writing = Signal(name=f"writes{stage}")
            alive = Signal(name=f"product{stage}")
            m.d.sync += [held.eq(valid), ages.eq(age), tags.eq(tag), writing.eq(writes)]
            m.d.comb += alive.eq(held & ~_void(self.kill, self.flush, ages))
            valid, age, tag, writes = alive, ages, tags, writing
            if stage == latency - 1:
                m.d.comb += [self.wakes[1].valid.eq(alive & writing), self.wakes[1].tag.eq(tags)]
        result = self.results[1]
        m.d.comb += [
            result.valid.eq(valid), result.completes.eq(1), result.writes.eq(writes), result.tag.eq(tag),
            result.age.eq(age), result.value.eq(multiplier.value),
        ]

    def _divide(self, m, operation, live, a, b):
        m.submodules.divider = divider = Divider()
        starts = Signal()
        age, tag = Signal(self.layouts.age, name="divide_age"), Signal(self.layouts.tag, name="divide_tag")
        writes = Signal(name="divide_writes")
        m.d.comb += [
            starts.eq(live & (operation.unit == Unit.DIVIDE)), divider.valid.eq(starts),
            divider.op.eq(operation.op), divider.narrow.eq(operation.narrow),
            divider.a.eq(a), divider.b.eq(b), divider.kill.eq(_void(self.kill, self.flush, age)),
            divider.take.eq(1),
            self.blocked.eq(~divider.ready | starts), self.dividing.eq(divider.busy),
        ]
        with m.If(starts):
            m.d.sync += [age.eq(operation.age), tag.eq(operation.tag), writes.eq(operation.writes)]
        result, wake = self.results[2], self.wakes[2]
        m.d.comb += [
            result.valid.eq(divider.done), result.completes.eq(1), result.writes.eq(writes),
            result.tag.eq(tag), result.age.eq(age), result.value.eq(divider.value),
            wake.valid.eq(divider.done & writes), wake.tag.eq(tag),
        ]
