"""Number of ones."""

from amaranth.hdl import Const, Value

__all__ = ["ones"]


def ones(bits):
    """Number of bits set in a value, or in a list of single bits; 0 for none."""
    total = Const(0, 1)
    for bit in bits if isinstance(bits, list) else list(Value.cast(bits)):
        total = total + bit
    return total
