"""Memory double: the ports of an HBM slice with any latency, for simulation only (core_memory.cc)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.core.address import LINE, RAM
from hw.hbm import port

__all__ = ["BackDoor", "MemoryDouble", "MemoryTiming", "REQUEST"]

HERE = Path(__file__).parent

REQUEST = np.dtype([("taken", "<i8"), ("answered", "<i8"), ("line", "<i8"), ("write", "<i8")])
"""A request that was watched: cycles since the reset in which it was taken and in which its answer was first
given (-1: not yet); line counted from the start of RAM."""

TEMPLATE = """\
// Simulation only: the demand port of an HBM slice; tb/core/core_memory.cc has its storage and its timing.
module core_memory (
    input  logic clk,
    input  logic rst,
    input  logic [{request}:0] request__payload,
    input  logic request__valid,
    output logic request__ready,
    output logic [{response}:0] response__payload,
    output logic response__valid,
    input  logic response__ready
);
  import "DPI-C" function int core_memory_step(input int flags);
  import "DPI-C" function void core_memory_request(input bit [{request}:0] payload);
  import "DPI-C" function void core_memory_response(output bit [{response}:0] payload);

  initial begin
    request__ready = 0;
    response__valid = 0;
    response__payload = 0;
  end

  always @(posedge clk) begin : step
    int flags;
    bit [{response}:0] payload;
    if (request__valid && request__ready && !rst) core_memory_request(request__payload);
    flags = core_memory_step({{30'b0, response__valid && response__ready, rst}});
    request__ready <= flags[0];
    response__valid <= flags[1];
    if (flags[2]) begin
      core_memory_response(payload);
      response__payload <= payload;
    end
  end
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class MemoryTiming:
    """When the memory double takes requests and gives answers.

    Attributes
    ----------
    latency : int
        Cycles from the cycle in which a request is taken to the first in which its answer can be given.
    jitter : int
        Up to so many cycles more, at random; answers of different classes then change places.
    interval : int
        Cycles a line: the bandwidth.
    request_stall, response_stall : float
        Probability, each cycle, of not taking a request or of holding an answer back.
    places : int
        Requests in flight at most.
    """

    latency: int = 80
    jitter: int = 0
    interval: int = 1
    request_stall: float = 0.0
    response_stall: float = 0.0
    places: int = 64

    def __post_init__(self):
        for name, low, high in (("latency", 1, 100_000), ("jitter", 0, 100_000), ("interval", 1, 1000),
                                ("places", 1, 1024)):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"memory {name} = {value!r}: must be a whole number from {low} to {high}")
        for name in ("request_stall", "response_stall"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"memory {name} = {value!r}: must be at least 0 and below 1")


class MemoryDouble(wiring.Component):
    """The demand port of an HbmSlice, on sparse storage that a bench reaches by :class:`BackDoor`.

    Writes are ordered when they are taken; answers come in order within a class (tag[6:8]). What was never
    written is 0. A line that was poisoned is answered POISON until all its bytes are written.

    Parameters
    ----------
    ram_bytes : int
        Lines beyond are OUT_OF_RANGE.

    Members
    -------
    request : In(stream of Request), response : Out(stream of Response)
        As of hw.hbm.slice.HbmSlice.
    """

    def __init__(self, ram_bytes):
        self.ram_bytes = ram_bytes
        super().__init__({"request": In(stream.Signature(port.Request)),
                          "response": Out(stream.Signature(port.Response))})

    module_name = "core_memory"

    def simulation_files(self):
        """SystemVerilog and C++ of the model, for :func:`hw.emit.verilog`."""
        text = TEMPLATE.format(request=Shape.cast(port.Request).width - 1,
                               response=Shape.cast(port.Response).width - 1)
        return {"core_memory.sv": text, "core_memory.cc": (HERE / "core_memory.cc").read_text()}

    def elaborate(self, platform):
        raise TypeError("the memory double exists in Verilator only; Amaranth's simulator cannot run it")


class BackDoor:
    """What a bench asks of its :class:`MemoryDouble` between runs; addresses as the core sees them.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
    ram_bytes : int
    """

    def __init__(self, simulator, ram_bytes):
        self._simulator = simulator
        self.ram_bytes = ram_bytes

    def _call(self, *words, body=b""):
        return self._simulator.call("core_memory", " ".join(map(str, words)).encode() + b"\n" + bytes(body))

    def _offset(self, address, count):
        if not RAM <= address <= RAM + self.ram_bytes - count:
            raise ValueError(f"address = {address:#x}: {count} bytes from there are not in RAM, which is "
                             f"{RAM:#x} to {RAM + self.ram_bytes - 1:#x}")
        return address - RAM

    def clear(self):
        """All bytes 0, no line poisoned."""
        self._call("clear", self.ram_bytes)

    def load(self, address, data):
        """Write bytes."""
        data = bytes(data)
        self._call("load", self._offset(address, len(data)), body=data)

    def dump(self, address, count):
        """Read bytes."""
        return self._call("dump", self._offset(address, count), count)

    def poison(self, address):
        """Make the line at ``address`` unreadable."""
        self._call("poison", self._offset(address, 1) // LINE)

    def configure(self, timing, *, seed):
        """Timing (:class:`MemoryTiming`) from now on, and the seed of what is random in it."""
        stalls = (round(value * (1 << 32)) for value in (timing.request_stall, timing.response_stall))
        self._call("configure", timing.latency, timing.jitter, timing.interval, *stalls, timing.places,
                   seed % (1 << 64))

    def counts(self):
        """Requests taken since the last reset: dict with reads, writes, most (in flight at once)."""
        values = np.frombuffer(self._call("counts"), dtype="<i8").tolist()
        return dict(zip(("reads", "writes", "most"), values, strict=True))

    def watch(self, limit):
        """Remember up to ``limit`` requests of each run from now on; 0 is none."""
        self._call("watch", limit)

    def requests(self):
        """The requests remembered since the last reset: array of :data:`REQUEST`, in the order taken."""
        return np.frombuffer(self._call("requests"), dtype=REQUEST)
