"""The RTL quad under Verilator: every pair of element codes, and sums at the bounds of their segments."""

import itertools

import numpy as np
import pytest

from golden.matmul import MODES
from scripts.figures import quad
from tb.quad import words
from tb.quad.compare import Jobs, exhaustive, integers, random_sums, run
from tb.stalls import Stalls

PAIRS = {"mxfp4_mxfp4": 16 * 16, "mxfp8_mxfp4": 256 * 16, "mxfp8_mxfp8": 256 * 256}


def mismatches(comparisons):
    assert comparisons and all(comparison.compared for comparison in comparisons)
    return [comparison.first for comparison in comparisons if comparison.mismatches]


def test_the_lists_are_complete():
    for jobs in exhaustive():
        for slot in range(words.slots(jobs.mode)):
            seen = set(zip(jobs.activations.tolist(), jobs.weights[:, slot].tolist()))
            assert len(seen) == PAIRS[jobs.mode]


def test_every_pair():
    figures = quad.measure(quick=True)
    assert figures["matrix.exhaustive.mismatches"] == 0
    assert figures["matrix.exhaustive.compared"] >= 65_792
    for mode, pairs in PAIRS.items():
        assert figures[f"matrix.exhaustive.{mode}.compared"] == pairs * words.slots(mode)


def test_every_pair_without_product_latency():
    assert mismatches(run(exhaustive(), product_latency=0)) == []


@pytest.mark.parametrize("product_latency", [0, 1])
def test_bounds_of_every_segment(product_latency):
    jobs = [random_sums(mode, 6_000, seed) for seed in (1, 2) for mode in MODES]
    comparisons = run(jobs, product_latency=product_latency,
                      stalls=Stalls(probability=0.1, long_probability=0.01, long_cycles=20))
    assert mismatches(comparisons) == []
    for part in jobs:
        low, high = words.bounds(part.mode)
        after = part.expected()
        assert after.min() == low and after.max() == high  # the lists reach both ends


def test_all_combinations_of_signs():
    """Products of both signs side by side: no borrow leaves its segments, none is lost within them."""
    lists = []
    for mode, (x_format, w_format) in MODES.items():
        slots = words.slots(mode)
        signs = np.array(list(itertools.product([0, 1], repeat=1 + slots)), np.uint8)
        magnitudes = np.array([1, w_format.max_code], np.uint8)
        weights = magnitudes[:, None, None] | signs[None, :, 1:] * np.uint8(w_format.sign_mask)
        weights = weights.reshape(-1, slots)
        activations = np.tile(x_format.max_code | signs[:, 0] * np.uint8(x_format.sign_mask), len(magnitudes))
        for value in (0, -1, 1):
            sums = np.full(weights.shape, value, np.int64)
            lists.append(Jobs(mode=mode, activations=activations, weights=weights, sums=sums))
    assert mismatches(run(lists)) == []


def test_jobs_that_need_no_rounding_room():
    """32 products of the largest magnitude fit, of either sign: the widths of docs/numbers.md section 2."""
    for mode, forms in MODES.items():
        largest = np.prod([integers(np.array([form.max_code]), form)[0] for form in forms])
        low, high = words.bounds(mode)
        assert low <= -32 * largest and 32 * largest <= high


def test_words_round_trip():
    rng = np.random.default_rng(3)
    for mode in MODES:
        low, high = words.bounds(mode)
        sums = rng.integers(low, high + 1, (500, words.slots(mode)))
        packed = words.pack(sums, mode)
        assert not words.guards(packed, mode).any()
        assert np.array_equal(words.unpack(packed, mode), sums)


def test_the_comparison_bites(monkeypatch):
    lists = [random_sums(mode, 40, 4) for mode in MODES]
    right = Jobs.expected

    def mistaken(jobs):
        sums = right(jobs)
        sums[7, -1] += 1 << 40 if jobs.mode == "mxfp8_mxfp8" else 1
        return sums

    monkeypatch.setattr(Jobs, "expected", mistaken)
    for comparison in run(lists):
        assert comparison.mismatches == 1
        assert f"job 7, slot {words.slots(comparison.mode) - 1}:" in comparison.first
