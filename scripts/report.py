"""What commands print: tables, progress and JSON, with decoration only where there is a terminal."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")


def print_json(value: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def format_cell(cell: object) -> str:
    """A cell as text: thousands separated, floats with four digits or all digits before the point."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return str(cell)
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"


def _set_right(index: int, rows: Sequence[Sequence[object]]) -> bool:
    texts = [format_cell(row[index]) for row in rows if row[index] not in ("", None)]
    return bool(texts) and all(text.lstrip("+-")[:1].isdigit() for text in texts)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; columns of numbers are set right. Formatting as `format_cell`."""
    cells = [[format_cell(cell) for cell in row] for row in rows]
    right = [_set_right(index, rows) for index in range(len(columns))]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        table = Table(title=title, title_justify="left", title_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if right[index] else "left")
        for row in cells:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(row[index]) for row in [list(columns), *cells]) for index in range(len(columns))]
    print(title)
    for row in [list(columns), *cells]:
        aligned = [cell.rjust(widths[index]) if right[index] else cell.ljust(widths[index])
                   for index, cell in enumerate(row)]
        print("  " + "  ".join(aligned).rstrip())


@contextlib.contextmanager
def progress(title: str, total: float) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on standard error; gives `advance(amount, note)`. Silent where there is no terminal."""
    if not sys.stderr.isatty():
        yield lambda amount=1, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"),
               TimeElapsedColumn(), TextColumn("{task.fields[note]}")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, note="")

        def advance(amount: float = 1, note: str = "") -> None:
            bar.update(task, advance=amount, note=note)

        yield advance
