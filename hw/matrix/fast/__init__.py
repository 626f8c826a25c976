"""The second, simulation-only description of :class:`hw.matrix.array.QuadArray`.

A SystemVerilog module with the name and the ports of the array, which calls a C++ function once a clock edge
(``quad_array.cc`` says how it computes). Bit for bit the same at every output in every cycle, for any input;
tests/test_fast_view.py compares the two in lock step. docs/decisions/0005-second-view-of-the-array.md says
why there are two.
"""

from pathlib import Path

__all__ = ["CXX", "sources", "view"]

#: The C++ file, for every number of columns and both latencies.
CXX = Path(__file__).parent / "quad_array.cc"

TEMPLATE = """\
// Simulation only: the fast view of the array of {quads} quad columns, product latency {latency}.
module {module} (
    input  logic clk,
    input  logic rst,
    input  logic wide_activations,
    input  logic wide_weights,
    input  logic [{activations}:0] activations,
    input  logic [{weights}:0] weights,
    input  logic [{load}:0] load,
    input  logic swap,
    output logic [{psum}:0] psum
);
  import "DPI-C" function chandle {prefix}_create(input int quads, input int product_latency);
  import "DPI-C" function void {prefix}_destroy(input chandle handle);
  import "DPI-C" function void {prefix}_{quads}_step(
      input chandle handle, input bit rst, input bit wide_activations, input bit wide_weights,
      input bit [{activations}:0] activations, input bit [{weights}:0] weights, input bit [{load}:0] load,
      input bit swap, output bit [{psum}:0] psum);

  chandle handle;
  bit mode_activations, mode_weights;
  initial begin
    handle = {prefix}_create({quads}, {latency});
    psum = 0;
  end

  always @(posedge clk) begin : step
    bit [{psum}:0] next;
    {prefix}_{quads}_step(
        handle, rst, mode_activations, mode_weights, activations, weights, load, swap, next);
    psum <= next;
    mode_activations <= wide_activations;
    mode_weights <= wide_weights;
  end

  final {prefix}_destroy(handle);
endmodule
"""


def sources(array):
    """What stands in for ``array`` in a simulation.

    Parameters
    ----------
    array : QuadArray

    Returns
    -------
    tuple[str, str, list[Path]]
        Module name, SystemVerilog of the module, C++ files to compile with it.
    """
    members = array.signature.members
    ports = {name: members[name].shape - 1 for name in ("activations", "weights", "load", "psum")}
    text = TEMPLATE.format(module=array.module_name, quads=array.quads, latency=array.product_latency,
                           prefix=CXX.stem, **ports)
    return array.module_name, text, [CXX]


def view(array):
    """The same as files: name to text, for :func:`hw.emit.verilog`."""
    module, text, files = sources(array)
    return {f"{module}.sv": text} | {path.name: path.read_text(encoding="utf-8") for path in files}
