"""The status table of README.md, drawn from figures.json between two markers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.figures.collect import ROOT, FigureError
from scripts.figures.targets import MISSED, TARGETS, Target
from scripts.report import format_cell

README = ROOT / "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def value_text(figures: Mapping[str, object], key: str) -> str:
    """The measured value as text; a dash where there is none."""
    value = figures.get(key, "–")
    return str(value).lower() if isinstance(value, bool) else format_cell(value)


def rows(figures: Mapping[str, object], targets: Sequence[Target] = TARGETS) -> list[tuple[str, ...]]:
    """(key, what, asked, measured, state) of every target."""
    return [
        (target.key, target.what + " (noisy)" * target.noisy, target.asked(),
         value_text(figures, target.key), target.state(figures))
        for target in targets
    ]


def markdown(figures: Mapping[str, object], targets: Sequence[Target] = TARGETS) -> str:
    """The table as it stands in README.md."""
    lines = ["| figure | what | asked | measured | state |", "|---|---|---|---|---|"]
    for target, (key, what, asked, measured, state) in zip(targets, rows(figures, targets), strict=True):
        if target.beyond and state == MISSED:
            state = f"missed ([why]({target.beyond}))"
        if target.pending and state == MISSED:
            state = f"missed, open ([tried]({target.pending}))"
        lines.append(f"| `{key}` | {what} | {asked} | {measured} | {state} |")
    return "\n".join(lines)


def with_table(readme: str, table: str) -> str:
    """The text of a README with `table` between its markers."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise FigureError(f"README.md has no place for the table: must hold {BEGIN!r}, {END!r} once each")
    head, rest = readme.split(BEGIN)
    return f"{head}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def update(figures: Mapping[str, object], path: Path = README) -> None:
    """Brings the table in the file at `path` up to date."""
    text = path.read_text(encoding="utf-8")
    fresh = with_table(text, markdown(figures))
    if fresh != text:
        path.write_text(fresh, encoding="utf-8")
