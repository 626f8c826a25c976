"""Figures of the second description of the arrays: that it equals the RTL, and how much faster it is."""

from tb.lockstep.compare import SIZES, compare
from tb.lockstep.speed import speeds

KEYS = ("matrix.views_", "sim.view_gain")

SEED = 2


def measure(*, quick: bool) -> dict[str, object]:
    """Cycles compared at every size, and the gain for each kind of traffic; the least is the figure."""
    if quick:
        return {}  # tests/test_fast_view.py makes the comparison
    outcomes = [compare(quads=quads, product_latency=latency, seed=SEED)[0] for quads, latency in SIZES]
    figures: dict[str, object] = {
        "matrix.views_identical": all(o.busy and not o.mismatches for o in outcomes),
        "matrix.views_compared": sum(o.compared for o in outcomes),
        "matrix.views_mismatches": sum(o.mismatches for o in outcomes),
    }
    gains = speeds()
    figures["sim.view_gain"] = round(min(speed["gain"] for speed in gains.values()), 1)
    for kind, speed in gains.items():
        figures[f"sim.view_gain.{kind}"] = round(speed["gain"], 1)
        for view in ("rtl", "fast"):
            figures[f"sim.view_gain.{kind}.{view}_cycles_per_second"] = round(speed[view])
    return figures
