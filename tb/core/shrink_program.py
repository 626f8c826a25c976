"""Make a failing program small: delta debugging that never makes an illegal program.

First blocks are dropped, in halves and smaller (ddmin), then words that are free are replaced by NOPs, in
runs that get shorter, then blocks once more. Every candidate is a program that ends.
"""

from dataclasses import replace

from .encode import NOP
from .program import Block

__all__ = ["shrink"]


def _drop(items, fails):
    """A sublist that fails and from which no single item can be left out (ddmin)."""
    run = max(1, len(items) // 2)
    while items:
        start, dropped = 0, False
        while start < len(items):
            candidate = items[:start] + items[start + run:]
            if fails(candidate):
                items, dropped = candidate, True
            else:
                start += run
        if run == 1 and not dropped:
            break
        run = max(1, run // 2) if not dropped or run > 1 else 1
    return items


def _silence(block, places):
    words = list(block.words)
    for place in places:
        words[place] = NOP
    return Block(block.kind, tuple(words), block.free)


def shrink(program, fails, *, limit=2000):
    """A smaller Program for which ``fails`` still holds.

    Parameters
    ----------
    program : Program that fails.
    fails : function of a Program: whether it still fails. Called at most ``limit`` times, the first time with
        ``program`` itself: ValueError if that does not fail.
    """
    calls = 0

    def check(blocks):
        nonlocal calls
        calls += 1
        return calls <= limit and fails(replace(program, blocks=tuple(blocks)))

    if not check(program.blocks):
        raise ValueError("program: does not fail, so there is nothing to shrink")
    blocks = _drop(list(program.blocks), check)
    places = [(number, place) for number, block in enumerate(blocks)
              for place, word in enumerate(block.words) if block.free[place] and word != NOP]

    def silenced(kept):
        kept = set(kept)
        return [_silence(block, [place for n, place in places if n == number and (n, place) not in kept])
                for number, block in enumerate(blocks)]

    kept = _drop(places, lambda kept: check(silenced(kept)))
    return replace(program, blocks=tuple(_drop(silenced(kept), check)))
