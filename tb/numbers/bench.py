"""All pipelines of hw.numbers side by side, each between two streams, to run in one Verilator build."""

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.numbers.float_add import Float32Adder
from hw.numbers.quantise import Quantiser
from hw.numbers.streamed import Streamed
from hw.numbers.sum_to_float import SumToFloat32

__all__ = ["SUM_WIDTHS", "NumbersBench"]

#: Widths of the exact block sums of the three modes (docs/numbers.md section 2).
SUM_WIDTHS = (14, 28, 42)


class NumbersBench(wiring.Component):
    """Streams ``<operation>_i`` and ``<operation>_o`` for add, sum14, sum28, sum42 and quantise.

    Parameters: ``latency``, of every pipeline.
    """

    def __init__(self, *, latency):
        self._latency = latency
        self._operations = {
            "add": Streamed(Float32Adder(latency=latency)),
            **{f"sum{width}": Streamed(SumToFloat32(width=width, latency=latency)) for width in SUM_WIDTHS},
            "quantise": Streamed(Quantiser(latency=latency)),
        }
        super().__init__({f"{name}_{side}": operation.signature.members[side]
                          for name, operation in self._operations.items() for side in "io"})

    @property
    def module_name(self):
        """Name of the module that hw.emit makes of this component."""
        return f"numbers_bench_l{self._latency}"

    def elaborate(self, platform):
        m = Module()
        for name, operation in self._operations.items():
            m.submodules[name] = operation
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_i")), operation.i)
            wiring.connect(m, operation.o, wiring.flipped(getattr(self, f"{name}_o")))
        return m
