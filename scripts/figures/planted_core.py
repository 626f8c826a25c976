"""Bugs planted in the core one at a time, and how many lockstep with the sequential model finds."""

from tb.core.bugs import PLANTED
from tb.core.campaign import random_case, run_case
from tb.core.planted import PlantedSimulator, planted_bench

KEYS = ("planted.core.",)


def measure(*, quick: bool) -> dict[str, object]:
    """How many bugs there are, and how many of them a random program finds."""
    if quick:
        return {}  # tests/test_core_planted.py plants some of them
    with PlantedSimulator(planted_bench()) as simulator:
        simulator.plant(None)
        for seed in range(16):
            run_case(simulator, random_case(seed))
        verdicts = {name: simulator.verdict(name) for name in PLANTED}
    for name, verdict in verdicts.items():
        if not verdict.caught:
            print(f"not found: {name}, {PLANTED[name].what}")
    return {"planted.core.bugs": len(verdicts),
            "planted.core.caught": sum(verdict.caught for verdict in verdicts.values())}
