"""`jalapeno wave`: the last failure, in words and in a waveform viewer."""

import os
import shlex
import sys

import click

from scripts.options import OutputFile
from scripts.report import json_option, print_json, print_table


def _may_open() -> bool:
    """A viewer is only of use to a person at a terminal with a display."""
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(display)


@click.command()
@click.option("--open/--no-open", "opens", default=None,
              help="Open a viewer (Surfer or GTKWave); by default where there is a terminal and a display.")
@click.option("--picture", type=OutputFile(".png"), metavar="FILE.png",
              help="Draw the wave around the failure into a file.")
@click.option("--signal", "signals", multiple=True, metavar="NAME",
              help="A signal of the picture, as named in the wave; may be repeated.")
@json_option
def command(opens: bool | None, picture: str | None, signals: tuple[str, ...], as_json: bool):
    """Describe the last failure and open its waveform at the place in question."""
    from tb import lastrun

    opens = (_may_open() and not as_json) if opens is None else opens
    last = lastrun.open_viewer() if opens else lastrun.describe()
    if picture:
        drawn = lastrun.render(picture, signals=list(signals) or None)
        last.setdefault("files", {})["picture"] = str(drawn)
    if as_json:
        print_json(last)
        return
    print(last["sentence"])
    if not last["found"]:
        return
    print_table("Files", ("what", "where"), sorted(last["files"].items()))
    for viewer in last["viewers"]:
        note = "" if viewer["installed"] else "  (not installed)"
        print(f"open:   {shlex.join(viewer['command'])}{note}")
    if last["repeat"]:
        print(f"repeat: {last['repeat']}")
    if opens:
        print(f"opened: {shlex.join(last['opened'])}" if last["opened"] else f"not opened: {last['reason']}")
