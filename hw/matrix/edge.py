"""West edge of a row group: operands are decoded, masked and skewed once, for all quad columns."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..numbers.decode import decode_e2m1, decode_e4m3
from ..numbers.formats import SCALE_NAN
from .column import ACTIVATIONS, BLOCK_ROWS, WEIGHTS

__all__ = ["WestEdge", "Skew", "CODE_BITS"]

CODE_BITS = 256


class Skew(wiring.Component):
    """Delays lane r of a word of 32 lanes by r cycles. No reset, no enable.

    Members: i, o : ``32 * width`` bits, lane 0 first.
    """

    def __init__(self, *, width):
        self.width = width
        super().__init__({"i": In(BLOCK_ROWS * width), "o": Out(BLOCK_ROWS * width)})

    def elaborate(self, platform):
        m = Module()
        lanes = [self.i[:self.width]]
        held = self.i[self.width:]
        for r in range(1, BLOCK_ROWS):
            stage = Signal((BLOCK_ROWS - r) * self.width, name=f"stage{r}", reset_less=True)
            m.d.sync += stage.eq(held)
            lanes.append(stage[:self.width])
            held = stage[self.width:]
        m.d.comb += self.o.eq(Cat(*lanes))
        return m


class WestEdge(wiring.Component):
    """Makes array operands of one block of activations and one weight beat a cycle.

    Lanes at and above ``*_lanes`` read as zero whatever their bytes are, NaN included. An idle input
    (``*_valid`` = 0) gives zeros to the array.

    Members
    -------
    wide_activations, wide_weights : In(1), the mode
    activation_codes : In(256)
        One block: MXFP8 one byte a lane; MXFP4 one nibble a lane in the low half.
    activation_scale : In(8); activation_lanes : In(6), 0 to 32; activation_valid : In(1)
    weight_codes : In(256)
        One MXFP8 block, or two MXFP4 blocks (two columns) of 128 bits.
    weight_scales : In(16), one byte a block; weight_lanes : In(6); weight_valid : In(1)
    activations : Out, array operands, 2 cycles after the input, row r another r later
    weights : Out, 1 cycle after the input, row r another r later
    activation_nan, weight_nan : Out(1), Out(2)
        The block holds a NaN (scale or element); combinational.
    """

    def __init__(self):
        super().__init__({
            "wide_activations": In(1), "wide_weights": In(1),
            "activation_codes": In(CODE_BITS), "activation_scale": In(8), "activation_lanes": In(6),
            "activation_valid": In(1),
            "weight_codes": In(CODE_BITS), "weight_scales": In(16), "weight_lanes": In(6),
            "weight_valid": In(1),
            "activations": Out(ACTIVATIONS.size), "weights": Out(WEIGHTS.size),
            "activation_nan": Out(1), "weight_nan": Out(2),
        })

    @property
    def module_name(self):
        return "west_edge"

    def elaborate(self, platform):
        m = Module()

        def mask(name, lanes, valid):
            signal = Signal(BLOCK_ROWS, name=name)
            m.d.comb += signal.eq(Cat((lanes > r) & valid for r in range(BLOCK_ROWS)))
            return signal

        def gated(enable, value):
            return Mux(enable, value, 0)[:len(value)]

        used = mask("activation_used", self.activation_lanes, self.activation_valid)
        words, nans = [], []
        for r in range(BLOCK_ROWS):
            wide = decode_e4m3(self.activation_codes[8 * r:8 * r + 8])
            narrow = decode_e2m1(self.activation_codes[4 * r:4 * r + 4])
            word = Mux(self.wide_activations,
                       Cat(wide.significand, wide.shift, wide.negative),
                       Cat(narrow.significand, Const(0, 2), narrow.shift, Const(0, 2),
                           narrow.negative))
            words.append(gated(used[r], word))
            nans.append(wide.nan & used[r])
        decoded = Signal(ACTIVATIONS.size, reset_less=True)
        registered = Signal(ACTIVATIONS.size, reset_less=True)
        m.d.sync += [decoded.eq(Cat(*words)), registered.eq(decoded)]
        m.d.comb += self.activation_nan.eq((self.activation_scale == SCALE_NAN)
                                           | (self.wide_activations & Cat(*nans).any()))

        used = mask("weight_used", self.weight_lanes, self.weight_valid)
        words, nans = [], []
        for r in range(BLOCK_ROWS):
            wide = decode_e4m3(self.weight_codes[8 * r:8 * r + 8])
            pair = [decode_e2m1(self.weight_codes[128 * i + 4 * r:128 * i + 4 * r + 4]) for i in range(2)]
            narrow = [Cat((code.significand << code.shift)[:4], code.negative) for code in pair]
            word = Mux(self.wide_weights,
                       Cat(wide.significand, wide.negative, wide.shift, Const(0, 1)), Cat(*narrow))
            words.append(gated(used[r], word))
            nans.append(wide.nan & used[r])
        weights = Signal(WEIGHTS.size, reset_less=True)
        m.d.sync += weights.eq(Cat(*words))
        bad = self.wide_weights & Cat(*nans).any()
        m.d.comb += self.weight_nan.eq(Cat((self.weight_scales[8 * i:8 * i + 8] == SCALE_NAN) | bad
                                           for i in range(2)))

        m.submodules.skew_activations = skew_activations = Skew(width=ACTIVATIONS.size // BLOCK_ROWS)
        m.submodules.skew_weights = skew_weights = Skew(width=WEIGHTS.size // BLOCK_ROWS)
        m.d.comb += [skew_activations.i.eq(registered), self.activations.eq(skew_activations.o),
                     skew_weights.i.eq(weights), self.weights.eq(skew_weights.o)]
        return m
