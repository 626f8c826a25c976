"""One-hot vectors, in operations on whole words.

A mask per bit of an index would do as well, but is taken apart into single bits on its way to Verilog, and
those are slow to simulate.
"""

from amaranth.hdl import Cat, Mux

__all__ = ["encode", "lowest", "select"]


def lowest(vector):
    """The lowest set bit of ``vector``, as one-hot."""
    return (vector & -vector)[:len(vector)]


def encode(one_hot):
    """Index of the only set bit; 0 if there is none."""
    bits = []
    while len(one_hot) > 1:
        half = 1 << (len(one_hot) - 1).bit_length() - 1
        low, high = one_hot[:half], one_hot[half:]
        bits.insert(0, high != 0)
        one_hot = low | high
    return Cat(bits)


def select(one_hot, values):
    """The value whose bit is set; 0 if there is none."""
    chosen = 0
    for bit, value in zip(one_hot, values, strict=True):
        chosen = chosen | Mux(bit, value, 0)
    return chosen
