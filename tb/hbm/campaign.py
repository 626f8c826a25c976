"""Random traffic of all profiles under random back-pressure, compared with the model, its timing checked."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from golden.hbm import Geometry, Memory
from hw.config import HbmConfig
from hw.hbm import port
from hw.hbm.csr import Index
from tb.build import Options
from tb.report import CheckFailure
from tb.simulator import SimulationError, Simulator
from tb.stalls import Stalls

from .backdoor import Devices
from .beats import pack
from .bench import slice_bench, table_of
from .check import check_traffic, load, stored
from .checker import check_trace
from .trace import read_trace
from .traffic import PROFILES, random_ranges, random_requests

__all__ = ["CONFIG", "Outcome", "campaign", "campaign_bench"]

CONFIG = HbmConfig(pseudo_channels=3)
"""A whole channel and a half one; neither a power of two nor all of a kind."""

RESERVED = range(1 << 20, (1 << 20) + (1 << 14))
"""Lines that are only read: ranges lie here."""

STALLS = (Stalls(), Stalls(probability=0.3), Stalls(probability=0.8),
          Stalls(probability=0.01, long_probability=0.5, long_cycles=400))
SHARES = (0.55, 0.15, 0.15, 0.15)
"""Stall patterns of streams, and how often each is chosen."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Requests sent, answers and lines of ranges compared, commands checked, what went wrong as sentences,
    and the refreshes that fell due and were served."""

    requests: int
    compared: int
    lines: int
    commands: int
    errors: list
    refreshes_due: int
    refreshes_served: int


def campaign_bench(*, config=CONFIG, log=None):
    """The build that :func:`campaign` runs on."""
    return slice_bench(config, options=Options(optimise="-O1"), log=log)


def campaign(bench, requests, *, config=CONFIG, seed=0, chunk=4000, told=lambda done: None):
    """Send ``requests`` demand requests in chunks of one profile each, ranges beside them.

    Chunks follow each other without reset; every one has stalls, a refresh mode, a temperature and a scrub
    interval of its own, and its command trace goes through the checker. In the end what was written is read
    again, and the devices are looked at.
    """
    geometry, rng = Geometry.of(config), np.random.default_rng(seed)
    memory, errors, profiles = Memory(geometry), [], list(PROFILES)
    streams = ["request", "response", "range", "range_answer",
               *(f"bulk__{c}" for c in range(config.pseudo_channels))]
    sent = compared = lines = commands = due = served = 0
    with Simulator(bench, watchdog=50_000) as simulator, tempfile.TemporaryDirectory() as directory:
        devices, path = Devices(simulator), Path(directory) / "trace"
        content = rng.integers(0, 256, size=(len(RESERVED), 64), dtype=np.uint8)
        load(devices, geometry, RESERVED, content)
        memory.load(RESERVED, content)
        devices.trace(path)
        number = 0
        while sent < requests:
            profile = profiles[number % len(profiles)]
            number += 1
            size = min(chunk, requests - sent)
            asked = random_requests(rng, geometry, profile, size, writes=float(rng.choice([0.1, 0.5, 0.9])),
                                    partial=float(rng.choice([0.0, 0.05, 0.5])))
            asked.write[np.isin(asked.lines, RESERVED)] = False
            ranges = random_ranges(rng, 64 * RESERVED.start, 64 * RESERVED.stop, int(rng.integers(1, 20)))
            stalls = {name: STALLS[rng.choice(len(STALLS), p=SHARES)] for name in streams}
            sent += size
            try:
                _controls(simulator, rng)
                result = check_traffic(simulator, geometry, memory, asked, ranges, seed=seed + number,
                                       test=f"profile {profile!r}", stalls=stalls)
            except (CheckFailure, SimulationError) as failure:
                errors.append(f"chunk {number}, profile {profile!r}: {failure}")
                break  # what the slice holds is unknown from here on
            compared, lines = compared + result.requests, lines + result.lines
            told(sent)
        if not errors:
            errors += _contents(simulator, devices, geometry, memory, seed)
        for counts in devices.statistics():
            due, served = due + counts["refreshes_due"], served + counts["refreshes_served"]
        devices.trace(None)
        trace = read_trace(path)
        commands = int(np.count_nonzero(trace["bus"] < 2))
        errors += [str(violation) for violation in check_trace(trace, table_of(config))]
    return Outcome(requests=sent, compared=compared, lines=lines, commands=commands, errors=errors,
                   refreshes_due=due, refreshes_served=served)


def _controls(simulator, rng):
    """Refresh mode and interval, and the pace of the scrubber."""
    often = int(rng.choice([0, 0, 0b101, 0b110]))
    values = {Index.ALL_BANK: int(rng.random() < 0.2), Index.TEMPERATURE: often,
              Index.SCRUB_INTERVAL: int(rng.choice([0, 50, 1000]))}
    beats = pack(port.Register, len(values), write=1, index=np.array([index.value for index in values]),
                 data=np.array(list(values.values())))
    simulator.run({"csr": beats}, {"csr_answer": len(values)})


def _contents(simulator, devices, geometry, memory, seed):
    """Read every line that was written through the slice, and look into the devices, once they have it."""
    touched = memory.touched()
    rng = np.random.default_rng(seed)
    reads = random_requests(rng, geometry, "anywhere", len(touched), writes=0)
    reads.lines[:] = rng.permutation(touched)
    try:
        check_traffic(simulator, geometry, memory, reads, test="contents at the end", seed=seed,
                      settle_cycles=20_000)
    except (CheckFailure, SimulationError) as failure:
        return [f"contents at the end: {failure}"]
    data, single, double = stored(devices, geometry, touched)
    differ = np.flatnonzero((data != memory.read(touched)).any(axis=1))
    if len(differ) or single or double:
        return [f"{len(differ)} of {len(touched)} lines differ in the devices, first line "
                f"{touched[differ[:1]]}; {single} words have one wrong bit, {double} more"]
    return []
