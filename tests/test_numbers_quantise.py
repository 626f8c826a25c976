"""The quantiser in the Python simulator against golden, at every latency, both formats mixed."""

import numpy as np
import pytest

from golden.formats import Format, quantise
from hw.numbers.formats import MxFormat
from hw.numbers.quantise import Quantiser
from tb.numbers.pipeline import run
from tb.numbers.vectors import BLOCK_CLASSES, blocks, class_of

GOLDEN = {MxFormat.MXFP4: Format.MXFP4, MxFormat.MXFP8: Format.MXFP8}


def quantised(values, formats, latency):
    """(code bytes, scale) of every block."""
    inputs = [{"values": [int(value) for value in block], "mx_format": mx_format}
              for block, mx_format in zip(values, formats, strict=True)]
    return [(int(output.codes).to_bytes(32, "little"), int(output.scale))
            for output in run(Quantiser(latency=latency), inputs)]


def expected_of(block, mx_format):
    tensor = quantise(block.view(np.float32), GOLDEN[mx_format])
    return tensor.pack().tobytes().ljust(32, b"\0"), int(tensor.scales[0])


@pytest.mark.parametrize("latency", [0, 1, 2, 3, 5])
def test_random(latency):
    rng = np.random.default_rng(latency)
    values = blocks(rng, 140)
    formats = [MxFormat(int(code)) for code in rng.integers(0, 2, 140)]
    results = quantised(values, formats, latency)
    assert len(results) == 140
    for index, (result, block, mx_format) in enumerate(zip(results, values, formats, strict=True)):
        wanted = expected_of(block, mx_format)
        assert result == wanted, (
            f"block {index} ({class_of(BLOCK_CLASSES, index)}, {mx_format.name}) of "
            f"{[f'{value:08x}' for value in block]}: scale {result[1]:#x} and codes {result[0].hex()} "
            f"instead of scale {wanted[1]:#x} and codes {wanted[0].hex()}"
        )


@pytest.mark.parametrize("mx_format", list(MxFormat))
@pytest.mark.parametrize("code", [0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000])
def test_special_value_anywhere(mx_format, code):
    values = np.full((32, 32), 0x3F800000, np.uint32)
    np.fill_diagonal(values, code)
    assert quantised(values, [mx_format] * 32, 1) == [(bytes(32), 0xFF)] * 32


@pytest.mark.parametrize("mx_format", list(MxFormat))
def test_zero_block_has_scale_0_and_keeps_signs(mx_format):
    values = np.where(np.arange(32) % 2 == 1, 0x80000000, 0).astype(np.uint32)[None]
    codes = bytes([0x80] * 16).ljust(32, b"\0") if mx_format is MxFormat.MXFP4 else bytes([0, 0x80] * 16)
    assert quantised(values, [mx_format], 0) == [(codes, 0)]


def test_packing_and_saturation():
    """7.9 is 6 in MXFP4 (the largest E2M1) and element 2i is the low nibble."""
    values = np.zeros(32, np.float32)
    values[:4] = [7.9, -3.0, 0.5, -1.0]
    codes, scale = quantised(values.view(np.uint32)[None], [MxFormat.MXFP4], 0)[0]
    assert scale == 127
    assert codes == bytes([0xD7, 0xA1]).ljust(32, b"\0")


def test_bad_latency():
    with pytest.raises(ValueError, match="latency must be an integer of 0 or more, not -1"):
        Quantiser(latency=-1)
