"""Trace sink: collects what the core commits, and ends runs, for simulation only (core_trace.cc).

A run ends with one beat of stream ``event``: the program's exit, a full buffer, or the limit of cycles. A
core that commits nothing for too long stops the run with a sentence about the head of its reorder buffer.
"""

import enum
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.riscv.record import RECORD

__all__ = ["Event", "Trace", "TraceSink"]

HERE = Path(__file__).parent

FIELDS = ("order", "insn", "pc_rdata", "pc_wdata", "trap", "intr", "cause", "rd_addr", "rd_wdata",
          "mem_addr", "mem_rmask", "mem_wmask", "mem_rdata", "mem_wdata")

TEMPLATE = """\
// Simulation only: takes the commit records of the core; tb/core/core_trace.cc keeps them.
module {module} (
    input  logic clk,
    input  logic rst,
    input  logic [{trace}:0] trace,
    input  logic [{head}:0] head,
    input  logic exited,
    output logic [31:0] event__payload,
    output logic event__valid,
    input  logic event__ready
);
  import "DPI-C" function void core_trace_waits(input string names);
  import "DPI-C" function int core_trace_step(input int flags);
  import "DPI-C" function void core_trace_hung(input int valid, input longint pc, input int age,
                                               input int waits);
  import "DPI-C" function void core_trace_record({imports});

  initial begin
    core_trace_waits("{waits}");
    event__valid = 0;
    event__payload = 0;
  end

  always @(posedge clk) begin : step
    int flags;
    if (!rst) begin
{records}
    end
    flags = core_trace_step({{28'b0, event__valid && event__ready, exited, {any}, rst}});
    if (flags[0]) core_trace_hung({hung});
    event__valid <= flags[1];
    event__payload <= 32'(flags[3:2]);
  end
endmodule
"""


class Event(enum.IntEnum):
    """Why a run ended."""

    EXIT = 0
    CHUNK = 1
    LIMIT = 2


def _part(name, layout, field, base=0):
    part = layout[field]
    first = base + part.offset
    return f"{name}[{first + part.width - 1}:{first}]"


class TraceSink(wiring.Component):
    """Takes the commit records of one core.

    Parameters
    ----------
    record : data.Layout
        Of a slot of the trace port; fields as in golden.riscv.record, and ``valid``.
    head : data.Layout
        Of the debug port: valid, pc, age, waits.
    width : int
        Slots.

    Members
    -------
    trace : In(ArrayLayout(record, width)), head : In(head), exited : In(1)
    event : Out(stream of 32 bits)
        One beat ends the run (:class:`Event`).
    """

    def __init__(self, record, head, width):
        self.record, self.head_layout = data.Layout.cast(record), data.Layout.cast(head)
        self.width = width
        super().__init__({"trace": In(data.ArrayLayout(record, width)), "head": In(head), "exited": In(1),
                          "event": Out(stream.Signature(32))})

    module_name = "core_trace"

    def simulation_files(self):
        """SystemVerilog and C++ of the model, for :func:`hw.emit.verilog`."""
        size = Shape.cast(self.record).width
        records, valid = [], []
        for slot in range(self.width):
            name = _part("trace", self.record, "valid", slot * size)
            values = ", ".join(f"{'64' if RECORD[field].itemsize == 8 else '32'}'("
                               f"{_part('trace', self.record, field, slot * size)})" for field in FIELDS)
            records.append(f"      if ({name}) core_trace_record({values});")
            valid.append(name)
        imports = ", ".join(
            f"input {'longint' if RECORD[field].itemsize == 8 else 'int'} {field}" for field in FIELDS)
        hung = ", ".join(f"{64 if field == 'pc' else 32}'({_part('head', self.head_layout, field)})"
                         for field in ("valid", "pc", "age", "waits"))
        shape = self.head_layout["waits"].shape
        waits = [(int(member.value), member.name.lower().replace("_", " ")) for member in shape] \
            if isinstance(shape, type) and issubclass(shape, enum.Enum) else []
        text = TEMPLATE.format(
            module=self.module_name, trace=self.width * size - 1,
            head=Shape.cast(self.head_layout).width - 1, imports=imports, records="\n".join(records),
            any=" || ".join(valid), hung=hung, waits=";".join(f"{number}={name}" for number, name in waits))
        return {"core_trace.sv": text, "core_trace.cc": (HERE / "core_trace.cc").read_text()}

    def elaborate(self, platform):
        raise TypeError("the trace sink exists in Verilator only; Amaranth's simulator cannot run it")


class Trace:
    """What a bench asks of its :class:`TraceSink` between runs.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
    """

    def __init__(self, simulator):
        self._simulator = simulator

    def configure(self, *, chunk, keep, max_cycles, hang_cycles):
        """The run pauses after ``chunk`` instructions (0: never), which are recorded if ``keep``, ends after
        ``max_cycles`` from the reset on, and is hung when nothing was committed for ``hang_cycles``."""
        words = ("configure", chunk, int(keep), max_cycles, hang_cycles)
        self._simulator.call("core_trace", " ".join(map(str, words)).encode())

    def records(self):
        """Records since the last call: array of golden.riscv.record.RECORD."""
        return np.frombuffer(self._simulator.call("core_trace", b"records"), dtype=RECORD)

    def counts(self):
        """(cycles, instructions) since the reset; traps are instructions here."""
        cycles, instructions = np.frombuffer(self._simulator.call("core_trace", b"counts"), dtype="<i8")
        return int(cycles), int(instructions)
