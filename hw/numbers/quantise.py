"""Binary32 to one MX block."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .formats import BLOCK_SIZE, SCALE_NAN, Binary32, MxFormat
from .rounding import normalise, round_nearest_even
from .stages import Stages, check_latency, named

__all__ = ["Quantiser", "QuantiserInput", "QuantiserOutput"]


class QuantiserInput(data.Struct):
    """One block of values, element 0 first, and the format wanted."""

    values: data.ArrayLayout(32, BLOCK_SIZE)
    mx_format: MxFormat  # a field called ``format`` would clash with a method of every Amaranth view


class QuantiserOutput(data.Struct):
    """One MX block, packed as in memory."""

    codes: 8 * BLOCK_SIZE
    scale: 8


class Quantiser(wiring.Component):
    """Quantises 32 binary32 values to an MX block (docs/numbers.md section 7).

    Scale exponent = floor(log2 of the largest magnitude) - exponent of the largest element, not below 0 as a
    scale byte. Elements round nearest-even and saturate; a value that rounds to zero keeps its sign.
    A NaN or an infinity anywhere makes the scale 0xFF and every code 0.
    One block a cycle. No handshake, no reset: ``o`` belongs to the ``i`` of ``latency`` cycles before.

    Parameters
    ----------
    latency : int
        Register stages. The first is between finding the largest magnitude and converting the elements, the
        second between aligning and rounding the elements, all others at the output. 0 is combinational.

    Members
    -------
    i : In(QuantiserInput)
        ``values`` (bits of binary32) and ``mx_format``.
    o : Out(QuantiserOutput)
        ``scale`` (E8M0) and ``codes``: for MXFP8 byte i is element i; for MXFP4 element 2i is the low
        nibble of byte i, and the upper 128 bits are 0.
    """

    def __init__(self, *, latency):
        self._latency = check_latency(latency)
        super().__init__({"i": In(QuantiserInput), "o": Out(QuantiserOutput)})

    @property
    def latency(self):
        return self._latency

    @property
    def module_name(self):
        """Name of the module that hw.emit makes of this component."""
        return f"quantise_l{self._latency}"

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, latency=self._latency, cuts=("scaled", "aligned", "output"))

        # The exponent field orders magnitudes well enough: only floor(log2) of the largest counts.
        inputs = [Binary32(self.i.values[index]) for index in range(BLOCK_SIZE)]
        largest = self._largest(m, [value.exponent for value in inputs])
        is_mxfp8 = named(m, "is_mxfp8", self.i.mx_format == MxFormat.MXFP8)
        max_exponent = named(m, "max_exponent", self._by_format(is_mxfp8, lambda format: format.max_exponent))
        scale = Mux(largest < max_exponent, 0, largest - max_exponent)[:8]
        scale, bad, is_mxfp8 = stages.cut("scaled", scale=scale, bad=largest.all(), is_mxfp8=is_mxfp8)
        values = stages.cut("scaled", **{f"value_{index}": value for index, value in enumerate(inputs)})

        # Exponent field of an element = exponent field of the value + offset.
        offset = Signal(range(-254, 8))
        m.d.comb += offset.eq(self._by_format(is_mxfp8, lambda format: format.exponent_bias) - scale)
        parts = [
            self._align(m, Binary32(value), offset, is_mxfp8, f"_{index}")
            for index, value in enumerate(values)
        ]
        scale, bad, is_mxfp8 = stages.cut(
            "aligned", scale=Mux(bad, SCALE_NAN, scale), bad=bad, is_mxfp8=is_mxfp8
        )

        max_code = named(m, "max_code", self._by_format(is_mxfp8, lambda format: format.max_code))
        codes = []
        for index, (sign, kept, guard, sticky) in enumerate(parts):
            sign, kept, guard, sticky = stages.cut(
                "aligned",
                **{f"sign_{index}": sign, f"kept_{index}": kept},
                **{f"guard_{index}": guard, f"sticky_{index}": sticky},
            )
            rounded = Signal(8, name=f"rounded_{index}")
            code = Signal(8, name=f"code_{index}")
            m.d.comb += [
                rounded.eq(round_nearest_even(kept, guard, sticky)),
                code.eq(Cat(Mux(rounded > max_code, max_code, rounded)[:7], sign)),
            ]
            codes.append(code)
        packed = Mux(is_mxfp8, Cat(codes), Cat(Cat(code[:3], code[7]) for code in codes))
        codes, scale = stages.cut("output", codes=Mux(bad, 0, packed), scale=scale)
        m.d.comb += [self.o.codes.eq(codes), self.o.scale.eq(scale)]
        return m

    @staticmethod
    def _by_format(is_mxfp8, of):
        return Mux(is_mxfp8, of(MxFormat.MXFP8), of(MxFormat.MXFP4))

    @staticmethod
    def _largest(m, exponents):
        """Largest of the unsigned ``exponents``, by a tree."""
        level = 0
        while len(exponents) > 1:
            pairs = []
            for index, (a, b) in enumerate(zip(exponents[::2], exponents[1::2], strict=True)):
                pairs.append(named(m, f"larger_{level}_{index}", Mux(a > b, a, b)))
            exponents = pairs
            level += 1
        return exponents[0]

    @staticmethod
    def _align(m, value, offset, is_mxfp8, suffix):
        """Sign, exponent field above fraction, guard and sticky bit of one element."""
        subnormal = named(m, f"subnormal{suffix}", ~value.exponent.any())
        # The word has the weight of exponent 0 at its top, one place below the hidden bit. Six places are
        # enough: the offset is at most 7, so what needs more is a subnormal element, and those have no
        # leading 1 to find.
        word, shift = normalise(m, Cat(C(0, 1), value.fraction), max_shift=6, name=f"subnormal{suffix}")
        significand = Mux(subnormal, word, Cat(value.fraction, Const(1, 1)))
        exponent = Signal(range(-512, 512), name=f"exponent{suffix}")
        m.d.comb += exponent.eq(Mux(subnormal, -shift, value.exponent) + offset)
        # A subnormal element has its binary point fixed, as with field 1. From five places on it is 0.
        wanted = named(m, f"wanted{suffix}", 1 - exponent)
        below = Mux(wanted[-1], C(0, 3), Mux(wanted[3:].any(), C(7, 3), wanted[:3]))
        aligned = named(m, f"aligned{suffix}", Cat(C(0, 7), significand) >> named(m, f"below{suffix}", below))
        field = Mux(aligned[30], exponent[:4], 0)
        return (
            value.sign,
            Mux(is_mxfp8, Cat(aligned[27:30], field), Cat(aligned[29], field)),
            Mux(is_mxfp8, aligned[26], aligned[28]),
            aligned[:26].any() | (~is_mxfp8 & aligned[26:28].any()),
        )
