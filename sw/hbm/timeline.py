"""A picture of the commands of one pseudo-channel: bank rows against time."""

import numpy as np

from tb.hbm.trace import OPS, Bus

__all__ = ["draw"]

NUMBER = {name: number for number, name in enumerate(OPS)}
COLOURS = {"ACT": "#2e7d32", "PRE": "#c62828", "RD": "#1565c0", "RDA": "#00acc1", "WR": "#ef6c00",
           "WRA": "#8e24aa", "refresh": "#bdbdbd"}
MARKS = {"ACT": ">", "PRE": "<", "RD": "|", "RDA": "|", "WR": "|", "WRA": "|"}


def draw(path, measured, config, *, title, device=0, first_ns=None, length_ns=1000.0):
    """Write a PNG of ``length_ns`` from ``first_ns`` (default: in the middle of the trace).

    A green mark opens a row and a red one closes it, with a line between as long as the row is open; column
    commands are strokes, in another colour where they close the row themselves; grey is a bank in refresh.

    Raises
    ------
    ValueError
        No command of the device lies in this time.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    trace, ck = measured.trace, measured.ck_ns
    commands = trace[(trace["device"] == device) & (trace["bus"] != Bus.MARK)]
    if not len(commands):
        raise ValueError(f"device = {device}: has no commands in the trace")
    commands = commands[np.argsort(commands["ck"], kind="stable")]
    time = commands["ck"] * ck
    first = (time[0] + time[-1]) / 2 if first_ns is None else first_ns
    bank = commands["stack"].astype(int) * config.banks + commands["bank"]
    inside = (time >= first) & (time < first + length_ns)
    if not inside.any():
        raise ValueError(f"first_ns = {first}: no command lies in the {length_ns} ns from there on")
    banks = config.stack_ids * config.banks
    figure = Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplots()
    _open_rows(axes, commands, time, bank, first, first + length_ns, banks)
    refresh = {"REFPB": config.timings.rfc_bank, "REFAB": config.timings.rfc_all}
    for name, duration in refresh.items():
        for at in np.flatnonzero(commands["op"] == NUMBER[name]):
            if time[at] < first + length_ns and time[at] + duration > first:
                low, count = (bank[at], 1) if name == "REFPB" else (0, banks)
                axes.broken_barh([(time[at] - first, duration)], (low - 0.42, count - 0.16),
                                 color=COLOURS["refresh"], zorder=1)
    for name, mark in MARKS.items():
        mine = inside & (commands["op"] == NUMBER[name])
        axes.scatter(time[mine] - first, bank[mine], marker=mark, color=COLOURS[name], zorder=3,
                     s=70 if mark == "|" else 26, linewidths=1.4 if mark == "|" else 0.5)
    for stack in range(1, config.stack_ids):
        axes.axhline(stack * config.banks - 0.5, color="black", linewidth=0.8)
    axes.set_yticks(range(0, banks, 4), [f"SID {b // config.banks} bank {b % config.banks}"
                                         for b in range(0, banks, 4)])
    axes.set(xlim=(0, length_ns), ylim=(banks - 0.5, -0.5), title=title,
             xlabel=f"ns, from {first:,.0f} ns after reset")
    axes.grid(axis="x", color="#eeeeee", zorder=0)
    handles = [Line2D([], [], linestyle="", marker=mark, color=COLOURS[name], label=name, markersize=8,
                      markeredgewidth=1.6) for name, mark in MARKS.items()]
    handles.append(Patch(color=COLOURS["refresh"], label="refresh"))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=len(handles),
                frameon=False)
    figure.savefig(path, dpi=110)


def _open_rows(axes, commands, time, bank, begin, end, banks):
    """A line from each ACT to the PRE, or to the last RDA or WRA, that closes its row."""
    closing = [NUMBER[name] for name in ("PRE", "RDA", "WRA")]
    for number in range(banks):
        mine = np.flatnonzero(bank == number)
        opened = None
        for at in mine:
            if commands["op"][at] == NUMBER["ACT"]:
                opened = time[at]
            elif opened is not None and commands["op"][at] in closing:
                if time[at] > begin and opened < end:
                    axes.plot([opened - begin, time[at] - begin], [number, number], color="#90a4ae",
                              linewidth=1, zorder=2)
                opened = None
        if opened is not None and opened < end:
            axes.plot([opened - begin, end - begin], [number, number], color="#90a4ae", linewidth=1, zorder=2)
