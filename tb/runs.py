"""Directories of single runs: ``runs/<time>-<test>/`` with a manifest, reports and waves.

``runs/last`` names the newest failure, for ``jalapeno wave``.
"""

import json
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

__all__ = ["default_command", "last_failure", "new_run", "runs_root", "set_last_failure", "wave_window",
           "waves_wanted"]

PROJECT = Path(__file__).parent.parent
KEPT = 100  # runs; older ones are removed


def runs_root():
    """Directory of all runs: ``JALAPENO_RUNS_DIR``, or ``runs`` in the project."""
    return Path(os.environ.get("JALAPENO_RUNS_DIR") or PROJECT / "runs").absolute()


def waves_wanted():
    """Whether the environment asks for waves of everything (``JALAPENO_WAVES=1``)."""
    return os.environ.get("JALAPENO_WAVES", "") not in ("", "0")


def wave_window():
    """First and last cycle of the waves that the environment asks for.

    ``JALAPENO_WAVE_CYCLES=FIRST:LAST`` (cycle numbers as in the wave; either may be empty) keeps the wave of
    a long job small.

    Raises
    ------
    ValueError
        The variable is not two numbers in order.
    """
    text = os.environ.get("JALAPENO_WAVE_CYCLES", ":")
    match = re.fullmatch(r"(\d*):(\d*)", text)
    first = int(match[1] or 0) if match else 0
    last = int(match[2]) if match and match[2] else None
    if not match or (last is not None and last < first):
        raise ValueError(f"JALAPENO_WAVE_CYCLES is {text!r}; it must be FIRST:LAST, cycle numbers in order")
    return first, last


def default_command():
    """The command that started this process, as a person would type it in the project's directory."""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test:
        return f"pytest {shlex.quote(test.rsplit(' ', 1)[0])}"
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    if name.endswith(".py"):
        name = f"python {sys.argv[0]}"
    return " ".join([name, *[shlex.quote(arg) for arg in sys.argv[1:]]])


def new_run(test, manifest):
    """Make a directory for a run of ``test`` with ``manifest`` (a dict) in ``manifest.json``."""
    root = runs_root()
    root.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", test).strip("-")[:60] or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 0
    while True:
        directory = root / (f"{stamp}-{slug}" + (f"-{number}" if number else ""))
        try:
            directory.mkdir()
            break
        except FileExistsError:
            number += 1
    write_json(directory / "manifest.json", manifest)
    _prune(root)
    return directory


def write_json(path, tree):
    """Write ``tree`` to ``path`` in one step, so that a reader never sees half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(tree, indent=1, default=str) + "\n")
    part.replace(path)


def set_last_failure(directory):
    """Make ``directory`` the one that ``jalapeno wave`` shows."""
    write_json(runs_root() / "last.json", {"directory": directory.name})


def last_failure():
    """Directory of the newest failure, or None."""
    try:
        name = json.loads((runs_root() / "last.json").read_text())["directory"]
    except (OSError, ValueError, KeyError):
        return None
    directory = runs_root() / name
    return directory if (directory / "failure.json").exists() else None


def _prune(root):
    directories = sorted(path for path in root.iterdir() if path.is_dir())
    for path in directories[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
