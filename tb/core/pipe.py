"""Pipeline events: what happens to instructions in each cycle, for the Konata viewer; for simulation only.

The sink turns the core's debug port (hw.core.trace.Pipe) into an array of :data:`PIPE`, which
:mod:`tb.core.konata` writes as a log.
"""

import enum
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

__all__ = ["PIPE", "Pipe", "PipeSink", "Stage"]

HERE = Path(__file__).parent

PIPE = np.dtype([("cycle", "<u8"), ("pc", "<u8"), ("word", "<u4"), ("age", "<u2"), ("stage", "<u2")])
"""An event: ``age`` of the instruction; ``pc`` and ``word`` with DISPATCHED only. COMMITTED: ``age`` is the
number of instructions that leave, the oldest ones. KILL: all that are younger than ``age`` are void. FLUSH:
all are. In a cycle, events stand in the order of :class:`Stage`."""


class Stage(enum.IntEnum):
    """What happened."""

    DONE = 0
    ISSUED = 1
    COMMITTED = 2
    DISPATCHED = 3
    KILL = 4
    FLUSH = 5


TEMPLATE = """\
// Simulation only: takes pipeline events of the core; tb/core/core_pipe.cc keeps them.
module core_pipe (
    input  logic clk,
    input  logic rst,
    input  logic [{top}:0] pipe
);
  import "DPI-C" function int core_pipe_step(input int rst);
  import "DPI-C" function void core_pipe_event(input int stage, input int age, input longint pc,
                                               input int word);

  always @(posedge clk) begin : step
    if (core_pipe_step(32'(rst)) != 0 && !rst) begin
{events}
    end
  end
endmodule
"""


class PipeSink(wiring.Component):
    """Takes the pipeline events of one core, while it is switched on.

    Parameters
    ----------
    layout : data.Layout
        hw.core.trace.Pipe of the core's configuration.

    Members
    -------
    pipe : In(layout)
    """

    def __init__(self, layout):
        self.layout = data.Layout.cast(layout)
        super().__init__({"pipe": In(self.layout)})

    module_name = "core_pipe"

    def simulation_files(self):
        """SystemVerilog and C++ of the model, for :func:`hw.emit.verilog`."""
        events = []
        for stage, name in ((Stage.DONE, "done"), (Stage.ISSUED, "issued")):
            for valid, fields in self._entries(name):
                age = fields["age"]
                events.append(f"      if ({valid}) core_pipe_event({int(stage)}, 32'({age}), 0, 0);")
        committed = self._bits("pipe", self.layout["committed"])
        events.append(f"      if ({committed} != 0) "
                      f"core_pipe_event({int(Stage.COMMITTED)}, 32'({committed}), 0, 0);")
        for valid, fields in self._entries("dispatched"):
            age, pc, word = (fields[key] for key in ("age", "pc", "word"))
            events.append(f"      if ({valid}) core_pipe_event({int(Stage.DISPATCHED)}, 32'({age}), "
                          f"{pc}, {word});")
        kill = self.layout["kill"]
        valid, age = (self._bits("pipe", kill.shape[name], kill.offset) for name in ("valid", "age"))
        events.append(f"      if ({valid}) core_pipe_event({int(Stage.KILL)}, 32'({age}), 0, 0);")
        flush = self._bits("pipe", self.layout["flush"])
        events.append(f"      if ({flush}) core_pipe_event({int(Stage.FLUSH)}, 0, 0, 0);")
        text = TEMPLATE.format(top=Shape.cast(self.layout).width - 1, events="\n".join(events))
        return {"core_pipe.sv": text, "core_pipe.cc": (HERE / "core_pipe.cc").read_text()}

    @staticmethod
    def _bits(name, field, base=0):
        return f"{name}[{base + field.offset + field.width - 1}:{base + field.offset}]"

    def _entries(self, name):
        array = self.layout[name]
        for index in range(array.shape.length):
            entry = array.shape[index]
            base = array.offset + entry.offset
            fields = {key: self._bits("pipe", field, base) for key, field in entry.shape}
            yield fields["valid"], fields

    def elaborate(self, platform):
        raise TypeError("the pipeline sink exists in Verilator only; Amaranth's simulator cannot run it")


class Pipe:
    """What a bench asks of its :class:`PipeSink` between runs.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
    """

    def __init__(self, simulator):
        self._simulator = simulator

    def configure(self, limit):
        """Keep events of up to ``limit`` from now on, and of the next runs; 0 is off."""
        self._simulator.call("core_pipe", f"configure {limit}".encode())

    def events(self):
        """Events since the last call: array of :data:`PIPE`."""
        return np.frombuffer(self._simulator.call("core_pipe", b"events"), dtype=PIPE)
