"""Results as MX blocks, and awkward shapes, on the preset for demos with the fast view of its arrays."""

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import preset
from sw.engine.engine import SimulatedEngine
from tb.matrix.check import check
from tb.matrix.operands import KINDS, random_job
from tb.matrix.shapes import SIZES, corner_jobs, mixed_jobs
from tb.protocol import IdlePayload
from tb.stalls import Stalls

SMALL = preset("small").tile.matrix
ROUGH = Stalls(probability=0.3, long_probability=0.04, long_cycles=60,
               idle_payload=IdlePayload.POISON_EVERY_CYCLE)


@pytest.fixture(scope="module")
def small():
    with SimulatedEngine(SMALL, view="fast") as engine:
        yield engine


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_form_of_results_with_stalls(small, seed):
    """Forms change from job to job; ragged N leaves a part of the last block empty; C holds NaN and Inf."""
    rng = np.random.default_rng(seed)
    jobs = [random_job(rng, rng.integers(1, 20), n, rng.integers(0, 100), rng.choice(list(MODES)),
                       kind=rng.choice(KINDS), c=bool(rng.integers(2)), output=output)
            for n in (1, 4, 31, 32, 33, 45, 64, 97) for output in ("mxfp8", "binary32", "mxfp4")]
    done = check(small, jobs, test="results in every form", seed=seed, stalls=ROUGH)
    assert done.compared == sum(job.m * job.n for job in jobs)


def test_quantised_results_take_three_cycles_a_row(small):
    rng = np.random.default_rng(9)
    plain, quantised = (random_job(rng, 256, 32, 32, "mxfp4_mxfp4", output=output)
                        for output in ("binary32", "mxfp8"))
    rows = [check(small, [job], test="rows out").cycles for job in (plain, quantised)]
    assert rows[0] < 256 + 100 and 3 * 256 <= rows[1] < 3 * 256 + 100


def test_the_mix_of_sizes_is_complete():
    """Every pair of sizes meets on every pair of axes."""
    shapes = [(job.m, job.n, job.k) for job in mixed_jobs("mxfp4_mxfp4", 1)]
    for first, second in ((0, 1), (1, 2), (0, 2)):
        assert len({(shape[first], shape[second]) for shape in shapes}) == len(SIZES) ** 2


@pytest.mark.parametrize("mode", MODES)
def test_awkward_shapes(small, mode):
    """The jobs of the figure matrix.shapes, here with the fast view; padding is NaN."""
    jobs = mixed_jobs(mode, 21) + corner_jobs(mode, 21)
    done = check(small, jobs, test=f"awkward shapes, {mode}", seed=21)
    assert done.compared == sum(job.m * job.n for job in jobs) > 300_000
