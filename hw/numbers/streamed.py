"""A pipeline without handshake between two streams."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Streamed"]


class Streamed(wiring.Component):
    """Puts a pipeline of this package between two streams, with back-pressure and no stall inside.

    An input is taken only while there is room for its result in a queue behind the pipeline; so the pipeline
    itself needs no enable. One result a cycle where nobody stalls. Results come in the order of inputs.

    Parameters
    ----------
    pipeline : Component
        With members ``i`` and ``o`` and a property ``latency``, as SumToFloat32, Float32Adder, Quantiser.

    Members
    -------
    i : In(stream of the shape of ``pipeline.i``)
    o : Out(stream of the shape of ``pipeline.o``)
    """

    def __init__(self, pipeline):
        self._pipeline = pipeline
        shape_i, shape_o = (pipeline.signature.members[name].shape for name in "io")
        super().__init__({"i": In(stream.Signature(shape_i)), "o": Out(stream.Signature(shape_o))})

    @property
    def latency(self):
        """Cycles from a transfer at ``i`` to the earliest transfer at ``o``."""
        return self._pipeline.latency + 2

    def elaborate(self, platform):
        m = Module()
        m.submodules.pipeline = pipeline = self._pipeline
        # Two cycles through the queue, one for the place to be counted as free, one to be used again.
        depth = self.latency + 2
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=len(Value.cast(pipeline.o)), depth=depth)

        taken = Signal()
        given = Signal()
        room = Signal(range(depth + 1), init=depth)
        m.d.comb += [
            self.i.ready.eq(room != 0),
            taken.eq(self.i.valid & self.i.ready),
            given.eq(self.o.valid & self.o.ready),
            pipeline.i.eq(self.i.payload),
        ]
        m.d.sync += room.eq(room + given - taken)

        valid = taken
        for stage in range(pipeline.latency):
            beside = Signal(name=f"valid_q{stage}")
            m.d.sync += beside.eq(valid)
            valid = beside
        m.d.comb += [
            queue.w_data.eq(pipeline.o),
            queue.w_en.eq(valid),
            queue.r_en.eq(self.o.ready),
            self.o.valid.eq(queue.r_rdy),
            Value.cast(self.o.payload).eq(queue.r_data),
        ]
        return m
