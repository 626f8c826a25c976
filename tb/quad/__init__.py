"""The quad under streams: every pair of element codes, and partial sums at the bounds of their segments."""
