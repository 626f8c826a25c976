"""Number formats as the hardware sees them: enumerations, layouts and constants.

Sources: OCP Microscaling Formats (MX) v1.0 for E2M1, E4M3 and E8M0; IEEE 754-2019 for binary32;
docs/numbers.md for the choices left open by both.
"""

from amaranth.lib import data, enum

__all__ = ["BLOCK_SIZE", "CANONICAL_NAN", "INFINITY", "SCALE_NAN", "Binary32", "Mode", "MxFormat"]

#: Elements that share one E8M0 scale.
BLOCK_SIZE = 32

#: The only NaN that any operation returns (docs/numbers.md section 5).
CANONICAL_NAN = 0x7FC00000

#: Bits of +infinity in binary32.
INFINITY = 0x7F800000

#: The E8M0 code that means NaN.
SCALE_NAN = 0xFF


class MxFormat(enum.Enum, shape=1):
    """Element format of an MX block. MXFP8 is E4M3 only."""

    MXFP4 = 0
    MXFP8 = 1

    @property
    def element_bits(self):
        """Bits of one element code."""
        return {MxFormat.MXFP4: 4, MxFormat.MXFP8: 8}[self]

    @property
    def exponent_bias(self):
        """Bias of the element's exponent field."""
        return {MxFormat.MXFP4: 1, MxFormat.MXFP8: 7}[self]

    @property
    def max_exponent(self):
        """Exponent of the largest finite element, floor(log2 6) or floor(log2 448)."""
        return {MxFormat.MXFP4: 2, MxFormat.MXFP8: 8}[self]

    @property
    def max_code(self):
        """Code, without sign, of the largest finite element."""
        return {MxFormat.MXFP4: 0x7, MxFormat.MXFP8: 0x7E}[self]


class Mode(enum.Enum, shape=2):
    """Formats of a matrix product, named activations_weights. Code 3 is not a mode."""

    MXFP4_MXFP4 = 0
    MXFP8_MXFP4 = 1
    MXFP8_MXFP8 = 2

    @property
    def activations(self):
        """Element format of the activations."""
        return MxFormat.MXFP4 if self is Mode.MXFP4_MXFP4 else MxFormat.MXFP8

    @property
    def weights(self):
        """Element format of the weights."""
        return MxFormat.MXFP8 if self is Mode.MXFP8_MXFP8 else MxFormat.MXFP4


class Binary32(data.Struct):
    """Fields of an IEEE 754 binary32, least significant first."""

    fraction: 23
    exponent: 8
    sign: 1
