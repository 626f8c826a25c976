"""The slice core: out-of-order RV64IM (docs/core.md)."""
