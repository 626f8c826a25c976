"""A quad column: 32 rows of quads, flat, emitted once and instantiated for the whole engine."""

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .quad import PSUM_BITS, ActivationWord, Fields, Weights, WeightWord, quad_row

__all__ = ["LoadToken", "QuadColumn", "BLOCK_ROWS", "ACTIVATIONS", "WEIGHTS", "LOAD"]

BLOCK_ROWS = 32


class LoadToken(data.Struct):
    """Says which quad column takes the weight beat beside it: the one which sees ``quad`` = 0.

    ``low`` writes weight slots 0 and 1, ``high`` slots 2 and 3 (both for E4M3 activations).
    """

    low: unsigned(1)
    high: unsigned(1)
    quad: unsigned(6)


# Ports are plain vectors: Amaranth writes a wire for every field of every struct-typed signal, which makes
# the Verilog of an array ten times as long. These layouts give the fields back.
ACTIVATIONS = data.ArrayLayout(ActivationWord, BLOCK_ROWS)
WEIGHTS = data.ArrayLayout(WeightWord, BLOCK_ROWS)
LOAD = data.Layout.cast(LoadToken)


class QuadColumn(wiring.Component):
    """32 quads under each other: partial sums run down, operands hop east.

    Everything of row r is r cycles later than in row 0; the west edge skews its operands so. Control enters
    at row 0 and moves down one row a cycle in shift registers. Nothing here has a reset or an enable on the
    data path: lanes without data carry zeros.

    Parameters
    ----------
    product_latency : int
        0 or 1: register stages between multiplier and adder of a quad.

    Members
    -------
    wide_activations, wide_weights : In(1)
        The mode: E4M3 activations, E4M3 weights. Constant while anything is in flight, and one cycle before.
    i, o : activations (32 x ActivationWord), weights (32 x WeightWord), load (LoadToken), swap (1)
        West and east side; ``o`` is ``i`` one cycle later (``load.quad`` one less).
        ``swap`` goes one cycle ahead of the first activation which uses the new weights.
    psum : Out(60)
        Sums of row 31, 33 + product_latency cycles after the activation of row 0 stood at ``i``.
    """

    def __init__(self, *, product_latency=1):
        if product_latency not in (0, 1):
            raise ValueError(f"product_latency is {product_latency!r}; allowed are 0 and 1")
        self.product_latency = product_latency
        side = {"activations": ACTIVATIONS.size, "weights": WEIGHTS.size, "load": LOAD.size, "swap": 1}
        super().__init__({
            "wide_activations": In(1),
            "wide_weights": In(1),
            "i": In(wiring.Signature({name: Out(width) for name, width in side.items()})),
            "o": Out(wiring.Signature({name: Out(width) for name, width in side.items()})),
            "psum": Out(PSUM_BITS),
        })

    simplified = True  # hw.emit

    @property
    def module_name(self):
        return f"quad_column_p{self.product_latency}"

    def elaborate(self, platform):
        m = Module()
        # Registered, so that no arithmetic hangs on a port: a simulator would do it once more for each change
        # of any input.
        wide_a = Signal(name="mode_wide_activations", reset_less=True)
        wide_w = Signal(name="mode_wide_weights", reset_less=True)
        m.d.sync += [wide_a.eq(self.wide_activations), wide_w.eq(self.wide_weights)]
        activations = Signal(ACTIVATIONS.size, reset_less=True)
        weights = Signal(WEIGHTS.size, reset_less=True)
        load = Signal(LOAD.size)
        swap = Signal()
        token = data.View(LOAD, load)
        m.d.sync += [activations.eq(self.i.activations), weights.eq(self.i.weights), load.eq(self.i.load),
                     swap.eq(self.i.swap)]
        m.d.comb += [self.o.activations.eq(activations), self.o.weights.eq(weights), self.o.swap.eq(swap),
                     self.o.load.eq(Cat(token.low, token.high, (token.quad - 1)[:len(token.quad)]))]
        mine = Signal()
        m.d.comb += mine.eq(token.quad == 0)

        def downward(name, first):
            """``first`` at row 0 and, a cycle later each, at the rows below."""
            below = Signal(BLOCK_ROWS - 1, name=f"{name}_below")
            rows = Cat(first, below)
            m.d.sync += below.eq(rows[:BLOCK_ROWS - 1])
            return rows

        swaps = downward("swap", swap)
        lows = downward("load_low", token.low & mine)
        highs = downward("load_high", token.high & mine)

        fields = Fields(m, self.wide_activations, self.wide_weights, registered=True)
        psum = Const(0, PSUM_BITS)
        for r in range(BLOCK_ROWS):
            name = f"r{r:02}"
            word = data.View(WEIGHTS, weights)[r]
            held = Weights(m, name, word, lows[r], highs[r], swaps[r], wide_a, wide_w)
            psum = quad_row(m, name, data.View(ACTIVATIONS, activations)[r], held, psum, fields,
                            self.product_latency)
        m.d.comb += self.psum.eq(psum)
        return m
