"""Figure of the harness: what Python, cocotb and VPI cost a free-running job, against a plain C++ loop."""

import numpy as np

from hw.numbers.float_add import Float32Adder
from hw.numbers.streamed import Streamed
from tb.build import build
from tb.loop import speed_ratio
from tb.simulator import Simulator

KEYS = ("sim.cocotb_over_cpp",)

BEATS = 200_000
ROUNDS = 15


def adder_job(beats):
    """(bench, inputs, outputs) of a binary32 adder, the smallest of our designs: any cost shows the most."""
    component = Streamed(Float32Adder(latency=2))
    bench = build(component, name="streamed_adder")
    pairs = np.random.default_rng(0).integers(0, 1 << 32, size=2 * beats, dtype=np.uint32)
    return bench, {"i": pairs}, {"o": beats}


def measure(*, quick: bool) -> dict[str, object]:
    """Median ratio over many short rounds, each of both in turn."""
    if quick:
        return {}
    bench, inputs, outputs = adder_job(BEATS)
    with Simulator(bench) as simulator:
        speed = speed_ratio(simulator, inputs, outputs, rounds=ROUNDS)
    return {
        "sim.cocotb_over_cpp": round(speed["ratio"], 3),
        "sim.cocotb_over_cpp.cycles_per_second": round(speed["simulator"]),
        "sim.cocotb_over_cpp.loop_cycles_per_second": round(speed["loop"]),
    }
