"""Faults in the memory during traffic; ten thousand of them are among the figures."""

import pytest

from tb.hbm.campaign import campaign_bench
from tb.hbm.faults import CONFIG, inject


@pytest.mark.timeout(1800)
def test_no_fault_is_silent():
    outcome = inject(campaign_bench(config=CONFIG), 1_500, seed=1, chunk=500)
    assert outcome.silent == []
    assert outcome.injected >= 1_500 and outcome.compared > 5_000
    # Both kinds were met: words that were corrected, and words that were poisoned.
    assert outcome.single > 100 and outcome.double > 100 and outcome.poisoned > 0
