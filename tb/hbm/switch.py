"""The switch of planted bugs: what the changed text of :mod:`tb.hbm.planted` refers to."""

from amaranth.hdl import Mux

from tb.switched import Switch, plain

from .table import RULES

__all__ = ["SWITCH", "bug", "number_of", "plain", "short", "switch"]

SWITCH = Switch(RULES)
"""Which rule is broken."""

switch, number_of, bug = SWITCH.signal, SWITCH.number_of, SWITCH.bug


def short(history, rule):
    """A history of registers whose last one counts as empty while the bug is on."""
    return [*history[:-1], Mux(bug(rule), 0, history[-1])]
