"""Random traffic through the whole slice against the dictionary model; a longer run is among the figures."""

import pytest

from tb.hbm.campaign import campaign, campaign_bench


@pytest.fixture(scope="module")
def bench():
    return campaign_bench()


@pytest.mark.timeout(1800)
def test_random_traffic(bench):
    outcome = campaign(bench, 8_000, seed=1, chunk=500)
    assert outcome.errors == []
    assert outcome.requests == outcome.compared == 8_000
    assert outcome.lines > 1_000 and outcome.commands > 10_000
    assert outcome.refreshes_due > 0 and outcome.refreshes_served > 0
