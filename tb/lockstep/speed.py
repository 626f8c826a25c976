"""How fast the two views of an array are, on the same streams."""

import statistics

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.matrix.array import QuadArray
from tb.build import Options, build
from tb.lockstep.bench import INPUTS, Stimulus
from tb.lockstep.stimulus import TRAFFIC, beats, traffic
from tb.simulator import Simulator

__all__ = ["Arrays", "speeds"]

UNIT = {"quads": 16, "arrays": 2}  # a 64x64 unit has these


class Arrays(wiring.Component):
    """Arrays on the same inputs, and a checksum of their sums.

    Members
    -------
    i : In(stream of Stimulus), always taken
    o : Out(stream of 60 * quads bits): one beat after each ``report``, the checksum of all cycles so far
    """

    def __init__(self, *, quads, arrays):
        self.arrays = [QuadArray(quads=quads) for _ in range(arrays)]
        self.width = len(self.arrays[0].psum)
        super().__init__({"i": In(stream.Signature(Stimulus)), "o": Out(stream.Signature(self.width))})

    def elaborate(self, platform):
        m = Module()
        beat = Signal(Stimulus)
        checksum = Signal(self.width)
        held = Signal(2)
        mode = Signal(2)
        stimulus = data.View(Stimulus, self.i.payload)
        m.d.comb += [
            self.i.ready.eq(1), beat.eq(Mux(self.i.valid, self.i.payload.as_value(), 0)),
            mode.eq(Mux(self.i.valid, Cat(stimulus.wide_activations, stimulus.wide_weights), held)),
        ]
        m.d.sync += held.eq(mode)
        mixed = checksum.rotate_left(7)
        for n, array in enumerate(self.arrays):
            emit.place(m, f"array{n}", array)
            m.d.comb += [array.wide_activations.eq(mode[0]), array.wide_weights.eq(mode[1])]
            m.d.comb += [getattr(array, name).eq(getattr(beat, name)) for name in INPUTS]
            mixed = mixed ^ array.psum.rotate_left(n)
        m.d.sync += checksum.eq(mixed)
        with m.If(beat.report):
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(checksum)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m


def speeds(*, cycles=4_000, rounds=7, log=None):
    """Cycles a second of the arrays of a 64x64 unit in both views, for every kind of traffic.

    Both run in turn, ``rounds`` times: other work on the machine slows neighbours alike.

    Returns
    -------
    dict[str, dict]
        Kind of traffic to ``rtl`` and ``fast`` (cycles a second, the best run) and ``gain`` (the median of
        the ratios of neighbouring runs).

    Raises
    ------
    RuntimeError
        The checksums of the two views differ.
    """
    simulators = {}
    results = {}
    try:
        for view in ("rtl", "fast"):
            bench = build(Arrays(**UNIT), name=f"arrays_{view}", log=log,
                          options=Options(view=view, optimise="-O2", shared=("quad_column_p1",)))
            simulators[view] = Simulator(bench).__enter__()
        for kind in TRAFFIC:
            payloads = beats(traffic(np.random.default_rng(1), kind, quads=UNIT["quads"], cycles=cycles))
            runs = {view: [] for view in simulators}
            for _ in range(rounds):
                sums = []
                for view, simulator in simulators.items():
                    result = simulator.run({"i": payloads}, {"o": 1}, reset=True)
                    runs[view].append(result.cycles_per_second)
                    sums.append(result.outputs["o"].tobytes())
                if sums[0] != sums[1] or not any(sums[0]):
                    raise RuntimeError(f"{kind}: the checksum of the fast view is not that of the RTL")
            gains = [fast / rtl for rtl, fast in zip(*runs.values(), strict=True)]
            results[kind] = {view: max(speed) for view, speed in runs.items()}
            results[kind]["gain"] = statistics.median(gains)
    finally:
        for simulator in simulators.values():
            simulator.__exit__(None, None, None)
    return results
