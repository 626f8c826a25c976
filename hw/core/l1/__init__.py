"""The L1 data cache (docs/core.md)."""

from .l1 import L1

__all__ = ["L1"]
