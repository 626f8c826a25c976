"""The generated top: streams are found wherever they are, everything else is tied or named as an error."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tb import top

BYTES = stream.Signature(8)


def component(members):
    return SimpleNamespace(signature=wiring.Signature(members))


def names(members):
    return [(port.name, port.is_source, port.width, port.words) for port in
            top.streams_of(component(members))[0]]


def test_streams_of_every_kind_of_member():
    nested = wiring.Signature({"request": Out(BYTES), "reply": In(stream.Signature(data.ArrayLayout(8, 5)))})
    assert names({
        "i": In(BYTES), "o": Out(stream.Signature(33)),
        "grid": In(stream.Signature(64)).array(2, 2),
        "flipped": Out(stream.Signature(16).flip()),
        "bus": Out(nested), "slave": In(nested),
    }) == [
        ("i", True, 8, 1), ("o", False, 33, 2),
        ("grid__0__0", True, 64, 2), ("grid__0__1", True, 64, 2), ("grid__1__0", True, 64, 2),
        ("grid__1__1", True, 64, 2), ("flipped", True, 16, 1),
        ("bus__request", False, 8, 1), ("bus__reply", True, 40, 2),
        ("slave__request", True, 8, 1), ("slave__reply", False, 40, 2),
    ]


@pytest.mark.parametrize("members, message", [
    ({"x": In(1)}, "has no stream"),
    ({"i": In(stream.Signature(0))}, "'i' has a payload of 0 bits"),
    ({"i": In(stream.Signature(8, always_ready=True))}, "'i' is always_valid or always_ready"),
    ({"i": In(stream.Signature(8, always_valid=True))}, "'i' is always_valid or always_ready"),
])
def test_what_cannot_be_driven(members, message):
    with pytest.raises(ValueError, match=message):
        top.streams_of(component(members))


def text(members, ports, **options):
    streams, others = top.streams_of(component(members))
    return top.top_verilog(module="some", streams=streams, others=others, ports=set(ports), **options)


def test_ports_and_constants():
    members = {"i": In(BYTES), "mode": In(unsigned(3)), "count": Out(unsigned(9)), "gone": In(1)}
    ports = ["clk", "i__payload", "i__valid", "i__ready", "mode", "count"]
    verilog = text(members, ports, constants={"mode": 5})
    for line in ["  stream_source_1 #(.ID(0), .WIDTH(8)) source_i (", "      .mode(3'h5)",
                 "      .count(count)", "  logic [8:0] count;", "      .clk(clk)"]:
        assert line in verilog
    assert ".rst(rst)\n" not in verilog and "gone" not in verilog  # the design has neither
    assert "      .mode(3'h0)" in text(members, ports)


@pytest.mark.parametrize("constants, message", [
    ({"mode": 8}, "mode = 8 does not fit its 3 bits"), ({"mode": -1}, "mode = -1"),
    ({"speed": 1}, r"\['speed'\] are not inputs of 'some'; those are \['mode'\]")])
def test_wrong_constants(constants, message):
    with pytest.raises(ValueError, match=message):
        text({"i": In(BYTES), "mode": In(unsigned(3))}, ["i__payload", "i__valid", "i__ready", "mode"],
             constants=constants)


def test_missing_port_and_module():
    with pytest.raises(ValueError, match="stream 'i': module 'some' has no port 'i__ready'"):
        text({"i": In(BYTES)}, ["i__payload", "i__valid"])
    with pytest.raises(ValueError, match="module 'other' is not in the Verilog"):
        top.module_ports({"some.v": "module some(clk, rst);\nendmodule\n"}, "other")
    assert top.module_ports({"a.v": "module \\some (clk,\n  rst);\nendmodule\n"}, "some") == {"clk", "rst"}


def test_one_end_module_a_beat_size():
    streams, _ = top.streams_of(component({"a": In(BYTES), "b": In(stream.Signature(32)),
                                           "c": In(stream.Signature(33)), "d": Out(stream.Signature(100))}))
    files = top.end_modules(streams)
    assert sorted(files) == ["payloads.cc", "stream_sink_4.sv", "stream_source_1.sv", "stream_source_2.sv"]
    assert "module stream_source_2" in files["stream_source_2.sv"]
    assert files["payloads.cc"].count("void tb_") == 3
