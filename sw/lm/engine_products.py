"""Products of the language model on the simulated matrix engine, each compared with the golden model."""

from collections import defaultdict
from dataclasses import dataclass

from golden.formats import quantise
from golden.matmul import PreparedWeights, matmul
from sw.engine.engine import SimulatedEngine
from sw.engine.product import check, mismatches, multiply_shared, prepare_shared
from sw.lm.products import QuantisedWeights, formats_of

__all__ = ["EngineProducts", "Tally"]


@dataclass
class Tally:
    """What the engine did for one kind of product.

    ``cycles`` are the engine's; where several simulators share a product, each one's cycles count, as if one
    engine had done the parts one after another.
    """

    products: int = 0
    macs: int = 0
    cycles: int = 0
    compared: int = 0
    mismatches: int = 0


class EngineProducts:
    """The seam ``sw.lm.products.Products`` on one or more simulators of the same engine.

    The columns of a linear product are shared out among the simulators, which changes no bit of any result;
    those of attention are too small for that. Every result is compared with ``golden.matmul``, which works
    while the simulators do; the first difference ends the run with ``tb.report.CheckFailure``.

    Parameters
    ----------
    engines : simulators, one a processor core
    weights : quantised weights of the model
    mode : "mxfp8_mxfp8", "mxfp8_mxfp4" or "mxfp4_mxfp4"
    command : command line that repeats the run, for a report

    Members
    -------
    tallies : (kind, m, n, k) -> :class:`Tally`
    first : name, x and w of the first product, for a waveform of it
    on_product : called after each product with its kind and cycles
    """

    def __init__(self, engines: list[SimulatedEngine], weights: QuantisedWeights, mode: str, *, command=None):
        self.engines, self.weights, self.mode, self.command = engines, weights, mode, command
        self.activations, weights_format = formats_of(mode)
        if weights.format is not weights_format:
            raise ValueError(f"weights have the format {weights.format.name}; mode {mode} takes "
                             f"{weights_format.name}")
        self.tallies = defaultdict(Tally)
        self.first = None
        self.on_product = lambda kind, cycles: None
        self._uploaded = {}

    def upload(self, progress=None):
        """Bring all weights to the simulators, so that a product costs no packing. About 34 bytes a block."""
        for name in self.weights.tensors:
            self._prepared(name)
            if progress:
                progress(name)

    def _prepared(self, name):
        if name not in self._uploaded:
            self._uploaded[name] = prepare_shared(self.engines, self.activations, self.weights.tensors[name])
        return self._uploaded[name]

    def linear(self, name, x):
        kind = name.rsplit(".", 1)[-1]
        return self._product(self.engines, kind, name, quantise(x, self.activations),
                             self.weights.tensors[name], self.weights.prepared(name), self._prepared(name))

    def attention_scores(self, layer, kv_head, q, k):
        return self._attention("scores", layer, kv_head, q, k)

    def attention_values(self, layer, kv_head, p, v_t):
        return self._attention("values", layer, kv_head, p, v_t)

    def _attention(self, kind, layer, kv_head, x, w):
        w = quantise(w, self.weights.format)
        return self._product(self.engines[:1], kind, f"blk.{layer}.{kind}.{kv_head}",
                             quantise(x, self.activations), w, PreparedWeights.of(w), None)

    def _product(self, engines, kind, name, x, w, golden, prepared):
        m, n = x.shape[0], w.shape[0]
        if self.first is None:
            self.first = (name, x, w)
        test = f"product {name} {m}x{n}x{x.k} {self.mode}"
        expected = []
        product = multiply_shared(engines, x, w, prepared=prepared, test=test, command=self.command,
                                  meanwhile=lambda: expected.append(matmul(x, golden)),
                                  max_cycles=10**9, wall_seconds=3600)
        tally = self.tallies[kind, m, n, x.k]
        tally.products += 1
        tally.macs += product.macs
        tally.cycles += product.cycles
        tally.compared += product.y.size
        tally.mismatches += mismatches(product, expected[0])
        check(product, expected[0], test=test, command=self.command, name=name)
        self.on_product(kind, product.cycles)
        return product.y
