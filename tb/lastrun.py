"""The last failure: what it was, which files it left, and how to look at it (``jalapeno wave``)."""

import json
import shutil
import subprocess
from pathlib import Path

from tb import picture, runs, views
from tb.wave import Wave

__all__ = ["describe", "open_viewer", "render"]


def describe():
    """The last failure as a dict.

    Returns
    -------
    dict
        ``found`` (bool), ``sentence``; where one was found also ``directory``, ``report`` (the JSON report),
        ``files`` (name to path), ``cycle`` (marker, as in the wave; None without one), ``viewers`` (commands
        that open the wave: installed ones first) and ``repeat``.
    """
    directory = runs.last_failure()
    if directory is None:
        return {"found": False, "sentence": f"No failure is recorded under {runs.runs_root()}."}
    report = json.loads((directory / "failure.json").read_text())
    files = {"report": directory / "failure.json", "text": directory / "failure.txt",
             "manifest": directory / "manifest.json"}
    wave = directory / "wave.fst"
    if wave.is_file():
        files |= {"wave": wave, "gtkwave": directory / "view.gtkw", "surfer": directory / "view.sucl"}
    files = {name: str(path) for name, path in files.items() if path.is_file()}
    return {"found": True, "sentence": report["sentence"], "directory": str(directory), "report": report,
            "files": files, "cycle": report.get("wave_cycle"), "viewers": _viewers(files),
            "repeat": report.get("command")}


def _viewers(files):
    """Commands as lists, each with whether its program is installed."""
    if "wave" not in files:
        return []
    commands = []
    if "surfer" in files:
        commands.append(["surfer", files["wave"], "--command-file", files["surfer"]])
    if "gtkwave" in files:
        commands.append(["gtkwave", "--dump", files["wave"], "--save", files["gtkwave"]])
    found = [{"command": command, "installed": shutil.which(command[0]) is not None} for command in commands]
    return sorted(found, key=lambda viewer: not viewer["installed"])


def open_viewer():
    """Open the wave of the last failure in the first viewer that is installed.

    Returns
    -------
    dict
        As :func:`describe`, with ``opened`` (the command, or None) and, where nothing was opened, ``reason``.
    """
    last = describe()
    last["opened"] = None
    if not last["found"]:
        last["reason"] = last["sentence"]
    elif not last["viewers"]:
        last["reason"] = f"the run has no wave; {last['report']['wave_command']} makes one"
    elif not last["viewers"][0]["installed"]:
        last["reason"] = "neither surfer nor gtkwave is installed"
    else:
        command = last["viewers"][0]["command"]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True)
        last["opened"] = command
    return last


def _busy(wave, first, start, end):
    """Signals of the stream ``first``, and of streams with valid between two cycles."""
    def busy(stream):
        values = [wave.value(f"{stream}__valid", cycle) for cycle in range(max(start, 0), end + 1)]
        return 1 in values

    streams = [name.removesuffix("__valid") for name in wave.names
               if name.startswith("bench.") and name.count(".") == 1 and name.endswith("__valid")]
    chosen = [stream for stream in streams if stream == f"bench.{first}"]
    chosen += [stream for stream in streams if stream not in chosen and busy(stream)]
    return [f"{stream}__{part}" for stream in chosen[:8] for part in ("valid", "ready", "payload")]


def render(path=None, *, signals=None, before=12, after=8):
    """Draw the last failure's wave around its marker into a PNG file and return its path.

    Parameters
    ----------
    path : path, optional
        ``wave.png`` in the run's directory where not given.
    signals : list[str], optional
        Names as in the wave; where not given, the stream in question and up to seven others that are busy
        in the part that is drawn.

    Raises
    ------
    ValueError
        There is no failure, or it has no wave.
    """
    last = describe()
    if not last["found"] or "wave" not in last["files"]:
        raise ValueError(last["sentence"] if not last["found"] else
                         f"the last failure has no wave; {last['report']['wave_command']} makes one")
    wave = Wave(last["files"]["wave"])
    cycle = last["cycle"] or 0
    if signals is None:
        signals = ["bench.clk", *_busy(wave, last["report"].get("stream"), cycle - before, cycle + after)]
    lines = [views.Signal(name=name, width=wave.width(name) or 1,
                          radix="bin" if wave.width(name) == 1 else "hex") for name in signals]
    target = Path(path) if path else Path(last["directory"]) / "wave.png"
    return picture.draw(target, last["files"]["wave"], lines, cycle=cycle, before=before, after=after,
                        title=last["report"]["problem"][:110])
