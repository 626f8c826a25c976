"""Bench of the slice core: memory, devices, trace and comparison with the sequential model."""
