"""Random and realistic streams for an array, cycle by cycle, as beats of tb.lockstep.bench.Stimulus."""

import numpy as np

from hw.matrix.column import BLOCK_ROWS

__all__ = ["MODES", "TRAFFIC", "Stream", "beats", "changes_of_mode", "stream", "traffic"]

#: (wide_activations, wide_weights) of the three modes.
MODES = ((0, 0), (1, 0), (1, 1))

E2M1 = [(0, 0), (1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (2, 2), (3, 2)]  # significand, shift


class Stream:
    """Inputs of ``cycles`` cycles: integer arrays [cycles] or [cycles, 32], all zero at first."""

    def __init__(self, cycles):
        self.cycles = cycles
        self.activations = np.zeros((cycles, BLOCK_ROWS), dtype=np.uint16)
        self.weights = np.zeros((cycles, BLOCK_ROWS), dtype=np.uint16)
        for name in ("low", "high", "quad", "swap", "wide_activations", "wide_weights", "reset", "report"):
            setattr(self, name, np.zeros(cycles, dtype=np.uint8))

    def skew(self):
        """Delays row r by r cycles; what would stand beyond the end is lost."""
        for rows in (self.activations, self.weights):
            for r in range(1, BLOCK_ROWS):
                rows[r:, r] = rows[:-r, r].copy()
                rows[:r, r] = 0


def activation_words(rng, size, wide):
    """ActivationWords of E4M3 or E2M1 elements, extremes and zeros included."""
    sign = rng.integers(0, 2, size, dtype=np.uint16) << 8
    if wide:
        significand = rng.integers(0, 16, size, dtype=np.uint16)
        return significand | rng.integers(0, 15, size, dtype=np.uint16) << 4 | sign
    codes = rng.integers(0, 8, size)
    words = np.array([s | shift << 4 for s, shift in E2M1], dtype=np.uint16)
    return words[codes] | sign


def weight_words(rng, size, wide):
    """WeightWords of one E4M3 or two E2M1 elements."""
    if wide:
        a = rng.integers(0, 32, size, dtype=np.uint16)  # significand and sign
        return a | rng.integers(0, 15, size, dtype=np.uint16) << 5
    doubles = np.array([s << shift for s, shift in E2M1], dtype=np.uint16)
    slots = [doubles[rng.integers(0, 8, size)] | rng.integers(0, 2, size, dtype=np.uint16) << 4
             for _ in range(2)]
    return slots[0] | slots[1] << 5


def products(rng, quads, *, mode, rows, passes, bubble=0, drain=0):
    """Products as the engine makes them: weights loaded behind a running product, swapped without a bubble.

    Parameters
    ----------
    mode : one of MODES
    rows : of activations, for each of ``passes`` weights
    bubble : cycles between two passes without activations
    drain : cycles without data at the end
    """
    wide_activations, wide_weights = mode
    per_column = 1 if wide_activations else 2  # beats
    beats = quads * per_column
    period = max(rows, beats) + bubble
    s = Stream(period * (passes + 1) + drain)
    s.wide_activations[:], s.wide_weights[:] = wide_activations, wide_weights
    for n in range(passes):
        at = n * period
        loads = at + np.arange(beats)
        s.quad[loads] = np.repeat(np.arange(quads), per_column)
        # Both halves of an E4M3 activation meet the same weights.
        s.low[loads] = 1 if wide_activations else np.tile([1, 0], quads)
        s.high[loads] = 1 if wide_activations else np.tile([0, 1], quads)
        s.weights[loads] = weight_words(rng, (len(loads), BLOCK_ROWS), wide_weights)
        s.swap[at + period - 1] = 1
        first = at + period
        s.activations[first:first + rows] = activation_words(rng, (rows, BLOCK_ROWS), wide_activations)
    s.skew()
    return s


def wild(rng, quads, cycles):
    """Any bits at any time: illegal words, loads of no column, resets, changes of mode."""
    s = Stream(cycles)
    density = rng.choice([0.0, 1 / 16, 0.3, 1.0])
    kept = rng.random((cycles, BLOCK_ROWS)) < density
    s.activations[:] = rng.integers(0, 512, s.activations.shape) * kept
    if rng.random() < 0.5:  # minus zeros
        s.activations |= (rng.integers(0, 2, s.activations.shape) << 8).astype(np.uint16)
    s.weights[:] = rng.integers(0, 1024, s.weights.shape)
    s.low[:], s.high[:] = rng.random((2, cycles)) < rng.choice([0.1, 0.9])
    s.quad[:] = rng.integers(0, rng.choice([quads, 64]), cycles)
    s.swap[:] = rng.random(cycles) < rng.choice([0.02, 0.1, 0.9])
    s.reset[:] = rng.random(cycles) < rng.choice([0.0, 0.03])
    mode = rng.integers(0, 4, cycles)
    stays = rng.random(cycles) >= rng.choice([0.0, 0.05])
    for t in range(1, cycles):
        if stays[t]:
            mode[t] = mode[t - 1]
    s.wide_activations[:], s.wide_weights[:] = mode & 1, mode >> 1
    return s


def changes_of_mode(rng, *, quads, changes):
    """Sums on their way while the mode changes, once or several times, and only zeros (of both signs) after.

    Sums of a wide mode are ordinary numbers where a narrow mode has its guard bits. The last cycle asks for
    the report.
    """
    phases = []
    for _ in range(changes):
        before = products(rng, quads, mode=MODES[rng.integers(3)], rows=int(rng.integers(1, 40)), passes=1)
        after = Stream(int(rng.integers(_drained(quads), 90)))
        after.activations[:] = rng.integers(0, 2, after.activations.shape, dtype=np.uint16) << 8
        if rng.random() < 0.3:  # a few numbers among the zeros
            after.activations |= activation_words(rng, after.activations.shape, False) \
                * (rng.random(after.activations.shape) < 0.01).astype(np.uint16)
        mode = np.full(after.cycles, rng.integers(4))
        for at in rng.integers(0, 40, rng.integers(0, 3)):
            mode[at:] = rng.integers(4)
        after.wide_activations[:], after.wide_weights[:] = mode & 1, mode >> 1
        phases += [before, after]
    return _joined(phases, quads)


def _drained(quads):
    """Cycles without data after which all sums are zero."""
    return BLOCK_ROWS + 2 + quads + 2


def _joined(phases, quads):
    """All phases and a quiet one, at the end of which the report is asked for."""
    phases = [*phases, Stream(_drained(quads))]
    phases[-1].report[-1] = 1
    joined = Stream(0)
    for name in vars(joined):
        if name != "cycles":
            setattr(joined, name, np.concatenate([getattr(phase, name) for phase in phases]))
    joined.cycles = sum(phase.cycles for phase in phases)
    return joined


def stream(rng, *, quads, cycles):
    """At least ``cycles`` cycles of realistic and wild phases in turn; the last asks for the report."""
    drained = _drained(quads)
    phases = []
    while sum(phase.cycles for phase in phases) < cycles:
        if rng.random() < 0.6:
            phases.append(products(rng, quads, mode=MODES[rng.integers(3)],
                                   rows=int(rng.choice([1, 2, 5, quads, 2 * quads + 3])),
                                   passes=int(rng.integers(2, 6)), bubble=int(rng.choice([0, 0, 3])),
                                   drain=int(rng.choice([0, drained, drained + 40]))))
        else:
            phases.append(wild(rng, quads, int(rng.integers(20, 300))))
    return _joined(phases, quads)


#: Kinds of traffic for measuring speed: (mode, rows of activations a set of weights).
TRAFFIC = {f"{kind}.{name}": (mode, rows) for kind, rows in (("decode", 1), ("prefill", 128))
           for name, mode in zip(("mxfp4_mxfp4", "mxfp8_mxfp4", "mxfp8_mxfp8"), MODES)}


def traffic(rng, kind, *, quads, cycles):
    """At least ``cycles`` cycles of one of TRAFFIC; the last asks for the report."""
    mode, rows = TRAFFIC[kind]
    s = products(rng, quads, mode=mode, rows=rows, passes=cycles // max(rows, quads), drain=BLOCK_ROWS)
    s.report[-1] = 1
    return s


def beats(s):
    """uint8 [cycles, 78]: the payloads of tb.lockstep.bench.Stimulus."""
    def bits(values, width):
        return (values[..., None] >> np.arange(width) & 1).astype(np.uint8).reshape(s.cycles, -1)

    columns = [bits(s.activations, 9), bits(s.weights, 10), bits(s.low, 1), bits(s.high, 1), bits(s.quad, 6),
               bits(s.swap, 1), bits(s.wide_activations, 1), bits(s.wide_weights, 1), bits(s.reset, 1),
               bits(s.report, 1)]
    return np.packbits(np.concatenate(columns, axis=1), axis=1, bitorder="little")
