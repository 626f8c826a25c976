"""The array of modules is the array of flat columns, cycle by cycle: both speeds are of one design."""

import numpy as np
import pytest

from hw.baseline.module_a_pe import ModuleAPEArray
from scripts.figures import structure
from tb.build import Options, build
from tb.lockstep.bench import LockStep
from tb.lockstep.stimulus import beats, stream
from tb.simulator import Simulator

QUADS, CYCLES = 2, 6_000


class Displaced(ModuleAPEArray):
    """As an array of another product_latency: wrong, to see that the comparison bites."""

    @property
    def module_name(self):
        return "displaced_array"

    def elaborate(self, platform):
        self.product_latency = 1 - self.product_latency
        return super().elaborate(platform)


@pytest.mark.parametrize("product_latency", [0, 1])
def test_equal_in_every_cycle(product_latency):
    """Products and any bits at any time, with resets and changes of mode (tb/lockstep/stimulus.py)."""
    parameters = {"quads": QUADS, "product_latency": product_latency}
    design = LockStep(**parameters, others=[ModuleAPEArray(**parameters), Displaced(**parameters)])
    bench = build(design, name="module_a_pe_lockstep", options=Options(optimise="-O0", view="fast"))
    inputs = beats(stream(np.random.default_rng(product_latency), quads=QUADS, cycles=CYCLES))
    with Simulator(bench) as simulator:
        result = simulator.run({"i": inputs}, {"o": 3}, seed=1)
    fast, modules, displaced = (
        dict(zip(("compared", "busy", "mismatches"), words[:3].tolist(), strict=True))
        for words in result.outputs["o"].view(np.uint32))
    assert modules["compared"] >= CYCLES and modules["busy"] > CYCLES // 4
    assert modules["mismatches"] == 0 and fast["mismatches"] == 0
    assert displaced["mismatches"] > CYCLES // 4


def test_the_same_checksum_is_asked_for():
    speed = structure.compare(quads=2, arrays=1, cycles=300, rounds=1)
    assert set(speed) == {"columns", "modules", "gain"}
    assert structure.pe_updates(rows=64, cols=64, cycles_per_second=2) == 8192


def test_another_checksum_is_an_error(monkeypatch):
    monkeypatch.setattr(structure, "ModuleAPEArray", Displaced)
    with pytest.raises(RuntimeError, match="checksum"):
        structure.compare(quads=2, arrays=1, cycles=300, rounds=1)
