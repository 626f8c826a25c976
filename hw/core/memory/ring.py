"""Circular buffers whose entries are bits of a word.

A position in a ring of ``n`` entries, a power of two, is an index with one more bit above, which tells a full
ring from an empty one and one lap from the next.
"""

from amaranth.hdl import Cat, Const, Mux

from hw.hbm.vectors import lowest

__all__ = ["index_bits", "newest", "oldest", "position_after", "position_before", "span", "spot"]


def index_bits(n):
    """Width of an index of ``n`` entries; a position has one bit more."""
    return (n - 1).bit_length()


def spot(index, n):
    """``index`` as one-hot."""
    return (Const(1, n) << index)[:n]


def _below(index, n):
    return (spot(index, n) - 1)[:n]


def span(begin, end, n):
    """Entries from position ``begin`` up to, but not with, position ``end``."""
    first, last = _below(begin[:-1], n), _below(end[:-1], n)
    return Mux(begin[-1] == end[-1], last & ~first, last | ~first)


def oldest(entries, head, n):
    """Of the set bits the first from index ``head`` on, as one-hot."""
    late = entries & ~_below(head, n)
    return Mux(late != 0, lowest(late), lowest(entries))


def newest(entries, end, n):
    """Of the set bits the last before index ``end``, as one-hot."""
    near = entries & _below(end, n)
    return _highest(Mux(near != 0, near, entries)[:n])


def _highest(entries):
    return Cat(*reversed(lowest(Cat(*reversed(list(entries))))))


def position_after(index, base):
    """The position of ``index`` in the lap that begins at position ``base``."""
    return Cat(index, base[-1] ^ (index < base[:-1]))


def position_before(index, end):
    """The position of ``index`` in the lap that ends before position ``end``."""
    return Cat(index, end[-1] ^ (index >= end[:-1]))
