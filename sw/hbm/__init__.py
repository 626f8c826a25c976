"""Traffic for an HBM slice and what it measures: bandwidth, latency, refreshes, a picture of commands."""
