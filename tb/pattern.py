"""Where the differing elements of a tensor lie, in words: one row, one column, one block, every fourth."""

import numpy as np

__all__ = ["describe"]


def describe(differs, *, block=32):
    """Say where ``differs`` (bool, any shape; the last two axes are rows and columns) is true.

    Returns
    -------
    str
        As ``"one column (5), rows 0..6"`` or ``"all elements"``; empty when nothing differs.
    """
    differs = np.asarray(differs)
    if not differs.any():
        return ""
    if differs.all():
        return "all elements"
    if differs.ndim == 0 or differs.size == 1:
        return "the only element"
    flat = differs.reshape(-1, differs.shape[-1])
    rows = np.flatnonzero(flat.any(axis=1))
    columns = np.flatnonzero(flat.any(axis=0))
    if len(rows) == 1 and len(columns) == 1:
        return "one element"
    whole = bool(flat[np.ix_(rows, columns)].all())
    if len(columns) == 1:
        return f"one column ({columns[0]}), " + _rows(rows, flat.shape[0])
    blocks = np.unique(columns // block)
    if len(rows) == 1:
        place = f"one row ({rows[0]})"
        if len(columns) == flat.shape[1]:
            return f"{place}, all of it"
        if len(blocks) == 1 and flat.shape[1] > block:
            return f"{place}, one block of {block} (columns {_span(columns)})"
        return f"{place}, columns {_span(columns)}"
    if len(blocks) == 1 and flat.shape[1] > block:
        return f"one block of {block} columns ({_span(columns)}), " + _rows(rows, flat.shape[0])
    words = []
    if len(columns) == flat.shape[1]:
        words.append("whole rows" if whole else "rows")
        words.append(_span(rows))
    elif len(rows) == flat.shape[0]:
        words.append("whole columns" if whole else "columns")
        words.append(_span(columns))
    else:
        words.append(f"rows {_span(rows)}, columns {_span(columns)}")
    if not whole:
        words.append(f"({int(flat.sum())} of the {len(rows) * len(columns)} elements where they cross)")
    return " ".join(words)


def _rows(rows, height):
    if len(rows) == height:
        return "all rows"
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {_span(rows)}"


def _span(numbers):
    """As "3", "3..9", "every 4th from 2 to 30" or "1, 5, 6 and 20 more"."""
    numbers = [int(n) for n in numbers]
    if len(numbers) == 1:
        return str(numbers[0])
    steps = set(np.diff(numbers).tolist())
    if steps == {1}:
        return f"{numbers[0]}..{numbers[-1]}"
    if len(steps) == 1 and len(numbers) > 2:
        return f"every {_ordinal(steps.pop())} from {numbers[0]} to {numbers[-1]}"
    if len(numbers) <= 6:
        return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
    return ", ".join(map(str, numbers[:4])) + f" and {len(numbers) - 4} more"


def _ordinal(number):
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number if number < 20 else number % 10, 'th')}"
