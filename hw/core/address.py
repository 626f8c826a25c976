"""Address map of the tile, as the core sees it (bytes)."""

__all__ = ["ADDRESS_BITS", "CLINT", "CONTROL", "HOST", "LINE", "RAM", "DEVICE_BYTES"]

ADDRESS_BITS = 40
"""Of a physical address. A load, store or fetch above them is an access fault."""

LINE = 64
"""Bytes of a cache line."""

CLINT = 0x0200_0000
"""Timer and software interrupt, as in SiFive's CLINT: msip +0, mtimecmp +0x4000, mtime +0xBFF8."""

CONTROL = 0x0300_0000
"""Registers of the L1: flush and invalidate by range, bulk prefetch (docs/core.md)."""

HOST = 0x1000_0000
"""Host device: console and exit (docs/core.md)."""

DEVICE_BYTES = 0x1_0000
"""Window of each of the three devices above."""

RAM = 0x8000_0000
"""The first byte of the HBM slice; its line 0."""
