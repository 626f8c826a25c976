"""Continuing a text token by token: greedy or sampled, text streamed as it is complete."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sw.lm.llama import Llama
from sw.lm.tokenizer import ByteLevelTokenizer


@dataclass(kw_only=True)
class Sampler:
    """Chooses the next token.

    Parameters
    ----------
    temperature : 0 takes the most likely token (the first of equals); above, the distribution is sharpened
        (below 1) or flattened (above 1) and drawn from.
    top_k : draw among the so many most likely tokens; 0 for all.
    seed : of the draws; the same seed gives the same text.
    """

    temperature: float = 0.0
    top_k: int = 0
    seed: int = 0
    _random: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self):
        if not 0 <= self.temperature <= 100:
            raise ValueError(f"temperature is {self.temperature}; 0 to 100 are allowed.")
        if self.top_k < 0 or self.seed < 0:
            raise ValueError(f"top_k is {self.top_k} and seed {self.seed}; neither may be negative.")
        self._random = np.random.default_rng(self.seed)

    def choose(self, logits: np.ndarray) -> int:
        """A token from logits, float32 [vocabulary]; NaN counts as impossible, `ValueError` if all are."""
        logits = np.where(np.isnan(logits), -np.inf, logits.astype(np.float64))
        if not np.isfinite(logits.max()):
            raise ValueError("the logits hold no finite maximum; the products of this pass overflowed.")
        if self.temperature == 0:
            return int(np.argmax(logits))
        if 0 < self.top_k < logits.size:
            logits = np.where(logits >= np.partition(logits, -self.top_k)[-self.top_k], logits, -np.inf)
        p = np.exp((logits - logits.max()) / self.temperature)
        return int(self._random.choice(p.size, p=p / p.sum()))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One token: `text` is what it completes (the last step adds what was held back)."""

    token: int
    text: str
    logits: np.ndarray


def generate(
    model: Llama, tokenizer: ByteLevelTokenizer, prompt: str, *, tokens: int, sampler: Sampler | None = None
) -> Iterator[Step]:
    """Continue `prompt` by at most `tokens` tokens; ends early at a token that ends a text.

    Yields a `Step` after each forward pass (the first one runs the whole prompt). Errors: `ValueError` for an
    empty prompt, no tokens, or more positions than the model has.
    """
    ids = tokenizer.encode(prompt)
    if not ids:
        raise ValueError("prompt is empty; at least one character is required.")
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}; at least 1 is required.")
    sampler = sampler or Sampler()
    cache = model.new_cache(len(ids) + tokens)
    stream = tokenizer.stream()
    for number in range(tokens):
        logits = model.forward(ids, cache)[0]
        token = sampler.choose(logits)
        last = number == tokens - 1 or token in tokenizer.end
        yield Step(token=token, text=stream.push(token) + (stream.finish() if last else ""), logits=logits)
        if token in tokenizer.end:
            return
        ids = [token]
