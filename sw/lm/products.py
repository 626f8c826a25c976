"""The seam of the language model: every matrix product goes through `Products`.

The forward pass (`sw.lm.llama`) computes norms, rotary embedding, softmax and SwiGLU; linear layers and the
products of attention are a back end's: float32 here as the reference, `golden` for the MX formats, the RTL
in the main job.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from golden.formats import Format, MXTensor, quantise
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


def formats_of(mode: str) -> tuple[Format, Format]:
    """Formats of activations and weights of a mode; `ValueError` for an unknown one."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; {', '.join(MODES)} are allowed.")
    return MODES[mode]


class QuantisedWeights:
    """All linear weights of a model in one MX format, cast directly (docs/numbers.md section 7).

    Parameters
    ----------
    parameters : the float32 weights are read one at a time and not kept.
    format : of every weight.
    progress : called with the name of each weight that is ready.

    Members
    -------
    format : as given.
    tensors : name of a product in `LlamaConfig.linear_shapes` -> `MXTensor` [N, K], one byte an element.
    """

    def __init__(
        self, parameters: Parameters, format: Format, *, progress: Callable[[str], None] | None = None
    ):
        self.format = format
        self.tensors: dict[str, MXTensor] = {}
        self._prepared: dict[str, PreparedWeights] = {}
        for name in parameters.config.linear_shapes():
            self.tensors[name] = quantise(parameters.linear(name), format)
            if progress:
                progress(name)

    def prepared(self, name: str) -> PreparedWeights:
        """The same weights decoded for `golden.matmul`, kept after the first call (4 bytes an element)."""
        if name not in self._prepared:
            self._prepared[name] = PreparedWeights.of(self.tensors[name])
        return self._prepared[name]


class GoldenProducts:
    """Products in an MX mode by the golden model, which the RTL equals bit for bit.

    Activations are quantised as they come. In attention the keys and the values take the place of the weights
    and have the weights' format; values are cut in blocks along the tokens, so that in a pass of many tokens
    a later token of the same block of 32 can change the scale of an earlier one.

    Parameters
    ----------
    mode : "mxfp8_mxfp8", "mxfp8_mxfp4" or "mxfp4_mxfp4" (activations_weights).
    weights : weights to share with another back end; made from `parameters` where not given.
    progress : called with the name of each weight that is ready.
    """

    def __init__(
        self,
        parameters: Parameters,
        mode: str,
        *,
        weights: QuantisedWeights | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        self.mode = mode
        self.activations, weights_format = formats_of(mode)
        self.weights = weights or QuantisedWeights(parameters, weights_format, progress=progress)
        if self.weights.format is not weights_format:
            raise ValueError(f"weights have the format {self.weights.format.name}; mode {mode} takes "
                             f"{weights_format.name}.")

    def _product(self, x: np.ndarray, w: "MXTensor | PreparedWeights") -> np.ndarray:
        return matmul(quantise(x, self.activations), w)

    def linear(self, name, x):
        return self._product(x, self.weights.prepared(name))

    def attention_scores(self, layer, kv_head, q, k):
        return self._product(q, quantise(k, self.weights.format))

    def attention_values(self, layer, kv_head, p, v_t):
        return self._product(p, quantise(v_t, self.weights.format))
