"""The C++ loop runs the same job in the same cycles to the same bits as the simulator."""

import numpy as np
import pytest

from tb.loop import build_loop, run_loop, speed_ratio
from tb.simulator import Simulator
from tb.stalls import Stalls
from tests.stream_relay import beats, relay_bench


@pytest.fixture(scope="module")
def bench():
    return relay_bench()


def test_same_bits_and_cycles(bench):
    words, _ = beats(500)
    with Simulator(bench) as simulator:
        for options in ({}, {"stalls": Stalls(probability=0.3), "seed": 4}):
            result = simulator.run({"i__0": words}, {"o": 500}, reset=True, **options)
            cycles, seconds, got = run_loop(bench, build_loop(bench), {"i__0": words}, {"o": 500}, **options)
            assert cycles == result.simulated_cycles and seconds > 0
            assert len(got["o"]) == 500 and np.array_equal(got["o"], result.outputs["o"])
        speed = speed_ratio(simulator, {"i__0": words}, {"o": 500}, rounds=2)
        assert speed["cycles"] > 500 and speed["ratio"] > 0


def test_waves_are_not_compared():
    with pytest.raises(ValueError, match="was built with waves"):
        build_loop(relay_bench(waves=True))
