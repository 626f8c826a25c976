"""The engine port: custom-0 instructions go to an engine beside the core, and come back by age."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..types import LineRequest, LineResponse, younger
from ..window.types import Layouts

__all__ = ["EngineLane", "EnginePort"]


class EnginePort(wiring.Signature):
    """Between a core and an engine; directions as the core has them.

    Members
    -------
    issue : Out(Struct(valid, funct7, funct3, age, tag, writes, a, b))
        An instruction with its operands, in any order among others and perhaps on a wrong path. It is void,
        now or later, once ``kill`` or ``flush`` says so.
    ready : In(1)
        An instruction may be issued in the next cycle.
    done : In(result)
        An instruction is done; its value, if it writes one.
    fault : In(fault)
        It cannot be done: a precise trap.
    kill : Out(kill), flush : Out(1)
        What is younger than ``kill.age``, or everything that has not committed, is void from this cycle on.
    head_valid : Out(1), head_age : Out(age)
        The oldest instruction in flight: what it does is not taken back any more, unless it faults or an
        interrupt comes first, which ``hold`` keeps away.
    hold : In(1)
        No interrupt may be taken in this cycle.
    request : Out(stream of LineRequest), response : In(stream of LineResponse), reversed
        Memory, through the L1.
    """

    def __init__(self, config):
        layouts = Layouts(config)
        super().__init__({
            "issue": Out(data.StructLayout({
                "valid": 1, "funct7": 7, "funct3": 3, "age": layouts.age, "tag": layouts.tag, "writes": 1,
                "a": 64, "b": 64})),
            "ready": In(1), "done": In(layouts.result), "fault": In(layouts.fault),
            "kill": Out(layouts.kill), "flush": Out(1), "head_valid": Out(1), "head_age": Out(layouts.age),
            "hold": In(1), "request": In(stream.Signature(LineRequest)),
            "response": Out(stream.Signature(LineResponse)),
        })


class EngineLane(wiring.Component):
    """From the issue queue to the port, operands read on the way.

    Members
    -------
    issue : In(issued), kill, flush : In
    tags : Out(array of 2), values : In(array of 2): read ports of the registers
    o : Out(as EnginePort.issue)
    """

    def __init__(self, config):
        layouts = self.layouts = Layouts(config)
        super().__init__({
            "issue": In(layouts.issued), "kill": In(layouts.kill), "flush": In(1),
            "tags": Out(layouts.tag).array(2), "values": In(64).array(2),
            "o": Out(EnginePort(config).members["issue"].shape),
        })

    def elaborate(self, platform):
        m = Module()
        x = Signal(self.layouts.issued)
        m.d.sync += x.eq(self.issue)
        operation = x.operation
        void = self.flush | (self.kill.valid & younger(operation.age, self.kill.age))
        m.d.comb += [
            self.tags[0].eq(x.rs1), self.tags[1].eq(x.rs2),
            self.o.valid.eq(x.valid & ~void), self.o.funct7.eq(operation.immediate),
            self.o.funct3.eq(operation.op), self.o.age.eq(operation.age), self.o.tag.eq(operation.tag),
            self.o.writes.eq(operation.writes),
            self.o.a.eq(Mux(operation.reads1, self.values[0], 0)),
            self.o.b.eq(Mux(operation.reads2, self.values[1], 0)),
        ]
        return m
