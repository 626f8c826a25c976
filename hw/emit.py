"""Verilog with every distinct module emitted once.

Amaranth writes one Verilog module per instance. An array of 16,384 equal quads would become 16,384
modules, which no simulator compiles in reasonable time. Hierarchy that repeats is therefore placed with
:func:`place`:

* in Python simulation it is an ordinary submodule;
* while :func:`verilog` runs, it becomes an ``Instance`` of a module which is converted once, under the
  name that the component gives as ``module_name``.

The two views hold the same logic; tests run the same jobs on both.

Amaranth writes a case statement for each choice and an adder as wide as its operands could need. A component
that occurs often can ask for a leaner text with the class attribute ``simplified = True``; it then holds for
what is placed below it too. Yosys makes choices expressions, drops bits that nobody reads and turns a choice
in front of a register into its enable. Named signals stay. Verilator makes one body of code for all its
instances where less is left to be named by itself (docs/simulation.md).
"""

import gc
import re
from contextvars import ContextVar

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

__all__ = ["place", "verilog"]

#: Passes of Yosys for a module that asks to be simplified.
SIMPLIFY = ("proc -norom", "memory_collect", "opt_clean", "wreduce", "opt_clean", "opt_dff -nosdff",
            "opt_clean")
#: Attributes by which Amaranth and Yosys remember where something came from.
INTERNAL = ("generator", "top", "src", "amaranth.hierarchy", "amaranth.decoding")

_emitter = ContextVar("emitter", default=None)


def place(m, name, component):
    """Add ``component`` to ``m`` under ``name``: a submodule, or an instance while Verilog is emitted.

    ``component.module_name`` (str) must be equal for two components if and only if their parameters are.
    """
    emitter = _emitter.get()
    m.submodules[name] = component if emitter is None else emitter.instance(component)
    return component


def verilog(component, *, name, view="rtl"):
    """Convert ``component`` into Verilog.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Module name of the top.
    view : "rtl" or "fast"
        "fast" takes, for each placed component that has a method ``fast_view()``, the files that it returns
        (a simulation-only description of the same module in ``<module>.sv``, and C++ that it calls), in
        place of the RTL below it. A placed component that has a method ``simulation_files()`` is no part of
        the design, such as the model of a device: its files are taken in both views.

    Returns
    -------
    dict[str, str]
        File name to text, one file a placed module, in order of dependence (the top last). The same
        component gives the same bytes, whatever ``PYTHONHASHSEED`` is.
    """
    if view not in ("rtl", "fast"):
        raise ValueError(f"view is {view!r}; allowed are 'rtl' and 'fast'")
    emitter = _Emitter(view)
    token = _emitter.set(emitter)
    collecting = gc.isenabled()
    gc.disable()  # conversion allocates millions of small objects and frees none: 1.6 times faster
    try:
        emitter.convert(component, name)
    finally:
        _emitter.reset(token)
        if collecting:
            gc.enable()
    return emitter.files()


class _Emitter:
    """Collects RTLIL, one text a placed component; Yosys, which starts slowly, writes them all at once."""

    def __init__(self, view):
        self.view = view
        self.texts = {}
        self.fast = {}
        self.origin = {}
        self.simplified = []
        self.simplifying = False

    def convert(self, component, name):
        ports = {}
        for path, member, value in component.signature.flatten(component):
            direction = PortDirection.Input if member.flow is wiring.In else PortDirection.Output
            ports["__".join(map(str, path))] = (Value.cast(value), direction)
        self.texts[name] = rtlil.convert(component, name=name, ports=ports, emit_src=False)

    def instance(self, component):
        name = component.module_name
        description = (type(component), component.signature)
        if name not in self.origin:
            self.origin[name] = description
            if hasattr(component, "simulation_files"):
                self.fast[name] = component.simulation_files()
            elif self.view == "fast" and hasattr(component, "fast_view"):
                self.fast[name] = component.fast_view()
            else:
                self._place(component, name)
        elif self.origin[name] != description:
            raise ValueError(f"module name {name!r} stands for two different components: "
                             f"{self.origin[name]!r} and {description!r}")
        # An instance elsewhere is no use of the Python object: say that it was not forgotten.
        component._MustUse__silence = True
        return Instance(name, **self._connections(component, name))

    def _place(self, component, name):
        outside = self.simplifying
        self.simplifying = outside or getattr(component, "simplified", False)
        if self.simplifying:
            self.simplified.append(name)
        self.convert(component, name)
        self.simplifying = outside

    def _connections(self, component, name):
        """Every member of the signature, and the clock and reset the module asks for."""
        connections = {}
        for path, member, value in component.signature.flatten(component):
            direction = "o" if member.flow is wiring.Out else "i"
            connections[f"{direction}_{'__'.join(map(str, path))}"] = Value.cast(value)
        if name in self.fast:
            asks = set(re.findall(r"\b(clk|rst)\b", self.fast[name][f"{name}.sv"]))
        else:
            top = self.texts[name].split(f"module \\{name}\n", 1)[1]
            ports = top.split("\nend\n")[0]
            asks = set(re.findall(r"^\s*wire width 1 input +\d+ +\\(clk|rst)$", ports, re.M))
        if "clk" in asks:
            connections["i_clk"] = ClockSignal()
        if "rst" in asks:
            connections["i_rst"] = ResetSignal()
        return connections

    def files(self):
        text = _write("\n".join(self.texts.values()), self.simplified)
        modules = {name: [] for name in self.texts}
        for module in re.findall(r"^(?:\(\*.*\*\)\n)*module .*?^endmodule\n", text, re.M | re.S):
            header = re.search(r"^module \\?([^\s(]+)", module, re.M).group(1)
            # Plain submodules are named after the placed module that they are in: "unit.sequencer".
            modules[header.split(".", 1)[0]].append(module)
        files = {}
        for fast in self.fast.values():
            files |= fast
        return files | {f"{name}.v": "\n".join(parts) for name, parts in modules.items()}


def _write(text, simplified):
    """Verilog of RTLIL, the modules named in ``simplified`` after the passes of ``SIMPLIFY``."""
    without = " ".join(f"-remove {attribute}" for attribute in INTERNAL)
    script = [f"read_rtlil <<rtlil\n{text}\nrtlil",
              # Plain submodules have the name of their module in front.
              *(f"{command} {name} {name}.*" for name in simplified for command in SIMPLIFY),
              "proc -nomux -norom", "memory_collect", f"attrmap {without}", f"attrmap -modattr {without}",
              "write_verilog -norename"]
    # As in amaranth.back.verilog: the version, and the warnings about processes that are always translated.
    yosys = find_yosys(lambda version: version >= (0, 40))
    text = yosys.run(["-q", "-"], "\n".join(script), ignore_warnings=True)
    # A block that reads nothing, for a part of a struct that is constant, would never run.
    return re.sub(r"^  always @\*\n(    [^\n=]+ = [\da-f'hxb_,{} ]+;)$", r"  always_comb\n\1", text,
                  flags=re.M)
