"""A column of 32 quads in the Python simulator: skew, shadow weights, and sums of 32 largest products."""

import gc
import warnings

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.formats import Format
from golden.matmul import MODES
from hw.matrix.column import QuadColumn
from tb.quad import words
from tb.quad.compare import integers

ROWS = 32


def significand_and_shift(codes, element_format):
    """Fields of element codes as docs/numbers.md section 1 has them; a NaN has significand 0."""
    fraction_bits = {Format.MXFP4: 1, Format.MXFP8: 3}[element_format]
    exponent = (codes & element_format.max_code) >> fraction_bits
    if element_format is Format.MXFP8:
        exponent = (codes & 0x7F) >> fraction_bits
    fraction = codes & ((1 << fraction_bits) - 1)
    significand = fraction | ((exponent > 0) << fraction_bits)
    if element_format is Format.MXFP8:
        significand = np.where((codes & 0x7F) == 0x7F, 0, significand)
    negative = (codes & element_format.sign_mask) != 0
    return significand, np.maximum(exponent - 1, 0), negative.astype(int)


def activation_words(codes, element_format):
    significand, shift, negative = significand_and_shift(codes.astype(int), element_format)
    return significand | shift << 4 | negative << 8


def weight_words(a, b, element_format):
    """Two slots of MXFP4, or the MXFP8 weight ``a``."""
    significand, shift, negative = significand_and_shift(a.astype(int), element_format)
    if element_format is Format.MXFP8:
        return significand | negative << 4 | shift << 5
    other, other_shift, other_negative = significand_and_shift(b.astype(int), element_format)
    return significand << shift | negative << 4 | other << other_shift << 5 | other_negative << 9


class Schedule:
    """What stands at the west side of a column in each cycle; row r of everything is r cycles later."""

    def __init__(self, mode):
        self.mode = mode
        self.x_format, self.w_format = MODES[mode]
        self.activations, self.weights, self.loads, self.swaps = {}, {}, {}, set()
        self.expected = {}  # cycle at which the activation of row 0 stands at the west side: sums
        self.end = 0

    def load_beats(self):
        return 2 if self.mode == "mxfp4_mxfp4" else 1

    def load(self, cycle, weights, quad=0):
        """Weights uint8 [32, slots], from ``cycle`` on."""
        if self.load_beats() == 2:
            beats = [(weights[:, 0], weights[:, 1], 0b01), (weights[:, 2], weights[:, 3], 0b10)]
        else:
            beats = [(weights[:, 0], weights[:, -1], 0b11)]
        for later, (a, b, which) in enumerate(beats):
            assert cycle + later not in self.loads
            self.loads[cycle + later] = which | quad << 2
            for row, word in enumerate(weight_words(a, b, self.w_format)):
                self.weights[cycle + later + row, row] = int(word)

    def multiply(self, cycle, activations, weights):
        """One row of activations, uint8 [32], with the weights that are active then."""
        for row, word in enumerate(activation_words(activations, self.x_format)):
            self.activations[cycle + row, row] = int(word)
        products = integers(activations, self.x_format)[:, None] * integers(weights, self.w_format)
        self.expected[cycle] = products.sum(axis=0)
        self.end = max(self.end, cycle)

    def run(self, product_latency):
        """Psum words by the cycle of their activation."""
        column = QuadColumn(product_latency=product_latency)
        latency = ROWS + 1 + product_latency
        got = {}
        simulator = Simulator(column)
        simulator.add_clock(1e-6)

        async def bench(ctx):
            ctx.set(column.wide_activations, self.x_format is Format.MXFP8)
            ctx.set(column.wide_weights, self.w_format is Format.MXFP8)
            before = None
            for cycle in range(self.end + latency + 1):
                now = {
                    "activations": sum(self.activations.get((cycle, r), 0) << 9 * r for r in range(ROWS)),
                    "weights": sum(self.weights.get((cycle, r), 0) << 10 * r for r in range(ROWS)),
                    "load": self.loads.get(cycle, 3 << 2),
                    "swap": int(cycle in self.swaps),
                }
                for name, value in now.items():
                    ctx.set(getattr(column.i, name), value)
                if before is not None:
                    # Operands hop east in one cycle, unchanged; the load's count of columns falls.
                    before["load"] = before["load"] & 3 | ((before["load"] >> 2) - 1 & 63) << 2
                    assert {name: ctx.get(getattr(column.o, name)) for name in now} == before
                if cycle - latency in self.expected:
                    got[cycle - latency] = ctx.get(column.psum)
                before = now
                await ctx.tick()

        simulator.add_testbench(bench)
        simulator.run()
        return got


