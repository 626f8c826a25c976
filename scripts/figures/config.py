"""Figures of the configuration: the chip's derived peaks beside the published ones."""

from hw.config import preset
from hw.derived import compare

KEYS = ("config.",)


def measure(*, quick: bool) -> dict[str, object]:
    """Relative errors of `full`; `as_printed` is against the rounded figure of the publication."""
    rows = compare(preset("full"))
    figures: dict[str, object] = {"config.published.max_error": max(abs(row.error) for row in rows)}
    for row in rows:
        name = row.figure.lower().replace(" ", ".")
        figures[f"config.{name}"] = row.ours
        figures[f"config.{name}.error_as_printed"] = row.error_as_printed
    return figures
