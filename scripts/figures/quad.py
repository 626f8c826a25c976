"""Figures of the quad: every pair of element codes through its RTL, against exact integers."""

from tb.quad.compare import exhaustive, run

KEYS = ("matrix.exhaustive.",)


def measure(*, quick: bool) -> dict[str, object]:
    """Products compared, and how many differ, in all and by mode."""
    comparisons = run(exhaustive())
    figures: dict[str, object] = {
        "matrix.exhaustive.compared": sum(comparison.compared for comparison in comparisons),
        "matrix.exhaustive.mismatches": sum(comparison.mismatches for comparison in comparisons),
    }
    for comparison in comparisons:
        figures[f"matrix.exhaustive.{comparison.mode}.compared"] = comparison.compared
        figures[f"matrix.exhaustive.{comparison.mode}.mismatches"] = comparison.mismatches
    return figures
