"""Runs a pipeline of hw.numbers in the Python simulator, one input a cycle."""

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

__all__ = ["run"]

PERIOD = 1e-6


def run(pipeline, inputs):
    """Outputs of ``pipeline`` for ``inputs``, each taken ``pipeline.latency`` cycles after its input.

    Parameters: ``inputs``, list of values that ``ctx.set(pipeline.i, …)`` takes. Returns a list of as many
    outputs. Input follows input without a gap, so that a stage in the wrong place shows as a wrong result.
    """
    m = Module()
    m.submodules.pipeline = pipeline
    if pipeline.latency == 0:
        # A pipeline without a register has no clock; the simulator wants one to count cycles.
        tick = Signal()
        m.d.sync += tick.eq(~tick)
    outputs = []

    async def bench(ctx):
        for cycle in range(len(inputs) + pipeline.latency):
            if cycle < len(inputs):
                ctx.set(pipeline.i, inputs[cycle])
            if cycle >= pipeline.latency:
                outputs.append(ctx.get(pipeline.o))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(PERIOD)
    simulator.add_testbench(bench)
    simulator.run()
    return outputs
