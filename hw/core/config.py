"""Configuration of the slice core and of its L1.

Frozen and validated like the rest of the tree (hw/config.py); `core_preset` holds the named sizes.
"""

import dataclasses
from dataclasses import dataclass, field

from ..config import ConfigError, kind_of, whole

__all__ = ["CORE_PRESETS", "CoreConfig", "L1Config", "PredictorConfig", "core_preset"]


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Branch prediction and the instruction cache.

    Parameters
    ----------
    counters : two-bit counters of the direction predictor.
    history : bits of global history mixed into their index; 0 is a bimodal predictor.
    targets : entries of the branch target buffer.
    returns : entries of the return stack.
    sets, ways : instruction cache, in lines of 64 bytes.
    fetch_bytes : bytes fetched a cycle, aligned.
    buffer : instructions between fetch and rename.
    """

    counters: int = 512
    history: int = 0
    targets: int = 64
    returns: int = 8
    sets: int = 64
    ways: int = 2
    fetch_bytes: int = 16
    buffer: int = 16

    def __post_init__(self):
        whole("predictor", self, "counters", 16, 65536, power_of_two=True)
        whole("predictor", self, "history", 0, 16)
        whole("predictor", self, "targets", 4, 4096, power_of_two=True)
        whole("predictor", self, "returns", 2, 32, power_of_two=True)
        whole("predictor", self, "sets", 2, 1024, power_of_two=True)
        whole("predictor", self, "ways", 1, 8, power_of_two=True)
        whole("predictor", self, "fetch_bytes", 4, 64, power_of_two=True)
        whole("predictor", self, "buffer", 4, 64, power_of_two=True)


@dataclass(frozen=True, kw_only=True)
class L1Config:
    """The L1 data cache: write-back, lines of 64 bytes.

    Parameters
    ----------
    banks : banks, by the lowest bits of the line's number; each has one access a cycle.
    sets : sets of a bank.
    ways : lines of a set.
    mshrs : lines being fetched at once.
    streams : entries of the stride prefetcher; 0 is none.
    prefetch_mshrs : MSHRs that prefetches may take at most.
    """

    banks: int = 4
    sets: int = 32
    ways: int = 4
    mshrs: int = 32
    streams: int = 8
    prefetch_mshrs: int = 24

    def __post_init__(self):
        whole("l1", self, "banks", 1, 16, power_of_two=True)
        whole("l1", self, "sets", 2, 4096, power_of_two=True)
        whole("l1", self, "ways", 1, 16, power_of_two=True)
        whole("l1", self, "mshrs", 2, 64)
        whole("l1", self, "streams", 0, 32)
        whole("l1", self, "prefetch_mshrs", 1, self.mshrs - 1)

    @property
    def capacity_bytes(self):
        """Bytes of data."""
        return 64 * self.banks * self.sets * self.ways


@dataclass(frozen=True, kw_only=True)
class CoreConfig:
    """The core of a tile's slice.

    Parameters
    ----------
    width : instructions renamed and committed a cycle.
    alus : integer execution lanes, each with an issue queue of its own.
    reorder_buffer : entries, a multiple of width.
    physical : physical registers, 32 and a power of two.
    checkpoints : branches and indirect jumps in flight.
    queue : entries of each issue queue.
    loads, stores : entries of the load queue and of the store queue.
    multiply_latency : cycles of a multiplication.
    engine : with the engine port (hw/core/core.py), an issue queue more.
    predictor, l1 : the front end's and the data cache's part of the tree.
    """

    width: int = 2
    alus: int = 2
    reorder_buffer: int = 64
    physical: int = 96
    checkpoints: int = 8
    queue: int = 12
    loads: int = 16
    stores: int = 16
    multiply_latency: int = 3
    engine: bool = False
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    l1: L1Config = field(default_factory=L1Config)

    def __post_init__(self):
        whole("core", self, "width", 1, 8, power_of_two=True)
        whole("core", self, "alus", 1, 8)
        # Age is compared in the index modulo twice the entries.
        whole("core", self, "reorder_buffer", 2 * self.width, 512, power_of_two=True)
        # The free registers go round in a ring, whose index wraps by itself.
        whole("core", self, "physical", 33, 1056)
        free = self.physical - 32
        if free & (free - 1) or free < self.width:
            raise ConfigError("core.physical", self.physical,
                              f"32 and a power of two of at least {self.width}, a group's registers")
        whole("core", self, "checkpoints", self.width, 64)
        whole("core", self, "queue", self.width, 64)
        whole("core", self, "loads", self.width, 128, power_of_two=True)
        whole("core", self, "stores", self.width, 128, power_of_two=True)
        whole("core", self, "multiply_latency", 2, 8)
        kind_of("core", self, "engine", bool)
        kind_of("core", self, "predictor", PredictorConfig)
        kind_of("core", self, "l1", L1Config)


CORE_PRESETS = {
    # Small on purpose: every structure is full and every index wraps within a few dozen instructions.
    "tiny": CoreConfig(
        width=1, alus=1, reorder_buffer=8, physical=40, checkpoints=2, queue=4, loads=4, stores=4,
        predictor=PredictorConfig(counters=16, targets=4, returns=2, sets=4, ways=1, fetch_bytes=4, buffer=4),
        l1=L1Config(banks=2, sets=2, ways=2, mshrs=3, streams=2, prefetch_mshrs=1)),
    "small": CoreConfig(),
    "full": CoreConfig(
        width=4, alus=4, reorder_buffer=128, physical=160, checkpoints=16, queue=16, loads=32, stores=32,
        predictor=PredictorConfig(counters=4096, history=12, targets=512, returns=16, sets=128, ways=4,
                                  fetch_bytes=32, buffer=32),
        l1=L1Config(banks=8, sets=128, ways=8, mshrs=64, streams=16, prefetch_mshrs=48)),
}


def core_preset(name, **changes):
    """The preset ``name`` with some fields of CoreConfig changed; ConfigError for a name which is none."""
    if name not in CORE_PRESETS:
        raise ConfigError("core preset", name, "one of " + ", ".join(CORE_PRESETS))
    return dataclasses.replace(CORE_PRESETS[name], **changes)
