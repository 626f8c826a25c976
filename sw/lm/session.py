"""The main job: a language model continues a prompt, its products computed by the simulated engine."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sw.engine.engine import SimulatedEngine
from sw.lm.engine_products import EngineProducts
from sw.lm.evaluate import Quality, compare, logit_sqnr_db, logits_of, same_token_rate, shipped_tokens
from sw.lm.generate import Sampler, Step, generate
from sw.lm.llama import Llama, products_of_pass
from sw.lm.parameters import Parameters
from sw.lm.products import Float32Products, GoldenProducts
from sw.lm.tokenizer import ByteLevelTokenizer

__all__ = ["Closeness", "Session", "TokenCost"]

KINDS = ("qkv", "scores", "values", "o", "gate_up", "down", "lm_head")


@dataclass(frozen=True)
class TokenCost:
    """A forward pass: ``rows`` tokens went in; engine cycles, products and wall-clock seconds."""

    rows: int
    cycles: int
    products: int
    seconds: float


@dataclass(frozen=True)
class Closeness:
    """Logits of the run against the float32 reference, given the same tokens."""

    tokens: int
    same_token_rate: float
    logit_sqnr_db: float


@dataclass
class Session:
    """One continuation of a prompt.

    Parameters
    ----------
    parameters, engines, products : the model, the simulators, and the seam between them

    Members
    -------
    costs, steps : of the tokens so far; the last one's cost is there only when it was done
    prompt_tokens : the prompt, from :meth:`run` on
    """

    parameters: Parameters
    engines: list[SimulatedEngine]
    products: EngineProducts
    costs: list[TokenCost] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)

    def run(self, prompt: str, *, tokens: int, sampler: Sampler) -> Iterator[Step]:
        """Tokens as they come; each one has been compared with the golden model, product by product."""
        tokenizer = ByteLevelTokenizer(self.parameters.file)
        self.prompt_tokens = list(tokenizer.encode(prompt))
        model = Llama(self.parameters, self.products)
        rows = len(self.prompt_tokens)
        begun, cycles, products = time.monotonic(), 0, 0
        for step in generate(model, tokenizer, prompt, tokens=tokens, sampler=sampler):
            now, done, count = time.monotonic(), self.cycles, self.count
            self.costs.append(TokenCost(rows, done - cycles, count - products, now - begun))
            begun, cycles, products, rows = now, done, count, 1
            self.steps.append(step)
            yield step

    @property
    def cycles(self):
        """Engine cycles of all products so far."""
        return sum(tally.cycles for tally in self.products.tallies.values())

    @property
    def count(self):
        """Products so far."""
        return sum(tally.products for tally in self.products.tallies.values())

    def products_of_pass(self):
        """Products of one forward pass."""
        return products_of_pass(self.parameters.config)

    @cached_property
    def reference(self) -> Float32Products:
        """The float32 reference, made when it is first asked for."""
        return Float32Products(self.parameters)

    def closeness(self) -> Closeness:
        """Compare the logits of all steps with a float32 pass over the same tokens."""
        ids = self.prompt_tokens + [step.token for step in self.steps[:-1]]
        expected = logits_of(self.parameters, self.reference, ids)[len(self.prompt_tokens) - 1:]
        logits = np.stack([step.logits for step in self.steps])
        return Closeness(len(self.steps), same_token_rate(expected, logits), logit_sqnr_db(expected, logits))

    def quality(self) -> Quality:
        """What the mode costs on the shipped text, by golden: the engine's results are the same bits."""
        tokens = shipped_tokens(self.parameters)
        golden = GoldenProducts(self.parameters, self.products.mode, weights=self.products.weights)
        return compare(logits_of(self.parameters, self.reference, tokens),
                       logits_of(self.parameters, golden, tokens), tokens)

    def by_kind(self) -> list[dict]:
        """Totals for each kind of product and shape of its weights."""
        config = self.engines[0].config
        merged = {}
        for (kind, _, n, k), tally in self.products.tallies.items():
            # The shapes of attention grow with the text: one line a kind.
            key = (kind, "") if kind in ("scores", "values") else (kind, f"{n}x{k}")
            counts = ("products", "macs", "cycles", "compared", "mismatches")
            empty = {"kind": kind, "weights": key[1] or "cache", **dict.fromkeys(counts, 0)}
            row = merged.setdefault(key, empty)
            for name in counts:
                row[name] += getattr(tally, name)
        peak = config.macs_per_cycle(self.products.mode)
        for row in merged.values():
            row["utilisation"] = row["macs"] / (row["cycles"] * peak)
        return sorted(merged.values(), key=lambda row: KINDS.index(row["kind"]))
