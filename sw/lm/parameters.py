"""Parameters of the language model: fused weight matrices and norms, read from a GGUF file on demand."""

from pathlib import Path

import numpy as np

from golden.formats import MXTensor
from sw.formats import ModelFile, ModelFileError, open_model
from sw.lm.config import config_of

_PARTS = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "o": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


class Parameters:
    """Float32 parameters of a LLaMA-type model.

    Weights that share their activations are fused along N: queries, keys and values; gate and up.
    Rows of queries and keys are in the order of the GGUF file, in which the two halves of a rotary pair are
    neighbours (llama.cpp permutes them on conversion).

    Parameters
    ----------
    path : GGUF file of a "llama" architecture, all shapes checked here.
    layers : use only the first so many layers.
    """

    def __init__(self, path: "str | Path", *, layers: int | None = None):
        self.file: ModelFile = open_model(path)
        if self.file.format != "gguf":
            raise ModelFileError(
                f"{path}: a {self.file.format} file; the language model is read from GGUF (tokenizer inside)."
            )
        config = config_of(self.file)
        self.config = config if layers is None else config.with_layers(layers)
        self._check_shapes()

    def _check_shapes(self) -> None:
        config = self.config
        widths = {"attn_q": config.width, "attn_k": config.kv_width, "attn_v": config.kv_width}
        widths |= {"ffn_gate": config.hidden, "ffn_up": config.hidden}
        expected = {"token_embd.weight": (config.vocabulary, config.width)}
        expected["output_norm.weight"] = (config.width,)
        for layer in range(config.layers):
            expected[f"blk.{layer}.attn_norm.weight"] = (config.width,)
            expected[f"blk.{layer}.ffn_norm.weight"] = (config.width,)
            for kind, parts in _PARTS.items():
                k = config.hidden if kind == "down" else config.width
                for part in parts:
                    expected[f"blk.{layer}.{part}.weight"] = (widths.get(part, config.width), k)
        if "output.weight" in self.file.tensors:
            expected["output.weight"] = (config.vocabulary, config.width)
        for name, shape in expected.items():
            info = self.file.tensors.get(name)
            if info is None or info.shape != shape:
                found = "is missing" if info is None else f"has shape {list(info.shape)}"
                raise ModelFileError(f"{self.file.path}: tensor {name!r} {found}; {list(shape)} is required.")

    def _load(self, name: str) -> np.ndarray:
        value = self.file.load(name)
        return value.dequantise().astype(np.float32) if isinstance(value, MXTensor) else value

    def linear(self, name: str) -> np.ndarray:
        """Weights of a product of `LlamaConfig.linear_shapes`, float32 [N, K]; read anew at every call."""
        if name == "lm_head":
            own = "output.weight" in self.file.tensors
            return self._load("output.weight" if own else "token_embd.weight")
        block, _, kind = name.rpartition(".")
        return np.concatenate([self._load(f"{block}.{part}.weight") for part in _PARTS[kind]])

    def norm(self, name: str) -> np.ndarray:
        """Gains of a norm, float32 [width]: "blk.i.attn_norm", "blk.i.ffn_norm" or "output_norm"."""
        return self._load(f"{name}.weight")

    def embed(self, tokens: "list[int]") -> np.ndarray:
        """Embedding rows, float32 [M, width]; only these rows are read.

        Errors: `ValueError` for a token outside the vocabulary.
        """
        for token in tokens:
            if not 0 <= token < self.config.vocabulary:
                raise ValueError(f"token is {token}; 0 to {self.config.vocabulary - 1} are allowed.")
        return np.stack([self._load(f"token_embd.weight[{token}]") for token in tokens])
