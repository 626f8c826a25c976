"""SystemVerilog top of a test bench: a DPI source or sink on every stream of a component."""

import re
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

__all__ = ["TOP", "StreamPort", "end_modules", "module_ports", "public_file", "streams_of", "top_verilog"]

TOP = "bench"
SV = Path(__file__).parent / "sv"


@dataclass(frozen=True, kw_only=True)
class StreamPort:
    """One stream of a component, seen from the bench.

    Attributes
    ----------
    name : str
        Name of the Verilog ports without their last part: ``weights__0`` for ``weights[0]``.
    is_source : bool
        The bench is the source, so the stream is an input of the component.
    width : int
        Bits of the payload.
    """

    name: str
    is_source: bool
    width: int

    @property
    def words(self):
        """32-bit words a beat."""
        return -(-self.width // 32)

    @property
    def beat_bytes(self):
        """Bytes a beat takes in a buffer: the payload, little-endian, padded to a multiple of 4."""
        return self.words * 4


def streams_of(component):
    """The streams of ``component``, in the order of its signature, and its other ports.

    Returns
    -------
    tuple[list[StreamPort], list[tuple[str, int, bool]]]
        Streams; other members as (port name, width, is an input).

    Raises
    ------
    ValueError
        The component has no stream, or one that cannot be driven.
    """
    streams, others = [], []
    _collect(component.signature, (), streams, others)
    if not streams:
        raise ValueError(f"{type(component).__name__} has no stream in its signature for a bench to drive")
    return streams, others


def _collect(signature, path, streams, others):
    # The signature of an In() member comes flipped, so flows are always those of the component itself.
    for name, member in signature.members.items():
        for index in _indices(member.dimensions):
            here = (*path, name, *index)
            port = "__".join(str(part) for part in here)
            if member.is_port:
                others.append((port, Shape.cast(member.shape).width, member.flow == In))
            elif isinstance(_plain(member.signature), stream.Signature):
                streams.append(_stream(port, member.signature))
            else:
                _collect(member.signature, here, streams, others)


def _plain(signature):
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def _stream(port, signature):
    payload = signature.members["payload"]
    width = Shape.cast(payload.shape).width
    if width == 0:
        raise ValueError(f"stream {port!r} has a payload of 0 bits; a bench needs at least 1")
    plain = _plain(signature)
    if plain.always_valid or plain.always_ready:
        raise ValueError(f"stream {port!r} is always_valid or always_ready, which Amaranth cannot bring to "
                         "Verilog as a port; a bench needs plain valid and ready")
    return StreamPort(name=port, is_source=payload.flow == In, width=width)


def _indices(dimensions):
    if not dimensions:
        yield ()
        return
    for i in range(dimensions[0]):
        for rest in _indices(dimensions[1:]):
            yield (i, *rest)


def module_ports(verilog, module):
    """Names in the header of ``module`` in the files ``verilog`` (dict of name to text)."""
    for text in verilog.values():
        header = re.search(rf"^module\s+\\?{re.escape(module)}\s*\((.*?)\);", text, re.M | re.S)
        if header:
            return set(re.findall(r"\w+", header.group(1)))
    raise ValueError(f"module {module!r} is not in the Verilog of the design "
                     f"({', '.join(sorted(verilog)) or 'no file'})")


def top_verilog(*, module, streams, others, ports, constants=None):
    """Text of the top module :data:`TOP`, with the design as instance ``dut``.

    Parameters
    ----------
    module : str
    streams : list[StreamPort]
    others : list[tuple[str, int, bool]]
    ports : set[str]
        Ports the Verilog module has; a stream that is missing is an error.
    constants : dict[str, int]
        Values of inputs that are not streams; 0 where nothing is given.
    """
    constants = dict(constants or {})
    lines = [f"module {TOP} (", "    input logic clk,", "    input logic rst,",
             "    input logic [63:0] cycle,", "    input logic wakeup", ");"]
    joined = []
    for name in ("clk", "rst"):
        if name in ports:
            joined.append((name, name))
    for number, port in enumerate(streams):
        for part, width in (("payload", port.width), ("valid", 1), ("ready", 1)):
            wire = f"{port.name}__{part}"
            if wire not in ports:
                raise ValueError(f"stream {port.name!r}: module {module!r} has no port {wire!r}")
            lines.append(f"  logic [{width - 1}:0] {wire};" if part == "payload" else f"  logic {wire};")
            joined.append((wire, wire))
        kind = "source" if port.is_source else "sink"
        lines.append(f"  stream_{kind}_{port.words} #(.ID({number}), .WIDTH({port.width})) "
                     f"{kind}_{port.name} (")
        lines.append(f"      .clk, .rst, .valid({port.name}__valid), .payload({port.name}__payload), "
                     f".ready({port.name}__ready));")
    for name, width, is_input in others:
        if name not in ports:
            continue
        if is_input:
            value = constants.pop(name, 0)
            if not 0 <= value < 1 << width:
                raise ValueError(f"constant {name} = {value} does not fit its {width} bits")
            joined.append((name, f"{width}'h{value:x}"))
        else:
            lines.append(f"  logic [{width - 1}:0] {name};")
            joined.append((name, name))
    if constants:
        raise ValueError(f"constants {sorted(constants)} are not inputs of {module!r}; those are "
                         f"{sorted(name for name, _, is_input in others if is_input)}")
    lines.append(f"  {module} dut (")
    lines.append(",\n".join(f"      .{port}({wire})" for port, wire in joined))
    lines += ["  );", "endmodule", ""]
    return "\n".join(lines)


def end_modules(streams):
    """Source and sink modules for every beat size among ``streams``: dict of file name to text.

    An imported C function has one signature in a whole design, width included, so there is one module and
    one function a beat size; ``payloads.cc`` has those functions.
    """
    files = {}
    functions = ['#include "streams.h"', "", 'extern "C" {']
    for kind, const in (("source", ""), ("sink", "const ")):
        text = (SV / f"stream_{kind}.sv").read_text()
        for words in sorted({port.words for port in streams if port.is_source == (kind == "source")}):
            module = re.sub(rf"\b(stream_{kind}|tb_{kind}_payload)\b", rf"\1_{words}", text)
            files[f"stream_{kind}_{words}.sv"] = module
            functions.append(f"void tb_{kind}_payload_{words}(int id, {const}svBitVecVal* payload) "
                             f"{{ {kind}_payload(id, payload); }}")
    files["payloads.cc"] = "\n".join([*functions, "}", ""])
    return files


def public_file(probes, hierarchical=(), shared=(), waves=False):
    """Text of the ``.vlt`` file: the ports that cocotb uses, ``probes`` as (module, signal) pairs, the
    modules that are compiled by themselves, those whose code is not copied into each instance, and what is
    left out of waves.
    """
    lines = ["`verilator_config"]
    for name in ("clk", "rst", "cycle", "wakeup"):
        lines.append(f'public_flat_rw -module "{TOP}" -var "{name}"')
    for module, signal in probes:
        lines.append(f'public_flat_rd -module "{module}" -var "{signal}"')
    lines += [f'hier_block -module "{module}"' for module in hierarchical]
    lines += [f'no_inline -module "{module}"' for module in shared]
    if waves:
        # Each stream is shown once, by its name in the top.
        lines += ['tracing_off -file "*stream_source_*.sv"', 'tracing_off -file "*stream_sink_*.sv"']
    return "\n".join([*lines, ""])
