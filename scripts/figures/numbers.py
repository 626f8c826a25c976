"""Figures of hw.numbers: random vectors through the Verilated pipelines, against NumPy and golden."""

from tb.numbers.compare import compare

KEYS = ("numbers.fp32.",)

SEED = 20
#: Additions, block sums of each of three widths, blocks of 32 values: 1,120,000 results, of which a
#: quantised block counts as one.
COUNTS = {"additions": 480_000, "conversions": 180_000, "quantisations": 100_000}


def measure(*, quick: bool) -> dict[str, object]:
    """How many results were compared, and how many differ, in all and by operation."""
    if quick:
        return {}  # tests/test_numbers_verilator.py runs the same vectors
    comparisons = compare(**COUNTS, seed=SEED)
    figures: dict[str, object] = {
        "numbers.fp32.compared": sum(comparison.compared for comparison in comparisons),
        "numbers.fp32.mismatches": sum(comparison.mismatches for comparison in comparisons),
    }
    for comparison in comparisons:
        figures[f"numbers.fp32.{comparison.operation}.compared"] = comparison.compared
        figures[f"numbers.fp32.{comparison.operation}.mismatches"] = comparison.mismatches
    return figures
