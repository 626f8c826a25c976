"""Loads and stores in flight (docs/core.md)."""
