"""The load-store unit against a sequential memory, and its times."""

import pytest

from hw.core.config import core_preset
from tests.core_memory_bench import Bench, Odds

CYCLES = 4000


@pytest.mark.parametrize("seed", [1, 2])
def test_random_tiny(seed):
    tally = Bench(core_preset("tiny"), seed=seed).run(CYCLES)
    print(tally)
    assert tally.loads > CYCLES / 40 and tally.stores > CYCLES / 40
