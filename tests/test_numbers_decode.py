"""Every code of E2M1 and E4M3 through the decoders, against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from hw.numbers.decode import decode_e2m1, decode_e4m3


def decoded(decode, bits):
    """Fields of every code, as a list of named tuples of integers."""
    m = Module()
    code = Signal(bits)
    fields = decode(code)
    signals = [Signal(len(field), name=name) for name, field in fields._asdict().items()]
    m.d.comb += [signal.eq(field) for signal, field in zip(signals, fields, strict=True)]
    results = []

    async def bench(ctx):
        for value in range(1 << bits):
            ctx.set(code, value)
            results.append(type(fields)(*(ctx.get(signal) for signal in signals)))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return results


def test_e2m1():
    codes = np.arange(16, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    results = decoded(decode_e2m1, 4)
    assert len(results) == 16
    for code, field in enumerate(results):
        assert field.shift <= 2
        value = (1 - 2 * field.negative) * field.significand * 2.0**field.shift / 2
        assert value == expected[code]
        assert field.negative == code >> 3


def test_e4m3():
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    results = decoded(decode_e4m3, 8)
    assert len(results) == 256
    for code, field in enumerate(results):
        assert field.shift <= 14
        assert field.nan == np.isnan(expected[code])
        if field.nan:
            assert field.significand == 0
        else:
            value = (1 - 2 * field.negative) * field.significand * 2.0**field.shift / 512
            assert value == expected[code]
        assert field.negative == code >> 7


def test_wrong_width_is_named():
    with pytest.raises(ValueError, match="code must be 4 bits wide, not 8"):
        decode_e2m1(Signal(8))
