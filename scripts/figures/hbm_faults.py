"""Faults in the memory of the HBM slice during traffic: corrected or poisoned, never silently wrong."""

from tb.hbm.campaign import campaign_bench
from tb.hbm.faults import CONFIG, inject

KEYS = ("hbm.faults.",)
FAULTS = 10_000


def measure(*, quick: bool) -> dict[str, object]:
    """Faults injected, answers compared, those poisoned, and answers that were wrong without saying so."""
    if quick:
        return {}  # tests/test_hbm_faults.py injects some hundreds
    outcome = inject(campaign_bench(config=CONFIG), FAULTS)
    for sentence in outcome.silent:
        print(sentence)
    return {"hbm.faults.injected": outcome.injected, "hbm.faults.compared": outcome.compared,
            "hbm.faults.poisoned": outcome.poisoned, "hbm.faults.silent": len(outcome.silent)}
