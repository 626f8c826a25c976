"""The load-store unit against a sequential memory, with everything at random (core_memory_bench.py)."""

import pytest

from hw.core.config import core_preset
from hw.core.memory.lsu import LoadStoreUnit
from tests.core_memory_bench import Bench, Odds

CALM = Odds(kill=0, flush=0, again=0, busy=0, store=1, evict=0, fill=0.5, wild=0, poisoned=0, devices=0,
            dispatch=1, issue=1, commit=1)
STORM = Odds(kill=0.15, flush=0.05, again=0.4, busy=0.4, store=0.3, evict=0.2)
DEVICES = Odds(devices=0.6, flush=0.1, poisoned=0, device=0.6)
ALIASES = Odds(lines=0, devices=0, wild=0, poisoned=0, kill=0.02, flush=0.005, store=0.3)


@pytest.mark.parametrize("preset,changes,odds,cycles,seed,forwarded", [
    ("tiny", {}, Odds(), 1500, 1, 5),
    ("tiny", {}, STORM, 1000, 2, 4),
    ("tiny", {}, ALIASES, 1000, 3, 4),
    ("tiny", {}, CALM, 500, 4, 1),
    # One entry each: indexes have no bits.
    ("tiny", {"loads": 1, "stores": 1}, ALIASES, 500, 5, 0),
    ("small", {"loads": 8, "stores": 4}, Odds(), 800, 6, 5),
    ("small", {"loads": 4, "stores": 8, "reorder_buffer": 32}, ALIASES, 800, 7, 5),
    ("full", {"loads": 8, "stores": 8}, Odds(), 400, 8, 5),
], ids=lambda value: value if isinstance(value, str) else "")
def test_every_load_is_sequential(preset, changes, odds, cycles, seed, forwarded):
    tally = Bench(core_preset(preset, **changes), seed=seed, odds=odds).run(cycles)
    assert tally.loads > cycles / 100 and tally.stores > cycles / 50, tally
    assert tally.forwarded >= forwarded and tally.l1["hit"] and tally.l1["miss"], tally
    if odds == Odds():
        assert tally.faults and tally.kills and tally.flushes and tally.device_stores, tally


@pytest.mark.parametrize("respect", [True, False])
def test_devices(respect):
    """Every access to a device once and in order; a flush where none is allowed loses nothing but reads."""
    tally = Bench(core_preset("tiny"), seed=9, odds=DEVICES, respect=respect).run(2000)
    assert tally.device_loads > 5 and tally.device_stores > 5 and tally.faults > 5, tally


def test_ram_size_is_checked():
    for ram_bytes in (0, 12, 1 << 40):
        with pytest.raises(ValueError, match=f"ram_bytes = {ram_bytes}: must be a multiple of 8"):
            LoadStoreUnit(core_preset("tiny"), ram_bytes=ram_bytes)
