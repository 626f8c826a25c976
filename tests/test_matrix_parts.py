"""Parts of a unit by themselves: the walk over passes, the skew, the dispatcher, the output rows."""

import dataclasses
import math
import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.formats import Format, quantise
from golden.matmul import MODES
from hw.config import MatrixConfig
from hw.matrix.dispatch import OUTSTANDING, Dispatcher
from hw.matrix.edge import Skew
from hw.matrix.job import Command, Output, Status
from hw.matrix.output import OutputRows
from hw.matrix.passes import PassWalker
from hw.numbers.formats import Mode
from sw.engine.job import LANES


def simulate(component, *benches):
    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


@dataclasses.dataclass(frozen=True)
class UnitJob:
    mode: str
    m: int
    n: int
    k: int
    width: int
    units: int
    unit: int
    has_c: int = 0


def passes(job, rows):
    """The passes of a unit's job by their definition: supersteps, then k, then subtiles."""
    found = []
    starts = range(0, job.n, job.units * job.width)
    for start in starts:
        lead = min(job.n - start, job.width)
        columns = min(max(job.n - start - job.unit * job.width, 0), job.width)
        subtiles = min(4 // LANES[job.mode], math.ceil(lead / LANES[job.mode]))
        more = start + job.units * job.width + job.unit * job.width < job.n
        steps = max(1, math.ceil(job.k / rows))
        for step in range(steps):
            for subtile in range(subtiles):
                found.append(dict(
                    mode=job.mode, m=job.m, lanes=min(rows, job.k - step * rows), columns=columns,
                    quads=math.ceil(columns / 4), subtile=subtile, subtiles=subtiles, first=step == 0,
                    last=step == steps - 1, opening=step == 0 and subtile == 0,
                    closing=step == steps - 1 and subtile == subtiles - 1, final=not more, has_c=job.has_c))
    return found


@pytest.mark.parametrize("rows", [32, 64])
def test_passes_are_those_of_the_definition(rows):
    rng = random.Random(rows)
    jobs = []
    for _ in range(60):
        units, width = rng.randint(1, 4), rng.choice([4, 8, 12, 32])
        n = rng.choice([1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 100])
        unit = rng.randrange(min(units, math.ceil(n / width)))
        jobs.append(UnitJob(mode=rng.choice(list(MODES)), m=rng.randint(1, 5), n=n,
                            k=rng.choice([0, 1, 31, 32, 33, 64, 65, 200]), width=width, units=units,
                            unit=unit, has_c=rng.randint(0, 1)))
    expected = [step for job in jobs for step in passes(job, rows)]
    walker, got = PassWalker(rows=rows), []

    async def source(ctx):
        for job in jobs:
            ctx.set(walker.i.payload, dict(
                mode=Mode[job.mode.upper()], output=Output.BINARY32, has_c=job.has_c, width=job.width,
                m=job.m, n=job.n, k=job.k, first=job.unit * job.width, stride=job.units * job.width))
            ctx.set(walker.i.valid, 1)
            await ctx.tick().until(walker.i.ready)
            ctx.set(walker.i.valid, 0)
            if rng.random() < 0.3:
                await ctx.tick().repeat(rng.randint(1, 5))

    async def sink(ctx):
        while len(got) < len(expected):
            ctx.set(walker.o.ready, rng.random() < 0.7)
            _, _, valid, ready, step = await ctx.tick().sample(
                walker.o.valid, walker.o.ready, walker.o.payload)
            if valid and ready:
                got.append(step)

    simulate(walker, source, sink)
    assert len(got) == len(expected) > 300
    for step, right in zip(got, expected, strict=True):
        assert {name: step[name].name.lower() if name == "mode" else step[name] for name in right} == right


def test_jobs_follow_each_other_without_a_gap():
    walker = PassWalker(rows=32)
    count = []

    async def bench(ctx):
        ctx.set(walker.i.payload, dict(mode=Mode.MXFP4_MXFP4, width=4, m=1, n=4, k=32, first=0, stride=4))
        ctx.set(walker.i.valid, 1)
        ctx.set(walker.o.ready, 1)
        await ctx.tick()
        for _ in range(20):
            _, _, valid = await ctx.tick().sample(walker.o.valid)
            count.append(valid)

    simulate(walker, bench)
    assert count == [1] * 20


def test_skew_delays_lane_r_by_r_cycles():
    skew = Skew(width=5)
    rng = random.Random(1)
    words = [rng.getrandbits(160) for _ in range(80)]
    lanes = [[word >> 5 * r & 31 for r in range(32)] for word in words]

    async def bench(ctx):
        for cycle, word in enumerate(words):
            ctx.set(skew.i, word)
            got = ctx.get(skew.o)
            for r in range(min(32, cycle + 1)):
                assert got >> 5 * r & 31 == lanes[cycle - r][r]
            await ctx.tick()

    simulate(skew, bench)


FOUR = MatrixConfig(units=4, rows=32, cols=8, accumulator_rows=16, output_rows=16)


def test_the_dispatcher_answers_in_order_whatever_order_units_finish_in():
    """Random runs of units that take random times; illegal jobs and empty ones between them."""
    rng = random.Random(2)
    dispatcher = Dispatcher(FOUR)
    jobs, handed, answers, queues = [], [], [], [[] for _ in range(4)]
    for tag in range(3 * OUTSTANDING):
        first = rng.randrange(4)
        jobs.append(dict(tag=tag, mode=rng.choice([0, 0, 0, 1, 2, 3]), output=0, has_c=0, first_unit=first,
                         units=rng.randint(1, 4 - first), width=rng.choice([4, 8]), m=rng.choice([0, 1, 4]),
                         n=rng.choice([0, 3, 8, 9, 100]), k=32))

    async def commands(ctx):
        for job in jobs:
            ctx.set(dispatcher.i.payload, Command.as_shape().const(job))
            ctx.set(dispatcher.i.valid, 1)
            await ctx.tick().until(dispatcher.i.ready)
            ctx.set(dispatcher.i.valid, 0)

    async def units(ctx):
        while len(answers) < len(jobs):
            ready = rng.getrandbits(4)
            ctx.set(dispatcher.o_ready, ready)
            done = 0
            for unit, queue in enumerate(queues):
                if queue and rng.random() < 0.1:
                    queue.pop(0)
                    done |= 1 << unit
            ctx.set(dispatcher.done, done)
            ctx.set(dispatcher.response.ready, rng.random() < 0.5)
            _, _, valid, payload, answered, taken, answer = await ctx.tick().sample(
                dispatcher.o_valid, dispatcher.o.payload, dispatcher.response.valid,
                dispatcher.response.ready, dispatcher.response.payload)
            for unit in range(4):
                if valid & ready & 1 << unit:
                    handed.append((unit, payload.first, payload.stride, payload.n, payload.m))
                    queues[unit].append(len(handed))
            if answered and taken:
                assert sum(map(len, queues)) <= 4 * (OUTSTANDING + 1)
                answers.append((answer.tag, Status(answer.status)))

    simulate(dispatcher, commands, units)
    right, due = [], []
    for job in jobs:
        right.append((job["tag"], Status.ILLEGAL_MODE if job["mode"] == 3 else Status.OK))
        if right[-1][1] == Status.OK and job["m"] and job["n"]:
            stride = job["units"] * job["width"]
            due += [(job["first_unit"] + u, u * job["width"], stride, job["n"], job["m"])
                    for u in range(job["units"]) if u * job["width"] < job["n"]]
    assert answers == right and handed == due and not any(queues)


@pytest.mark.parametrize("latency", [0, 1, 2, 3])
def test_output_rows_of_every_form_and_latency(latency):
    """Rows of 32 and fewer columns through the quantiser, with a sink that stalls; padding is noise."""
    config = MatrixConfig(units=1, rows=32, cols=32, accumulator_rows=4, output_rows=4,
                          quantise_latency=latency)
    part = OutputRows(config)
    rng = np.random.default_rng(latency)
    rows = [(rng.standard_normal(32).astype(np.float32) * 2.0 ** rng.integers(-20, 20), int(columns), form)
            for columns in (32, 1, 17, 31) for form in Output for _ in range(3)]
    rows = [(values.astype(np.float32), columns, form) for values, columns, form in rows]
    memory, got, freed = [0] * 4, [], []

    async def feed(ctx):
        for index, (values, columns, form) in enumerate(rows):
            while index - len(freed) >= 4:
                await ctx.tick()
            memory[index % 4] = int.from_bytes(values.tobytes(), "little")
            ctx.set(part.info, dict(columns=columns, output=form, last=index == len(rows) - 1))
            ctx.set(part.info_row, index % 4)
            ctx.set(part.info_valid, 1)
            await ctx.tick()
            ctx.set(part.info_valid, 0)
            await ctx.tick().repeat(int(rng.integers(1, 4)))
            ctx.set(part.completed, 1)
            await ctx.tick()
            ctx.set(part.completed, 0)

    async def read(ctx):
        while len(got) < len(rows):
            _, _, enable, row = await ctx.tick().sample(part.read_enable, part.read_row)
            if enable:
                ctx.set(part.read_data, memory[row])

    async def sink(ctx):
        held = None
        while len(got) < len(rows):
            ctx.set(part.o.ready, int(rng.integers(0, 2)))
            _, _, valid, ready, free, done, beat = await ctx.tick().sample(
                part.o.valid, part.o.ready, part.freed, part.done, part.o.payload)
            assert free == (valid and ready) and done == (free and len(got) == len(rows) - 1)
            if valid:
                bits = (beat.data, beat.columns, beat.scales[0])
                assert held is None or held == bits  # stable while it waits
                held = None if ready else bits
            if free:
                got.append(bits)
                freed.append(None)

    simulate(part, feed, read, sink)
    for (values, columns, form), (data, count, scale) in zip(rows, got, strict=True):
        assert count == columns
        data = data.to_bytes(128, "little")
        if form is Output.BINARY32:
            assert data[:4 * columns] == values[:columns].tobytes()
        else:
            right = quantise(values[None, :columns], Format[form.name])
            packed = right.pack()
            assert data[:packed.size] == packed.tobytes() and scale == right.scales[0, 0]
