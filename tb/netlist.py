"""Names in generated Verilog: which module a hierarchical name lies in."""

import re

__all__ = ["Netlist"]

_NAME = r"(?:\\(\S+)|(\w+))"
_MODULE = re.compile(rf"^module\s+{_NAME}\s*\(.*?\);(.*?)^endmodule", re.M | re.S)
_INSTANCE = re.compile(rf"^\s+{_NAME}\s+(?:#\(.*?\)\s*)?{_NAME}\s*\($", re.M)
_SIGNAL = re.compile(rf"^\s+(?:input|output|wire|reg|logic)\s+(?:signed\s+)?(?:\[[^]]*\]\s*)?{_NAME}\s*[;=]",
                     re.M)


class Netlist:
    """Modules, instances and signals of Verilog as Yosys writes it.

    Parameters
    ----------
    files : dict[str, str]
        File name to text.
    """

    def __init__(self, files):
        self._bodies = {}
        for text in files.values():
            for match in _MODULE.finditer(text):
                self._bodies[match[1] or match[2]] = match[3]

    def instances(self, module):
        """Instance name to module name, of what lies right below ``module``."""
        found = {}
        for match in _INSTANCE.finditer(self._body(module)):
            kind, name = match[1] or match[2], match[3] or match[4]
            if kind in self._bodies:
                found[name] = kind
        return found

    def signals(self, module):
        """Names of the signals of ``module``, in the order of the text."""
        # A port is declared twice, as a port and as a wire or register.
        return list(dict.fromkeys(match[1] or match[2] for match in _SIGNAL.finditer(self._body(module))))

    def resolve(self, top, path):
        """(module, signal) for the name ``path`` below the module ``top``: ``"control.state"``.

        Raises
        ------
        ValueError
            There is no such instance or signal; the message lists what there is.
        """
        module = top
        *blocks, signal = path.split(".")
        for depth, block in enumerate(blocks):
            inside = self.instances(module)
            if block not in inside:
                where = ".".join(blocks[:depth]) or top
                raise ValueError(f"{path!r}: {where} has no block {block!r}; it has "
                                 f"{', '.join(inside) or 'none'}")
            module = inside[block]
        names = self.signals(module)
        if signal not in names:
            plain = [name for name in names if "$" not in name]
            raise ValueError(f"{path!r}: {'.'.join(blocks) or top} has no signal {signal!r}; it has "
                             f"{', '.join(plain[:40])}{' and more' if len(plain) > 40 else ''}")
        return module, signal

    def _body(self, module):
        try:
            return self._bodies[module]
        except KeyError:
            raise ValueError(f"module {module!r} is not in the Verilog of the design") from None
