"""Traffic patterns for an HBM slice."""

from dataclasses import dataclass

import numpy as np

from tb.hbm.traffic import Ranges, Requests
from tb.stalls import Stalls

__all__ = ["FAW_BYTES", "PATTERNS", "Traffic"]

LINE_BYTES = 64
#: Bytes of a row of the long ranges: a multiple of what all banks of one, two, three or six pseudo-channels
#: hold within 4 KiB each.
LONG_ROW = 6 * 131072
#: Four activates bring 32 bytes each in a window of tFAW, if every access needs a row of its own.
FAW_BYTES = 4 * 32


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is sent to a slice. ``stalls`` of the sources by name; ``alone``: each request waits for the
    answer to the one before."""

    requests: Requests | None = None
    ranges: Ranges | None = None
    stalls: dict | None = None
    alone: bool = False


def _requests(lines, write, tags):
    count = len(lines)
    return Requests(write=np.asarray(write, dtype=bool), tags=np.asarray(tags), lines=np.asarray(lines),
                    masks=np.ones((count, LINE_BYTES), dtype=bool),
                    data=np.zeros((count, LINE_BYTES), dtype=np.uint8))


def _long(geometry, first, size, tag):
    """A range of about ``size`` bytes from byte ``first`` on, as rows that follow each other."""
    rows = max(1, round(size / LONG_ROW)) if size > LONG_ROW else 1
    row = LONG_ROW if size > LONG_ROW else max(4096, int(size) // 4096 * 4096)
    first = min(first, geometry.lines * LINE_BYTES - rows * row)
    return tag, {"address": int(first), "rows": rows, "size": row, "stride": row}


def _ranges(pairs):
    return Ranges(tags=[tag for tag, _ in pairs], asked=[asked for _, asked in pairs])


def _anywhere(rng, geometry, size, count, align):
    """``count`` random addresses of ``size`` bytes, multiples of ``align``."""
    return rng.integers(0, (geometry.lines * LINE_BYTES - size) // align + 1, size=count) * align


def stream(rng, geometry, capacity):
    """One long bulk read."""
    return Traffic(ranges=_ranges([_long(geometry, 0, capacity, 1)]))


def four_streams(rng, geometry, capacity):
    """Four long bulk reads at a time: weights, K, V and activations, at places of their own."""
    starts = _anywhere(rng, geometry, capacity, 4, 4096)
    return Traffic(ranges=_ranges([_long(geometry, start, capacity / 4, tag)
                                   for tag, start in enumerate(starts)]))


def _scattered(rng, geometry, capacity, size):
    count = max(16, int(capacity / size))
    return Traffic(ranges=_ranges([
        (n % 256, {"address": int(address), "rows": 1, "size": size, "stride": 0})
        for n, address in enumerate(_anywhere(rng, geometry, size, count, size))]))


def random32(rng, geometry, capacity):
    """Bulk reads of 32 bytes at random places: each needs a row of its own, so tFAW binds."""
    return _scattered(rng, geometry, capacity * 0.2, 32)


def random256(rng, geometry, capacity):
    """Bulk reads of 256 bytes at random places."""
    return _scattered(rng, geometry, capacity, 256)


def mixed4k(rng, geometry, capacity):
    """Demand: runs of 4 KiB at random places, read and written in turn."""
    runs = max(8, int(capacity * 0.8 / 4096))
    starts = _anywhere(rng, geometry, 4096, runs, 4096) // LINE_BYTES
    lines = (starts[:, None] + np.arange(64)).reshape(-1)
    run = np.repeat(np.arange(runs), 64)
    return Traffic(requests=_requests(lines, run % 2, (run % 4 << 6) + np.arange(runs * 64) % 64))


def mixed64(rng, geometry, capacity):
    """Demand: single lines at random places, read or written at random."""
    count = max(64, int(capacity * 0.35 / LINE_BYTES))
    return Traffic(requests=_requests(rng.integers(0, geometry.lines, size=count), rng.random(count) < 0.5,
                                      np.arange(count) % 4 * 64))


def idle(rng, geometry, capacity):
    """Demand reads one at a time: hits, closed banks and conflicts."""
    count = min(400, max(60, int(capacity / 16384)))
    page = 4 * geometry.bank_groups * geometry.pseudo_channels * (geometry.banks // geometry.bank_groups) * 4
    row = page * geometry.stack_ids
    lines = [int(rng.integers(0, geometry.lines))]
    for _ in range(count - 1):
        last, step = lines[-1], rng.integers(3)
        lines.append({0: last ^ 1, 1: (last + row) % geometry.lines,
                      2: int(rng.integers(0, geometry.lines))}[int(step)])
    return Traffic(requests=_requests(lines, np.zeros(count), np.zeros(count, dtype=int)), alone=True)


def loaded(rng, geometry, capacity):
    """One long bulk read, and beside it demand reads at random places, one in about 100 tile cycles."""
    count = max(16, int(capacity / geometry.pseudo_channels / 40 * 1.6 / 110))
    return Traffic(ranges=_ranges([_long(geometry, 0, capacity, 1)]),
                   requests=_requests(rng.integers(0, geometry.lines, size=count), np.zeros(count),
                                      np.arange(count) % 4 * 64),
                   stalls={"request": Stalls(probability=0.99)})


PATTERNS = {function.__name__: function for function in (
    stream, four_streams, random32, random256, mixed4k, mixed64, idle, loaded)}
"""Functions of (rng, geometry, bytes that the pins carry in the time asked for), by name."""
