"""Bugs planted in the matrix engine one at a time, and how many of them the checks catch."""

from tb.matrix.planted import verdict
from tb.planted import PLANTED

KEYS = ("planted.matrix.",)


def measure(*, quick: bool) -> dict[str, object]:
    """How many bugs there are, and for how many the report names the first wrong element."""
    if quick:
        return {}  # tests/test_planted.py plants the same bugs
    if verdict().caught:
        raise AssertionError("the engine without a planted bug fails the same jobs")
    verdicts = [verdict(bug) for bug in PLANTED]
    return {"planted.matrix.total": len(verdicts),
            "planted.matrix.caught": sum(found.caught for found in verdicts)}
