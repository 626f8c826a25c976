"""Simulation-only descriptions of the binary32 pipelines at a column foot.

The full engine has 2,048 of each, which cost more to simulate as gates than everything above them. A
SystemVerilog module with the same name, ports and latency calls a C++ function that uses the machine's own
IEEE arithmetic (``float32.cc``). tests/test_numbers_fast.py compares both descriptions, cycle by cycle.
"""

from pathlib import Path

__all__ = ["adder", "sum_to_float"]

CXX = Path(__file__).parent / "float32.cc"

TEMPLATE = """\
// Simulation only: the fast view of {module}.
module {module} (
    input  logic clk,
    input  logic [{top}:0] i,
    output logic [31:0] o
);
  import "DPI-C" pure function int unsigned {function};
{body}
endmodule
"""


def _module(module, width, latency, function, call):
    """A combinational call, then ``latency`` registers."""
    if latency == 0:
        body = f"  always_comb o = {call};"
    else:
        stages = [f"  logic [31:0] stage{n};" for n in range(1, latency)]
        chain = [call, *(f"stage{n}" for n in range(1, latency))]
        targets = [*(f"stage{n}" for n in range(1, latency)), "o"]
        moves = [f"    {target} <= {source};" for target, source in zip(targets, chain, strict=True)]
        body = "\n".join([*stages, "  always @(posedge clk) begin", *moves, "  end"])
    text = TEMPLATE.format(module=module, top=width - 1, function=function, body=body)
    return {f"{module}.sv": text, CXX.name: CXX.read_text(encoding="utf-8")}


def adder(component):
    """Files that stand in for a Float32Adder: name to text."""
    return _module(component.module_name, 64, component.latency,
                   "float32_add(input int unsigned a, input int unsigned b)",
                   "float32_add(i[31:0], i[63:32])")


def sum_to_float(component):
    """Files that stand in for a SumToFloat32 of at most 52 bits: name to text."""
    width = component.width
    extended = f"{{{{{64 - width}{{i[{width - 1}]}}}}, i[{width - 1}:0]}}"
    exponent = f"{{{{22{{i[{width + 9}]}}}}, i[{width + 9}:{width}]}}"
    return _module(component.module_name, width + 11, component.latency,
                   "float32_round(input longint sum, input int exponent, input bit nan)",
                   f"float32_round({extended}, {exponent}, i[{width + 10}])")
