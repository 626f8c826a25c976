"""Host device: console, exit and injected interrupts on the device bus, for simulation only (core_host.cc).

Offsets from HOST (hw/core/address.py), a doubleword each:

====  ==========================================================================================
 +0   store: the lowest byte is a character for the console
 +8   store: exit code, ends the run
+16   load: 0
+24   store: withdraws the injected interrupts whose bits of mip are set (3, 7 and 11)
====  ==========================================================================================

Loads elsewhere in the window are refused, stores ignored.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.core.memory.port import MmioRequest, MmioResponse

__all__ = ["Host", "HostDevice", "Injection"]

HERE = Path(__file__).parent

TEMPLATE = """\
// Simulation only: the host device; tb/core/core_host.cc has what it does.
module core_host (
    input  logic clk,
    input  logic rst,
    input  logic [{request}:0] request__payload,
    input  logic request__valid,
    output logic request__ready,
    output logic [{response}:0] response__payload,
    output logic response__valid,
    input  logic response__ready,
    output logic external,
    output logic software,
    output logic timer,
    output logic exited
);
  import "DPI-C" function int core_host_step(input int flags);
  import "DPI-C" function void core_host_request(input bit [{request}:0] payload);
  import "DPI-C" function int core_host_fault();

  initial begin
    {{request__ready, response__valid, external, software, timer, exited}} = 0;
    response__payload = 0;
  end

  always @(posedge clk) begin : step
    int flags;
    if (request__valid && request__ready && !rst) core_host_request(request__payload);
    flags = core_host_step({{30'b0, response__valid && response__ready, rst}});
    {{exited, timer, software, external, response__valid, request__ready}} <= flags[5:0];
    response__payload <= {{core_host_fault() != 0, 64'b0}};
  end
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """Interrupts at random cycles.

    Attributes
    ----------
    external, software, timer : float
        Probability, each cycle in which the line is low, that it rises. It falls when the program stores to
        HOST + 24.
    """

    external: float = 0.0
    software: float = 0.0
    timer: float = 0.0

    def __post_init__(self):
        for name in ("external", "software", "timer"):
            rate = getattr(self, name)
            if not 0 <= rate < 1:
                raise ValueError(f"injection {name} = {rate!r}: must be at least 0 and below 1")


class HostDevice(wiring.Component):
    """The host at the device bus.

    Members
    -------
    request : In(stream of MmioRequest), response : Out(stream of MmioResponse)
    external, software, timer : Out(1)
        Injected interrupts.
    exited : Out(1)
        The program has stored its exit code.
    """

    def __init__(self):
        super().__init__({
            "request": In(stream.Signature(MmioRequest)), "response": Out(stream.Signature(MmioResponse)),
            "external": Out(1), "software": Out(1), "timer": Out(1), "exited": Out(1)})

    module_name = "core_host"

    def simulation_files(self):
        """SystemVerilog and C++ of the model, for :func:`hw.emit.verilog`."""
        text = TEMPLATE.format(request=Shape.cast(MmioRequest).width - 1,
                               response=Shape.cast(MmioResponse).width - 1)
        return {"core_host.sv": text, "core_host.cc": (HERE / "core_host.cc").read_text()}

    def elaborate(self, platform):
        raise TypeError("the host device exists in Verilator only; Amaranth's simulator cannot run it")


class Host:
    """What a bench asks of its :class:`HostDevice` between runs.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
    """

    def __init__(self, simulator):
        self._simulator = simulator

    def configure(self, injection, *, seed, stall=0.0):
        """Interrupts (:class:`Injection`), and the probability of a cycle without progress on the bus."""
        rates = (injection.external, injection.software, injection.timer, stall)
        words = ["configure", *(round(rate * (1 << 32)) for rate in rates), seed % (1 << 64)]
        self._simulator.call("core_host", " ".join(map(str, words)).encode())

    def console(self):
        """Characters written since the last call, as bytes."""
        return self._simulator.call("core_host", b"console")

    def exit_code(self):
        """The exit code as an unsigned integer, or None while there is none."""
        answer = self._simulator.call("core_host", b"exit")
        return int(np.frombuffer(answer, dtype="<u8")[0]) if answer else None

    def injected(self):
        """Interrupts injected since the last reset: dict with external, software, timer."""
        counts = np.frombuffer(self._simulator.call("core_host", b"injected"), dtype="<i8").tolist()
        return dict(zip(("external", "software", "timer"), counts, strict=True))
