"""Units side by side, and units of two row groups: jobs on runs of units, at the same time, in any width."""

import dataclasses

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import MatrixConfig
from sw.engine.engine import SimulatedEngine
from sw.engine.job import JobError
from tb.matrix.check import check
from tb.matrix.operands import KINDS, largest_job, random_job
from tb.protocol import IdlePayload
from tb.stalls import Stalls

FOUR = MatrixConfig(units=4, rows=32, cols=8, accumulator_rows=16, output_rows=16)
GROUPS = MatrixConfig(units=1, rows=64, cols=8, accumulator_rows=16, output_rows=16)
ROUGH = Stalls(probability=0.25, long_probability=0.04, long_cycles=60,
               idle_payload=IdlePayload.POISON_EVERY_CYCLE)


@pytest.fixture(scope="module")
def four():
    with SimulatedEngine(FOUR) as engine:
        yield engine


@pytest.fixture(scope="module")
def groups():
    with SimulatedEngine(GROUPS) as engine:
        yield engine


def random_jobs(rng, count, *, units, m=16, n=100, k=130):
    """Jobs on random runs of units with random widths."""
    jobs = []
    for _ in range(count):
        first = int(rng.integers(units))
        run = (first, int(rng.integers(1, units - first + 1)))
        width = rng.choice([None, 4, 8])
        job = random_job(rng, rng.integers(1, m + 1), rng.integers(1, n + 1), rng.integers(0, k + 1),
                         rng.choice(list(MODES)), kind=rng.choice(KINDS), c=bool(rng.integers(2)))
        jobs.append(dataclasses.replace(job, units=run, width=width))
    return jobs


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_runs_of_units_with_stalls(four, seed):
    jobs = random_jobs(np.random.default_rng(seed), 20, units=4)
    check(four, jobs, test="20 jobs on random runs of units", seed=seed, stalls=(Stalls(), ROUGH)[seed % 2])


def test_a_job_a_unit_at_the_same_time(four):
    """Four equal jobs on four units take little longer than one on one unit."""
    rng = np.random.default_rng(20)
    for mode in MODES:
        jobs = [dataclasses.replace(random_job(rng, 16, 8, 640, mode), units=(unit, 1)) for unit in range(4)]
        alone = check(four, jobs[:1], test="one unit alone").cycles
        together = check(four, jobs, test="four units at once").cycles
        # The bus of activations is shared: it brings one row a cycle, and each unit wants one a cycle.
        assert together < 4 * alone + 60


def test_units_that_only_listen(four):
    """N so that in the last superstep some units have no columns, and that some units have none at all."""
    rng = np.random.default_rng(21)
    for mode in MODES:
        jobs = [random_job(rng, 5, n, 70, mode, c=n % 2 == 0, width=width)
                for n in (1, 3, 8, 9, 17, 33, 34, 35, 36, 37, 41, 65) for width in (4, 8)]
        check(four, jobs, test=f"listening units, {mode}", seed=21, stalls=ROUGH)


def test_a_unit_that_is_held_up_holds_up_only_its_jobs(four):
    """Unit 0 stands still for 10,000 cycles; jobs of unit 3 whose rows are on the bus before pass it by."""
    rng = np.random.default_rng(22)
    jobs = [dataclasses.replace(random_job(rng, 4, 8, 64, mode), units=(unit, 1))
            for mode in MODES for unit in (3, 0)]
    held = {"o__0": Stalls(hold_beat=2, hold_cycles=10_000)}
    check(four, jobs, test="unit 0 held up", seed=22, stalls=held)
    assert four.last.streams["o__3"].last < 5_000 < four.last.streams["o__0"].last


@pytest.mark.parametrize("units,width,message", [
    ((0, 5), None, "units 0 to 3"), ((4, 1), None, "units"), ((0, 0), None, "units"),
    ((-1, 2), None, "units"), (None, 6, "width is 6"), (None, 12, "width is 12"), (None, 0, "width is 0"),
])
def test_the_driver_refuses_what_the_engine_would(four, units, width, message):
    job = dataclasses.replace(random_job(np.random.default_rng(23), 2, 8, 32, "mxfp4_mxfp4"),
                              units=units, width=width)
    with pytest.raises(JobError, match=message):
        four.run([job])


@pytest.mark.parametrize("seed", range(1, 5))
def test_two_row_groups_with_stalls(groups, seed):
    jobs = random_jobs(np.random.default_rng(seed), 16, units=1, n=30, k=200)
    check(groups, jobs, test="16 jobs on two row groups", seed=seed, stalls=(Stalls(), ROUGH)[seed % 2])


@pytest.mark.parametrize("mode", MODES)
def test_k_around_the_steps_of_two_row_groups(groups, mode):
    """The second group without lanes, with one, with all; the next step with one lane in the first."""
    rng = np.random.default_rng(24)
    jobs = [random_job(rng, m, 9, k, mode, kind=KINDS[(m + k) % 4], c=k % 2 == 1)
            for m in (1, 2, 3, 5, 7) for k in (0, 1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 129)]
    jobs += [largest_job(3, 9, k, mode) for k in (64, 96, 2048)]
    check(groups, jobs, test=f"steps of two row groups, {mode}", seed=24)
