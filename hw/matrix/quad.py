"""The fracturable quad: one array row by four columns, for all three modes.

Multipliers of 4b x 4b for two columns and of 2b x 4b for the other two, one shifter and one 60-bit adder that
guard bits cut into fields serve

=============  ===================================  =======================  =====
mode           products                             sums                     rate
=============  ===================================  =======================  =====
mxfp4_mxfp4    four 2b x 4b, four columns           four of 14 bits          1
mxfp8_mxfp4    two 4b x 4b, two columns             two of 28 bits           1/2
mxfp8_mxfp8    one 4b x 4b, one column              one of 42 bits           1/4
=============  ===================================  =======================  =====

An E2M1 weight enters as the integer 2|w| (4 bits), an E4M3 weight as significand and shift, an activation as
significand and shift. The product's shift is then the same for all four lanes, and with an E4M3 weight the
quad does what it does with an E2M1 weight, at a larger shift. 32 products make 14, 28 and 42 bits signed
(docs/numbers.md, section 2): no sum leaves its field, every sum is exact.

A psum word is 60 bits. Bits 0, 15, 30 and 45 are guard bits where a field begins above them, and ordinary
bits of the number where a field runs through them:

=============  =====================  =========================================
mode           guard bits             fields (column: bits)
=============  =====================  =========================================
mxfp4_mxfp4    0, 15, 30, 45          0: 1..14, 2: 16..29, 1: 31..44, 3: 46..59
mxfp8_mxfp4    0, 30                  0: 1..29, 1: 31..59
mxfp8_mxfp8    0                      0: 1..59
=============  =====================  =========================================

A guard bit is zero at rest. For a negative product both operands of the adder have it set, which makes the
carry that completes the two's complement; else neither has, which absorbs a carry from the field below. So it
is one plain binary adder in every mode, for the synthesiser and for the simulator. docs/quad.md explains it.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ActivationWord", "WeightWord", "Weights", "Fields", "Quad", "PSUM_BITS", "LANES", "field",
           "hop_members", "hop_registers", "quad_row"]

LANE_BITS = 15  # a guard bit and a sum of 14 bits
PSUM_BITS = 4 * LANE_BITS
ONES = (1 << PSUM_BITS) - 1
GUARDS_OF_FOUR = 1 | 1 << LANE_BITS | 1 << 2 * LANE_BITS | 1 << 3 * LANE_BITS
GUARDS_OF_TWO = 1 | 1 << 2 * LANE_BITS
GUARD_OF_ONE = 1

#: Lane of a psum word in which the sum of slot j of a quad (column j in mxfp4_mxfp4) begins. Slots 0 and 1
#: are the two columns of mxfp8_mxfp4, slot 0 the one column of mxfp8_mxfp8.
LANES = (0, 2, 1, 3)


class ActivationWord(data.Struct):
    """An activation as it hops along a row, decoded at the west edge.

    E4M3: ``significand`` * 2**(``shift`` - 9). E2M1: the same times 2**(``shift`` - 1), with a significand
    below 4. A masked or invalid lane is all zero.
    """

    significand: unsigned(4)
    shift: unsigned(4)
    negative: unsigned(1)


class WeightWord(data.Struct):
    """What a weight beat brings to one quad, decoded at the west edge.

    E2M1: ``a`` and ``b`` are 2|w| of two columns. E4M3: ``a`` is the significand, ``b`` the shift of one
    weight a * 2**(b - 9), and ``negative_b`` is 0.
    """

    a: unsigned(4)
    negative_a: unsigned(1)
    b: unsigned(4)
    negative_b: unsigned(1)


def field(word, lane, bits):
    """The sum of ``bits`` bits, signed, that begins in ``lane`` of a psum word (a value)."""
    first = LANE_BITS * lane + 1
    return word[first:first + bits].as_signed()


class Fields:
    """The masks that cut a psum word into the fields of the mode, for all quads of a column.

    ``guards``: the guard bits; ``sums``: all other bits. Where they are ``registered`` they follow the mode a
    cycle later. In a column they are, for the simulator's sake: Verilator shares the code of columns only
    where all that they refer to are registers.
    """

    def __init__(self, m, wide_activations, wide_weights, *, registered):
        domain = m.d.sync if registered else m.d.comb
        self.guards = self._mask("guards", GUARDS_OF_FOUR)
        self.sums = self._mask("sums", ONES & ~GUARDS_OF_FOUR)
        guards = Mux(wide_weights, GUARD_OF_ONE, Mux(wide_activations, GUARDS_OF_TWO, GUARDS_OF_FOUR))
        domain += [self.guards.eq(guards), self.sums.eq(guards ^ ONES)]

    @staticmethod
    def _mask(name, init):
        return Signal(PSUM_BITS, name=name, init=init, reset_less=True)


class Weights:
    """Shadow and active weights of one quad.

    The active registers hold each operand where the arithmetic wants it, in words with constant zeros
    between: 16 magnitude bits, 4 signs and 4 shift bits are flip-flops, the rest is wiring.

    ``even``: magnitudes of slots 0 and 1 (lanes 0 and 2), times the whole significand of the activation;
    ``odd``: of slots 2 and 3 (lanes 1 and 3), times its lower half, zero with E4M3 activations; ``sign``: a
    psum word of sign masks; ``shift``: the E4M3 weight's shift, else 0.
    """

    def __init__(self, m, name, word, write_low, write_high, swap, wide_activations, wide_weights):
        word = word.as_value()
        shadow_low = Signal(len(word), name=f"{name}_shadow_low", reset_less=True)
        shadow_high = Signal(len(word), name=f"{name}_shadow_high", reset_less=True)
        with m.If(write_low):
            m.d.sync += shadow_low.eq(word)
        with m.If(write_high):
            m.d.sync += shadow_high.eq(word)
        low, high = data.View(WeightWord, shadow_low), data.View(WeightWord, shadow_high)
        self.even = Signal(2 * LANE_BITS + 4, name=f"{name}_even", reset_less=True)
        self.odd = Signal(2 * LANE_BITS + 4, name=f"{name}_odd", reset_less=True)
        self.sign = Signal(PSUM_BITS, name=f"{name}_sign", reset_less=True)
        self.shift = Signal(4, name=f"{name}_shift", reset_less=True)
        gap = Const(0, 2 * LANE_BITS - 4)
        upper = Mux(wide_weights, low.negative_a, low.negative_b)
        negative = [low.negative_a, Mux(wide_activations, low.negative_a, high.negative_a),
                    upper, Mux(wide_activations, upper, high.negative_b)]
        with m.If(swap):
            m.d.sync += [
                self.even.eq(Cat(low.a, gap, Mux(wide_weights, 0, low.b))),
                self.odd.eq(Mux(wide_activations, 0, Cat(high.a, gap, high.b))),
                self.shift.eq(Mux(wide_weights, low.b, 0)),
                self.sign.eq(Cat(*(Mux(bit, Const((1 << LANE_BITS) - 1, LANE_BITS), Const(0, LANE_BITS))
                                   for bit in negative))),
            ]


def quad_row(m, name, activation, weights, psum, fields, product_latency):
    """The arithmetic of one quad: returns the next partial sum (a 60-bit register).

    ``activation`` is an ActivationWord, ``weights`` a :class:`Weights`, ``psum`` the word from the row
    above, ``fields`` a :class:`Fields`. The result is 1 + ``product_latency`` cycles later than the
    activation, 1 cycle than ``psum``.
    """
    def word(label, value, width, stage=False):
        """A named intermediate: a register where ``stage`` is true, else a wire."""
        signal = Signal(width, name=f"{name}_{label}", reset_less=True)
        domain = m.d.sync if stage else m.d.comb
        domain += signal.eq(value)
        return signal

    even = word("even_products", activation.significand * weights.even, 2 * LANE_BITS + 8)
    odd = word("odd_products", activation.significand[:2] * weights.odd, 2 * LANE_BITS + 6)
    shift = word("total_shift", activation.shift + weights.shift, 5)
    # What a lane can need: any shift in lane 0, an activation's in lane 2, an E2M1 activation's in 1 and 3.
    # No shift is wider than 64 bits, which would cost a simulator much.
    magnitude = (Cat(Const(0, 1), even[:8] << shift)
                 | Cat(Const(0, 2 * LANE_BITS + 1), even[2 * LANE_BITS:] << shift[:4])
                 | Cat(Const(0, LANE_BITS + 1), odd << shift[:2]))
    sign = weights.sign ^ Mux(activation.negative, ONES, 0)
    term = word("term", magnitude ^ sign, PSUM_BITS, stage=product_latency)
    return word("psum", ((psum | (term & fields.guards)) + term) & fields.sums, PSUM_BITS, stage=True)


def hop_members(**widths):
    """Members ``<name>_i`` and ``<name>_o`` of operands that hop through a component, by name and width."""
    return {f"{name}_{side}": flow(width) for name, width in widths.items() for side, flow in
            (("i", In), ("o", Out))}


def hop_registers(m, component, *names):
    """The registers between these members of ``component``."""
    for name in names:
        register = Signal.like(getattr(component, f"{name}_i"), name=name, reset_less=True)
        m.d.sync += register.eq(getattr(component, f"{name}_i"))
        m.d.comb += getattr(component, f"{name}_o").eq(register)


class Quad(wiring.Component):
    """One quad with its hop registers: the unit of area, and of the exhaustive tests.

    Members
    -------
    wide_activations, wide_weights : In(1), the mode: E4M3 activations, E4M3 weights
    activation_i, activation_o : ActivationWord (9 bits), one cycle apart
    weight_i, weight_o : WeightWord (10 bits), one cycle apart
    load_i, load_o : 2 bits (write slots 0 and 1, write slots 2 and 3) of the weight at ``weight_o``
    swap_i, swap_o : 1 bit, one cycle apart; ``swap_o`` makes the shadow weights active
    psum_i, psum_o : 60 bits; ``psum_o`` = ``psum_i`` of a cycle before + product of the activation that
        stood at ``activation_i`` 2 + product_latency cycles before
    """

    def __init__(self, *, product_latency=1):
        self.product_latency = product_latency
        hops = {"activation": data.Layout.cast(ActivationWord).size,
                "weight": data.Layout.cast(WeightWord).size, "load": 2, "swap": 1}
        super().__init__({"wide_activations": In(1), "wide_weights": In(1), "psum_i": In(PSUM_BITS),
                          "psum_o": Out(PSUM_BITS), **hop_members(**hops)})

    def elaborate(self, platform):
        m = Module()
        hop_registers(m, self, "activation", "weight", "load", "swap")
        weights = Weights(m, "quad", data.View(WeightWord, self.weight_o), self.load_o[0], self.load_o[1],
                          self.swap_o, self.wide_activations, self.wide_weights)
        fields = Fields(m, self.wide_activations, self.wide_weights, registered=False)
        psum = quad_row(m, "quad", data.View(ActivationWord, self.activation_o), weights, self.psum_i, fields,
                        self.product_latency)
        m.d.comb += self.psum_o.eq(psum)
        return m
