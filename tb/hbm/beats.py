"""Payloads of streams as arrays: many beats at once, by the fields of an Amaranth structure."""

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data

__all__ = ["pack", "unpack"]


def _fields(shape):
    return {name: (field.offset, Shape.cast(field.shape).width) for name, field in data.Layout.cast(shape)}


def pack(shape, count, **values):
    """Beats of a structure, uint8 [count, ceil(width / 8)]; fields not given are 0.

    A value is a number for all beats or an array: integers [count], bool [count, width], or uint8
    [count, width / 8] for fields that are wider than 64 bits.
    """
    layout = data.Layout.cast(shape)
    bits = np.zeros((count, -(-layout.size // 8) * 8), dtype=np.uint8)
    fields = _fields(shape)
    for name, value in values.items():
        offset, width = fields[name]
        bits[:, offset:offset + width] = _bits(np.asarray(value), count, width)
    return np.packbits(bits, axis=1, bitorder="little")


def _bits(value, count, width):
    if value.dtype == bool and value.ndim == 2:
        return value
    if value.dtype == np.uint8 and value.ndim == 2:
        return np.unpackbits(value, axis=1, bitorder="little")[:, :width]
    words = np.broadcast_to(value.astype("<u8"), (count,))
    return np.unpackbits(words[:, None].copy().view(np.uint8), axis=1, bitorder="little")[:, :width]


def unpack(shape, beats):
    """Fields of beats uint8 [n, bytes]: int64 [n], or uint8 [n, width / 8] where wider than 63 bits."""
    bits = np.unpackbits(np.ascontiguousarray(beats), axis=1, bitorder="little")
    found = {}
    for name, (offset, width) in _fields(shape).items():
        packed = np.packbits(bits[:, offset:offset + width], axis=1, bitorder="little")
        if width > 63:
            found[name] = packed
            continue
        word = np.zeros((len(beats), 8), dtype=np.uint8)
        word[:, :packed.shape[1]] = packed
        found[name] = word.view("<i8")[:, 0]
    return found
