"""Bugs planted in the HBM controller, one for each rule of the device, and how many both checkers catch."""

import tempfile
from pathlib import Path

from tb.hbm.planted import planted_bench, verdict
from tb.hbm.table import RULES
from tb.simulator import Simulator

KEYS = ("planted.hbm.",)


def measure(*, quick: bool) -> dict[str, object]:
    """How many rules there are, and for how many the device and the trace checker name the broken rule."""
    if quick:
        return {}  # a build and a run for each rule take minutes
    with Simulator(planted_bench()) as simulator, tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace"
        right = verdict(simulator, None, trace)
        if right.sentence or right.checker:
            raise AssertionError("the controller without a bug breaks "
                                 f"{right.sentence or sorted(right.checker)}")
        caught = sum(verdict(simulator, rule, trace).caught for rule in RULES)
    return {"planted.hbm.total": len(RULES), "planted.hbm.caught": caught}
