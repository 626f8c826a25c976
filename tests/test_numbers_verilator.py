"""The Verilated pipelines: a million random vectors against NumPy and golden, random stalls."""

import pytest

from scripts.figures import numbers
from tb.numbers.compare import compare
from tb.stalls import Stalls

OPERATIONS = ["add", "sum14", "sum28", "sum42", "quantise"]


def test_a_million_vectors():
    comparisons = compare(**numbers.COUNTS, seed=numbers.SEED)
    assert [comparison.operation for comparison in comparisons] == OPERATIONS
    assert sum(comparison.compared for comparison in comparisons) >= 1_000_000
    assert [comparison.first for comparison in comparisons if comparison.mismatches] == []
    # One result a cycle from start to end; a few cycles to fill.
    for comparison in comparisons:
        assert comparison.cycles <= comparison.compared + 8


@pytest.mark.parametrize("seed", [1, 2])
def test_stalls_on_every_stream(seed):
    stalls = Stalls(probability=0.3, long_probability=0.1, long_cycles=20)
    comparisons = compare(additions=8_000, conversions=7_000, quantisations=3_500, seed=seed, stalls=stalls)
    assert [comparison.compared for comparison in comparisons] == [8_000, 7_000, 7_000, 7_000, 3_500]
    assert [comparison.first for comparison in comparisons if comparison.mismatches] == []


def test_a_wrong_expectation_is_reported(monkeypatch):
    """The comparison bites: with another rounding expected, it names the first vector that differs."""
    from golden import binary32

    right = binary32.add
    monkeypatch.setattr(binary32, "add", lambda a, b: right(right(a, b), binary32.from_bits(1)))
    (comparison,) = compare(additions=800, conversions=0, quantisations=0)
    assert 0 < comparison.mismatches < comparison.compared == 800
    assert comparison.first.startswith("add: vector ")
