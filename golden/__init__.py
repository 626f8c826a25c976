"""Bit-exact NumPy reference models of the hardware.

A model here follows docs/numbers.md and never imports from ``hw``; the hardware never imports from
here. Where a model and the hardware disagree in one bit, one of them is wrong.
"""
