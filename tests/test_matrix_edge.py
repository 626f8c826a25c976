"""The west edge of a row group in the Python simulator: decoding, masks, skew and NaN, cycle by cycle."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.formats import Format
from golden.matmul import MODES
from hw.matrix.edge import WestEdge

ROWS = 32
E4M3_NAN = 0x7F
EDGES = (0, 1, 5, 31, 32)


def random_inputs(rng, cycles):
    """What stands at the inputs in each cycle: any bytes, NaN codes and NaN scales among them."""
    inputs = []
    for _ in range(cycles):
        codes = {name: rng.integers(0, 256, ROWS, dtype=np.uint8) for name in ("activation", "weight")}
        for block in codes.values():
            block[rng.random(ROWS) < rng.choice([0, 0.05])] = E4M3_NAN | rng.integers(0, 2) << 7
        scales = rng.integers(0, 255, 3)
        scales[rng.random(3) < 0.2] = 255
        lanes = [int(rng.choice(EDGES) if rng.random() < 0.5 else rng.integers(0, 33)) for _ in range(2)]
        inputs.append(dict(codes, scales=[int(scale) for scale in scales], lanes=lanes,
                           valid=[int(rng.random() < 0.8) for _ in range(2)]))
    return inputs


def value(form, significand, shift, negative):
    """The number that significand and shift stand for, minus zero told apart."""
    return (-1.0 if negative else 1.0) * (significand << shift) * 2.0**-form.fraction_bits


def same(a, b):
    return a == b and np.signbit(a) == np.signbit(b)


def codes_of(block, form, half=0):
    """Element codes of a block of 32 bytes: bytes, or the nibbles of one half."""
    if form is Format.MXFP8:
        return block
    packed = block[16 * half:16 * half + 16]
    return np.stack([packed & 15, packed >> 4], axis=1).ravel()


def check_activation(form, code, used, word):
    """One lane of the array's activations against the table of the format."""
    significand, shift, negative = word & 15, word >> 4 & 15, word >> 8
    number = form.table[code]
    if not used:
        assert word == 0
    elif np.isnan(number):
        assert significand == 0
    else:
        assert same(value(form, significand, shift, negative), number)
        assert form is Format.MXFP8 or significand < 4


def check_weight(form, codes, used, word):
    """One lane of the array's weights: one E4M3, or 2|w| and the sign of two E2M1."""
    low, high = word & 31, word >> 5
    if not used:
        assert word == 0
    elif form is Format.MXFP8:
        number = form.table[codes[0]]
        if np.isnan(number):
            assert low & 15 == 0
        else:
            assert high < 16 and same(value(form, low & 15, high, low >> 4), number)
    else:
        for slot, code in zip((low, high), codes, strict=True):
            assert same((-1.0 if slot >> 4 else 1.0) * (slot & 15) / 2, form.table[code])


@pytest.mark.parametrize("mode", MODES)
def test_operands_of_the_array(mode):
    x_form, w_form = MODES[mode]
    inputs = random_inputs(np.random.default_rng(len(mode) + list(MODES).index(mode)), 400)
    edge = WestEdge()
    seen = {"activations": 0, "weights": 0, "activation_nan": 0, "weight_nan": 0}

    async def bench(ctx):
        ctx.set(edge.wide_activations, int(x_form is Format.MXFP8))
        ctx.set(edge.wide_weights, int(w_form is Format.MXFP8))
        for cycle, now in enumerate(inputs):
            for n, name in enumerate(("activation", "weight")):
                ctx.set(getattr(edge, f"{name}_codes"), int.from_bytes(now[name].tobytes(), "little"))
                ctx.set(getattr(edge, f"{name}_lanes"), now["lanes"][n])
                ctx.set(getattr(edge, f"{name}_valid"), now["valid"][n])
            ctx.set(edge.activation_scale, now["scales"][0])
            ctx.set(edge.weight_scales, now["scales"][1] | now["scales"][2] << 8)

            used = range(now["lanes"][0] if now["valid"][0] else 0)
            nan = now["scales"][0] == 255 or any(
                np.isnan(x_form.table[codes_of(now["activation"], x_form)[r]]) for r in used)
            assert ctx.get(edge.activation_nan) == nan
            used = range(now["lanes"][1] if now["valid"][1] else 0)
            nans = [now["scales"][1 + half] == 255 or any(
                np.isnan(w_form.table[codes_of(now["weight"], w_form, half)[r]]) for r in used)
                for half in range(2)]
            assert ctx.get(edge.weight_nan) == nans[0] | nans[1] << 1
            seen["activation_nan"] += nan
            seen["weight_nan"] += sum(nans)

            activations, weights = ctx.get(edge.activations), ctx.get(edge.weights)
            for r in range(ROWS):
                if cycle >= 2 + r:
                    then = inputs[cycle - 2 - r]
                    used = then["valid"][0] and r < then["lanes"][0]
                    word = activations >> 9 * r & 0x1FF
                    check_activation(x_form, codes_of(then["activation"], x_form)[r], used, word)
                    seen["activations"] += word != 0
                if cycle >= 1 + r:
                    then = inputs[cycle - 1 - r]
                    used = then["valid"][1] and r < then["lanes"][1]
                    codes = [codes_of(then["weight"], w_form, half)[r] for half in range(2)]
                    word = weights >> 10 * r & 0x3FF
                    check_weight(w_form, codes, used, word)
                    seen["weights"] += word != 0
            await ctx.tick()

    simulator = Simulator(edge)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert min(seen["activations"], seen["weights"]) > 3_000
    assert min(seen["activation_nan"], seen["weight_nan"]) > 30


@pytest.mark.parametrize("mode", MODES)
def test_only_lanes_in_use_can_make_a_nan(mode):
    """All bytes are 0xFF, as the padding of the commands: a NaN if there is any lane of E4M3."""
    x_form, w_form = MODES[mode]
    edge, compared = WestEdge(), []

    async def bench(ctx):
        ctx.set(edge.wide_activations, int(x_form is Format.MXFP8))
        ctx.set(edge.wide_weights, int(w_form is Format.MXFP8))
        ctx.set(edge.activation_codes, (1 << 256) - 1)
        ctx.set(edge.weight_codes, (1 << 256) - 1)
        ctx.set(edge.activation_scale, 254)
        ctx.set(edge.weight_scales, 0xFEFE)
        for valid in (1, 0):
            ctx.set(edge.activation_valid, valid)
            ctx.set(edge.weight_valid, valid)
            for lanes in range(33):
                ctx.set(edge.activation_lanes, lanes)
                ctx.set(edge.weight_lanes, lanes)
                any_lane = bool(valid and lanes)
                assert ctx.get(edge.activation_nan) == (any_lane and x_form is Format.MXFP8)
                assert ctx.get(edge.weight_nan) == (3 if any_lane and w_form is Format.MXFP8 else 0)
                compared.append(lanes)

    simulator = Simulator(edge)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(compared) == 66
