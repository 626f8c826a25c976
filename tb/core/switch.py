"""The switch of planted bugs of the core: what the changed text of :mod:`tb.core.planted` refers to."""

from tb.switched import Switch, plain

from .bugs import PLANTED

__all__ = ["SWITCH", "bug", "plain"]

SWITCH = Switch(PLANTED, holds=True)
"""Which bug is on, through resets: a run begins with one."""

bug = SWITCH.bug
