"""Host side of the matrix engine: packing of operands, jobs, and the simulated engine."""