def check(schedule, product_latency):
    got = schedule.run(product_latency)
    assert len(got) == len(schedule.expected) > 0
    starts = sorted(got)
    psums = np.array([got[start] for start in starts], np.uint64)
    expected = np.array([schedule.expected[start] for start in starts])
    assert np.array_equal(words.unpack(psums, schedule.mode), expected)
    assert not words.guards(psums, schedule.mode).any()


def codes(rng, element_format, shape):
    return rng.integers(0, 1 << element_format.element_bits, shape).astype(np.uint8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("product_latency", [0, 1])
def test_jobs_back_to_back(mode, product_latency):
    """Random jobs of 1 to 9 rows without a gap; weights come early, late or between."""
    rng = np.random.default_rng(11)
    schedule = Schedule(mode)
    beats = schedule.load_beats()
    cycle, swapped = beats + 1, 0
    for _ in range(14):
        swap = cycle - 1
        # The first beat may come in the very cycle of the swap before, the last one a cycle before this swap.
        load = int(rng.choice([swapped, swap - beats, rng.integers(swapped, swap - beats + 1)]))
        weights = codes(rng, schedule.w_format, (ROWS, words.slots(mode)))
        schedule.load(load, weights)
        for other in {swapped, swap - beats} if swap - swapped > 2 * beats else set():
            if all(other + beat not in schedule.loads for beat in range(beats)):
                schedule.load(other, ~weights & schedule.w_format.table.size - 1, quad=1)  # another column's
        schedule.swaps.add(swap)
        for row in range(max(beats, int(rng.integers(1, 10)))):
            schedule.multiply(cycle + row, codes(rng, schedule.x_format, ROWS), weights)
        cycle, swapped = cycle + row + 1, swap
    check(schedule, product_latency)


@pytest.mark.parametrize("mode", ["mxfp8_mxfp4", "mxfp8_mxfp8"])
def test_new_weights_every_cycle(mode):
    """One-row jobs: load, swap and product in every cycle."""
    rng = np.random.default_rng(12)
    schedule = Schedule(mode)
    for job in range(24):
        weights = codes(rng, schedule.w_format, (ROWS, words.slots(mode)))
        schedule.load(job, weights)
        schedule.swaps.add(job + 1)
        schedule.multiply(job + 2, codes(rng, schedule.x_format, ROWS), weights)
    check(schedule, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("product_latency", [0, 1])
def test_largest_products(mode, product_latency):
    """32 products of the largest magnitude: all of one sign in each slot, every combination of signs.

    Then chains which run up and come back down through zero.
    """
    rng = np.random.default_rng(13)
    schedule = Schedule(mode)
    x_format, w_format = schedule.x_format, schedule.w_format
    slots = words.slots(mode)
    x_max, w_max = np.uint8(x_format.max_code), np.uint8(w_format.max_code)
    x_sign, w_sign = np.uint8(x_format.sign_mask), np.uint8(w_format.sign_mask)
    cycle = schedule.load_beats() + 1
    for signs in range(1 << slots):
        weights = np.tile(w_max | (signs >> np.arange(slots) & 1).astype(np.uint8) * w_sign, (ROWS, 1))
        schedule.load(cycle - 1 - schedule.load_beats(), weights)
        schedule.swaps.add(cycle - 1)
        plus = np.full(ROWS, x_max)
        minus = plus | x_sign
        turn = int(rng.integers(1, ROWS))
        chains = [plus, minus, np.where(np.arange(ROWS) < turn, plus, minus),
                  np.where(rng.integers(0, 2, ROWS) == 0, plus, minus)]
        for row, activations in enumerate(chains):
            schedule.multiply(cycle + row, activations, weights)
        cycle += len(chains)
    largest = np.abs(np.array(list(schedule.expected.values()))).max()
    assert largest == 32 * integers(x_max, x_format) * integers(w_max, w_format)
    check(schedule, product_latency)


@pytest.mark.parametrize("product_latency", [-1, 2, "1"])
def test_a_wrong_latency_is_an_error(product_latency):
    with pytest.raises(ValueError, match=f"product_latency is {product_latency!r}; allowed are 0 and 1"):
        QuadColumn(product_latency=product_latency)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Amaranth warns of a component that nobody elaborated
        gc.collect()
