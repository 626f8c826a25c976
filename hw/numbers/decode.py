"""Element codes to sign, significand and shift: what a multiplier array wants to see.

A significand of at most four bits and a power of two keep the multipliers small and the products exact.
Source: OCP MX v1.0 sections 5.3.1 and 5.3.3; docs/numbers.md section 1.
"""

from typing import NamedTuple

from amaranth.hdl import Cat, Mux, Value

__all__ = ["DecodedE2M1", "DecodedE4M3", "decode_e2m1", "decode_e4m3"]


class DecodedE2M1(NamedTuple):
    """value = (-1)^negative * significand * 2^shift * 2^-1."""

    negative: Value  #: 1 bit
    significand: Value  #: 2 bits, 0..3
    shift: Value  #: 2 bits, 0..2


class DecodedE4M3(NamedTuple):
    """value = (-1)^negative * significand * 2^shift * 2^-9, unless ``nan``."""

    negative: Value  #: 1 bit
    significand: Value  #: 4 bits, 0..15; 0 for a NaN, so that its products are harmless
    shift: Value  #: 4 bits, 0..14
    nan: Value  #: 1 bit


def _code(code, bits):
    code = Value.cast(code)
    if len(code) != bits:
        raise ValueError(f"code must be {bits} bits wide, not {len(code)}")
    return code


def decode_e2m1(code):
    """Decodes a 4-bit E2M1 code. Combinational."""
    code = _code(code, 4)
    mantissa, exponent = code[0], code[1:3]
    normal = exponent.any()
    # Exponent field 0 has the same weight as 1 and no hidden bit: 0, 1, 2, 3 -> 0, 0, 1, 2.
    return DecodedE2M1(
        negative=code[3],
        significand=Cat(mantissa, normal),
        shift=Cat(exponent[1] & ~exponent[0], exponent[1] & exponent[0]),
    )


def decode_e4m3(code):
    """Decodes an 8-bit E4M3 code. Combinational. 0x7F and 0xFF are NaN."""
    code = _code(code, 8)
    mantissa, exponent = code[0:3], code[3:7]
    normal = exponent.any()
    nan = code[0:7].all()
    return DecodedE4M3(
        negative=code[7],
        significand=Mux(nan, 0, Cat(mantissa, normal)),
        shift=(exponent - normal)[0:4],
        nan=nan,
    )
