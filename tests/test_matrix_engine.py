"""The whole engine, as RTL under Verilator, on the smallest preset: random jobs, stalls, refusals."""

import dataclasses

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import preset
from hw.matrix.job import Output, Status
from sw.engine.engine import SimulatedEngine, encode_command
from sw.engine.product import multiply
from tb.matrix.check import check, expected, same_bits
from tb.matrix.operands import KINDS, largest_job, random_job
from tb.protocol import IdlePayload
from tb.report import CheckFailure
from tb.simulator import SimulationError
from tb.stalls import Stalls

TINY = preset("tiny").tile.matrix
ROUGH = Stalls(probability=0.3, long_probability=0.04, long_cycles=60,
               idle_payload=IdlePayload.POISON_EVERY_CYCLE)


@pytest.fixture(scope="module")
def tiny():
    with SimulatedEngine(TINY) as engine:
        yield engine


def random_jobs(rng, count, *, m=16, n=40, k=130):
    """Jobs of all modes and kinds of operands in random order."""
    jobs = []
    for _ in range(count):
        mode, kind = rng.choice(list(MODES)), rng.choice(KINDS)
        jobs.append(random_job(rng, rng.integers(1, m + 1), rng.integers(1, n + 1), rng.integers(0, k + 1),
                               mode, kind=kind, c=bool(rng.integers(2))))
    return jobs


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_jobs_with_stalls_on_every_stream(tiny, seed):
    jobs = random_jobs(np.random.default_rng(seed), 16)
    done = check(tiny, jobs, test=f"16 random jobs with stalls, seed {seed}", seed=seed, stalls=ROUGH)
    assert done.compared == sum(job.m * job.n for job in jobs) > 0


@pytest.mark.parametrize("slow", ["command", "response", "activations", "weights__0", "c__0", "o__0"])
def test_one_slow_stream(tiny, slow):
    """Each stream in turn is far slower than the rest, which run free."""
    seed = 100 + len(slow)
    jobs = random_jobs(np.random.default_rng(seed), 8)
    stalls = {slow: Stalls(probability=0.9, long_probability=0.01, long_cycles=30,
                           idle_payload=IdlePayload.POISON_EVERY_CYCLE)}
    check(tiny, jobs, test=f"8 random jobs, slow {slow}", seed=seed, stalls=stalls)


@pytest.mark.parametrize("held,beat", [("o__0", 5), ("response", 0), ("weights__0", 3), ("activations", 40)])
def test_a_stream_that_stands_still_for_ten_thousand_cycles(tiny, held, beat):
    jobs = random_jobs(np.random.default_rng(7), 6)
    check(tiny, jobs, test=f"{held} held for 10,000 cycles", seed=7,
          stalls={held: Stalls(hold_beat=beat, hold_cycles=10_000)})
    assert tiny.last.cycles > 10_000


def test_every_change_of_mode_without_a_pause(tiny):
    rng = np.random.default_rng(8)
    order = [0, 0, 1, 1, 2, 2, 0, 2, 1, 0]
    for k in (0, 1, 32, 70):
        jobs = [random_job(rng, 3, 9, k, list(MODES)[mode], c=bool(mode % 2)) for mode in order]
        check(tiny, jobs, test=f"changes of mode, K = {k}", seed=8)


@pytest.mark.parametrize("mode", MODES)
def test_sizes_around_every_boundary(tiny, mode):
    """All of M, N and K near their steps, back to back: few rows meet their accumulators soonest."""
    rng = np.random.default_rng(9)
    jobs = [random_job(rng, m, n, k, mode, kind=KINDS[(m + n + k) % 4], c=(m + n) % 3 == 0)
            for m in (1, 2, 3, 4, 5, 16) for n in (1, 2, 3, 4, 5, 7, 8, 9, 17) for k in (1, 32, 33, 64, 97)]
    check(tiny, jobs, test=f"sizes around every boundary, {mode}", seed=9)


@pytest.mark.parametrize("mode", MODES)
def test_the_largest_sums_of_both_signs(tiny, mode):
    check(tiny, [largest_job(4, 10, k, mode) for k in (32, 64, 4096)], test=f"largest sums, {mode}")


def test_jobs_of_nothing(tiny):
    rng = np.random.default_rng(10)
    empty = [(0, 5, 40), (5, 0, 40), (0, 0, 0), (3, 5, 0), (1, 1, 0)]
    jobs = [random_job(rng, *shape, mode, c=c) for mode in MODES for c in (False, True)
            for shape in [*empty, (2, 3, 33)]]
    check(tiny, jobs, test="jobs of nothing between others", seed=10)


