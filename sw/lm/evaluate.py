"""What an MX mode costs: perplexity, same tokens and logit SQNR against the float32 reference.

Measured on `data/text.txt`, a short public-domain text (see `data/README.md`), in one pass over all of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from golden.matmul import MODES
from sw.lm.llama import Llama
from sw.lm.parameters import Parameters
from sw.lm.products import Float32Products, GoldenProducts, Products, QuantisedWeights, formats_of
from sw.lm.tokenizer import ByteLevelTokenizer

TEXT = Path(__file__).with_name("data") / "text.txt"


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How close one back end is to the reference.

    Members
    -------
    tokens : length of the text.
    perplexity : exp of the mean negative log-likelihood (nats) of every token after the first.
    perplexity_ratio : that over the perplexity of the reference.
    same_token_rate : positions at which both find the same token most likely, 0 to 1.
    logit_sqnr_db : 10 log10 of the energy of the reference's logits over that of the difference, both with
        the mean of each position taken away, which no probability depends on.
    """

    tokens: int
    perplexity: float
    perplexity_ratio: float
    same_token_rate: float
    logit_sqnr_db: float


def shipped_text() -> str:
    """The text that comes with the project."""
    return TEXT.read_text(encoding="utf-8").strip()


def shipped_tokens(parameters: Parameters) -> list[int]:
    """Its tokens, no more than the model has positions."""
    return ByteLevelTokenizer(parameters.file).encode(shipped_text())[: parameters.config.positions]


def logits_of(parameters: Parameters, products: Products, tokens: list[int]) -> np.ndarray:
    """Logits after every token, float32 [M, vocabulary]."""
    model = Llama(parameters, products)
    return model.forward(tokens, model.new_cache(len(tokens)), all_rows=True)


def negative_log_likelihood(logits: np.ndarray, tokens: list[int]) -> float:
    """Mean over every token after the first, in nats; logits [M, vocabulary] of M tokens."""
    rows = logits[:-1].astype(np.float64)
    rows -= rows.max(axis=-1, keepdims=True)
    normaliser = np.log(np.exp(rows).sum(axis=-1))
    return float(np.mean(normaliser - rows[np.arange(len(rows)), tokens[1:]]))


def same_token_rate(reference: np.ndarray, logits: np.ndarray) -> float:
    """Share of rows, of float32 [M, vocabulary], in which both find the same token most likely."""
    return float(np.mean(logits.argmax(axis=-1) == reference.argmax(axis=-1)))


def logit_sqnr_db(reference: np.ndarray, logits: np.ndarray) -> float:
    """Logit SQNR as of `Quality`, of float32 [M, vocabulary]; infinite where nothing differs."""
    signal = noise = 0.0
    # In pieces: float64 copies of all logits of the demo's model would take a gigabyte.
    for start in range(0, len(reference), 32):
        expected = _centred(reference[start : start + 32])
        signal += float((expected**2).sum())
        noise += float(((_centred(logits[start : start + 32]) - expected) ** 2).sum())
    return float(10 * np.log10(signal / noise)) if noise else float("inf")


def compare(reference: np.ndarray, logits: np.ndarray, tokens: list[int]) -> Quality:
    """Quality of `logits` against `reference`, both float32 [M, vocabulary]; at least two tokens."""
    if len(tokens) < 2 or not reference.shape == logits.shape == (len(tokens), reference.shape[-1]):
        raise ValueError(
            f"tokens has length {len(tokens)}, logits {logits.shape}, reference {reference.shape}; "
            "one row a token and at least two tokens are required."
        )
    ours, theirs = (negative_log_likelihood(rows, tokens) for rows in (logits, reference))
    return Quality(
        tokens=len(tokens),
        perplexity=float(np.exp(ours)),
        perplexity_ratio=float(np.exp(ours - theirs)),
        same_token_rate=same_token_rate(reference, logits),
        logit_sqnr_db=logit_sqnr_db(reference, logits),
    )


def _centred(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    return rows - rows.mean(axis=-1, keepdims=True)


def evaluate(
    parameters: Parameters,
    modes: Iterable[str] = tuple(MODES),
    *,
    text: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Quality]:
    """Quality of each mode, and under "float32" of the reference itself (ratio 1, SQNR infinite).

    Parameters
    ----------
    parameters : the model; with `layers`, reference and modes are cut alike.
    modes : names as activations_weights. text : the shipped one by default.
    progress : called with what is done, one line a step.
    """
    say = progress or (lambda line: None)
    tokens = ByteLevelTokenizer(parameters.file).encode(text) if text else shipped_tokens(parameters)
    reference = logits_of(parameters, Float32Products(parameters), tokens)
    say(f"float32 reference, {len(tokens)} tokens")
    found = {"float32": compare(reference, reference, tokens)}
    weights: QuantisedWeights | None = None
    # Modes with the same weights follow each other, so that only one set of weights is ever held.
    for mode in sorted(modes, key=lambda mode: formats_of(mode)[1].name):
        wanted = formats_of(mode)[1]
        if weights is None or weights.format is not wanted:
            weights = None
            weights = QuantisedWeights(parameters, wanted)
            say(f"weights in {wanted.name}")
        logits = logits_of(parameters, GoldenProducts(parameters, mode, weights=weights), tokens)
        found[mode] = compare(reference, logits, tokens)
        say(mode)
    return found
