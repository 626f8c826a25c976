"""The control of a unit in the Python simulator: what enters and when, against the definition of passes."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from golden.matmul import MODES
from hw.config import MatrixConfig
from hw.matrix.foot import accumulator_distance
from hw.matrix.job import Output
from hw.matrix.sequencer import Sequencer, Waiting, drain_cycles
from hw.numbers.formats import Mode
from tests.test_matrix_parts import UnitJob, passes

OUTPUTS = (Output.BINARY32, Output.MXFP4, Output.MXFP8)
ISSUED = ("swap", "lanes", "fresh", "emit", "listening", "subtile", "row", "output_row", "completed",
          "info_valid", "mode", "activations_ready")


def config_of(*, rows=32, add_latency=2, accumulator_rows=4, output_rows=4):
    return MatrixConfig(units=1, rows=rows, cols=8, accumulator_rows=accumulator_rows,
                        output_rows=output_rows, add_latency=add_latency)


class Trace:
    """What a sequencer did, by cycle."""

    def __init__(self):
        self.issues = []  # (cycle, values by name, info)
        self.beats = []  # (cycle, low, high, quad, lanes)
        self.presets = []  # (cycle, preset_row)
        self.modes = []  # by cycle
        self.waiting = []  # by cycle
        self.freed = []  # cycles


def run(config, jobs, rng, *, weights=1.0, activations=1.0, c=1.0, free=1.0, commands=1.0, limit=60_000):
    """The trace of all jobs; the numbers are the shares of cycles in which something is there.

    ``activations`` may be a period as well: a row is there in one cycle of so many.
    """
    sequencer, trace = Sequencer(config), Trace()
    rows_wanted = sum(step["m"] for job in jobs for step in passes(job, config.rows))

    async def source(ctx):
        for job, output in zip(jobs, job_outputs(jobs)):
            while rng.random() >= commands:
                await ctx.tick()
            ctx.set(sequencer.command.payload, dict(
                mode=Mode[job.mode.upper()], output=output, has_c=job.has_c, width=job.width, m=job.m,
                n=job.n, k=job.k, first=job.unit * job.width, stride=job.units * job.width))
            ctx.set(sequencer.command.valid, 1)
            await ctx.tick().until(sequencer.command.ready)
            ctx.set(sequencer.command.valid, 0)

    async def bench(ctx):
        held = deque()  # cycles at which a row has completed and may be freed
        outstanding = 0
        for cycle in range(limit):
            ctx.set(sequencer.weights_valid, rng.random() < weights)
            there = rng.random() < activations if activations <= 1 else cycle % activations == 0
            ctx.set(sequencer.activations_valid, there)
            ctx.set(sequencer.c_valid, rng.random() < c)
            freed = bool(held) and held[0] + 3 <= cycle and rng.random() < free
            ctx.set(sequencer.freed, freed)
            trace.modes.append(Mode(ctx.get(sequencer.mode)).name.lower())
            trace.waiting.append(Waiting(ctx.get(sequencer.waiting)))
            issue = ctx.get(sequencer.issue)
            assert issue == (trace.waiting[-1] is Waiting.NOTHING)
            if issue:
                values = {name: ctx.get(getattr(sequencer, name)) for name in ISSUED}
                assert not values["activations_ready"] or ctx.get(sequencer.activations_valid)
                trace.issues.append((cycle, values, ctx.get(sequencer.info)))
                outstanding += values["info_valid"]
                if values["completed"]:
                    held.append(cycle)
            else:
                for name in ("swap", "completed", "info_valid", "activations_ready"):
                    assert not ctx.get(getattr(sequencer, name)), name
            assert outstanding <= config.output_rows
            if freed:
                held.popleft()
                outstanding -= 1
                trace.freed.append(cycle)
            low, high = ctx.get(sequencer.low), ctx.get(sequencer.high)
            taken = ctx.get(sequencer.weights_ready) and ctx.get(sequencer.weights_valid)
            assert bool(low or high) == bool(taken)
            if taken:
                quad, lanes = ctx.get(sequencer.quad), ctx.get(sequencer.weight_lanes)
                trace.beats.append((cycle, low, high, quad, lanes))
            if ctx.get(sequencer.c_ready) and ctx.get(sequencer.c_valid):
                trace.presets.append((cycle, ctx.get(sequencer.preset_row)))
            await ctx.tick()
            if len(trace.issues) == rows_wanted and not held:
                return
        raise AssertionError(f"{len(trace.issues)} of {rows_wanted} rows after {limit} cycles")

    simulator = Simulator(sequencer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(source)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


def job_outputs(jobs):
    return [OUTPUTS[number % 3] for number in range(len(jobs))]


def check(config, jobs, trace):
    """Everything that entered, in order; and that nothing entered before it could. Returns rows compared."""
    issues, beats, presets = deque(trace.issues), deque(trace.beats), deque(trace.presets)
    newest, last_swap, uses = 0, -1, {}
    entered = sorted([cycle for cycle, _, _ in trace.issues] + [beat[0] for beat in trace.beats])
    compared = 0
    for job, output in zip(jobs, job_outputs(jobs)):
        own = {}  # output row of each row of the superstep
        for step in passes(job, config.rows):
            loaded = -1
            if step["columns"] and step["lanes"]:
                halves = [(1, 0), (0, 1)] if job.mode == "mxfp4_mxfp4" else [(1, 1)]
                for quad in range(step["quads"]):
                    for low, high in halves:
                        cycle, *beat = beats.popleft()
                        assert beat == [low, high, quad, step["lanes"]]
                        assert last_swap <= cycle, "the shadow weights are still those of the pass before"
                        assert trace.modes[cycle] == job.mode
                        loaded = cycle
            if step["opening"] and step["has_c"] and step["columns"]:
                for row in range(job.m):
                    cycle, preset_row = presets.popleft()
                    assert preset_row == row and cycle < issues[0][0]
                    before = [at for at in entered if at < cycle]
                    assert not before or cycle - before[-1] >= drain_cycles(config), "the array is not empty"
            for row in range(job.m):
                cycle, got, info = issues.popleft()
                takes = bool(step["last"] and not step["subtile"] and step["columns"])
                right = dict(swap=row == 0, lanes=step["lanes"], fresh=step["first"] and not job.has_c,
                             emit=step["last"], listening=step["columns"] == 0, subtile=step["subtile"],
                             row=row, completed=bool(step["closing"] and step["columns"]),
                             info_valid=takes, activations_ready=step["lanes"] > 0)
                assert {name: got[name] for name in right} == right
                assert Mode(got["mode"]).name.lower() == job.mode
                if row == 0:
                    assert cycle > loaded
                    last_swap = cycle
                if takes:
                    own[row], newest = newest, (newest + 1) % config.output_rows
                    assert (info.columns, info.output) == (step["columns"], output)
                    assert info.last == (step["final"] and row == job.m - 1)
                if step["last"] and step["columns"]:
                    assert got["output_row"] == own[row]
                if not step["first"] and step["columns"]:
                    assert cycle - uses[row, step["subtile"]] >= accumulator_distance(config)
                uses[row, step["subtile"]] = cycle
                compared += 1
    assert not issues and not beats and not presets
    changes = [cycle for cycle in range(1, len(trace.modes)) if trace.modes[cycle] != trace.modes[cycle - 1]]
    for change in changes:  # the mode seen in a cycle was chosen in the one before
        before = [at for at in entered if at < change]
        assert not before or change - before[-1] > drain_cycles(config)
    return compared


def random_jobs(rng, count):
    jobs = []
    for _ in range(count):
        units = rng.randint(1, 3)
        width = rng.choice([4, 8])
        n = rng.choice([1, 2, 3, 4, 5, 8, 9, 17, 30])
        unit = rng.randrange(min(units, -(-n // width)))
        jobs.append(UnitJob(mode=rng.choice(list(MODES)), m=rng.randint(1, 4), n=n,
                            k=rng.choice([0, 1, 32, 33, 64, 65, 130]), width=width, units=units, unit=unit,
                            has_c=rng.randint(0, 1)))
    return jobs


@pytest.mark.parametrize("rows,add_latency,seed", [(32, 2, 1), (32, 0, 2), (64, 1, 3)])
def test_random_jobs_with_everything_late(rows, add_latency, seed):
    config, rng = config_of(rows=rows, add_latency=add_latency), random.Random(seed)
    jobs = random_jobs(rng, 16)
    trace = run(config, jobs, rng, weights=0.6, activations=0.7, c=0.5, free=0.3, commands=0.3)
    assert check(config, jobs, trace) > 100
    assert len(set(trace.modes)) == 3 and trace.presets and trace.beats
    assert set(trace.waiting) >= {Waiting.NOTHING, Waiting.MODE, Waiting.C, Waiting.WEIGHTS,
                                  Waiting.ACTIVATIONS, Waiting.JOB}


def test_nothing_late():
    """Streams that are always there: the same order, and fewer reasons to wait."""
    config, rng = config_of(), random.Random(4)
    jobs = random_jobs(rng, 12)
    trace = run(config, jobs, rng)
    assert check(config, jobs, trace) > 100
    assert Waiting.ACTIVATIONS not in trace.waiting


@pytest.mark.parametrize("mode", MODES)
def test_a_row_every_cycle(mode):
    """Enough rows to hide the loading of weights: no gap within a job, nor between two of one mode."""
    config = config_of(accumulator_rows=16, output_rows=32)
    jobs = [UnitJob(mode=mode, m=16, n=8, k=96, width=8, units=1, unit=0) for _ in range(2)]
    trace = run(config, jobs, random.Random(5))
    rows = check(config, jobs, trace)
    assert rows == 2 * 3 * 16 * {"mxfp4_mxfp4": 1, "mxfp8_mxfp4": 2, "mxfp8_mxfp8": 4}[mode]
    cycles = [cycle for cycle, _, _ in trace.issues]
    assert cycles[-1] - cycles[0] + 1 == rows


@pytest.mark.parametrize("add_latency,rows", [(0, 32), (3, 32), (2, 64)])
def test_one_row_waits_for_its_accumulator_and_no_longer(add_latency, rows):
    config = config_of(rows=rows, add_latency=add_latency)
    jobs = [UnitJob(mode="mxfp8_mxfp8", m=1, n=1, k=4 * rows, width=4, units=1, unit=0)]
    trace = run(config, jobs, random.Random(6))
    assert check(config, jobs, trace) == 4
    cycles = [cycle for cycle, _, _ in trace.issues]
    distance = accumulator_distance(config)
    assert distance == add_latency * rows // 32 + 2
    assert [b - a for a, b in zip(cycles, cycles[1:])] == [distance] * 3
    assert Waiting.ACCUMULATOR in trace.waiting


def test_subtiles_between_two_rows_leave_the_adders_time():
    config = config_of(add_latency=2)
    jobs = [UnitJob(mode="mxfp8_mxfp8", m=1, n=4, k=128, width=4, units=1, unit=0)]
    trace = run(config, jobs, random.Random(6))
    assert check(config, jobs, trace) == 16 and accumulator_distance(config) == 4
    assert Waiting.ACCUMULATOR not in trace.waiting


def test_a_mode_waits_for_rows_that_are_very_late():
    """The array is long empty between two rows of a pass, and the next job has another mode."""
    config = config_of()
    jobs = [UnitJob(mode=mode, m=3, n=4, k=32, width=4, units=1, unit=0)
            for mode in ("mxfp4_mxfp4", "mxfp8_mxfp8", "mxfp8_mxfp4", "mxfp4_mxfp4")]
    trace = run(config, jobs, random.Random(9), activations=2 * drain_cycles(config))
    assert check(config, jobs, trace) == 3 * (1 + 4 + 2 + 1)


def test_rows_wait_for_a_free_output_row():
    config = config_of()
    jobs = [UnitJob(mode="mxfp4_mxfp4", m=4, n=8 * 5, k=32, width=8, units=1, unit=0)]
    trace = run(config, jobs, random.Random(7), free=0.05)
    assert check(config, jobs, trace) == 20
    assert Waiting.OUTPUT in trace.waiting
    # From the fifth on, a row enters in the cycle after another one was freed.
    cycles = [cycle for cycle, _, _ in trace.issues]
    assert sum(cycle - 1 in trace.freed for cycle in cycles[4:]) > 12


def test_a_unit_that_only_listens_takes_rows_and_no_weights():
    """N = 17 on two units of 8 columns: unit 1 has 8 columns, and none in the second superstep."""
    config = config_of()
    jobs = [UnitJob(mode="mxfp8_mxfp4", m=2, n=17, k=40, width=8, units=2, unit=1)]
    trace = run(config, jobs, random.Random(8))
    assert check(config, jobs, trace) == 2 * 2 * 2 + 2 * 2
    listening = [values["listening"] for _, values, _ in trace.issues]
    assert listening == [0] * 8 + [1] * 4
    assert all(values["activations_ready"] for _, values, _ in trace.issues)
