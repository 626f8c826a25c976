"""Views of a wave file for GTKWave (``.gtkw``) and Surfer (``.sucl``, a command file): groups by stream and
block, radix, a marker at the place in question.
"""

import math
import re
from dataclasses import dataclass, field

from tb.wave import PERIOD, Wave

__all__ = ["Group", "Signal", "default_groups", "write_gtkwave", "write_surfer", "write_views"]

# Formats: display flags of GTKWave, name of the translator in Surfer.
RADIX = {"bin": ("@28", "Binary"), "hex": ("@22", "Hexadecimal"), "dec": ("@24", "Unsigned"),
         "sdec": ("@420", "Signed"), "float32": ("@22", "FP: 32-bit IEEE 754")}
BLOCK_SIGNALS = 24  # of one block; more is not a view but a listing


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One line of a view: full name in the wave, bits, and radix (a key of :data:`RADIX`)."""

    name: str
    width: int
    radix: str = "hex"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Lines under one heading."""

    name: str
    signals: list = field(default_factory=list)


def default_groups(path, streams, *, first=None, radix=None):
    """The view that fits every bench: clock and cycle, each stream, each block right below the design.

    Parameters
    ----------
    path : path
        Wave file; only signals that are in it are named.
    streams : list[tb.top.StreamPort]
    first : str, optional
        Name of the stream in question, which comes first.
    radix : dict[str, str], optional
        Radix of signals by the last part of their name.
    """
    wave = Wave(path)
    radix = radix or {}
    names = wave.names

    def signal(name):
        width = wave.width(name) or 1
        last = name.rsplit(".", 1)[-1]
        plain = "dec" if last == "cycle" else "bin" if width == 1 else "hex"
        return Signal(name=name, width=width, radix=radix.get(last, plain))

    present = set(names)
    groups = [Group(name="run", signals=[signal(f"bench.{n}") for n in ("clk", "rst", "cycle")
                                         if f"bench.{n}" in present])]
    for port in sorted(streams, key=lambda port: port.name != first):
        parts = [f"bench.{port.name}__{part}" for part in ("valid", "ready", "payload")]
        groups.append(Group(name=port.name, signals=[signal(n) for n in parts if n in present]))
    blocks = {}
    for name in names:
        match = re.fullmatch(r"bench\.dut\.(\w+)\.(\w+)", name)
        if match and match[2] not in ("clk", "rst") and not wave.is_parameter(name):
            blocks.setdefault(match[1], []).append(name)
    for block, inside in blocks.items():
        groups.append(Group(name=block, signals=[signal(n) for n in inside[:BLOCK_SIGNALS]]))
    return [group for group in groups if group.signals]


def write_gtkwave(path, wave, groups, *, cycle):
    """Write a GTKWave save file for the wave file ``wave`` with its marker at ``cycle``."""
    time = cycle * PERIOD
    # The zoom is a negative power of two of time units a pixel; 40 cycles fill a screen.
    zoom = -math.log2(40 * PERIOD / 800)
    lines = [f'[dumpfile] "{wave}"', f'[savefile] "{path}"', f"[timestart] {max(time - 20 * PERIOD, 0)}",
             f"*{zoom:.6f} {time}" + " -1" * 26, "[treeopen] bench."]
    for group in groups:
        lines += ["@800200", f"-{group.name}"]
        for signal in group.signals:
            lines.append(RADIX[signal.radix][0])
            lines.append(signal.name if signal.width == 1 else f"{signal.name}[{signal.width - 1}:0]")
        lines += ["@1000200", f"-{group.name}"]
    path.write_text("\n".join([*lines, "[pattern_trace] 1", "[pattern_trace] 0", ""]))


def write_surfer(path, groups, *, cycle):
    """Write a Surfer command file (``surfer WAVE --command-file PATH``) with its marker at ``cycle``."""
    lines, item = [], 0
    for group in groups:
        lines.append(f"divider_add {group.name}")
        item += 1
        for signal in group.signals:
            lines.append(f"variable_add {signal.name}")
            if signal.width > 1:
                lines += [f"item_focus {_letters(item)}_", f"item_set_format {RADIX[signal.radix][1]}",
                          "item_unfocus"]
            item += 1
    time = cycle * PERIOD
    lines += [f"marker_set failure {time}", f"cursor_set {time}"]
    path.write_text("\n".join([*lines, ""]))


def write_views(directory, wave, streams, *, cycle, first=None, radix=None):
    """Both views beside each other: ``{"gtkwave": Path, "surfer": Path}``."""
    groups = default_groups(wave, streams, first=first, radix=radix)
    gtkwave, surfer = directory / "view.gtkw", directory / "view.sucl"
    write_gtkwave(gtkwave, wave, groups, cycle=cycle)
    write_surfer(surfer, groups, cycle=cycle)
    return {"gtkwave": gtkwave, "surfer": surfer}


def _letters(number):
    """Surfer's name for line ``number``: its hexadecimal digits written as a to p."""
    return "".join(chr(ord("a") + int(digit, 16)) for digit in f"{number:x}")
