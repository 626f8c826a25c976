"""Bugs behind a switch that is set at run time, so that one build serves all.

A bug is a change of text in modules of ``hw``, made in a private copy of them: ``bug('name')`` in the changed
text is a bit. Used by tb/hbm/planted.py and tb/core/planted.py.
"""

import contextlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

__all__ = ["Switch", "SwitchedBench", "changed_text", "plain", "private_copies", "source_file"]

ROOT = Path(__file__).parents[1]


class Switch:
    """Which bug is on.

    Parameters
    ----------
    names : sequence of str
    holds : bool
        A reset leaves it as it is.

    Attributes
    ----------
    signal : Signal
        0 for none, else :meth:`number_of` a bug.
    """

    def __init__(self, names, *, holds=False):
        self.names = tuple(names)
        self.signal = Signal(range(len(self.names) + 1), name="planted", reset_less=holds)

    def number_of(self, name):
        """The value of the switch that turns the bug ``name`` on."""
        return self.names.index(name) + 1

    def bug(self, name):
        """A bit: the bug ``name`` is on."""
        return self.signal == self.number_of(name)


class plain:
    """In place of :mod:`hw.emit`: all in one module, so that the switch reaches everything."""

    @staticmethod
    def place(m, name, component):
        m.submodules[name] = component
        return component


def source_file(module):
    """The file of a module of this tree."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def changed_text(module, changes):
    """Text of a module with its changes.

    Parameters
    ----------
    changes : iterable of (bug, right, wrong)
        ``right`` is in the text exactly once; ``wrong`` stands there instead.

    Raises
    ------
    ValueError
        The place of a bug is not there exactly once: the module has changed since.
    """
    text = source_file(module).read_text(encoding="utf-8")
    for name, right, wrong in changes:
        if text.count(right) != 1:
            raise ValueError(f"bug {name}: {right!r} is in {module} {text.count(right)} times, not once")
        text = text.replace(right, wrong)
    return text


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from changed text, and neither reads nor writes its compiled form."""

    def __init__(self, name, source):
        super().__init__(name, str(source_file(name)))
        self._source = source

    def get_code(self, fullname):
        return compile(self._source(fullname), self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, wanted, source):
        self._wanted, self._source = wanted, source

    def find_spec(self, name, path=None, target=None):
        if not self._wanted(name) or not source_file(name).is_file():
            return None  # packages are found as ever
        return importlib.util.spec_from_loader(name, _Loader(name, self._source),
                                               origin=str(source_file(name)))


@contextlib.contextmanager
def private_copies(wanted, source):
    """Within, modules are imported anew from changed text; afterwards everything is as it was.

    Parameters
    ----------
    wanted : function of a module's full name: whether it is one of them
    source : function of its full name: its text
    """
    def ours():
        return [name for name in list(sys.modules) if wanted(name)]

    saved = {name: sys.modules.pop(name) for name in ours()}
    finder = _Finder(wanted, source)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in ours():
            del sys.modules[name]
        sys.modules.update(saved)
        for name, module in saved.items():
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)


class SwitchedBench(wiring.Component):
    """A bench with all bugs, and a stream ``planted`` that sets the switch.

    Parameters
    ----------
    bench : wiring.Component
    switch : Switch
    """

    def __init__(self, bench, switch):
        self._bench, self._switch = bench, switch
        super().__init__({**bench.signature.members,
                          "planted": In(stream.Signature(len(switch.signal)))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bench = bench = self._bench
        for path, member, value in bench.signature.flatten(bench):
            outer = self
            for part in path:
                outer = outer[part] if isinstance(part, int) else getattr(outer, part)
            m.d.comb += value.eq(outer) if member.flow is In else outer.eq(value)
        m.d.comb += self.planted.ready.eq(1)
        with m.If(self.planted.valid):
            m.d.sync += self._switch.signal.eq(self.planted.payload)
        return m
