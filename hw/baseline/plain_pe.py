"""A plain MXFP4 processing element, the yardstick for the quad's area."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..matrix.quad import hop_members, hop_registers

__all__ = ["Activation", "PlainPE", "PlainRow", "Weight", "SUM_BITS"]

SUM_BITS = 14  # 32 products of E2M1 by E2M1, in quarters (docs/numbers.md section 2)


class Activation(data.Struct):
    """An E2M1 activation, decoded at the west edge: significand * 2**(shift - 1)."""

    significand: unsigned(2)
    shift: unsigned(2)
    negative: unsigned(1)


class Weight(data.Struct):
    """An E2M1 weight, decoded at the west edge: magnitude / 2."""

    magnitude: unsigned(4)
    negative: unsigned(1)


def multiply_add(m, name, activation, weight, total):
    """The next partial sum, a register: the arithmetic of :class:`PlainPE`."""
    product = Signal(8, name=f"{name}_product")
    sum_ = Signal(SUM_BITS, name=f"{name}_psum", reset_less=True)
    negative = activation.negative ^ weight.negative
    m.d.comb += product.eq((activation.significand * weight.magnitude << activation.shift)[:8])
    # Two's complement in the adder: the inverted product and a carry in.
    term = Cat(product, Const(0, SUM_BITS - 8)) ^ Mux(negative, Const((1 << SUM_BITS) - 1), 0)
    m.d.sync += sum_.eq((Cat(1, total) + Cat(negative, term))[1:])
    return sum_


def held_weight(m, name, word, write, swap):
    """Shadow and active weight; returns the active one."""
    shadow = Signal(Weight, name=f"{name}_shadow", reset_less=True)
    active = Signal(Weight, name=f"{name}_active", reset_less=True)
    with m.If(write):
        m.d.sync += shadow.eq(word)
    with m.If(swap):
        m.d.sync += active.eq(shadow)
    return active


class PlainPE(wiring.Component):
    """One row by one column of a weight-stationary MXFP4 array, nothing else: no MXFP8, no mode.

    It has what a quad has: operands decoded at the west edge, a shadow weight, a swap that travels with the
    data, hop registers eastward, an exact sum of 32 products downward.

    Members
    -------
    activation_i, activation_o : Activation (5 bits), one cycle apart
    weight_i, weight_o : Weight (5 bits), one cycle apart
    load_i, load_o, swap_i, swap_o : 1 bit, one cycle apart
    psum_i, psum_o : 14 bits; ``psum_o`` = ``psum_i`` of a cycle before + product of ``activation_o`` then
    """

    def __init__(self):
        hops = {"activation": data.Layout.cast(Activation).size, "weight": data.Layout.cast(Weight).size,
                "load": 1, "swap": 1}
        super().__init__({"psum_i": In(SUM_BITS), "psum_o": Out(SUM_BITS), **hop_members(**hops)})

    def elaborate(self, platform):
        m = Module()
        hop_registers(m, self, "activation", "weight", "load", "swap")
        weight = held_weight(m, "pe", data.View(Weight, self.weight_o), self.load_o, self.swap_o)
        m.d.comb += self.psum_o.eq(multiply_add(m, "pe", data.View(Activation, self.activation_o), weight,
                                                self.psum_i))
        return m


class PlainRow(wiring.Component):
    """Four plain PEs behind one set of hop registers, as a quad has them: the sharpest comparison.

    Members as :class:`PlainPE`, with weights of two columns a beat (``weight_i`` 10 bits), ``load_i`` 2 bits
    (write columns 0 and 1, write columns 2 and 3) and four sums of 14 bits.
    """

    def __init__(self):
        hops = {"activation": data.Layout.cast(Activation).size, "weight": 2 * data.Layout.cast(Weight).size,
                "load": 2, "swap": 1}
        super().__init__({"psum_i": In(4 * SUM_BITS), "psum_o": Out(4 * SUM_BITS), **hop_members(**hops)})

    def elaborate(self, platform):
        m = Module()
        hop_registers(m, self, "activation", "weight", "load", "swap")
        pair = data.View(data.ArrayLayout(Weight, 2), self.weight_o)
        sums = []
        for column in range(4):
            weight = held_weight(m, f"c{column}", pair[column % 2], self.load_o[column // 2], self.swap_o)
            sums.append(multiply_add(m, f"c{column}", data.View(Activation, self.activation_o), weight,
                                     self.psum_i[SUM_BITS * column:SUM_BITS * (column + 1)]))
        m.d.comb += self.psum_o.eq(Cat(*sums))
        return m
