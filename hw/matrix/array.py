"""The array of one row group: quad columns side by side."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from . import fast
from .column import ACTIVATIONS, LOAD, WEIGHTS, QuadColumn
from .quad import PSUM_BITS

__all__ = ["QuadArray"]


class QuadArray(wiring.Component):
    """32 rows by ``quads`` quad columns (4 * ``quads`` columns of mxfp4_mxfp4).

    Wiring only. In simulation a second description of this module may stand in for it (``view="fast"``),
    bit for bit the same in every cycle: ``hw/matrix/fast``.

    Parameters
    ----------
    quads : int
        Quad columns, 1 to 64.
    product_latency : int
        0 or 1, as in :class:`QuadColumn`.

    Members
    -------
    wide_activations, wide_weights : In(1)
        The mode; constant while anything is in flight.
    activations, weights, load, swap : In
        West side of column 0, row r skewed by r cycles; see :class:`QuadColumn`.
    psum : Out(60 * quads)
        Sums at the foot of column q, 33 + product_latency + q cycles after the activation of row 0 stood at
        ``activations``.
    """

    def __init__(self, *, quads, product_latency=1):
        self.quads = quads
        self.product_latency = product_latency
        super().__init__({
            "wide_activations": In(1),
            "wide_weights": In(1),
            "activations": In(ACTIVATIONS.size),
            "weights": In(WEIGHTS.size),
            "load": In(LOAD.size),
            "swap": In(1),
            "psum": Out(PSUM_BITS * quads),
        })

    @property
    def module_name(self):
        return f"quad_array_{self.quads}_p{self.product_latency}"

    def fast_view(self):
        """Files of the second description, for :func:`hw.emit.verilog`."""
        return fast.view(self)

    def elaborate(self, platform):
        m = Module()
        columns = [QuadColumn(product_latency=self.product_latency) for _ in range(self.quads)]
        west = self
        for q, column in enumerate(columns):
            emit.place(m, f"column{q}", column)
            m.d.comb += [column.wide_activations.eq(self.wide_activations),
                         column.wide_weights.eq(self.wide_weights)]
            m.d.comb += [getattr(column.i, name).eq(getattr(west, name))
                         for name in ("activations", "weights", "load", "swap")]
            west = column.o
        m.d.comb += self.psum.eq(Cat(column.psum for column in columns))
        return m
