"""The foot of a quad column in the Python simulator: scales, rounding, order of additions, output rows."""

import gc
import warnings

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.binary32 import add, bits, canonical, from_bits, sum_to_float32
from golden.matmul import MODES
from hw.config import MatrixConfig
from hw.matrix.foot import Foot, accumulator_distance, foot_latency, row_wave, scale_wave
from hw.numbers.formats import Mode

SUM_BITS = {"mxfp4_mxfp4": 14, "mxfp8_mxfp4": 28, "mxfp8_mxfp8": 42}
FIELD_BITS = {"mxfp4_mxfp4": 14, "mxfp8_mxfp4": 29, "mxfp8_mxfp8": 59}
#: First bit of the field of each slot of a psum word (the table of hw/matrix/quad.py).
FIRST_BITS = {"mxfp4_mxfp4": (1, 31, 16, 46), "mxfp8_mxfp4": (1, 31), "mxfp8_mxfp8": (1,)}
#: A row's sums come with `row_o`, so many cycles after `row_i`.
LATE = 1
SPECIAL = np.array([0x7F800001, 0xFFFFFFFF, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x807FFFFF], np.uint32)


def config_of(groups, sum_latency, add_latency):
    return MatrixConfig(units=1, rows=32 * groups, cols=4, accumulator_rows=4, output_rows=4,
                        sum_latency=sum_latency, add_latency=add_latency)


def packed(flags):
    """A word of bits, the first lowest."""
    return sum(int(flag) << at for at, flag in enumerate(flags))