def test_widths_do_not_show(tiny):
    rng = np.random.default_rng(11)
    for mode in MODES:
        job = random_job(rng, 5, 21, 70, mode, kind="wild", c=True)
        jobs = [dataclasses.replace(job, width=width) for width in (4, 8)]
        results = tiny.run(jobs, poison=0xFF)
        assert all(result.status == "OK" and same_bits(expected(job), result.y) for result in results)


def test_more_rows_than_the_accumulators_hold(tiny):
    rng = np.random.default_rng(12)
    job = random_job(rng, 53, 6, 40, "mxfp8_mxfp4", c=True)
    assert same_bits(expected(job), multiply(tiny, job.x, job.w, job.c).y)


LEGAL = dict(mode=0, output=0, has_c=0, first_unit=0, units=1, width=8, m=4, n=8, k=32)
ILLEGAL = [
    (dict(mode=3), Status.ILLEGAL_MODE), (dict(output=3), Status.ILLEGAL_OUTPUT),
    (dict(output=Output.MXFP4.value), Status.ILLEGAL_OUTPUT),  # blocks of 32 need 32 columns
    (dict(output=Output.MXFP8.value), Status.ILLEGAL_OUTPUT),
    (dict(m=17), Status.ILLEGAL_ROWS), (dict(m=65_535), Status.ILLEGAL_ROWS),
    (dict(width=0), Status.ILLEGAL_WIDTH), (dict(width=6), Status.ILLEGAL_WIDTH),
    (dict(width=12), Status.ILLEGAL_WIDTH), (dict(width=511), Status.ILLEGAL_WIDTH),
    (dict(units=0), Status.ILLEGAL_UNITS), (dict(units=2), Status.ILLEGAL_UNITS),
    (dict(first_unit=1), Status.ILLEGAL_UNITS), (dict(first_unit=127, units=127), Status.ILLEGAL_UNITS),
    # More than one rule is broken: the first of Status is told. A job of nothing has to be legal too.
    (dict(mode=3, output=3, m=17, width=0, units=0), Status.ILLEGAL_MODE),
    (dict(m=17, width=6), Status.ILLEGAL_ROWS), (dict(mode=3, m=0), Status.ILLEGAL_MODE),
    (dict(units=2, n=0, k=0), Status.ILLEGAL_UNITS),
]


@pytest.mark.parametrize("wrong,status", ILLEGAL)
def test_an_illegal_command_is_answered_and_touches_nothing(tiny, wrong, status):
    """Between two legal jobs, whose results are right; no stream gives or takes a beat for it."""
    rng = np.random.default_rng(13)
    jobs = [random_job(rng, 4, 8, 40, mode).placed(TINY) for mode in ("mxfp8_mxfp8", "mxfp4_mxfp4")]
    inputs, outputs = tiny.streams(jobs, poison=0xFF)
    beats = len(inputs["command"]) // 2
    inputs["command"] = (inputs["command"][:beats] + encode_command(**LEGAL | wrong, tag=77)
                         + inputs["command"][beats:])
    result = tiny.simulator.run(inputs=inputs, outputs=outputs | {"response": 3}, seed=13, stalls=ROUGH)
    answers = result.outputs["response"].view("<u4").ravel()
    assert [int(answer) & 255 for answer in answers] == [0, 77, 1]
    assert [int(answer) >> 8 & 7 for answer in answers] == [Status.OK.value, status.value, Status.OK.value]
    rows = result.outputs["o__0"][:, :32].copy().view(np.float32)
    for place, job in enumerate(jobs):
        assert same_bits(expected(job), np.ascontiguousarray(rows[4 * place:4 * place + 4]))


def test_a_legal_command_without_operands_waits_and_the_engine_recovers(tiny):
    """No weights come: the watchdog names the streams; after the reset the next job is right."""
    with pytest.raises(SimulationError, match="no stream moved for"):
        tiny.simulator.run(inputs={"command": encode_command(**LEGAL, tag=1)}, outputs={"response": 1})
    check(tiny, random_jobs(np.random.default_rng(14), 4), test="after a reset")


def test_the_check_bites(tiny, monkeypatch):
    """A single wrong bit in what is expected is found, and named."""
    job = random_job(np.random.default_rng(15), 3, 5, 64, "mxfp8_mxfp8")
    right = expected(job)
    wrong = right.copy()
    wrong.view(np.uint32)[2, 3] ^= 1
    monkeypatch.setattr("tb.matrix.check.expected", lambda _: wrong)
    with pytest.raises(CheckFailure) as caught:
        check(tiny, [job], test="one wrong bit")
    assert caught.value.report.index == (2, 3) and caught.value.report.differ == 1
