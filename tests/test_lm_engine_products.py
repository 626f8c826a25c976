"""Products of the language model on the tiny engine: shared by two simulators, compared, counted."""

import numpy as np
import pytest

from golden.formats import Format, quantise
from golden.matmul import MODES, matmul
from hw.config import preset
from sw.engine.engine import SimulatedEngine
from sw.engine.job import JobError
from sw.engine.product import check, column_ranges, multiply, multiply_shared, prepare_shared
from sw.lm import engine_products
from sw.lm.engine_products import EngineProducts
from sw.lm.llama import Llama, products_of_pass
from sw.lm.parameters import Parameters
from sw.lm.products import GoldenProducts, QuantisedWeights, formats_of
from tb.report import CheckFailure
from tests import small_model

CONFIG = preset("tiny").tile.matrix
TOKENS = [5, 70, 260, 3, 99, 12, 150, 31, 77]


@pytest.fixture(scope="module")
def engines():
    with SimulatedEngine(CONFIG) as one, SimulatedEngine(CONFIG, bench=one.bench) as two:
        yield [one, two]


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    return Parameters(small_model.write(tmp_path_factory.mktemp("model") / "small.gguf"))


@pytest.fixture(autouse=True)
def own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))


def weights_of(parameters, mode):
    return QuantisedWeights(parameters, formats_of(mode)[1])


def rows(m, k, seed=1):
    return np.random.default_rng(seed).standard_normal((m, k)).astype(np.float32)


@pytest.mark.parametrize("n,count,output,edges", [
    (0, 2, "binary32", [0, 0]), (3, 2, "binary32", [0, 3]), (4, 3, "binary32", [0, 4]),
    (5, 2, "binary32", [0, 4, 5]), (576, 2, "binary32", [0, 288, 576]), (10, 3, "binary32", [0, 4, 8, 10]),
    (9, 5, "binary32", [0, 4, 8, 9]), (70, 2, "mxfp8", [0, 64, 70]), (70, 2, "mxfp4", [0, 64, 70]),
    (33, 1, "mxfp8", [0, 33]),
])
def test_ranges_of_columns(n, count, output, edges):
    assert column_ranges(n, count, output) == [slice(a, b) for a, b in zip(edges, edges[1:])]


@pytest.mark.parametrize("mode", MODES)
def test_a_pass_equals_the_golden_one_and_is_counted(engines, parameters, mode):
    """A prompt and a token after it, on one simulator and on two: the same logits, bit for bit."""
    weights = weights_of(parameters, mode)
    golden = Llama(parameters, GoldenProducts(parameters, mode, weights=weights))
    cache = golden.new_cache(16)
    expected = [golden.forward(tokens, cache) for tokens in (TOKENS, [7])]
    cycles = []
    for used in (engines[:1], engines):
        done = []
        products = EngineProducts(used, weights, mode)
        products.on_product = lambda kind, count, done=done: done.append((kind, count))
        products.upload(progress=done.append)
        assert [done.pop(0) for _ in weights.tensors] == list(weights.tensors) and not done
        model = Llama(parameters, products)
        cache = model.new_cache(16)
        for tokens, right in zip((TOKENS, [7]), expected, strict=True):
            assert model.forward(tokens, cache).tobytes() == right.tobytes()

        tallies = products.tallies
        assert len(done) == 2 * products_of_pass(parameters.config)
        assert {key: tally.products for key, tally in tallies.items()} == \
            {(shape.kind, shape.m, shape.n, shape.k): count for shape, count in model.issued.items()}
        for (_, m, n, k), tally in tallies.items():
            assert tally.macs == tally.products * m * n * k and tally.mismatches == 0
            assert tally.compared == tally.products * m * n
        assert sum(tally.cycles for tally in tallies.values()) == sum(count for _, count in done)
        for kind in ("qkv", "scores", "values", "o", "gate_up", "down", "lm_head"):
            assert sum(tally.cycles for key, tally in tallies.items() if key[0] == kind) == \
                sum(count for name, count in done if name == kind) > 0
        name, x, w = products.first
        assert name == "blk.0.qkv" and (x.shape, w.shape) == ((9, 64), (128, 64))
        cycles.append(tallies["lm_head", 1, len(small_model.VOCABULARY), 64].cycles)
    # Each of two simulators fills and drains its array for its half of the columns.
    assert 0 < cycles[1] - cycles[0] < 128


def test_each_simulator_does_its_own_columns(engines, parameters):
    products = EngineProducts(engines, weights_of(parameters, "mxfp8_mxfp8"), "mxfp8_mxfp8")
    products.linear("blk.1.down", rows(3, 96))
    taken = [int(engine.last.output_cycles["response"][-1]) for engine in engines]
    assert min(taken) > 0 and products.tallies["down", 3, 64, 96].cycles == sum(taken)
    assert [engine.last.streams["o__0"].beats for engine in engines] == [3 * 4, 3 * 4]
    last = engines[1].last
    products.attention_scores(0, 1, rows(2, 16), rows(5, 16, seed=2))
    assert engines[1].last is last, "a product of attention has one simulator"


def wrong_at(monkeypatch, *places):
    """The golden model says something else of these elements."""
    def matmul_but(x, w, c=None):
        y = matmul(x, w, c)
        for row, column in places:
            y[row, column] += 1
        return y

    monkeypatch.setattr(engine_products, "matmul", matmul_but)


