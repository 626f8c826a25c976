"""Figures of the HBM slice: its RTL with the device models under Verilator, by traffic pattern."""

import dataclasses

from hw.config import preset
from sw.hbm.measure import measure as run

KEYS = ("hbm.stream", "hbm.four_streams", "hbm.random32", "hbm.random256", "hbm.mixed", "hbm.idle",
        "hbm.loaded")

MICROSECONDS = 60.0
"""Of each run, at the pins' rate: fifteen refresh intervals of every bank."""

CONFIG = preset("small").tile.hbm

#: tCCD_L in CK, and bank groups, which the sources do not agree on.
VARIANTS = [(ccd, groups) for ccd in (4, 7) for groups in (2, 4)]

SHARES = {"hbm.stream": "stream", "hbm.four_streams": "four_streams", "hbm.random256": "random256",
          "hbm.mixed4k": "mixed4k", "hbm.mixed64": "mixed64"}


def variant(ccd, groups):
    """The configuration with another tCCD_L and another number of bank groups."""
    timings = dataclasses.replace(CONFIG.timings, ccd_l_ck=ccd)
    return dataclasses.replace(CONFIG, bank_groups=groups, timings=timings)


def _pattern(config, pattern, keys):
    """Figures of one run: ``keys`` maps a key to a field of the measurement; the first has the refreshes."""
    found = run(config, pattern, microseconds=MICROSECONDS).measurement
    first = next(iter(keys))
    return {key: round(getattr(found, name), 4) for key, name in keys.items()} | {
        f"{first}.refreshes_served": found.refreshes_served, f"{first}.refreshes_due": found.refreshes_due}


def measure(*, quick: bool) -> dict[str, object]:
    """Shares of the pins, latencies, and with each the refreshes that were served and fell due."""
    if quick:
        return {}  # building the slice alone takes minutes
    figures: dict[str, object] = {}
    for key, pattern in SHARES.items():
        figures |= _pattern(CONFIG, pattern, {key: "share"})
    for ccd, groups in VARIANTS:
        figures |= _pattern(variant(ccd, groups), "stream", {f"hbm.stream.{ccd}_{groups}": "share"})
    figures |= _pattern(CONFIG, "random32", {"hbm.random32_over_faw": "faw_share"})
    figures |= _pattern(CONFIG, "idle", {"hbm.idle_extra_cycles": "idle_extra_cycles"})
    figures |= _pattern(CONFIG, "loaded", {"hbm.loaded_stream": "bulk_share",
                                           "hbm.loaded_p99_ns": "latency_p99_ns"})
    return figures
