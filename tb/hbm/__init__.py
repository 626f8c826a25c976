"""The memory beside an HBM slice: device model, command trace, checker of the trace, and benches."""
