"""The bench of a slice for measurements: it also says when each request was taken."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from tb.build import Options, build

from .bench import SliceBench

__all__ = ["TimedBench", "timed_bench"]


class TimedBench(wiring.Component):
    """A SliceBench with one stream more.

    Members
    -------
    As of SliceBench, and
    taken : Out(stream of 8 bits)
        The tag of each request in the cycle in which it is taken. Its sink must not stall.
    """

    def __init__(self, config, **options):
        self._bench = SliceBench(config, **options)
        super().__init__({**dict(self._bench.signature.members.items()), "taken": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bench = bench = self._bench
        m.d.comb += bench.temperature.eq(self.temperature)
        for name in ("request", "response", "range", "range_answer", "csr", "csr_answer"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(bench, name))
        for outer, inner in zip(self.bulk, bench.bulk):
            wiring.connect(m, wiring.flipped(outer), inner)
        m.d.comb += [self.taken.valid.eq(self.request.valid & self.request.ready),
                     self.taken.payload.eq(self.request.payload.tag)]
        return m


def timed_bench(config, *, clock_ghz=1.6, log=None):
    """The build of a :class:`TimedBench`."""
    return build(TimedBench(config, clock_ghz=clock_ghz), name="hbm_timed", config=config,
                 options=Options(optimise="-O1"), constants={"temperature": 0}, log=log)
