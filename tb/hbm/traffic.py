"""Random demand requests and ranges, by profiles that meet in the places where controllers go wrong."""

from dataclasses import dataclass

import numpy as np

from golden.hbm import LINE_BYTES

__all__ = ["PROFILES", "Ranges", "Requests", "place", "random_ranges", "random_requests"]


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Demand requests in order: write bool [n], tags int [n], lines int [n], masks bool [n, 64], data uint8
    [n, 64]."""

    write: np.ndarray
    tags: np.ndarray
    lines: np.ndarray
    masks: np.ndarray
    data: np.ndarray

    def __len__(self):
        return len(self.lines)


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Bulk ranges in order, as dicts of address, rows, size and stride in bytes, and their tags."""

    tags: list
    asked: list


def place(geometry, channel, stack, bank, row, column):
    """Lines of the slice at a place; arguments are arrays or numbers."""
    groups = geometry.bank_groups
    lines = geometry.page_bytes // LINE_BYTES
    quarter, low = np.divmod(column, 4)
    page = (row * geometry.stack_ids + stack) * (geometry.banks // groups) + bank // groups
    return geometry.join(channel, ((page * (lines // 4) + quarter) * groups + bank % groups) * 4 + low)


def _anywhere(rng, geometry, count):
    return rng.integers(0, geometry.lines, size=count)


def _two_banks(rng, geometry, count):
    """Two banks and a few rows of each: row conflicts, tRC and tRAS."""
    channel, stack = rng.integers(geometry.pseudo_channels), rng.integers(geometry.stack_ids)
    banks = rng.choice(geometry.banks, size=2, replace=False)
    rows = rng.choice(geometry.rows, size=3, replace=False)
    return place(geometry, channel, stack, rng.choice(banks, size=count), rng.choice(rows, size=count),
                 rng.integers(0, 16, size=count))


def _same_row(rng, geometry, count):
    """One page."""
    page = (rng.integers(geometry.pseudo_channels), rng.integers(geometry.stack_ids),
            rng.integers(geometry.banks), rng.integers(geometry.rows))
    return place(geometry, *page, rng.integers(0, 16, size=count))


def _same_line(rng, geometry, count):
    """Three lines: every read meets a write that is on its way."""
    return rng.choice(_anywhere(rng, geometry, 3), size=count)


def _one_group(rng, geometry, count):
    """Banks of one group of all stack IDs, a few rows: tCCD_L, tCCD_R, tRRD_L."""
    groups = geometry.bank_groups
    bank = rng.integers(groups) + groups * rng.integers(0, geometry.banks // groups, size=count)
    stack = rng.integers(0, geometry.stack_ids, size=count)
    return place(geometry, rng.integers(geometry.pseudo_channels), stack, bank,
                 rng.integers(0, 3, size=count), rng.integers(0, 16, size=count))


def _runs(rng, geometry, count):
    """Runs of up to 4 KiB from random places, forwards."""
    found = []
    while len(found) < count:
        start = rng.integers(0, geometry.lines - 64)
        found.extend(range(start, start + rng.integers(1, 65)))
    return np.array(found[:count])


def _new_rows(rng, geometry, count):
    """Each request in another row of a random bank: activates all the time."""
    return place(geometry, rng.integers(0, geometry.pseudo_channels, size=count),
                 rng.integers(0, geometry.stack_ids, size=count), rng.integers(0, geometry.banks, size=count),
                 rng.integers(0, geometry.rows, size=count), 0)


def _edges(rng, geometry, count):
    """The first and the last lines, and some outside."""
    place = rng.integers(0, 8, size=count)
    return np.where(rng.random(count) < 0.5, place, geometry.lines + 3 - place)


PROFILES = {"anywhere": _anywhere, "two banks": _two_banks, "same row": _same_row, "same line": _same_line,
            "one group": _one_group, "runs": _runs, "new rows": _new_rows, "edges": _edges}
"""Where lines come from: function of (rng, geometry, count), by name."""


def random_requests(rng, geometry, profile, count, *, writes=0.5, partial=0.3):
    """Requests of a profile.

    Parameters
    ----------
    writes, partial : float
        Share of writes, and of those the share with some bytes disabled (a few of them all bytes).
    """
    masks = np.ones((count, LINE_BYTES), dtype=bool)
    some = rng.random(count) < partial
    masks[some] = rng.random((int(some.sum()), LINE_BYTES)) < rng.random((int(some.sum()), 1))
    write = rng.random(count) < writes
    if profile == "runs":  # a run is read or written as a whole
        write = np.repeat(rng.random(-(-count // 16)) < writes, 16)[:count]
    return Requests(write=write, tags=rng.integers(0, 256, size=count),
                    lines=PROFILES[profile](rng, geometry, count), masks=masks,
                    data=rng.integers(0, 256, size=(count, LINE_BYTES), dtype=np.uint8))


def random_ranges(rng, low, high, count):
    """Ranges within bytes ``low`` to ``high`` (multiples of 32), each with its own tag, up to 64 KiB."""
    asked = []
    for _ in range(count):
        rows = int(rng.choice([1, 1, 2, 5, 16]))
        size = 32 * int(rng.integers(1, 2048 // rows if rng.random() < 0.3 else 64))
        stride = 32 * int(rng.integers(size // 32, size // 32 + 100))
        room = high - low - (rows - 1) * stride - size
        asked.append({"address": low + 32 * int(rng.integers(0, room // 32 + 1)), "rows": rows, "size": size,
                      "stride": stride})
    return Ranges(tags=[n % 256 for n in range(count)], asked=asked)
