"""Random traffic through the HBM slice against the dictionary model, command traces through the checker."""

import dataclasses

from tb.hbm.campaign import CONFIG, campaign, campaign_bench

KEYS = ("hbm.random.",)

#: Pseudo-channels and requests: most of them where a cycle costs least, some through the whole interleave.
SHARES = ((1, 800_000), (3, 200_000))
CHUNK = 5_000


def measure(*, quick: bool) -> dict[str, object]:
    """Requests that were sent and compared, lines of ranges, commands checked, and errors of any kind."""
    if quick:
        return {}  # tests/test_hbm_random.py runs some thousands
    outcomes = []
    for channels, requests in SHARES:
        config = dataclasses.replace(CONFIG, pseudo_channels=channels)
        outcomes.append(campaign(campaign_bench(config=config), requests, config=config, seed=channels,
                                 chunk=CHUNK))
    errors = [error for outcome in outcomes for error in outcome.errors]
    for error in errors[:10]:
        print(error)
    return {"hbm.random.requests": sum(outcome.compared for outcome in outcomes),
            "hbm.random.lines": sum(outcome.lines for outcome in outcomes),
            "hbm.random.commands": sum(outcome.commands for outcome in outcomes),
            "hbm.random.errors": len(errors)}
