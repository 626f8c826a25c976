"""Runs the comparison: one build and one run for a size."""

from dataclasses import dataclass

import numpy as np

from tb.build import Options, build
from tb.lockstep.bench import LockStep
from tb.lockstep.planted import PLANTED, PORTABLE, Edited
from tb.lockstep.stimulus import beats, stream
from tb.simulator import Simulator

__all__ = ["CYCLES", "SIZES", "Outcome", "compare"]

#: (quads, product_latency) of the arrays compared, with CYCLES of stimulus each.
SIZES = ((2, 0), (2, 1), (8, 0), (16, 1))
CYCLES = 20_000


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the comparator of one view counted.

    Attributes
    ----------
    view : str
        "fast", "portable", or the name of a planted bug.
    compared, busy, mismatches : int
        Cycles compared, those with a sum that is not zero, those in which the views differ.
    first : str
        The first mismatch as a sentence; empty where there is none.
    """

    view: str
    compared: int
    busy: int
    mismatches: int
    first: str


def compare(*, quads, product_latency, cycles=CYCLES, seed=1, stimulus=None, stalls=None, edited=False,
            log=None):
    """Compare the fast view of an array with its RTL, cycle by cycle.

    Parameters
    ----------
    quads, product_latency : int
        As in :class:`hw.matrix.array.QuadArray`.
    cycles : int
        Beats of stimulus, at least; stalls come on top, and are cycles without data.
    stimulus : tb.lockstep.stimulus.Stream, optional
        In place of the random one.
    edited : bool
        Also compare the view for any processor, and those with planted bugs.

    Returns
    -------
    list[Outcome]
        Of the fast view; with ``edited``, then of the portable one and of each planted bug.
    """
    parameters = {"quads": quads, "product_latency": product_latency}
    edits = {"portable": PORTABLE, **PLANTED} if edited else {}
    others = [Edited(prefix=f"edited{n}", edit=edit, **parameters) for n, edit in enumerate(edits.values())]
    design = LockStep(**parameters, others=others)
    options = Options(view="fast", optimise="-O1", shared=(f"quad_column_p{product_latency}",))
    bench = build(design, name="lockstep", options=options, log=log)
    views = ["fast", *edits]
    if stimulus is None:
        stimulus = stream(np.random.default_rng(seed), quads=quads, cycles=cycles)
    with Simulator(bench) as simulator:
        result = simulator.run({"i": beats(stimulus)}, {"o": len(views)}, stalls=stalls or {}, seed=seed)
    return [_outcome(views, n, words, quads) for n, words in enumerate(result.outputs["o"].view(np.uint32))]


def _outcome(views, expected, words, quads):
    compared, busy, mismatches, first, number = (int(word) for word in words[:5])
    view = views[number]
    if number != expected:
        raise RuntimeError(f"the verdict of {views[expected]!r} came as that of {view!r}")
    rtl, fast = words[5:].copy().view(np.uint64).reshape(2, quads)
    sentence = ""
    if mismatches:
        column = int(np.argmax(rtl != fast))
        sentence = (f"{view}, cycle {first}: psum[{column}] is {int(fast[column]):015x}, "
                    f"{int(rtl[column]):015x} in the RTL")
    return Outcome(view=view, compared=compared, busy=busy, mismatches=mismatches, first=sentence)
