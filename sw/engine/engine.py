"""The matrix engine in simulation, as a library: jobs in, results and cycles out."""

import math
from dataclasses import dataclass

import numpy as np

from golden.formats import Format, MXTensor
from hw.config import MatrixConfig
from hw.matrix.column import QuadColumn
from hw.matrix.engine import Engine
from hw.matrix.foot import Foot
from hw.matrix.job import Command, Output, Status
from hw.matrix.unit import Unit
from hw.numbers.formats import Mode
from tb.build import Options, build
from tb.simulator import Segment, Simulator

from .job import LANES, Job, rows_of_c, supersteps
from .layout import activation_beats, weight_beats

__all__ = ["JobResult", "Prepared", "Driver", "SimulatedEngine", "encode_command"]


def encode_command(**fields):
    """A command beat (bytes); fields as in :class:`hw.matrix.job.Command`."""
    layout = Command.as_shape()
    value = layout.const(fields).as_value().value
    return value.to_bytes(math.ceil(layout.size / 32) * 4, "little")


def _name(component):
    """Module name of a component that is made for its name only."""
    component._MustUse__silence = True  # else Amaranth warns that it was never elaborated
    return component.module_name


def command_of(job, tag=0):
    """The command beat of a placed job."""
    return encode_command(tag=tag, mode=Mode[job.mode.upper()].value, output=Output[job.output.upper()].value,
                          has_c=int(job.c is not None), first_unit=job.units[0], units=job.units[1],
                          width=job.width, m=job.m, n=job.n, k=job.k)


@dataclass(frozen=True)
class JobResult:
    """Result of one job.

    Attributes
    ----------
    y : float32 [M, N], or MXTensor of M rows
    status : name of the engine's answer
    cycles : cycles from the run's start, or the answer before, to this answer
    """

    y: np.ndarray | MXTensor
    status: str
    cycles: int


@dataclass(frozen=True)
class Prepared:
    """Weights of a job on their way to the units, uploaded once: segments by stream name."""

    segments: dict
    units: tuple[int, int]
    width: int


