"""Simulation harness: Verilator builds, free-running test benches on streams, failure reports and waves."""
