"""Products of the language model on the simulated matrix engine, each compared with the golden model."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from golden.formats import MXTensor, quantise
from golden.matmul import PreparedWeights, matmul
from sw.engine.engine import SimulatedEngine
from sw.engine.job import Job
from sw.engine.product import split
from sw.lm.products import QuantisedWeights, formats_of
from tb.report import Context, compare_float32

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

    A product's columns are shared out among the simulators, which changes no bit of any result. Every result
    is compared with ``golden.matmul``; the first difference ends the run with a report.

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

    def _parts(self, n):
        """Column ranges of a product, one a simulator."""
        count = len(self.engines)
        edges = [min(n, -(-n * part // count // 4) * 4) for part in range(count)] + [n]
        return [slice(edges[part], edges[part + 1]) for part in range(count)]

    def _prepared(self, name):
        if name not in self._uploaded:
            tensor = self.weights.tensors[name]
            row = MXTensor(format=self.activations, codes=np.zeros((1, tensor.k), np.uint8),
                           scales=np.zeros((1, -(-tensor.k // 32)), np.uint8))
            self._uploaded[name] = [
                engine.prepare(Job(x=row, w=tensor[part]))
                for engine, part in zip(self.engines, self._parts(tensor.shape[0]), strict=True)]
        return self._uploaded[name]

    def linear(self, name, x):
        kind = name.rsplit(".", 1)[-1]
        return self._product(kind, name, quantise(x, self.activations), self.weights.tensors[name],
                             self.weights.prepared(name), self._prepared(name))

    def attention_scores(self, layer, kv_head, q, k):
        return self._attention("scores", layer, kv_head, q, k)

    def attention_values(self, layer, kv_head, p, v_t):
        return self._attention("values", layer, kv_head, p, v_t)

    def _attention(self, kind, layer, kv_head, x, w):
        w = quantise(w, self.weights.format)
        return self._product(kind, f"blk.{layer}.{kind}.{kv_head}", quantise(x, self.activations), w,
                             PreparedWeights.of(w), None)

    def _product(self, kind, name, x, w, golden, prepared):
        m, n = x.shape[0], w.shape[0]
        if self.first is None:
            self.first = (name, x, w)
        if prepared is None:  # too small to share out
            shares = [(self.engines[0], slice(0, n), None)]
        else:
            shares = list(zip(self.engines, self._parts(n), prepared, strict=True))
        rows = np.cumsum([0, *split(m, self.engines[0].config.accumulator_rows)])
        for engine, part, ready in shares:
            jobs = [Job(x=x[a:b], w=w[part]) for a, b in zip(rows[:-1], rows[1:], strict=True)]
            engine.submit(jobs, prepared=[ready] * len(jobs), max_cycles=10**9, wall_seconds=3600)
        expected = matmul(x, golden)
        y = np.empty((m, n), np.float32)
        tally = self.tallies[kind, m, n, x.k]
        cycles = 0
        for engine, part, _ in shares:
            y[:, part] = np.concatenate([result.y for result in engine.result()])
            cycles += engine.last.cycles
        tally.products += 1
        tally.macs += m * n * x.k
        tally.cycles += cycles
        tally.compared += y.size
        tally.mismatches += int((expected.view(np.uint32) != y.view(np.uint32)).sum())
        compare_float32(expected, y, tensor=name, checker="golden.matmul",
                        context=Context(test=f"product {name} {m}x{n}x{x.k} {self.mode}", seed=0,
                                        command=self.command, simulator=self.engines[0].simulator,
                                        result=self.engines[0].last))
        self.on_product(kind, cycles)
        return y
