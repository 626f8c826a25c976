"""Products on the tiny engine: the cut into jobs and runs, bounds, and what a wrong element looks like."""

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import preset
from scripts.operands import random_tensor
from sw.engine.engine import SimulatedEngine
from sw.engine.job import Job, JobError
from sw.engine.layout import activation_beats, weight_beats
from sw.engine.product import bound_of, check, multiply, reference, split
from tb.report import CheckFailure

CONFIG = preset("tiny").tile.matrix


@pytest.fixture(scope="module")
def engine():
    with SimulatedEngine(CONFIG) as engine:
        yield engine


@pytest.fixture(autouse=True)
def own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))


def operands(mode, m, n, k, seed=1, kind="codes"):
    rng = np.random.default_rng(seed)
    x_format, w_format = MODES[mode]
    return random_tensor(rng, m, k, x_format, kind), random_tensor(rng, n, k, w_format, kind)


@pytest.mark.parametrize("m,rows,parts", [
    (0, 16, [0]), (1, 16, [1]), (16, 16, [16]), (17, 16, [8, 9]), (33, 16, [11, 11, 11]), (5, 1, [1] * 5),
])
def test_split(m, rows, parts):
    assert split(m, rows) == parts


@pytest.mark.parametrize("mode", MODES)
def test_bound_counts_the_beats(mode):
    """The bounds of matrix and weight edge are the beats that the host really sends to a unit."""
    for m, n, k in [(1, 1, 1), (3, 3, 70), (16, 5, 32), (2, 41, 161)]:
        job = Job(**dict(zip("xw", operands(mode, m, n, k)))).placed(CONFIG)
        bound = bound_of([job], CONFIG)
        assert bound.matrix == len(activation_beats(job, CONFIG))
        assert bound.weight_edge == len(weight_beats(job, 0, CONFIG))
        assert bound.cycles == max(bound.matrix, bound.weight_edge, bound.adders, bound.output)


@pytest.mark.parametrize("mode", MODES)
def test_runs_do_not_show(engine, mode):
    """One run or several, with C: the same bits, equal to golden, never below the bound."""
    x, w = operands(mode, 40, 11, 70, kind="special")
    c = np.random.default_rng(2).standard_normal((40, 11)).astype(np.float32)
    expected = reference(x, w, c)
    shares = []
    whole = multiply(engine, x, w, c)
    pieces = multiply(engine, x, w, c, run_bytes=1, progress=shares.append)
    assert (whole.jobs, len(whole.runs)) == (3, 1) and (pieces.jobs, len(pieces.runs)) == (3, 3)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])
    for product in (whole, pieces):
        assert check(product, expected, test="runs") == 440
        assert product.cycles >= product.bound.cycles
        assert product.macs == 40 * 11 * 70
        assert product.utilisation == product.macs / (product.cycles * CONFIG.macs_per_cycle(mode))


@pytest.mark.parametrize("m,n,k", [(0, 5, 40), (5, 0, 40), (0, 0, 0)])
def test_nothing_to_compare(engine, m, n, k):
    x, w = operands("mxfp8_mxfp4", m, n, k)
    product = multiply(engine, x, w)
    assert product.y.shape == (m, n) and product.cycles > 0
    assert check(product, reference(x, w), test="empty") == 0
    with pytest.raises(CheckFailure, match="shape"):
        check(product, np.zeros((m + 1, n), np.float32), test="empty")


@pytest.mark.parametrize("run_bytes", [1, 1 << 20])
def test_a_wrong_element_is_named_with_its_cycle(engine, run_bytes):
    """Of two wrong elements the one which left first is named: row 30 of an early superstep before row 29."""
    x, w = operands("mxfp4_mxfp4", 40, 20, 40)
    product = multiply(engine, x, w, run_bytes=run_bytes)
    expected = reference(x, w)
    for row, column in ((30, 2), (29, 17)):
        expected[row, column] += 1
    with pytest.raises(CheckFailure) as caught:
        check(product, expected, test="wrong", seed=7)
    report = caught.value.report
    assert report.index == (30, 2) and report.differ == 2 and report.seed == 7
    job = [part for part in product.runs if part.first <= 30][-1]
    # Jobs of 13, 13 and 14 rows: row 30 is row 4 of the third.
    place = 4 if run_bytes == 1 else 2 * 3 * 13 + 4
    assert report.cycle == job.result.output_cycles["o__0"][place]
    assert report.wave_cycle == job.result.start + report.cycle


def test_refused_before_it_runs(engine):
    x, w = operands("mxfp8_mxfp4", 3, 5, 40)
    with pytest.raises(JobError, match=r"c has shape \(5, 3\); it must be \(3, 5\)"):
        multiply(engine, x, w, np.zeros((5, 3), np.float32))
    with pytest.raises(JobError, match="units"):
        multiply(engine, x, w, units=(1, 1))
    with pytest.raises(JobError, match="binary32 only"):
        multiply(engine, x, w, output="mxfp8")
    with pytest.raises(ValueError, match="x has K = 40 and w has K = 39"):
        multiply(engine, x, operands("mxfp8_mxfp4", 3, 5, 39)[1])


def test_a_hang_is_a_report(engine):
    x, w = operands("mxfp8_mxfp4", 3, 5, 40)
    with pytest.raises(CheckFailure) as caught:
        multiply(engine, x, w, max_cycles=20, test="short")
    assert "limit of cycles" in caught.value.report.problem and caught.value.report.test == "short"
    product = multiply(engine, x, w)
    assert check(product, reference(x, w), test="after") == 15
