"""The engine in Amaranth's simulator: every latency, and the same bits in the same cycles as Verilator."""

import itertools

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import MatrixConfig, preset
from sw.engine.engine import SimulatedEngine
from tb.matrix.check import check
from tb.matrix.operands import random_job
from tb.matrix.python_view import PythonEngine


def jobs_of(seed, n, *, m=(1, 3, 2), k=(40, 65, 33)):
    """A job a mode: C, several steps of k, few rows, so that accumulators are met as soon as may be."""
    rng = np.random.default_rng(seed)
    return [random_job(rng, rows, n, depth, mode, kind="wild", c=bool(rows % 2))
            for mode, rows, depth in zip(MODES, m, k)]


@pytest.mark.parametrize("sum_latency,add_latency", list(itertools.product((1, 2, 3), (0, 1, 2, 3))))
def test_every_latency_of_the_foot(sum_latency, add_latency):
    config = MatrixConfig(units=1, rows=32, cols=4, accumulator_rows=4, output_rows=4,
                          product_latency=(sum_latency + add_latency) % 2,
                          sum_latency=sum_latency, add_latency=add_latency)
    check(PythonEngine(config), jobs_of(sum_latency, 5), test=f"latencies {sum_latency}, {add_latency}",
          seed=4, stall=0.2)


@pytest.mark.parametrize("add_latency,product_latency", [(0, 1), (1, 0), (3, 1)])
def test_latencies_of_two_row_groups(add_latency, product_latency):
    config = MatrixConfig(units=1, rows=64, cols=4, accumulator_rows=4, output_rows=4, sum_latency=1,
                          product_latency=product_latency, add_latency=add_latency)
    check(PythonEngine(config), jobs_of(7, 3, k=(65, 97, 40)), test="latencies of two row groups", seed=5,
          stall=0.2)


@pytest.mark.parametrize("product_latency,sum_latency,add_latency,quantise_latency",
                         [(0, 1, 0, 0), (1, 3, 3, 1)])
def test_latencies_of_results_in_mx_forms(product_latency, sum_latency, add_latency, quantise_latency):
    """Rows of both forms and binary32 ones between them, held up at the end; the presets have 2."""
    config = MatrixConfig(units=1, rows=32, cols=32, accumulator_rows=2, output_rows=2,
                          product_latency=product_latency, sum_latency=sum_latency, add_latency=add_latency,
                          quantise_latency=quantise_latency)
    rng = np.random.default_rng(quantise_latency)
    jobs = [random_job(rng, 2, n, 33, mode, kind="codes", output=output)
            for n, mode, output in ((32, "mxfp4_mxfp4", "mxfp8"), (5, "mxfp8_mxfp4", "mxfp4"),
                                    (3, "mxfp8_mxfp4", "binary32"), (31, "mxfp4_mxfp4", "mxfp4"))]
    check(PythonEngine(config), jobs, test="results in MX forms", seed=8, stall={"o__0": 0.6})


def test_the_views_are_equal_in_every_cycle():
    """Amaranth's simulator and the emitted Verilog: the same beats in the same cycles, on every stream."""
    config = preset("tiny").tile.matrix
    jobs = jobs_of(6, 11)
    ours = PythonEngine(config)
    check(ours, jobs, test="the Python view")
    with SimulatedEngine(config) as engine:
        check(engine, jobs, test="the Verilog view")
        theirs = engine.last
    start = theirs.streams["command"].first - ours.last.input_cycles["command"][0]
    assert set(ours.last.outputs) == {"response", "o__0"}
    for name, beats in ours.last.outputs.items():
        assert np.array_equal(beats, theirs.outputs[name])
        assert np.array_equal(ours.last.output_cycles[name] + start, theirs.output_cycles[name])
    for name, cycles in ours.last.input_cycles.items():
        stream = theirs.streams[name]
        assert (stream.first - start, stream.last - start) == (cycles[0], cycles[-1])
        assert stream.beats == len(cycles)
