"""Operands of the command: distributions are what they say, and stored blocks are not converted silently."""

import numpy as np
import pytest

from golden.formats import Format, quantise
from scripts.operands import KINDS, as_weights, random_tensor


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("kind", list(KINDS))
def test_kinds(format, kind):
    tensor = random_tensor(np.random.default_rng(3), 256, 250, format, kind)
    again = random_tensor(np.random.default_rng(3), 256, 250, format, kind)
    assert tensor.shape == (256, 250) and (tensor.codes == again.codes).all()
    assert (tensor.scales == again.scales).all()
    values = tensor.dequantise()
    assert np.isnan(values).any() == (kind == "special")
    if kind != "normal":
        seen = len(np.unique(tensor.codes))
        assert seen == {Format.MXFP4: 16, Format.MXFP8: 256 if kind == "special" else 254}[format]
    if kind == "special":
        assert {0, 254, 255} <= set(np.unique(tensor.scales).tolist())


@pytest.mark.parametrize("rows,k", [(0, 32), (1, 0), (0, 0), (1, 1), (3, 33)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_small_shapes(rows, k, kind):
    assert random_tensor(np.random.default_rng(1), rows, k, Format.MXFP8, kind).shape == (rows, k)


def test_unknown_kind():
    with pytest.raises(ValueError, match="operands = 'ones': must be one of normal, codes, special"):
        random_tensor(np.random.default_rng(1), 1, 1, Format.MXFP4, "ones")


def test_weights():
    matrix = np.random.default_rng(2).standard_normal((4, 40)).astype(np.float32)
    weights = as_weights(matrix, Format.MXFP4, "w")
    assert (weights.codes == quantise(matrix, Format.MXFP4).codes).all()
    assert as_weights(weights, Format.MXFP4, "w") is weights
    with pytest.raises(ValueError, match="tensor 'w' is stored as MXFP4.*weights are mxfp4"):
        as_weights(weights, Format.MXFP8, "w")