def test_a_difference_names_the_product_and_its_first_element(engines, parameters, monkeypatch):
    products = EngineProducts(engines, weights_of(parameters, "mxfp8_mxfp4"), "mxfp8_mxfp4",
                              command="jalapeno demo --tokens 1")
    done = []
    products.on_product = lambda kind, cycles: done.append(kind)
    # Columns 0 to 131 are the first simulator's. Row 1, column 170 left its engine before row 2, column 60.
    wrong_at(monkeypatch, (2, 60), (1, 170))
    with pytest.raises(CheckFailure) as caught:
        products.linear("lm_head", rows(3, 64))
    report = caught.value.report
    assert report.tensor == "lm_head" and report.index == (1, 170) and report.differ == 2
    assert report.test == "product lm_head 3x264x64 mxfp8_mxfp4"
    assert report.sentence().startswith(f"golden.matmul, {report.test} (seed 0, simulator seed 1): "
                                        "lm_head[1,170] is 0x")
    assert f"at cycle {report.cycle}; 2 of 792 elements differ" in report.sentence()
    assert report.command == "jalapeno demo --tokens 1"
    # Column 170 is column 38 of the second simulator: superstep 4 of 8 columns, 3 rows each.
    assert report.cycle == engines[1].last.output_cycles["o__0"][4 * 3 + 1]
    assert report.wave_cycle == engines[1].last.start + report.cycle
    tally = products.tallies["lm_head", 3, 264, 64]
    assert (tally.products, tally.compared, tally.mismatches) == (1, 792, 2) and done == []


@pytest.mark.parametrize("place", [(0, 131), (0, 132), (2, 0), (2, 263)])
def test_a_single_difference_anywhere(engines, parameters, monkeypatch, place):
    products = EngineProducts(engines, weights_of(parameters, "mxfp4_mxfp4"), "mxfp4_mxfp4")
    wrong_at(monkeypatch, place)
    with pytest.raises(CheckFailure) as caught:
        products.linear("lm_head", rows(3, 64))
    assert caught.value.report.index == place and caught.value.report.differ == 1


def test_a_difference_in_attention(engines, parameters, monkeypatch):
    products = EngineProducts(engines, weights_of(parameters, "mxfp8_mxfp8"), "mxfp8_mxfp8")
    wrong_at(monkeypatch, (1, 3))
    with pytest.raises(CheckFailure, match=r"product blk.1.scores.0 2x5x16 .*: blk.1.scores.0\[1,3\] is 0x"):
        products.attention_scores(1, 0, rows(2, 16), rows(5, 16, seed=2))


def test_weights_must_have_the_format_of_the_mode(engines, parameters):
    with pytest.raises(ValueError, match="weights have the format MXFP8; mode mxfp8_mxfp4 takes MXFP4"):
        EngineProducts(engines, weights_of(parameters, "mxfp8_mxfp8"), "mxfp8_mxfp4")


@pytest.mark.parametrize("m,n", [(40, 21), (1, 3), (0, 9), (5, 0)])
def test_shared_products_are_those_of_one_simulator(engines, m, n):
    """Many jobs, several runs, C, and fewer columns than would do for both."""
    x, w = quantise(rows(m, 70), Format.MXFP8), quantise(rows(n, 70, seed=3), Format.MXFP4)
    c = rows(m, n, seed=4)
    expected, heard, shares = matmul(x, w, c), [], []
    for used, run_bytes in ((engines[:1], 1 << 20), (engines, 1 << 20), (engines, 1)):
        product = multiply_shared(used, x, w, c, run_bytes=run_bytes, progress=shares.append,
                                  meanwhile=lambda: heard.append(1))
        assert product.y.tobytes() == expected.tobytes()
        assert check(product, expected, test="shared") == m * n and product.macs == m * n * 70
        assert product.cycles >= product.bound.cycles and shares[-1] == 1
    assert len(heard) == 3, "called once a product, however many runs it has"
    assert len(product.runs) == (1 if n <= 4 else 2) * -(-max(m, 1) // 16)


def test_prepared_weights_are_used_again(engines):
    w = quantise(rows(21, 70), Format.MXFP8)
    prepared = prepare_shared(engines, Format.MXFP8, w)
    assert len(prepared) == 2
    for m in (1, 17):
        x = quantise(rows(m, 70, seed=m), Format.MXFP8)
        product = multiply_shared(engines, x, w, prepared=prepared)
        assert check(product, matmul(x, w), test="prepared") == m * 21


def test_one_of_two_simulators_hangs(engines):
    """The failure is a report; the other simulator ends its run, and both work on."""
    x, w = quantise(rows(3, 40), Format.MXFP8), quantise(rows(12, 40, seed=2), Format.MXFP4)
    need = multiply_shared(engines, x, w).runs
    limits = [run.result.cycles for run in need]
    assert limits[0] > limits[1]  # 8 columns and 4
    with pytest.raises(CheckFailure) as caught:
        multiply_shared(engines, x, w, max_cycles=(limits[0] + limits[1]) // 2, test="short")
    assert "limit of cycles" in caught.value.report.problem and caught.value.report.test == "short"
    assert check(multiply_shared(engines, x, w), matmul(x, w), test="after") == 36
    with pytest.raises(JobError, match="units"):
        multiply_shared(engines, x, w, units=(1, 1))
    assert check(multiply(engines[1], x, w), matmul(x, w), test="alone") == 36
