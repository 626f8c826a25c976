"""Binary32 adder."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from . import fast
from .formats import CANONICAL_NAN, INFINITY, Binary32
from .rounding import normalise, round_nearest_even
from .stages import Stages, check_latency, named

__all__ = ["AddInput", "Float32Adder"]


class AddInput(data.Struct):
    """Operands, as bits of binary32."""

    a: 32
    b: 32


class Float32Adder(wiring.Component):
    """IEEE 754 binary32 addition, nearest-even, with subnormals, infinities and NaN.

    Any NaN result is 0x7FC00000. x + -x is +0, -0 + -0 is -0 (docs/numbers.md section 4).
    One result a cycle. No handshake, no reset: ``o`` belongs to the ``i`` of ``latency`` cycles before.

    Parameters
    ----------
    latency : int
        Register stages. The first is between adding and normalising, the second between normalising and
        rounding, the third between ordering the operands and aligning, all others at the output.
        0 is combinational.

    Members
    -------
    i : In(AddInput)
        ``a`` and ``b``, bits of binary32.
    o : Out(32)
        Bits of a + b.
    """

    def __init__(self, *, latency):
        self._latency = check_latency(latency)
        super().__init__({"i": In(AddInput), "o": Out(32)})

    @property
    def latency(self):
        return self._latency

    @property
    def module_name(self):
        """Name of the module that hw.emit makes of this component."""
        return f"float_add_l{self._latency}"

    def fast_view(self):
        """Files of the simulation-only description of this module (:func:`hw.emit.verilog`)."""
        return fast.adder(self)

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, latency=self._latency, cuts=("added", "normalised", "ordered", "output"))

        # Order by magnitude: the difference is never negative, and a NaN or infinity is always in front.
        swap = named(m, "swap", self.i.a[:31] < self.i.b[:31])
        big = Signal(Binary32)
        small = Signal(Binary32)
        m.d.comb += [
            big.eq(Mux(swap, self.i.b, self.i.a)),
            small.eq(Mux(swap, self.i.a, self.i.b)),
        ]
        big_normal = named(m, "big_normal", big.exponent.any())
        small_normal = named(m, "small_normal", small.exponent.any())
        special = named(m, "special", big.exponent.all())
        subtract = named(m, "subtract", big.sign ^ small.sign)
        # Exponent field 0 has the weight of 1.
        big_exponent = named(m, "big_exponent", Cat(big.exponent[0] | ~big_normal, big.exponent[1:]))
        small_exponent = Cat(small.exponent[0] | ~small_normal, small.exponent[1:])
        exponent, gap, large, little, subtract, sign, zero_sign, special, nan = stages.cut(
            "ordered",
            exponent=big_exponent,
            gap=(big_exponent - small_exponent)[:8],
            big_significand=Cat(big.fraction, big_normal),
            small_significand=Cat(small.fraction, small_normal),
            subtract=subtract,
            sign=big.sign,
            zero_sign=big.sign & small.sign,
            special=special,
            nan=special & (big.fraction.any() | (small.exponent.all() & subtract)),
        )

        # Below the significand: guard and round bits, then whether anything follows. At a distance of 27 or
        # more the small operand is below a quarter of any last place and cannot move the result: five bits.
        distance = named(m, "distance", Mux(gap[5:].any(), C(31, 5), gap[:5]))
        aligned = named(m, "aligned", Cat(C(0, 26), little) >> distance)
        addend = named(m, "addend", Cat(aligned[:24].any(), aligned[24:]))
        # One adder for both: the place below the last one carries the 1 of the two's complement in.
        augend = Cat(C(1, 1), C(0, 3), large)
        addend = Cat(subtract, Cat(addend, C(0, 1)) ^ subtract.replicate(28))
        exponent, total, sign, zero_sign, special, nan = stages.cut(
            "added",
            exponent=exponent,
            total=(augend + addend)[1:29],
            sign=sign,
            zero_sign=zero_sign,
            special=special,
            nan=nan,
        )

        # The top bit of the total has the weight of exponent + 1; the exponent stops at 1.
        word, shift = normalise(m, total, limit=exponent)
        exponent = named(m, "result_exponent", (exponent + 1 - shift)[:8])
        kept, guard, sticky, sign, infinite, nan = stages.cut(
            "normalised",
            kept=Cat(word[4:27], Mux(word[27], exponent, 0)),
            guard=word[3],
            sticky=word[:3].any(),
            # Only an exact zero has a sign of its own.
            sign=Mux(word.any(), sign, zero_sign),
            infinite=special | (word[27] & exponent.all()),
            nan=nan,
        )

        rounded = round_nearest_even(kept, guard, sticky)[:31]
        result = named(m, "result", Mux(infinite, C(INFINITY, 31), rounded))
        (output,) = stages.cut("output", bits=Mux(nan, C(CANONICAL_NAN, 32), Cat(result, sign)))
        m.d.comb += self.o.eq(output)
        return m