class Driver:
    """Beats of jobs to and from an engine of ``config``, whatever simulates it."""

    def __init__(self, config: MatrixConfig):
        self.config = config
        self.cycles = 0
        self.last = None

    def streams(self, jobs, prepared=None, poison=0):
        """Inputs and expected outputs (beats) of a run of placed jobs, by stream name."""
        prepared = prepared or [None] * len(jobs)
        inputs = {"command": b"", "activations": []}
        outputs = {"response": len(jobs)}
        for tag, (job, ready) in enumerate(zip(jobs, prepared, strict=True)):
            inputs["command"] += command_of(job, tag % 256)
            first, count = job.units
            for unit in range(count):
                rows = sum(job.m for step in supersteps(job, unit) if step.columns)
                if not rows:
                    continue
                outputs[f"o__{first + unit}"] = outputs.get(f"o__{first + unit}", 0) + rows
                if ready is None:
                    inputs.setdefault(f"weights__{first + unit}", []).append(
                        weight_beats(job, unit, self.config, poison))
                if job.c is not None:
                    inputs.setdefault(f"c__{first + unit}", []).append(rows_of_c(job, unit, self.config.cols))
            if ready is not None:
                for stream, segments in ready.segments.items():
                    inputs.setdefault(stream, []).extend(segments)
        rows = [activation_beats(job, self.config, poison) for job in jobs]
        inputs["activations"] = _interleave(jobs, rows)
        return {name: _joined(parts) for name, parts in inputs.items()}, outputs

    def collect(self, jobs, result) -> list[JobResult]:
        """Split the outputs of a run into the results of its jobs.

        ``result`` has ``outputs`` and ``output_cycles`` as tb.result.Result has, and ``cycles``.
        """
        self.last = result
        self.cycles += result.cycles
        taken = {}
        results = []
        answers = result.outputs["response"]
        ends = result.output_cycles["response"]
        for index, job in enumerate(jobs):
            code = int.from_bytes(answers[index].tobytes(), "little") >> 8 & 7
            begin = ends[index - 1] if index else 0
            y = self._gather(job, result, taken)
            results.append(JobResult(y, Status(code).name, int(ends[index] - begin)))
        return results

    def _gather(self, job, result, taken):
        cols = self.config.cols
        form = Format[job.output.upper()] if job.output != "binary32" else None
        y = np.zeros((job.m, job.n), np.float32)
        codes = np.zeros((job.m, job.n), np.uint8)
        scales = np.zeros((job.m, math.ceil(job.n / 32)), np.uint8)
        for unit in range(job.units[1]):
            stream = f"o__{job.units[0] + unit}"
            for step in supersteps(job, unit):
                if not step.columns or not job.m:
                    continue
                begin = taken.get(stream, 0)
                taken[stream] = begin + job.m
                rows = result.outputs[stream][begin:begin + job.m]
                columns = rows[:, 4 * cols:4 * cols + 2].copy().view("<u2")
                if not (columns == step.columns).all():
                    raise AssertionError(f"{stream} gave {columns[0, 0]} columns, not {step.columns}")
                part = slice(step.start, step.start + step.columns)
                if form is None:
                    y[:, part] = rows[:, :4 * step.columns].copy().view("<f4")
                else:
                    blocks = math.ceil(step.columns / 32)
                    size = 16 if form is Format.MXFP4 else 32
                    tensor = MXTensor.unpack(
                        form, rows[:, :size * (cols // 32)].reshape(job.m, -1, size)[:, :blocks],
                        rows[:, 4 * cols + 4:4 * cols + 4 + blocks], k=step.columns)
                    codes[:, part] = tensor.codes
                    scales[:, step.start // 32:step.start // 32 + blocks] = tensor.scales
        return y if form is None else MXTensor(format=form, codes=codes, scales=scales)

    def utilisation(self, job, cycles):
        """Multiply-accumulates of ``job`` over those of the engine's peak in ``cycles``."""
        macs = self.config.units * self.config.rows * self.config.cols // 4 * LANES[job.mode]
        return job.m * job.n * job.k / (macs * cycles)


class SimulatedEngine(Driver):
    """A Verilated engine which runs jobs. Use it as a context manager.

    Parameters
    ----------
    config : MatrixConfig
    view : "rtl" or "fast": which description of the arrays is simulated
    design : component that is built in place of Engine(config), as one of tb.planted
    bench : tb.build.Bench of another engine that was made with the same arguments, to simulate once more
    options : further fields of tb.build.Options; defaults follow from the size
    simulator : keyword arguments of tb.simulator.Simulator
    """

    def __init__(self, config: MatrixConfig, *, view="rtl", design=None, bench=None, simulator=None,
                 log=print, **options):
        super().__init__(config)
        self.view = view
        self.bench = bench or self._built(design, options, log)
        self.simulator = Simulator(self.bench, **(simulator or {}))

    def _built(self, design, options, log):
        config = self.config
        options.setdefault("optimise", "-O1" if config.units * config.cols <= 64 else "-O2")
        # A unit compiled by itself is one body of code for all units. A call from outside costs it about a
        # microsecond a cycle, and its signals are not in waves. For columns and feet that would be too much:
        # the full engine runs 480 cycles/s with columns in line, 380 with columns by themselves.
        if config.units > 1 and not options.get("waves"):
            options.setdefault("hierarchical", (_name(Unit(config)),))
        options.setdefault("shared", (_name(QuadColumn(product_latency=config.product_latency)),
                                      _name(Foot(config))))
        return build(design or Engine(config), name=f"engine_{self.view}", config=config,
                     options=Options(view=self.view, **options), log=log)

    def __enter__(self):
        self.simulator.__enter__()
        return self

    def __exit__(self, *exception):
        return self.simulator.__exit__(*exception)

    def prepare(self, job: Job, poison=0) -> Prepared:
        """Upload the weights of ``job`` for many runs with other activations."""
        job = job.placed(self.config)
        segments = {}
        for unit in range(job.units[1]):
            beats = weight_beats(job, unit, self.config, poison)
            if len(beats):
                buffer = self.simulator.upload(beats)
                segments[f"weights__{job.units[0] + unit}"] = [Segment(buffer=buffer, beats=len(beats))]
        return Prepared(segments, job.units, job.width)

    def run(self, jobs, *, prepared=None, poison=0, **run) -> list[JobResult]:
        """Run ``jobs`` back to back.

        ``prepared``: one :class:`Prepared` or None a job. ``poison``: byte that fills all padding.
        Further arguments go to tb.simulator.Simulator.run (stalls, seed, max_cycles, wave, ...).
        """
        jobs = [job.placed(self.config) for job in jobs]
        return self.collect(jobs, self._run(jobs, prepared, poison, run))

    def submit(self, jobs, *, prepared=None, poison=0, **run):
        """Start a run; :meth:`result` waits for it."""
        jobs = [job.placed(self.config) for job in jobs]
        inputs, outputs = self.streams(jobs, prepared, poison)
        self.simulator.submit(inputs=inputs, outputs=outputs, **run)
        self._submitted = jobs

    def result(self) -> list[JobResult]:
        """Results of the submitted run."""
        return self.collect(self._submitted, self.simulator.result())

    def _run(self, jobs, prepared, poison, run):
        inputs, outputs = self.streams(jobs, prepared, poison)
        return self.simulator.run(inputs=inputs, outputs=outputs, **run)



def _joined(parts):
    if isinstance(parts, bytes):
        return parts
    if not parts:
        return np.zeros((0, 4), np.uint8)
    if any(isinstance(part, Segment) for part in parts):
        return parts
    return np.concatenate(parts)


def _interleave(jobs, beats):
    """Rows of jobs on disjoint units alternate on the bus, so that none waits for all rows of another."""
    parts, group, busy = [], [], set()

    def flush():
        if group:
            position = np.concatenate([np.arange(len(rows)) / max(1, len(rows)) for rows in group])
            parts.append(np.concatenate(group)[np.argsort(position, kind="stable")])
        group.clear()
        busy.clear()

    for job, rows in zip(jobs, beats, strict=True):
        mine = set(range(job.units[0], job.units[0] + job.units[1]))
        if busy & mine:
            flush()
        group.append(rows)
        busy.update(mine)
    flush()
    return [part for part in parts if len(part)]
