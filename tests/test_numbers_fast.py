"""The fast views of the binary32 pipelines against their RTL, in lock step, in every cycle."""

import re

import numpy as np
import pytest

from golden import binary32
from hw.numbers import fast
from hw.numbers.float_add import Float32Adder
from hw.numbers.sum_to_float import SumToFloat32
from tb.lockstep.pipelines import LATENCIES, PLANTED, SETTLE, compare, edited, stimulus
from tb.protocol import IdlePayload
from tb.stalls import Stalls

COUNT = 30_000  # for each of 5 adders and 15 roundings
NAMES = [f"{kind} latency {latency}" for kind in ("add", "sum14", "sum28", "sum42") for latency in LATENCIES]


@pytest.fixture(scope="module")
def outcomes():
    return compare(count=COUNT)


def _unused(component):
    component._MustUse__silence = True
    return component


def test_equal_in_every_cycle(outcomes):
    views = outcomes[:len(NAMES)]
    assert [outcome.view for outcome in views] == NAMES
    assert [outcome.first for outcome in views if outcome.mismatches] == []
    assert min(outcome.compared for outcome in views) >= COUNT - SETTLE
    assert sum(outcome.compared for outcome in views if outcome.view.startswith("add")) >= 100_000
    assert sum(outcome.compared for outcome in views if outcome.view.startswith("sum")) >= 100_000


def test_planted_bugs_are_caught(outcomes):
    planted = outcomes[len(NAMES):]
    assert [outcome.view for outcome in planted] == list(PLANTED)
    assert [outcome.view for outcome in planted if not outcome.mismatches] == []
    for outcome in planted:
        seen = re.fullmatch(rf"{re.escape(outcome.view)}, cycle \d+: operands [0-9a-f]{{16}} give "
                            "([0-9a-f]{8}), ([0-9a-f]{8}) in the RTL", outcome.first)
        assert seen and seen[1] != seen[2]


def test_noise_between_operands():
    """Another seed, with stalls in which any bits stand at the inputs, another ones in every cycle."""
    stalls = Stalls(probability=0.3, long_probability=0.02, long_cycles=30,
                    idle_payload=IdlePayload.POISON_EVERY_CYCLE)
    views = compare(count=10_000, seed=2, stalls=stalls)[:len(NAMES)]
    assert [outcome.first for outcome in views if outcome.mismatches] == []
    assert min(outcome.compared for outcome in views) > 13_000


def test_the_operands_have_every_corner():
    beats, pairs = stimulus(COUNT, 1)
    assert beats.shape == (COUNT, 23) and beats.dtype == np.uint8
    a, b = binary32.from_bits(pairs.T)
    y = binary32.add(a, b)
    bits = binary32.bits(y)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = a.astype(np.float64) + b.astype(np.float64)
        upper = np.nextafter(y, np.where(exact > y, np.float32(np.inf), np.float32(-np.inf)))
        tie = np.isfinite(exact) & (exact != y) & (exact - y == upper.astype(np.float64) - exact)
    assert min(np.isnan(y).sum(), np.isinf(y).sum(), tie.sum()) > 500
    assert ((bits & 0x7F800000 == 0) & (bits & 0x7FFFFF != 0)).sum() > 500  # subnormal
    assert (bits == 0).sum() > 100 and (bits == 0x80000000).sum() > 0


def test_files():
    adder = _unused(Float32Adder(latency=2))
    assert sorted(fast.adder(adder)) == ["float32.cc", "float_add_l2.sv"] == sorted(adder.fast_view())
    rounder = _unused(SumToFloat32(width=14, latency=0))
    files = rounder.fast_view()
    assert sorted(files) == ["float32.cc", "sum_to_float_w14_l0.sv"]
    assert files["float32.cc"] == fast.CXX.read_text(encoding="utf-8")
    assert "always_comb" in files["sum_to_float_w14_l0.sv"]


def test_an_edit_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match="float_add_l1 does not have 'nowhere' exactly once"):
        _unused(edited("add", 1, "planted", "nowhere", "")).fast_view()
