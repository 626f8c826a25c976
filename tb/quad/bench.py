"""One quad between two streams: element codes and a partial sum in, the next partial sum out."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.matrix.quad import PSUM_BITS, ActivationWord, Quad, WeightWord
from hw.numbers.decode import decode_e2m1, decode_e4m3
from hw.numbers.formats import Mode

__all__ = ["Job", "QuadBench", "activation_word", "weight_word"]


class Job(data.Struct):
    """What one beat asks for.

    ``weights``: one code a slot; mxfp8_mxfp4 takes slots 0 and 1, mxfp8_mxfp8 slot 0. MXFP4 codes are in the
    low four bits.
    """

    activation: unsigned(8)
    weights: data.ArrayLayout(8, 4)
    mode: Mode
    psum: unsigned(PSUM_BITS)


def activation_word(code, wide):
    """Bits of the ActivationWord of an E4M3 code (``wide``) or of an E2M1 code in the low four bits."""
    e2m1, e4m3 = decode_e2m1(code[:4]), decode_e4m3(code)
    fields = {"significand": Mux(wide, e4m3.significand, e2m1.significand),
              "shift": Mux(wide, e4m3.shift, e2m1.shift),
              "negative": Mux(wide, e4m3.negative, e2m1.negative)}
    return _word(ActivationWord, fields)


def weight_word(code_a, code_b, wide):
    """Bits of the WeightWord of the E4M3 code ``code_a`` (``wide``) or of two E2M1 codes."""
    a, b, e4m3 = decode_e2m1(code_a[:4]), decode_e2m1(code_b[:4]), decode_e4m3(code_a)
    fields = {"a": Mux(wide, e4m3.significand, a.significand << a.shift),
              "negative_a": Mux(wide, e4m3.negative, a.negative),
              "b": Mux(wide, e4m3.shift, b.significand << b.shift),
              "negative_b": Mux(wide, 0, b.negative)}
    return _word(WeightWord, fields)


def _word(struct, fields):
    layout = data.Layout.cast(struct)
    return Cat((Value.cast(fields[name]) | Const(0, field.width))[:field.width] for name, field in layout)


class QuadBench(wiring.Component):
    """Loads the weights of a job, swaps them in, multiplies once, and gives the sum.

    Each operand stands at the quad in the one cycle in which the contract of :class:`Quad` asks for it; in
    all other cycles its complement does, so that a product or a sum formed one cycle off is a wrong one.

    Parameters: ``product_latency``, of the quad.

    Members
    -------
    i : In(stream of Job)
    o : Out(stream of PSUM_BITS bits)
        One for each job, in order; 8 + product_latency cycles a job.
    """

    def __init__(self, *, product_latency):
        self._product_latency = product_latency
        super().__init__({"i": In(stream.Signature(Job)), "o": Out(stream.Signature(PSUM_BITS))})

    @property
    def module_name(self):
        """Name of the module that hw.emit makes of this component."""
        return f"quad_bench_p{self._product_latency}"

    def elaborate(self, platform):
        m = Module()
        m.submodules.quad = quad = Quad(product_latency=self._product_latency)
        job = Signal(Job)
        idle = Signal(init=1)
        step = Signal(4)
        loads_low, loads_high, swaps, multiplies = 0, 1, 2, 3
        adds = multiplies + 1 + self._product_latency
        ends = adds + 1

        wide_activations = Signal()
        wide_weights = Signal()
        m.d.comb += [
            wide_activations.eq(job.mode != Mode.MXFP4_MXFP4),
            wide_weights.eq(job.mode == Mode.MXFP8_MXFP8),
            self.i.ready.eq(idle & ~self.o.valid),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(idle):
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [job.eq(self.i.payload), idle.eq(0), step.eq(0)]
        with m.Else():
            m.d.sync += step.eq(step + 1)
            with m.If(step == ends):
                m.d.sync += [self.o.payload.eq(quad.psum_o), self.o.valid.eq(1), idle.eq(1)]

        def at(cycle, value):
            return Mux(~idle & (step == cycle), value, ~Value.cast(value))

        low = weight_word(job.weights[0], job.weights[1], wide_weights)
        high = weight_word(job.weights[2], job.weights[3], wide_weights)
        m.d.comb += [
            quad.wide_activations.eq(wide_activations),
            quad.wide_weights.eq(wide_weights),
            quad.weight_i.eq(Mux(wide_activations | (step == loads_low), at(loads_low, low),
                                 at(loads_high, high))),
            quad.load_i[0].eq(~idle & (step == loads_low)),
            quad.load_i[1].eq(~idle & (step == Mux(wide_activations, loads_low, loads_high))),
            quad.swap_i.eq(~idle & (step == swaps)),
            quad.activation_i.eq(at(multiplies, activation_word(job.activation, wide_activations))),
            quad.psum_i.eq(at(adds, job.psum)),
        ]
        return m


