"""The fracturable quad: one array row by four columns, for all three modes.

Four 2b x 4b multipliers, one shifter and one 56-bit adder that guard bits cut into segments of 14 bits serve

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
(docs/numbers.md, section 2): no sum leaves its segments, every sum is exact.

Guard bits. A psum word is 60 bits: below each segment stands a guard bit, zero at rest. With A and B the
operands of the adder, the guard bit below a segment is

* A=1, B=0: the carry from the segment below passes (the two are joined);
* A=B=1: a carry is made, which completes a two's complement negation;
* A=B=0: a carry from below is absorbed.

So it is one plain binary adder in every mode, for the synthesiser and for the simulator.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ActivationWord", "WeightWord", "Weights", "Joints", "Quad", "PSUM_BITS", "SEGMENT_BITS", "LANES",
           "segment", "quad_row"]

SEGMENT_BITS = 14
STRIDE = SEGMENT_BITS + 1  # a segment and the guard bit below it
PSUM_BITS = 4 * STRIDE
GUARDS = sum(1 << (STRIDE * j) for j in range(4))
SEGMENTS = (1 << PSUM_BITS) - 1 - GUARDS
PAIRS_JOINED = 1 << STRIDE | 1 << 3 * STRIDE
ALL_JOINED = PAIRS_JOINED | 1 << 2 * STRIDE

#: Segment in which slot j of a quad (column j in mxfp4_mxfp4) is summed. Slots 0 and 1 are the two columns
#: of mxfp8_mxfp4 and start at segments 0 and 2; slot 0 is the one column of mxfp8_mxfp8.
LANES = (0, 2, 1, 3)


class ActivationWord(data.Struct):
    """An activation as it hops along a row, decoded at the west edge.

    E4M3: (4 * ``high`` + ``low``) * 2**(``shift`` - 9). E2M1: ``high`` = ``low`` = significand, times
    2**(``shift`` - 1). A masked or invalid lane is all zero.
    """

    low: unsigned(2)
    high: unsigned(2)
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


def segment(word, j):
    """Segment j (14 bits, a value) of a psum word."""
    return word[STRIDE * j + 1:STRIDE * (j + 1)]


def _packed(by_segment, width):
    """Values of ``width`` bits at the foot of their segments; the rest is zero."""
    return Cat(*(Cat(Const(0, 1), value, Const(0, SEGMENT_BITS - width)) for value in by_segment))


class Joints:
    """Masks over a psum word that all quads of a column share.

    They are signals, the constant ones too: a mask written as a constant comes out as a concatenation of
    slices, which costs a simulator ten operations for one.

    ``joined``: guard bits at which this mode joins segments; ``cut``: all bits but those; ``guards`` and
    ``segments``: the two kinds of bits.
    """

    def __init__(self, m, wide_activations, wide_weights):
        self.joined = Signal(PSUM_BITS, name="joined")
        self.cut = Signal(PSUM_BITS, name="cut")
        self.guards = Signal(PSUM_BITS, name="guards")
        self.segments = Signal(PSUM_BITS, name="segments")
        m.d.comb += [
            self.joined.eq(Mux(wide_weights, ALL_JOINED, Mux(wide_activations, PAIRS_JOINED, 0))),
            self.cut.eq(~self.joined),
            self.guards.eq(GUARDS),
            self.segments.eq(SEGMENTS),
        ]


class Weights:
    """Shadow and active weights of one quad.

    The active registers hold each operand where the arithmetic wants it, in words with constant zeros
    between: 16 magnitude bits, 4 signs and 4 shift bits are flip-flops, the rest is wiring.

    ``low_operand``: magnitudes of slots 0 and 1 in segments 0 and 2, times the low activation half;
    ``high_operand``: slots 2 and 3 likewise, times the high half; ``sign``: a psum word of sign masks;
    ``shift``: the E4M3 weight's shift, else 0.
    """

    def __init__(self, m, name, word, write_low, write_high, swap, wide_activations, wide_weights):
        shadow = [Signal(5, name=f"{name}_shadow{j}", reset_less=True) for j in range(4)]
        with m.If(write_low):
            m.d.sync += [shadow[0].eq(Cat(word.a, word.negative_a)),
                         shadow[1].eq(Cat(word.b, word.negative_b))]
        with m.If(write_high):
            m.d.sync += [shadow[2].eq(Cat(word.a, word.negative_a)),
                         shadow[3].eq(Cat(word.b, word.negative_b))]
        self.low_operand = Signal(2 * STRIDE + 5, name=f"{name}_low_operand", reset_less=True)
        self.high_operand = Signal(2 * STRIDE + 5, name=f"{name}_high_operand", reset_less=True)
        self.sign = Signal(PSUM_BITS, name=f"{name}_sign", reset_less=True)
        self.shift = Signal(4, name=f"{name}_shift", reset_less=True)
        gap = Const(0, 2 * STRIDE - 4)
        guard = Const(0, 1)
        negative = [slot[4] for slot in shadow]
        upper = Mux(wide_weights, negative[0], negative[1])
        by_segment = [negative[0], Mux(wide_activations, negative[0], negative[2]),
                      upper, Mux(wide_activations, upper, negative[3])]
        with m.If(swap):
            m.d.sync += [
                self.low_operand.eq(Cat(guard, shadow[0][:4], gap, Mux(wide_weights, 0, shadow[1][:4]))),
                self.high_operand.eq(Cat(guard, shadow[2][:4], gap, Mux(wide_weights, 0, shadow[3][:4]))),
                self.shift.eq(Mux(wide_weights, shadow[1][:4], 0)),
                self.sign.eq(Cat(*(Mux(bit, Const((1 << STRIDE) - 1, STRIDE), Const(0, STRIDE))
                                   for bit in by_segment))),
            ]


def quad_row(m, name, activation, weights, psum, wide_activations, joints, product_latency):
    """The arithmetic of one quad: returns the next partial sum (a 60-bit register).

    ``activation`` is an ActivationWord, ``weights`` a :class:`Weights`, ``psum`` the word from the row
    above. The result is 1 + ``product_latency`` cycles later than the activation, 1 cycle than ``psum``.
    """
    def word(label, value, width, stage):
        """A named intermediate: a register where ``stage`` is true, else a wire."""
        signal = Signal(width, name=f"{name}_{label}", reset_less=True)
        domain = m.d.sync if stage else m.d.comb
        domain += signal.eq(value)
        return signal

    low = activation.low * weights.low_operand
    high = activation.high * weights.high_operand
    # The high half joins its product two bits up (E4M3 activations), or is two more columns.
    products = low + Mux(wide_activations, high << 2, high << STRIDE)
    total_shift = word("total_shift", activation.shift + weights.shift, 5, False)
    fine = word("fine", products << total_shift[:2], PSUM_BITS, product_latency)
    coarse = word("coarse", total_shift[2:], 3, product_latency)
    sign = word("negate", weights.sign ^ Mux(activation.negative, Const((1 << PSUM_BITS) - 1), 0), PSUM_BITS,
                product_latency)

    by_four = Cat(Const(0, 2), coarse)
    guard = Const(0, 1)
    whole = word("whole", segment(fine, 0)[:11] << by_four, 3 * SEGMENT_BITS, False)
    upper = word("upper", segment(fine, 2)[:11] << by_four, 2 * SEGMENT_BITS, False)
    magnitude = Cat(guard, whole[0:14], guard, whole[14:28] | segment(fine, 1)[:8],
                    guard, whole[28:42] | upper[0:14], guard, upper[14:28] | segment(fine, 3)[:8])
    a = psum | (sign & joints.guards) | joints.joined
    b = (magnitude ^ sign) & joints.cut
    total = Signal(PSUM_BITS + 1, name=f"{name}_total")
    m.d.comb += total.eq(a + b)
    return word("psum", total & joints.segments, PSUM_BITS, True)


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
        members = {"wide_activations": In(1), "wide_weights": In(1), "psum_i": In(PSUM_BITS),
                   "psum_o": Out(PSUM_BITS)}
        for name, width in hops.items():
            members |= {f"{name}_i": In(width), f"{name}_o": Out(width)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        for name in ("activation", "weight", "load", "swap"):
            register = Signal.like(getattr(self, f"{name}_i"), name=name, reset_less=True)
            m.d.sync += register.eq(getattr(self, f"{name}_i"))
            m.d.comb += getattr(self, f"{name}_o").eq(register)
        weights = Weights(m, "quad", data.View(WeightWord, self.weight_o), self.load_o[0], self.load_o[1],
                          self.swap_o, self.wide_activations, self.wide_weights)
        joints = Joints(m, self.wide_activations, self.wide_weights)
        psum = quad_row(m, "quad", data.View(ActivationWord, self.activation_o), weights, self.psum_i,
                        self.wide_activations, joints, self.product_latency)
        m.d.comb += self.psum_o.eq(psum)
        return m
