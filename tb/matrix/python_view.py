"""The engine in Amaranth's own simulator: slow, and independent of Verilog, Yosys and Verilator."""

import math
import random
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Shape, Value
from amaranth.sim import Simulator

from hw.matrix.engine import Engine
from sw.engine.engine import Driver

__all__ = ["PythonEngine", "PythonResult"]


@dataclass(frozen=True, kw_only=True)
class PythonResult:
    """Outputs of a run and the cycles of their beats, as in tb.result.Result, and its length in cycles.

    ``input_cycles``: cycle of each beat that a stream took.
    """

    outputs: dict
    output_cycles: dict
    input_cycles: dict
    cycles: int


class PythonEngine(Driver):
    """An engine in Amaranth's simulator. Each run starts from reset.

    Parameters
    ----------
    config : MatrixConfig
    design : callable without arguments that gives the component to simulate; default Engine(config)
    """

    def __init__(self, config, design=None):
        super().__init__(config)
        self.design = design or (lambda: Engine(config))

    def run(self, jobs, *, poison=0, seed=0, stall=0.0, max_cycles=20_000):
        """Run ``jobs`` back to back.

        ``stall``: probability that a stream stands still in a cycle, for all streams or by stream name.

        Raises RuntimeError after ``max_cycles``, with the beats that came and those that are missing.
        """
        jobs = [job.placed(self.config) for job in jobs]
        inputs, outputs = self.streams(jobs, poison=poison)
        return self.collect(jobs, _simulate(self.design(), inputs, outputs, seed, stall, max_cycles))


def _simulate(engine, inputs, outputs, seed, stall, max_cycles):
    ends = {}
    for path, _, port in engine.signature.flatten(engine):
        ends.setdefault("__".join(map(str, path[:-1])), {})[path[-1]] = Value.cast(port)
    sizes = {name: math.ceil(Shape.cast(end["payload"].shape()).width / 32) * 4
             for name, end in ends.items() if "payload" in end}
    sources = {name: iter(_words(data, sizes[name])) for name, data in inputs.items()}
    got = {name: [] for name in outputs}
    cycles = {name: [] for name in [*sources, *outputs]}
    rng = random.Random(seed)

    def moves(name):
        return rng.random() >= (stall.get(name, 0.0) if isinstance(stall, dict) else stall)

    async def bench(ctx):
        waiting = {name: next(words, None) for name, words in sources.items()}
        offered = dict.fromkeys(sources, False)
        for cycle in range(max_cycles):
            for name, word in waiting.items():
                # Once valid, valid until taken; while it is not, the payload is noise.
                offered[name] = word is not None and (offered[name] or moves(name))
                ctx.set(ends[name]["valid"], offered[name])
                noise = rng.getrandbits(8 * sizes[name])
                ctx.set(ends[name]["payload"], word if offered[name] else noise)
            for name in outputs:
                ctx.set(ends[name]["ready"], moves(name))
            for name in sources:
                if offered[name] and ctx.get(ends[name]["ready"]):
                    cycles[name].append(cycle)
                    waiting[name], offered[name] = next(sources[name], None), False
            for name in outputs:
                if ctx.get(ends[name]["valid"]) and ctx.get(ends[name]["ready"]):
                    got[name].append(ctx.get(ends[name]["payload"]))
                    cycles[name].append(cycle)
            await ctx.tick()
            if all(len(got[name]) >= count for name, count in outputs.items()):
                return
        came = ", ".join(f"{name} {len(got[name])} of {count}" for name, count in outputs.items())
        raise RuntimeError(f"not done after {max_cycles} cycles: {came}")

    simulator = Simulator(engine)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    beats = {}
    for name, words in got.items():
        data = b"".join(word.to_bytes(sizes[name], "little") for word in words)
        beats[name] = np.frombuffer(data, np.uint8).reshape(-1, sizes[name])
    return PythonResult(
        outputs=beats,
        output_cycles={name: np.array(cycles[name], np.int64) for name in outputs},
        input_cycles={name: cycles[name] for name in sources},
        cycles=max(stamps[-1] for stamps in cycles.values() if stamps) + 1)


def _words(data, size):
    data = data if isinstance(data, bytes) else data.tobytes()
    return [int.from_bytes(data[at:at + size], "little") for at in range(0, len(data), size)]
