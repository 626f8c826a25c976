"""Hierarchical names in generated Verilog."""

import pytest

from hw import emit
from tb.netlist import Netlist
from tests.stream_relay import Relay

TEXT = {"a.v": """
module leaf(clk, \\state$1 , q);
  input clk;
  wire clk;
  output [3:0] q;
  reg [3:0] q = 4'h0;
  reg signed [1:0] \\state$1 ;
endmodule

module \\top.control (clk);
  input clk;
  leaf first (
    .clk(clk)
  );
endmodule
""", "b.v": """
module top(clk);
  input clk;
  always @(posedge clk)
    if (x) y <= z;
  \\top.control  control (
    .clk(clk)
  );
  leaf \\odd.name  (
    .clk(clk)
  );
endmodule
"""}


def test_resolve():
    netlist = Netlist(TEXT)
    assert netlist.instances("top") == {"control": "top.control", "odd.name": "leaf"}
    assert netlist.signals("leaf") == ["clk", "q", "state$1"]
    assert netlist.resolve("top", "clk") == ("top", "clk")
    assert netlist.resolve("top", "control.first.q") == ("leaf", "q")


@pytest.mark.parametrize("path, message", [
    ("contrl.q", "top has no block 'contrl'; it has control, odd.name"),
    ("control.first.deep.q", "control.first has no block 'deep'; it has none"),
    ("control.first.p", "control.first has no signal 'p'; it has clk, q"),
])
def test_what_is_not_there(path, message):
    with pytest.raises(ValueError, match=message):
        Netlist(TEXT).resolve("top", path)
    with pytest.raises(ValueError, match="module 'other' is not in"):
        Netlist(TEXT).resolve("other", "q")


def test_real_verilog():
    netlist = Netlist(emit.verilog(Relay(), name="relay"))
    assert set(netlist.instances("relay")) == {"store"}
    assert {"stopped", "fault", "number"} <= set(netlist.signals("relay"))
    assert netlist.resolve("relay", "store.level") == ("relay.store", "level")
