"""Figures of the core and its memory: loads that hit, loads that miss together, streams through HBM."""

from tb.core.misses import in_flight, miss_program
from tb.core.run import CoreSimulator, run_core

from .core_programs import TIMING, Measured, run_program, small_bench

KEYS = ("core.load_to_use", "core.mlp", "core.copy_over_fill", "core.stream.", "core.chase_hbm")

#: Loads of the pointer chases; the shorter one is taken from the longer, and with it what is not the loop.
STEPS = (2048, 4096)
LINES_OF_L1 = 64
BYTES = 131_072


def mlp(simulator, *, dependent: bool) -> int:
    """Lines of eight loads that are on their way from the memory double at once, at most."""
    simulator.memory.watch(1000)
    try:
        run_core(simulator, miss_program(dependent=dependent), timing=TIMING)
        return in_flight(simulator.memory.requests())[1]
    finally:
        simulator.memory.watch(0)


def chase(simulator, **defines) -> float:
    """Cycles of a load in a chain."""
    short, long = (run_program(simulator, "chase", STEPS=steps, **defines).cycles for steps in STEPS)
    return (long - short) / (STEPS[1] - STEPS[0])


def stream(simulator, name: str) -> Measured:
    """A pass through arrays of BYTES each."""
    return run_program(simulator, name, BYTES=BYTES)


def measure(*, quick: bool) -> dict[str, object]:
    """With the memory double in every run; in the long one the streams through the RTL of the HBM slice."""
    with CoreSimulator(small_bench()) as simulator:
        figures: dict[str, object] = {
            "core.load_to_use": round(chase(simulator, LINES=LINES_OF_L1), 3),
            "core.mlp": mlp(simulator, dependent=False),
            "core.mlp.dependent": mlp(simulator, dependent=True),
        }
    if quick:
        return figures
    with CoreSimulator(small_bench(hbm=True)) as simulator:
        rates = {name: BYTES / stream(simulator, name).cycles for name in ("read", "fill", "copy")}
        figures["core.chase_hbm"] = round(chase(simulator), 1)
    figures |= {f"core.stream.{name}": round(rate, 3) for name, rate in rates.items()}
    figures["core.copy_over_fill"] = round(rates["copy"] / rates["read"], 3)
    return figures
