"""The quad array with one module a processing element, the yardstick for the speed of flat columns."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from ..matrix.column import ACTIVATIONS, BLOCK_ROWS, LOAD, WEIGHTS
from ..matrix.quad import (
    PSUM_BITS,
    ActivationWord,
    Fields,
    Weights,
    WeightWord,
    hop_members,
    hop_registers,
    quad_row,
)

__all__ = ["ModuleAPEArray", "QuadPE"]

CONTROL = {"low": 0, "high": 1, "swap": 2}


class QuadPE(wiring.Component):
    """One quad with its registers as an array of modules has it: operands hop east, control goes down.

    Members
    -------
    wide_activations, wide_weights : In(1), the mode
    activation_i, activation_o : ActivationWord; weight_i, weight_o : WeightWord; one cycle apart
    control_i, control_o : 3 bits (write slots 0 and 1, write slots 2 and 3, swap), one cycle apart; of the
        operands at ``activation_o`` and ``weight_o``
    psum_i, psum_o : 60 bits, as in :class:`hw.matrix.quad.Quad`
    """

    def __init__(self, *, product_latency=1):
        self.product_latency = product_latency
        super().__init__({
            "wide_activations": In(1), "wide_weights": In(1), "psum_i": In(PSUM_BITS),
            "psum_o": Out(PSUM_BITS),
            **hop_members(activation=data.Layout.cast(ActivationWord).size,
                          weight=data.Layout.cast(WeightWord).size, control=len(CONTROL)),
        })

    simplified = True  # hw.emit; as the columns are

    @property
    def module_name(self):
        return f"quad_pe_p{self.product_latency}"

    def elaborate(self, platform):
        m = Module()
        hop_registers(m, self, "activation", "weight")
        m.d.sync += self.control_o.eq(self.control_i)
        low, high, swap = (self.control_i[bit] for bit in CONTROL.values())
        weights = Weights(m, "quad", data.View(WeightWord, self.weight_o), low, high, swap,
                          self.wide_activations, self.wide_weights)
        fields = Fields(m, self.wide_activations, self.wide_weights, registered=False)
        psum = quad_row(m, "quad", data.View(ActivationWord, self.activation_o), weights, self.psum_i, fields,
                        self.product_latency)
        m.d.comb += self.psum_o.eq(psum)
        return m


class ModuleAPEArray(wiring.Component):
    """:class:`hw.matrix.array.QuadArray`, equal to it in every cycle, made of 32 * ``quads`` QuadPE.

    Parameters and members are those of QuadArray.
    """

    def __init__(self, *, quads, product_latency=1):
        self.quads = quads
        self.product_latency = product_latency
        super().__init__({
            "wide_activations": In(1), "wide_weights": In(1), "activations": In(ACTIVATIONS.size),
            "weights": In(WEIGHTS.size), "load": In(LOAD.size), "swap": In(1),
            "psum": Out(PSUM_BITS * quads),
        })

    @property
    def module_name(self):
        return f"module_a_pe_array_{self.quads}_p{self.product_latency}"

    def elaborate(self, platform):
        m = Module()
        wide_activations = Signal(name="mode_wide_activations", reset_less=True)
        wide_weights = Signal(name="mode_wide_weights", reset_less=True)
        m.d.sync += [wide_activations.eq(self.wide_activations), wide_weights.eq(self.wide_weights)]
        activations, weights = (
            [values[r * (len(values) // BLOCK_ROWS):(r + 1) * (len(values) // BLOCK_ROWS)]
             for r in range(BLOCK_ROWS)] for values in (self.activations, self.weights))
        load_west, swap_west = self.load, self.swap
        sums = []
        for q in range(self.quads):
            load, swap = Signal(LOAD.size, name=f"load{q}"), Signal(name=f"swap{q}")
            m.d.sync += [load.eq(load_west), swap.eq(swap_west)]
            token = data.View(LOAD, load)
            mine = token.quad == 0
            control = Cat(token.low & mine, token.high & mine, swap)
            load_west, swap_west = Cat(token.low, token.high, (token.quad - 1)[:len(token.quad)]), swap
            psum = Const(0, PSUM_BITS)
            for r in range(BLOCK_ROWS):
                pe = emit.place(m, f"pe{r}_{q}", QuadPE(product_latency=self.product_latency))
                m.d.comb += [
                    pe.wide_activations.eq(wide_activations), pe.wide_weights.eq(wide_weights),
                    pe.activation_i.eq(activations[r]), pe.weight_i.eq(weights[r]),
                    pe.control_i.eq(control), pe.psum_i.eq(psum),
                ]
                activations[r], weights[r] = pe.activation_o, pe.weight_o
                control, psum = pe.control_o, pe.psum_o
            sums.append(psum)
        m.d.comb += self.psum.eq(Cat(*sums))
        return m
