"""The seam of the language model: every matrix product goes through `Products`.

The forward pass (`sw.lm.llama`) computes norms, rotary embedding, softmax and SwiGLU; linear layers and the
products of attention are a back end's: float32 here as the reference, `golden` for the MX formats, the RTL
in the main job.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from golden.formats import Format, MXTensor, encode_elements, quantise
from golden.matmul import MODES, PreparedWeights, matmul
from sw.lm.parameters import Parameters


class Products(Protocol):
    """What a back end computes; arrays are float32, and every call is one product Y = X . W^T."""

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        """Product with the weights `name` of `LlamaConfig.linear_shapes`: x [M, K] -> [M, N]."""

    def attention_scores(self, layer: int, kv_head: int, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Queries of heads that share a key/value head: q [M, head], k [S, head] -> [M, S]; not scaled."""

    def attention_values(self, layer: int, kv_head: int, p: np.ndarray, v_t: np.ndarray) -> np.ndarray:
        """Probabilities p [M, S] (exact zeros beyond the mask), v_t [head, S] -> [M, head]."""


class Float32Products:
    """The reference: NumPy float32, weights as the file has them (about 540 MB for the demo's model)."""

    def __init__(self, parameters: Parameters):
        self._weights = {name: parameters.linear(name) for name in parameters.config.linear_shapes()}

    def linear(self, name, x):
        return x @ self._weights[name].T

    def attention_scores(self, layer, kv_head, q, k):
        return q @ k.T

    def attention_values(self, layer, kv_head, p, v_t):
        return p @ v_t.T


def quantise_weights(weights: np.ndarray, format: Format, *, scale: str = "floor") -> MXTensor:
    """MX blocks of weights, float32 [..., K].

    Parameters
    ----------
    scale : "floor" is the direct cast of docs/numbers.md section 7, the same as for activations. "search" is
        weight preparation off line: for each block the exponent of the direct cast or the next one, whichever
        gives the smaller squared error (the direct cast on a tie).
    """
    direct = quantise(weights, format)
    if scale == "floor":
        return direct
    if scale != "search":
        raise ValueError(f"scale is {scale!r}; 'floor' and 'search' are allowed.")
    scales = np.where(direct.scales < 254, direct.scales + np.uint8(1), direct.scales)
    by_element = np.repeat(scales.astype(np.int32), 32, axis=-1)[..., : direct.k]
    # Exact: a power of two, and encode_elements rounds once. Blocks with NaN or infinity stay as they are.
    with np.errstate(invalid="ignore"):
        scaled = np.where(by_element == 255, 0.0, np.ldexp(weights.astype(np.float64), 127 - by_element))
    wider = MXTensor(format=format, codes=encode_elements(scaled, format), scales=scales)
    better = _squared_error(wider, weights) < _squared_error(direct, weights)
    chosen = np.repeat(better, 32, axis=-1)[..., : direct.k]
    return MXTensor(
        format=format,
        codes=np.where(chosen, wider.codes, direct.codes),
        scales=np.where(better, scales, direct.scales),
    )


def _squared_error(tensor: MXTensor, weights: np.ndarray) -> np.ndarray:
    """Of each block: float64 [..., ceil(K/32)]."""
    with np.errstate(invalid="ignore"):
        error = (tensor.dequantise() - weights) ** 2
    starts = np.arange(0, tensor.k, 32)
    return np.add.reduceat(error, starts, axis=-1)


def formats_of(mode: str) -> tuple[Format, Format]:
    """Formats of activations and weights of a mode; `ValueError` for an unknown one."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; {', '.join(MODES)} are allowed.")
    return MODES[mode]


class GoldenProducts:
    """Products in an MX mode by the golden model, which the RTL equals bit for bit.

    Weights are quantised once. Activations are quantised as they come; in attention the keys and the values
    take the place of the weights and have the weights' format.

    Parameters
    ----------
    mode : "mxfp8_mxfp8", "mxfp8_mxfp4" or "mxfp4_mxfp4" (activations_weights).
    weights_scale : "floor" or "search", see `quantise_weights`; keys and values are always cast directly.
    progress : called with the name of each weight that is ready.
    """

    def __init__(
        self,
        parameters: Parameters,
        mode: str,
        *,
        weights_scale: str = "floor",
        progress: Callable[[str], None] | None = None,
    ):
        self.mode = mode
        self.activations, self.weights = formats_of(mode)
        self._prepared: dict[str, PreparedWeights] = {}
        for name in parameters.config.linear_shapes():
            tensor = quantise_weights(parameters.linear(name), self.weights, scale=weights_scale)
            self._prepared[name] = PreparedWeights.of(tensor)
            if progress:
                progress(name)

    def _product(self, x: np.ndarray, w: "MXTensor | PreparedWeights") -> np.ndarray:
        return matmul(quantise(x, self.activations), w)

    def linear(self, name, x):
        return self._product(x, self._prepared[name])

    def attention_scores(self, layer, kv_head, q, k):
        return self._product(q, quantise(k, self.weights))

    def attention_values(self, layer, kv_head, p, v_t):
        return self._product(p, quantise(v_t, self.weights))
