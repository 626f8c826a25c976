"""Addresses of loads and stores: alignment, the map of the tile, bytes of a doubleword."""

from amaranth.hdl import Array, Cat, Const, Mux
from amaranth.lib import data

from ..address import ADDRESS_BITS, CLINT, CONTROL, DEVICE_BYTES, HOST, RAM

__all__ = ["Place", "extend", "lanes", "place", "repeat", "size_mask", "to_bit_zero"]


class Place(data.Struct):
    """What is at an address; neither RAM nor a device: an access fault."""

    misaligned: 1
    ram: 1
    device: 1


def place(address, size, ram_bytes):
    """What an access of 2 ** ``size`` bytes at ``address`` (64 bits) finds, as Values by name."""
    offset, window = address[:3], (DEVICE_BYTES - 1).bit_length()
    misaligned = (offset & Array([0, 1, 3, 7])[size]) != 0
    device = Const(0)
    for base in (CLINT, CONTROL, HOST):
        device = device | (address[window:] == base >> window)
    ram = (address[ADDRESS_BITS:] == 0) & (address[:ADDRESS_BITS] >= RAM) & (
        address[:ADDRESS_BITS] < RAM + ram_bytes)
    return {"misaligned": misaligned, "ram": ram & ~misaligned, "device": device & ~misaligned}


def size_mask(size):
    """2 ** ``size`` ones, in 8 bits."""
    return Cat(Const(1, 1), size != 0, (size[1]).replicate(2), (size == 3).replicate(4))


def lanes(offset, size):
    """Bytes of a doubleword that 2 ** ``size`` bytes at ``offset`` take."""
    return (size_mask(size) << offset)[:8]


def repeat(value, size):
    """The lowest 2 ** ``size`` bytes in all places of a doubleword where they can stand."""
    return Mux(size[1], Mux(size[0], value, value[:32].replicate(2)),
               Mux(size[0], value[:16].replicate(4), value[:8].replicate(8)))


def to_bit_zero(doubleword, offset):
    """The doubleword from the byte at ``offset`` on."""
    return doubleword >> (offset << 3)


def extend(value, op):
    """The result of a load with funct3 ``op`` whose bytes begin at bit 0."""
    size, is_unsigned = op[:2], op[2]
    parts = []
    for bits in (8, 16, 32):
        sign = value[bits - 1] & ~is_unsigned
        parts.append(Cat(value[:bits], sign.replicate(64 - bits)))
    return Mux(size[1], Mux(size[0], value, parts[2]), Mux(size[0], parts[1], parts[0]))
