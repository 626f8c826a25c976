"""Verilog with every distinct module emitted once.

Amaranth writes one Verilog module per instance. An array of 16,384 equal quads would become 16,384
modules, which no simulator compiles in reasonable time. Hierarchy that repeats is therefore placed with
:func:`place`:

* in Python simulation it is an ordinary submodule;
* while :func:`verilog` runs, it becomes an ``Instance`` of a module which is converted once, under the
  name that the component gives as ``module_name``.

The two views hold the same logic; tests run the same jobs on both.
"""

import gc
import re
from contextvars import ContextVar

from amaranth.back import verilog as amaranth_verilog
from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.lib import wiring

__all__ = ["place", "verilog"]

_emitter = ContextVar("emitter", default=None)


def place(m, name, component):
    """Add ``component`` to ``m`` under ``name``: a submodule, or an instance while Verilog is emitted.

    ``component.module_name`` (str) must be equal for two components if and only if their parameters are.
    """
    emitter = _emitter.get()
    m.submodules[name] = component if emitter is None else emitter.instance(component)
    return component


def verilog(component, *, name):
    """Convert ``component`` into Verilog.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Module name of the top.

    Returns
    -------
    dict[str, str]
        File name to text, one file a module, in order of dependence (the top last). The same component
        gives the same bytes, whatever ``PYTHONHASHSEED`` is.
    """
    emitter = _Emitter()
    token = _emitter.set(emitter)
    collecting = gc.isenabled()
    gc.disable()  # conversion allocates millions of small objects and frees none: 1.6 times faster
    try:
        emitter.convert(component, name)
    finally:
        _emitter.reset(token)
        if collecting:
            gc.enable()
    return {f"{module}.v": text for module, text in emitter.texts.items()}


class _Emitter:
    def __init__(self):
        self.texts = {}
        self.origin = {}

    def convert(self, component, name):
        text = amaranth_verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
        self.texts[name] = text

    def instance(self, component):
        name = component.module_name
        description = (type(component), component.signature)
        if name not in self.origin:
            self.origin[name] = description
            self.convert(component, name)
        elif self.origin[name] != description:
            raise ValueError(f"module name {name!r} stands for two different components: "
                             f"{self.origin[name]!r} and {description!r}")
        return Instance(name, **_ports(component, self.texts[name]))


def _ports(component, text):
    """Connections of an instance: every member of the signature, and the clock and reset it asks for."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = "o" if member.flow is wiring.Out else "i"
        ports[f"{direction}_{'__'.join(str(part) for part in path)}"] = Value.cast(value)
    header = re.search(r"^module .*?\);", text, re.M | re.S).group(0)
    names = set(re.findall(r"\w+", header))
    if "clk" in names:
        ports["i_clk"] = ClockSignal()
    if "rst" in names:
        ports["i_rst"] = ResetSignal()
    return ports
