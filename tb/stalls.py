"""Stall patterns of a stream's end, and the seeds they run on."""

import zlib
from dataclasses import dataclass

from tb.protocol import IdlePayload

__all__ = ["FREE", "Stalls", "stream_seed"]


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """When a source withholds valid, or a sink ready.

    Attributes
    ----------
    probability : float
        Of a stall beginning in a cycle in which the stream could move.
    long_probability : float
        Of a stall being a long one.
    long_cycles : int
        Cycles of a long stall; others last one cycle.
    hold_beat, hold_cycles : int
        Before this beat (counted from 0 in each run) the stream stands still once, for so many cycles.
    idle_payload : IdlePayload
        What a source drives while valid is low; random bits catch designs that look at them.
    """

    probability: float = 0.0
    long_probability: float = 0.0
    long_cycles: int = 50
    hold_beat: int | None = None
    hold_cycles: int = 0
    idle_payload: IdlePayload = IdlePayload.POISON_ONCE

    def __post_init__(self):
        for field in ("probability", "long_probability"):
            value = getattr(self, field)
            if not 0 <= value <= 1:
                raise ValueError(f"{field} is {value}; it must be between 0 and 1")
        if self.probability == 1:
            raise ValueError("probability is 1: the stream would never move; use hold_cycles for a long stop")
        if self.long_cycles < 1:
            raise ValueError(f"long_cycles is {self.long_cycles}; it must be 1 or more")
        if self.hold_cycles < 0 or (self.hold_beat is not None and self.hold_beat < 0):
            raise ValueError(f"hold_beat {self.hold_beat} and hold_cycles {self.hold_cycles} must be 0 or "
                             "more")

    @property
    def longest(self):
        """Cycles a stream can stand still because of this pattern, random single stalls aside."""
        return self.hold_cycles + (self.long_cycles if self.probability and self.long_probability else 0)


FREE = Stalls()


def stream_seed(seed, name):
    """Seed of the stream ``name`` in a run with ``seed``: no stream's stalls depend on another stream."""
    return (seed * 0x9E3779B97F4A7C15 + zlib.crc32(name.encode()) * 0xD1B54A32D192ED03) % (1 << 64)
