"""The forward pass of a LLaMA-type model in NumPy float32, around the seam `Products`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sw.lm.config import LlamaConfig
from sw.lm.parameters import Parameters
from sw.lm.products import Products


@dataclass(frozen=True, kw_only=True)
class ProductShape:
    """One kind of product: `kind` is "qkv", "scores", "values", "o", "gate_up", "down" or "lm_head"."""

    kind: str
    m: int
    n: int
    k: int


class KeyValueCache:
    """Keys and values of the tokens seen so far.

    Members
    -------
    length : tokens held.
    keys : float32 [layers, kv_heads, positions, head], after the rotary embedding.
    values_t : float32 [layers, kv_heads, head, positions]: the reduction axis of the second product is last.
    """

    def __init__(self, config: LlamaConfig, positions: int):
        if not 1 <= positions <= config.positions:
            raise ValueError(f"positions is {positions}; 1 to {config.positions} are allowed for this model.")
        self.length = 0
        self.positions = positions
        shape = (config.layers, config.kv_heads, positions, config.head)
        self.keys = np.zeros(shape, np.float32)
        self.values_t = np.zeros((*shape[:2], config.head, positions), np.float32)


class Llama:
    """A LLaMA-type model: RMSNorm, grouped-query attention with rotary embedding, SwiGLU, tied embedding.

    Parameters
    ----------
    parameters : norms and embedding are taken from here; the weights belong to `products`.
    products : computes every matrix product.

    Members
    -------
    issued : counts the products since construction, by `ProductShape`.
    """

    def __init__(self, parameters: Parameters, products: Products):
        self.parameters, self.config, self.products = parameters, parameters.config, products
        self.issued: Counter[ProductShape] = Counter()
        self._norms = {"output_norm": parameters.norm("output_norm")}
        for layer in range(self.config.layers):
            for kind in ("attn_norm", "ffn_norm"):
                self._norms[f"blk.{layer}.{kind}"] = parameters.norm(f"blk.{layer}.{kind}")

    def new_cache(self, positions: int) -> KeyValueCache:
        """An empty cache for at most `positions` tokens."""
        return KeyValueCache(self.config, positions)

    def forward(self, tokens: Sequence[int], cache: KeyValueCache, *, all_rows: bool = False) -> np.ndarray:
        """Run tokens that follow those in `cache`, and add them to it.

        Returns: logits after the last token, float32 [1, vocabulary]; with `all_rows` after every token,
        [M, vocabulary]. Errors: `ValueError` for no tokens, an unknown token, or more than the cache holds.
        """
        tokens = [int(token) for token in tokens]
        if not tokens or cache.length + len(tokens) > cache.positions:
            raise ValueError(
                f"tokens has length {len(tokens)}; 1 to {cache.positions - cache.length} still fit the cache."
            )
        x = self.parameters.embed(tokens)
        positions = np.arange(cache.length, cache.length + len(tokens))
        rotation = self._rotation(positions)
        for layer in range(self.config.layers):
            x = x + self._attention(layer, self._norm(f"blk.{layer}.attn_norm", x), rotation, cache)
            x = x + self._feed_forward(layer, self._norm(f"blk.{layer}.ffn_norm", x))
        cache.length += len(tokens)
        x = self._norm("output_norm", x)
        return self._linear("lm_head", "lm_head", x if all_rows else x[-1:])

    def _attention(self, layer, x, rotation, cache):
        config, count = self.config, len(x)
        seen = cache.length + count
        q, k, v = np.split(
            self._linear(f"blk.{layer}.qkv", "qkv", x), [config.width, config.width + config.kv_width], axis=1
        )
        q = rotate(q.reshape(count, config.heads, config.head), rotation)
        k = rotate(k.reshape(count, config.kv_heads, config.head), rotation)
        cache.keys[layer, :, cache.length : seen] = k.transpose(1, 0, 2)
        v = v.reshape(count, config.kv_heads, config.head)
        cache.values_t[layer, :, :, cache.length : seen] = v.transpose(1, 2, 0)
        hidden = np.arange(seen)[None, :] > np.repeat(np.arange(cache.length, seen), config.group)[:, None]
        scale = np.float32(1 / np.sqrt(config.head))
        mixed = np.empty((count, config.heads, config.head), np.float32)
        for head in range(config.kv_heads):
            # The query heads of one group share its keys: their rows, token by token, make one product.
            group = slice(head * config.group, (head + 1) * config.group)
            rows = np.ascontiguousarray(q[:, group].reshape(-1, config.head))
            scores = self.products.attention_scores(layer, head, rows, cache.keys[layer, head, :seen])
            self._count("scores", rows, seen)
            p = softmax(scores * scale, hidden)
            values = self.products.attention_values(layer, head, p, cache.values_t[layer, head, :, :seen])
            self._count("values", p, config.head)
            mixed[:, group] = values.reshape(count, config.group, config.head)
        return self._linear(f"blk.{layer}.o", "o", mixed.reshape(count, config.width))

    def _feed_forward(self, layer, x):
        gate, up = np.split(self._linear(f"blk.{layer}.gate_up", "gate_up", x), 2, axis=1)
        with np.errstate(over="ignore"):  # exp of a very negative gate: the quotient is then 0, as it should
            inner = gate / (1 + np.exp(-gate)) * up
        return self._linear(f"blk.{layer}.down", "down", inner)

    def _linear(self, name, kind, x):
        y = self.products.linear(name, x)
        self._count(kind, x, y.shape[1])
        return y

    def _count(self, kind, x, n):
        self.issued[ProductShape(kind=kind, m=x.shape[0], n=n, k=x.shape[1])] += 1

    def _norm(self, name, x):
        mean = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
        return x / np.sqrt(mean + np.float32(self.config.norm_epsilon)) * self._norms[name]

    def _rotation(self, positions):
        """Cosine and sine, float32 [M, 1, head / 2] each."""
        pairs = np.arange(0, self.config.head, 2) / self.config.head
        angle = positions[:, None, None] * self.config.rope_base**-pairs
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotate(x: np.ndarray, rotation: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Rotary embedding of neighbouring pairs, as llama.cpp lays out queries and keys: x [M, heads, head]."""
    cosine, sine = rotation
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * cosine - odd * sine
    out[..., 1::2] = even * sine + odd * cosine
    return out


def softmax(scores: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Rows of probabilities, float32; exactly 0 where `hidden`, which leaves at least one place of a row."""
    scores = np.where(hidden, np.float32(-np.inf), scores)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True, dtype=np.float32)


def products_of_pass(config: LlamaConfig) -> int:
    """Products of one forward pass: four linear ones and two a key/value head in each layer, and the last."""
    return config.layers * (4 + 2 * config.kv_heads) + 1
