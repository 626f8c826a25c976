"""The design under comparison: one RTL array, one or more fast views, and a comparator for each."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Mux, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.matrix.array import QuadArray
from hw.matrix.column import ACTIVATIONS, LOAD, WEIGHTS

__all__ = ["LockStep", "Stimulus", "verdict_layout"]

INPUTS = ("activations", "weights", "load", "swap")


class Stimulus(data.Struct):
    """What stands at the arrays for one cycle; in a cycle without a beat all is zero and the mode stays.

    ``report`` asks for the verdicts and starts a new count.
    """

    activations: ACTIVATIONS.size
    weights: WEIGHTS.size
    load: LOAD.size
    swap: 1
    wide_activations: 1
    wide_weights: 1
    reset: 1
    report: 1


def verdict_layout(quads):
    """Of one fast view, for the cycles since the last report (a layout of 5 + 4 * quads words of 32 bits).

    ``busy``: cycles in which a sum was not zero; ``first``: number of the first cycle that differs, with
    ``rtl`` and ``fast``, the sums then, 64 bits a column.
    """
    return data.StructLayout({"compared": 32, "busy": 32, "mismatches": 32, "first": 32, "view": 32,
                              "rtl": 64 * quads, "fast": 64 * quads})


class LockStep(wiring.Component):
    """Drives an RTL array and fast views with the same inputs and compares their sums in every cycle.

    Parameters
    ----------
    quads, product_latency : int
        As in :class:`QuadArray`.
    others : tuple[QuadArray, ...]
        Further views of the same array, under other module names.

    Members
    -------
    i : In(stream of Stimulus)
    o : Out(stream of verdict_layout): one beat a view after each ``report``, the fast view first
    """

    def __init__(self, *, quads, product_latency, others=()):
        self.quads = quads
        self.product_latency = product_latency
        self.others = tuple(others)
        super().__init__({"i": In(stream.Signature(Stimulus)),
                          "o": Out(stream.Signature(verdict_layout(quads)))})

    def elaborate(self, platform):
        m = Module()
        arrays = _Arrays(quads=self.quads, product_latency=self.product_latency, others=self.others)
        m.submodules.arrays = DomainRenamer("arrays")(arrays)
        m.domains.arrays = ClockDomain()
        beat, mode = Signal(Stimulus), Signal(2)
        m.d.comb += [
            beat.eq(Mux(self.i.valid & self.i.ready, self.i.payload.as_value(), 0)),
            ClockSignal("arrays").eq(ClockSignal()),
            ResetSignal("arrays").eq(ResetSignal() | beat.reset),
            arrays.wide_activations.eq(mode[0]), arrays.wide_weights.eq(mode[1]),
            *(getattr(arrays, name).eq(getattr(beat, name)) for name in INPUTS),
        ]
        held = Signal(2)
        m.d.sync += held.eq(mode)
        m.d.comb += mode.eq(held)
        with m.If(self.i.valid & self.i.ready):
            m.d.comb += mode.eq(data.View(Stimulus, self.i.payload).wide_activations
                                | self.i.payload.wide_weights << 1)

        views = len(arrays.fast)
        verdicts = [Signal(verdict_layout(self.quads), name=f"verdict{n}") for n in range(views)]
        waiting = Signal(range(views + 1))  # verdicts that the sink has not taken
        cycle = Signal(32)
        m.d.sync += cycle.eq(cycle + 1)
        m.d.comb += [self.i.ready.eq(waiting == 0), self.o.valid.eq(waiting != 0)]
        reports = [Signal(verdict_layout(self.quads), name=f"report{n}") for n in range(views)]
        for n, verdict in enumerate(verdicts):
            with m.If(waiting == views - n):
                m.d.comb += self.o.payload.eq(reports[n])
            fast = arrays.fast[n]
            differs = Signal(name=f"differs{n}")
            m.d.comb += differs.eq(arrays.rtl != fast)
            m.d.sync += [verdict.compared.eq(verdict.compared + 1), verdict.view.eq(n),
                         verdict.busy.eq(verdict.busy + arrays.rtl.any()),
                         verdict.mismatches.eq(verdict.mismatches + differs)]
            with m.If(differs & (verdict.mismatches == 0)):
                m.d.sync += [verdict.first.eq(cycle), verdict.rtl.eq(_padded(arrays.rtl)),
                             verdict.fast.eq(_padded(fast))]
            with m.If(beat.report):
                m.d.sync += [reports[n].eq(verdict), verdict.eq(0)]
        with m.If(beat.report):
            m.d.sync += waiting.eq(views)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += waiting.eq(waiting - 1)
        return m


def _padded(psum):
    """Columns of 60 bits as words of 64."""
    return Cat(*(Cat(psum[at:at + 60], Const(0, 4)) for at in range(0, len(psum), 60)))


class _Arrays(wiring.Component):
    """The arrays, on the same inputs: ``rtl`` as a plain submodule, the fast views placed."""

    def __init__(self, *, quads, product_latency, others):
        self.reference = QuadArray(quads=quads, product_latency=product_latency)
        self.views = [QuadArray(quads=quads, product_latency=product_latency), *others]
        inputs = {name: member for name, member in self.reference.signature.members.items() if name != "psum"}
        sums = self.reference.signature.members["psum"]
        super().__init__({**inputs, "rtl": sums, "fast": sums.array(len(self.views))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.rtl = self.reference
        for n, view in enumerate(self.views):
            emit.place(m, f"fast{n}", view)
        for array, sums in [(self.reference, self.rtl), *zip(self.views, self.fast)]:
            m.d.comb += sums.eq(array.psum)
            m.d.comb += [getattr(array, name).eq(getattr(self, name))
                         for name in ("wide_activations", "wide_weights", *INPUTS)]
        return m
