"""What flat quad columns gain over a module for each processing element, and PE updates a second."""

import statistics

import numpy as np
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.baseline.module_a_pe import ModuleAPEArray
from hw.matrix.array import QuadArray
from hw.matrix.column import BLOCK_ROWS
from tb.build import Options, build
from tb.lockstep.bench import Stimulus
from tb.lockstep.speed import Arrays
from tb.lockstep.stimulus import beats, traffic
from tb.simulator import Simulator

KEYS = ("sim.structure_gain", "sim.pe_updates_per_s.32x32", "sim.pe_updates_per_s.64x64")

#: Columns an array and arrays of a unit, by the unit's size.
SIZES = {"32x32": {"quads": 8, "arrays": 1}, "64x64": {"quads": 16, "arrays": 2}}
TRAFFIC = "prefill.mxfp4_mxfp4"
CYCLES = 4_000
ROUNDS = 7
#: Modules that Verilator keeps apart, so that instances share code. Each structure has what suits it best: an
#: array of modules is quicker in line (docs/decisions/0006).
SHARED = {"columns": ("quad_column_p1",), "modules": ()}


class Bench(Arrays):
    """:class:`tb.lockstep.speed.Arrays` of any array with the members of QuadArray."""

    def __init__(self, *, array, quads, arrays):
        self.arrays = [array(quads=quads) for _ in range(arrays)]
        self.width = len(self.arrays[0].psum)
        wiring.Component.__init__(self, {"i": In(stream.Signature(Stimulus)),
                                         "o": Out(stream.Signature(self.width))})


def pe_updates(*, rows, cols, cycles_per_second):
    """PE updates a second: a quad is four MXFP4 elements, so a unit has rows * cols of them."""
    return rows * cols * cycles_per_second


def compare(*, quads, arrays, cycles=CYCLES, rounds=ROUNDS, structures=("columns", "modules"), log=None):
    """Cycles a second of arrays in both structures, on the same stream.

    Both run in turn, ``rounds`` times: other work on the machine slows neighbours alike.

    Returns
    -------
    dict[str, float]
        ``columns`` and ``modules``: cycles a second, the best run; ``gain``: the median of the ratios of
        neighbouring runs, where both were asked for.

    Raises
    ------
    RuntimeError
        The checksums of the two structures differ.
    """
    kinds = {"columns": QuadArray, "modules": ModuleAPEArray}
    payloads = beats(traffic(np.random.default_rng(1), TRAFFIC, quads=quads, cycles=cycles))
    simulators, runs = {}, {name: [] for name in structures}
    try:
        for name in structures:
            design = Bench(array=kinds[name], quads=quads, arrays=arrays)
            bench = build(design, name=f"structure_{name}", log=log,
                          options=Options(optimise="-O2", shared=SHARED[name]))
            simulators[name] = Simulator(bench).__enter__()
        for _ in range(rounds):
            sums = []
            for name, simulator in simulators.items():
                result = simulator.run({"i": payloads}, {"o": 1}, reset=True)
                runs[name].append(result.cycles_per_second)
                sums.append(result.outputs["o"].tobytes())
            if len(set(sums)) != 1 or not any(sums[0]):
                raise RuntimeError("the checksum of the array of modules is not that of the array of columns")
    finally:
        for simulator in simulators.values():
            simulator.__exit__(None, None, None)
    speed = {name: max(values) for name, values in runs.items()}
    if len(structures) > 1:
        speed["gain"] = statistics.median(a / b for a, b in zip(*runs.values(), strict=True))
    return speed


def measure(*, quick: bool) -> dict[str, object]:
    """The gain at 64x64, and PE updates a second of both sizes."""
    if quick:
        return {}
    figures: dict[str, object] = {}
    for size, shape in SIZES.items():
        both = size == "64x64"
        speed = compare(**shape, structures=("columns", "modules") if both else ("columns",))
        rows, cols = BLOCK_ROWS * shape["arrays"], 4 * shape["quads"]
        figures[f"sim.pe_updates_per_s.{size}"] = round(
            pe_updates(rows=rows, cols=cols, cycles_per_second=speed["columns"]))
        if both:
            figures["sim.structure_gain"] = round(speed["gain"], 1)
            for name in ("columns", "modules"):
                figures[f"sim.structure_gain.{name}_cycles_per_second"] = round(speed[name])
    return figures
