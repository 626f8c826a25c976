"""Exact block sum to binary32 with one rounding."""

from amaranth.hdl import C, Cat, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from . import fast
from .formats import CANONICAL_NAN, INFINITY
from .rounding import normalise, round_nearest_even
from .stages import Stages, check_latency, named

__all__ = ["SumToFloat32"]

EXPONENT_BITS = 10
SIGNIFICAND_BITS = 24
BIAS = 127


class SumToFloat32(wiring.Component):
    """Rounds ``sum * 2^exponent`` once to binary32 (docs/numbers.md section 3).

    Nearest-even, subnormals kept, overflow to infinity. A zero sum is +0; ``nan`` gives 0x7FC00000.
    One result a cycle. No handshake, no reset: ``o`` belongs to the ``i`` of ``latency`` cycles before.

    Parameters
    ----------
    width : int
        Bits of the sum, two's complement, 2 or more.
    latency : int
        Register stages. The first is after normalising, the second between aligning a subnormal result and
        rounding, the third after taking the magnitude, all others at the output. 0 is combinational.

    Members
    -------
    i : In(StructLayout({"sum": signed(width), "exponent": signed(10), "nan": 1}))
        Any exponent that ten bits hold is converted correctly.
    o : Out(32)
        Bits of the binary32.
    """

    def __init__(self, *, width, latency):
        if not isinstance(width, int) or isinstance(width, bool) or width < 2:
            raise ValueError(f"width must be an integer of 2 or more, not {width!r}")
        self._width = width
        self._latency = check_latency(latency)
        super().__init__({"i": In(self.input_layout(width)), "o": Out(32)})

    @staticmethod
    def input_layout(width):
        """Layout of ``i`` for a sum of ``width`` bits."""
        return data.StructLayout({"sum": signed(width), "exponent": signed(EXPONENT_BITS), "nan": 1})

    @property
    def width(self):
        return self._width

    @property
    def latency(self):
        return self._latency

    @property
    def module_name(self):
        """Name of the module that hw.emit makes of this component."""
        return f"sum_to_float_w{self._width}_l{self._latency}"

    def fast_view(self):
        """Files of the simulation-only description of this module (:func:`hw.emit.verilog`)."""
        return fast.sum_to_float(self)

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, latency=self._latency, cuts=("normalised", "aligned", "magnitude", "output"))
        width = self._width

        negative = self.i.sum[width - 1]
        exponent, magnitude, sign, nan = stages.cut(
            "magnitude",
            # Biased exponent that the sum would have with its top bit set.
            exponent=self.i.exponent + C(BIAS + width - 1),
            # The most negative sum is its own magnitude, seen as unsigned.
            magnitude=Mux(negative, -self.i.sum, self.i.sum)[:width],
            sign=negative,
            nan=self.i.nan,
        )

        word, shift = normalise(m, magnitude)
        # Kept: the significand, the bit below it, and whether anything follows.
        if width > SIGNIFICAND_BITS + 1:
            low = width - SIGNIFICAND_BITS - 1
            word = Cat(word[:low].any(), word[low:])
        exponent, significand, sign, nan = stages.cut(
            "normalised", exponent=exponent - shift, significand=word, sign=sign, nan=nan
        )

        # A subnormal result has its binary point fixed: shift right until the exponent is 1. From 25 places
        # on only bits below the guard bit are left, and the result is 0 whatever they are; so five bits of
        # distance, and 24 places below the word that remember what left it, are enough.
        wanted = named(m, "wanted", 1 - exponent)
        distance = Mux(wanted[-1], C(0, 5), Mux(wanted[5:].any(), C(31, 5), wanted[:5]))
        distance = named(m, "distance", distance)
        aligned = named(m, "aligned", Cat(C(0, SIGNIFICAND_BITS), significand) >> distance)
        low = len(aligned) - SIGNIFICAND_BITS
        kept, guard, sticky, overflow, sign, nan = stages.cut(
            "aligned",
            kept=Cat(aligned[low:-1], Mux(aligned[-1], exponent[:8], 0)),
            guard=aligned[low - 1],
            sticky=aligned[: low - 1].any(),
            overflow=aligned[-1] & (exponent >= 255),
            sign=sign,
            nan=nan,
        )

        rounded = round_nearest_even(kept, guard, sticky)[:31]
        result = named(m, "result", Mux(overflow, C(INFINITY, 31), rounded))
        (output,) = stages.cut("output", bits=Mux(nan, C(CANONICAL_NAN, 32), Cat(result, sign)))
        m.d.comb += self.o.eq(output)
        return m