class Script:
    """What stands at a foot in each cycle, and what its output rows hold in the end, by docs/numbers.md."""

    def __init__(self, config, rng):
        self.config, self.rng = config, rng
        self.cycle = 2
        self.rows, self.tokens, self.swaps, self.presets, self.reads, self.modes = {}, {}, set(), {}, [], []
        self.used = {}  # (accumulator, subtile) -> cycle of the row that used it last

    def sums(self, mode):
        """A sum of every slot: any, or one that rounding has to decide about."""
        limit = 1 << SUM_BITS[mode] - 1
        found = []
        for _ in FIRST_BITS[mode]:
            value = int(self.rng.integers(-limit, limit))
            found.append(int(self.rng.choice([value, value >> int(self.rng.integers(0, SUM_BITS[mode])), 0,
                                              -limit, limit - 1])))
        return found

    def job(self, mode, *, m, steps, preset, lanes):
        """A superstep: ``lanes`` is how many row groups the last step of k uses."""
        rng, groups = self.rng, self.config.row_groups
        self.modes.append((self.cycle, mode))
        columns = np.zeros((m, 4), np.float32)
        if preset:
            for row in range(m):
                c = rng.standard_normal(4).astype(np.float32)
                special = rng.random(4) < 0.4
                c[special] = from_bits(rng.choice(SPECIAL, special.sum()))
                self.presets[self.cycle] = (row, c)
                columns[row] = canonical(c)
                self.cycle += 1
        slots = len(FIRST_BITS[mode])
        for step in range(steps):
            present = [step < steps - 1 or g < lanes for g in range(groups)]
            for subtile in range(4 // slots):
                scales, loaded = self.load(mode)
                self.cycle = max(self.cycle, loaded) + int(rng.integers(0, 3))
                self.swaps.add(self.cycle)
                for row in range(m):
                    # As early as its accumulator allows, or a few cycles later.
                    free = self.used.get((row, subtile), -100) + accumulator_distance(self.config)
                    self.cycle = max(self.cycle + 1, free) + int(rng.choice([0, 0, 2]))
                    self.used[row, subtile] = self.cycle
                    sums = [self.sums(mode) for _ in range(groups)]
                    x_scales = [int(scale) for scale in rng.integers(100, 150, groups)]
                    if rng.random() < 0.2:
                        x_scales = [int(scale) for scale in rng.choice([0, 254], groups)]
                    nan = [int(rng.random() < 0.02) for _ in range(groups)]
                    self.rows[self.cycle] = dict(
                        control=dict(valid=1, fresh=int(step == 0 and not preset),
                                     emit=int(step == steps - 1), subtile=subtile, row=row, output_row=row,
                                     present=packed(present), nan=packed(nan), scale=x_scales),
                        words=[self.word(mode, part) for part in sums])
                    for slot in range(slots):
                        column = subtile * slots + slot
                        blocks = []
                        for g in range(groups):
                            exponent = x_scales[g] + scales[g][slot][0] - 254 - self.point(mode)
                            is_nan = bool(nan[g] or scales[g][slot][1])
                            if present[g]:
                                blocks.append(sum_to_float32(sums[g][slot], exponent, is_nan))
                        total = np.float32(columns[row, column])
                        if step == 0 and not preset and blocks:
                            total = blocks.pop(0)
                        for block in blocks:
                            total = add(np.float32(total), np.float32(block))
                        columns[row, column] = total
        last = self.cycle
        self.cycle += LATE + foot_latency(self.config) + 1
        for row in range(m):  # the last row is read in the first cycle in which it is there
            self.reads.append((self.cycle + row, (row + m - 1) % m, columns[(row + m - 1) % m].copy()))
        assert self.reads[-m][0] == last + LATE + foot_latency(self.config) + 1
        self.cycle += m + 2

    def load(self, mode):
        """Tokens for this foot, and one for another foot among them, while rows of the pass before go on.

        Returns the scales by group and slot, and the first cycle in which they may become active.
        """
        rng, groups = self.rng, self.config.row_groups
        scales = rng.integers(100, 150, (groups, 4))
        nan = rng.random((groups, 4)) < 0.02
        if rng.random() < 0.2:
            scales[:] = rng.choice([0, 254], (groups, 4))
        beats = [(1, 0, (0, 1)), (0, 1, (2, 3))] if mode == "mxfp4_mxfp4" else [(1, 1, (0, 1))]
        tokens = [dict(low=low, high=high, quad=0, scale=scales[:, slots], nan=nan[:, slots])
                  for low, high, slots in beats]
        tokens.insert(int(rng.integers(0, len(tokens) + 1)), dict(
            low=1, high=1, quad=int(rng.integers(1, 64)), scale=rng.integers(0, 256, (groups, 2)),
            nan=rng.random((groups, 2)) < 0.5))
        cycle = max(self.swaps, default=1) + 1  # the shadows are free again
        for token in tokens:
            self.tokens[cycle] = token
            cycle += 1
        found = [[(int(scales[g, slot]), bool(nan[g, slot])) for slot in range(4)] for g in range(groups)]
        return found, cycle

    @staticmethod
    def word(mode, sums):
        field = (1 << FIELD_BITS[mode]) - 1
        return sum((value & field) << first for value, first in zip(sums, FIRST_BITS[mode], strict=True))

    @staticmethod
    def point(mode):
        """Binary places behind the point of a block sum."""
        return sum(form.fraction_bits for form in MODES[mode])


def run(script):
    """Output rows that were read, and cycles in which something went on east."""
    config = script.config
    foot = Foot(config)
    row, scale = row_wave(config), scale_wave(config)
    noise = script.rng.integers(0, 1 << 60, (script.cycle + 4, config.row_groups), dtype=np.uint64)
    got, passed = {}, []

    async def bench(ctx):
        mode, before = script.modes[0][1], None
        reads = {cycle: at for cycle, at, _ in script.reads}
        for cycle in range(script.cycle + 4):
            for begin, name in script.modes:
                mode = name if begin == cycle else mode
            ctx.set(foot.mode, Mode[mode.upper()].value)
            now, late = script.rows.get(cycle), script.rows.get(cycle - LATE)
            words = late["words"] if late else [int(word) for word in noise[cycle]]
            ctx.set(foot.psum, sum(word << 60 * g for g, word in enumerate(words)))
            control = row.const(now["control"] if now else {"row": cycle % 4, "emit": cycle % 2})
            token = script.tokens.get(cycle)
            token = scale.const({} if token is None else dict(
                token, scale=[[int(s) for s in pair] for pair in token["scale"]],
                nan=[packed(pair) for pair in token["nan"]]))
            inputs = (control.as_value().value, token.as_value().value, int(cycle in script.swaps))
            for port, bits_in in zip((foot.row_i, foot.scale_i, foot.swap_i), inputs, strict=True):
                ctx.set(port, bits_in)
            if before is not None:
                control, token, swap = before
                token = scale.from_bits(token)
                assert (ctx.get(foot.row_o), ctx.get(foot.swap_o)) == (control, swap)
                east = scale.from_bits(ctx.get(foot.scale_o))
                assert east.quad == (token.quad - 1) % 64 and (east.low, east.high) == (token.low, token.high)
                assert all(east.scale[g][i] == token.scale[g][i] and east.nan[g] == token.nan[g]
                           for g in range(config.row_groups) for i in range(2))
                passed.append(cycle)
            before = inputs
            at, c = script.presets.get(cycle, (0, None))
            ctx.set(foot.preset_valid, int(c is not None))
            ctx.set(foot.preset_row, at)
            ctx.set(foot.preset_data, 0 if c is None else int.from_bytes(c.tobytes(), "little"))
            ctx.set(foot.read_enable, int(cycle in reads))
            ctx.set(foot.read_row, reads.get(cycle, cycle % 4))
            await ctx.tick()
            if cycle in reads:
                got[cycle] = ctx.get(foot.read_data)

    simulator = Simulator(foot)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(passed) > 100
    return got


@pytest.mark.parametrize("groups,sum_latency,add_latency", [
    (1, 1, 0), (1, 3, 1), (2, 1, 1), (2, 2, 2),
])
def test_every_mode_by_the_definition(groups, sum_latency, add_latency):
    config = config_of(groups, sum_latency, add_latency)
    script = Script(config, np.random.default_rng(100 * groups + 10 * sum_latency + add_latency))
    for mode in ("mxfp8_mxfp8", "mxfp4_mxfp4", "mxfp8_mxfp4"):
        for m, steps, preset, lanes in ((4, 3, False, groups), (1, 2, True, 1), (3, 1, False, 1),
                                        (2, 1, True, 0), (1, 1, False, 0)):
            script.job(mode, m=m, steps=steps, preset=preset, lanes=lanes)
    got = run(script)
    assert len(got) == len(script.reads) == 3 * 11
    kinds = set()
    for cycle, row, columns in script.reads:
        words = [got[cycle] >> 32 * lane & 0xFFFFFFFF for lane in range(4)]
        assert words == [int(word) for word in bits(columns)], (cycle, row)
        kinds |= {"nan" if np.isnan(x) else "zero" if x == 0 else "inf" if np.isinf(x) else "number"
                  for x in columns}
    assert kinds >= {"nan", "zero", "number"}


@pytest.mark.parametrize("groups,sum_latency,add_latency", [(1, 1, 0), (2, 3, 2)])
def test_the_latency_that_is_promised(groups, sum_latency, add_latency):
    """A row can be read foot_latency + 1 cycles after its sums, and not a cycle earlier."""
    config = config_of(groups, sum_latency, add_latency)
    latency = foot_latency(config)
    assert latency == sum_latency + groups * add_latency
    foot, seen = Foot(config), []
    token = scale_wave(config).const(dict(low=1, high=1, scale=[[127, 127]] * groups))
    control = row_wave(config).const(dict(valid=1, fresh=1, emit=1, present=(1 << groups) - 1,
                                          scale=[127] * groups))
    word = Script.word("mxfp4_mxfp4", [4, 8, -4, 0])

    async def bench(ctx):
        ctx.set(foot.psum, sum(word << 60 * g for g in range(groups)))
        ctx.set(foot.scale_i, token.as_value().value)
        await ctx.tick()
        ctx.set(foot.scale_i, 0)
        ctx.set(foot.swap_i, 1)
        await ctx.tick()
        ctx.set(foot.swap_i, 0)
        ctx.set(foot.row_i, control.as_value().value)
        ctx.set(foot.read_enable, 1)
        for _ in range(LATE + latency + 3):
            await ctx.tick()
            ctx.set(foot.row_i, 0)
            seen.append(ctx.get(foot.read_data))

    simulator = Simulator(foot)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    right = np.float32(groups) * np.array([1, 2, -1, 0], np.float32)
    assert seen == [0] * (LATE + latency + 1) + [int.from_bytes(right.tobytes(), "little")] * 2


def test_a_foot_without_time_to_read_is_refused():
    class Short:
        sum_latency = 0

    with pytest.raises(ValueError, match="sum_latency is 0; the column foot needs 1 or more"):
        Foot(Short())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Amaranth warns of a component that nobody elaborated
        gc.collect()
