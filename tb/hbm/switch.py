"""The switch of planted bugs: what the changed text of :mod:`tb.hbm.planted` refers to."""

from amaranth.hdl import Mux, Signal

from .table import RULES

__all__ = ["bug", "number_of", "plain", "short", "switch"]

switch = Signal(range(len(RULES) + 1), name="planted")
"""Which bug is on: 0 for none, else :func:`number_of` its rule."""


def number_of(rule):
    """The value of the switch that breaks ``rule``."""
    return RULES.index(rule) + 1


def bug(rule):
    """A bit: the bug that breaks ``rule`` is on."""
    return switch == number_of(rule)


def short(history, rule):
    """A history of registers whose last one counts as empty while the bug is on."""
    return [*history[:-1], Mux(bug(rule), 0, history[-1])]


class plain:
    """In place of :mod:`hw.emit`: all in one module, so that the switch reaches everything."""

    @staticmethod
    def place(m, name, component):
        m.submodules[name] = component
        return component
