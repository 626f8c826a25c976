"""Faults in the memory while there is traffic: everything is corrected or said, nothing is silently wrong."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from golden.hbm import Geometry, Memory
from hw.hbm import port
from hw.hbm.csr import Index
from tb.report import CheckFailure
from tb.simulator import Simulator

from .backdoor import Devices
from .beats import pack
from .campaign import CONFIG as CAMPAIGN
from .check import check_traffic, load
from .traffic import random_ranges, random_requests

__all__ = ["CONFIG", "Outcome", "inject"]

CONFIG = dataclasses.replace(CAMPAIGN, pseudo_channels=1)

LINES = 2048
"""Lines that the traffic touches: few, so that a fault is met again."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Faults injected; answers and lines of ranges compared, and those poisoned; words read with one and with
    two wrong bits, as the devices count them; sentences about wrong answers that were not poisoned."""

    injected: int
    compared: int
    poisoned: int
    single: int
    double: int
    silent: list


def inject(bench, faults, *, config=CONFIG, seed=0, chunk=2000, rate=0.05, double=0.2):
    """Traffic until ``faults`` faults were injected, each right before its burst is read.

    A fault is one wrong bit or, in a share ``double`` of the chunks, two of one word. It stays until the word
    is written, by a request, or by the scrubber where it can be corrected.
    """
    geometry, rng = Geometry.of(config), np.random.default_rng(seed)
    memory, silent = Memory(geometry), []
    compared = poisoned = number = 0
    with Simulator(bench, watchdog=50_000) as simulator:
        devices = Devices(simulator)
        every = np.arange(2 * LINES)
        content = rng.integers(0, 256, size=(len(every), 64), dtype=np.uint8)
        load(devices, geometry, every, content)
        memory.load(every, content)
        simulator.run({"csr": _scrub(100)}, {"csr_answer": 1})
        while not silent and sum(counts["faults"] for counts in devices.statistics()) < faults:
            number += 1
            bits = 2 if rng.random() < double else 1
            for device in range(config.pseudo_channels):
                devices.faults(device, rate=rate, bits=bits, seed=seed * 1000 + number)
            asked = random_requests(rng, geometry, "anywhere", chunk, writes=0.3, partial=0.3)
            asked.lines[:] = rng.integers(0, LINES, size=chunk)
            ranges = random_ranges(rng, 64 * LINES, 128 * LINES, 10)  # beside what is written
            try:
                result = check_traffic(simulator, geometry, memory, asked, ranges, test="faults", faults=True,
                                       seed=seed + number)
            except CheckFailure as failure:
                silent.append(str(failure))
                break
            compared, poisoned = compared + result.requests + result.lines, poisoned + result.poisoned
        counts = devices.statistics()
    injected, single, double = (sum(c[name] for c in counts)
                                for name in ("faults", "read_single", "read_double"))
    return Outcome(injected=injected, compared=compared, poisoned=poisoned, single=single, double=double,
                   silent=silent)


def _scrub(interval):
    return pack(port.Register, 1, write=1, index=Index.SCRUB_INTERVAL.value, data=interval)
