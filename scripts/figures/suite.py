"""How long the test suite takes, from the record which its last whole run left (tests/conftest.py)."""

import json
import subprocess

from scripts.figures.collect import ROOT, FigureError

KEYS = ("tests.",)
RECORD = ROOT / ".build" / "test-suite.json"


def measure(*, quick: bool) -> dict[str, object]:
    """Minutes of `make test`, which is run here if it left no record yet."""
    if quick:
        return {}
    if not RECORD.exists():
        subprocess.run(["make", "test"], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    if not RECORD.exists():
        raise FigureError("tests.minutes was not measured: `make test` has to pass first")
    return {"tests.minutes": round(json.loads(RECORD.read_text(encoding="utf-8"))["seconds"] / 60, 2)}
