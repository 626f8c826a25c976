"""Output rows of one unit: read from the feet, re-quantised on request, sent on as a stream."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from ..numbers.formats import BLOCK_SIZE, MxFormat
from ..numbers.quantise import Quantiser
from .job import Output
from .sequencer import row_info

__all__ = ["OutputRows", "output_row"]


def output_row(config):
    """Payload of a result row (a layout).

    ``data``: binary32 values of the unit's columns, or MX blocks of 256 bits (element codes packed from bit
    0) in order; ``columns``: how many columns are valid (whole bytes for the reader's ease, as ``output``
    and ``last``: last row of the job on this unit); ``scales``: one byte an MX block, 0 in binary32 rows.
    """
    return data.StructLayout({
        "data": unsigned(32 * config.cols), "columns": 16, "output": 8, "last": 8,
        "scales": data.ArrayLayout(8, max(1, config.cols // BLOCK_SIZE)),
    })


class OutputRows(wiring.Component):
    """Reads completed output rows in order. One row a cycle; MX rows take ``quantise_latency`` + 1 cycles.

    Members
    -------
    completed : In(1): one more output row is complete
    info_valid, info_row, info : In: description of an output row, written before the row is complete
    read_enable, read_row : Out; read_data : In(32 * cols): output rows at the feet
    o : Out(stream of output_row(config))
    freed, done : Out(1): a row was accepted; it was the last of a job
    """

    def __init__(self, config):
        self.config = config
        address = unsigned(max(1, (config.output_rows - 1).bit_length()))
        super().__init__({
            "completed": In(1), "info_valid": In(1), "info_row": In(address), "info": In(row_info(config)),
            "read_enable": Out(1), "read_row": Out(address), "read_data": In(32 * config.cols),
            "o": Out(stream.Signature(output_row(config))), "freed": Out(1), "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.info = store = memory.Memory(shape=row_info(config), depth=config.output_rows, init=[])
        write, read = store.write_port(), store.read_port()
        info = read.data
        available = Signal(range(config.output_rows + 1))
        holding = Signal()
        age = Signal(range(config.quantise_latency + 1))
        accepted = self.o.valid & self.o.ready
        ready = (info.output == Output.BINARY32) | (age == config.quantise_latency)
        m.d.comb += [
            write.en.eq(self.info_valid), write.addr.eq(self.info_row), write.data.eq(self.info),
            self.read_enable.eq((available != 0) & (~holding | accepted)),
            read.en.eq(self.read_enable), read.addr.eq(self.read_row),
            self.o.valid.eq(holding & ready), self.freed.eq(accepted), self.done.eq(accepted & info.last),
        ]
        m.d.sync += available.eq(available + self.completed - self.read_enable)
        with m.If(self.read_enable):
            m.d.sync += [self.read_row.eq(self.read_row + 1), holding.eq(1), age.eq(0)]
        with m.Else():
            with m.If(accepted):
                m.d.sync += holding.eq(0)
            with m.If(age != config.quantise_latency):
                m.d.sync += age.eq(age + 1)

        row = self.o.payload
        m.d.comb += [row.columns.eq(info.columns), row.output.eq(info.output), row.last.eq(info.last),
                     row.data.eq(self.read_data)]
        quantisers = []
        for b in range(config.cols // BLOCK_SIZE):
            quantiser = emit.place(m, f"quantiser{b}", Quantiser(latency=config.quantise_latency))
            for lane in range(BLOCK_SIZE):
                column = BLOCK_SIZE * b + lane
                m.d.comb += quantiser.i.values[lane].eq(
                    Mux(column < info.columns, self.read_data[32 * column:32 * column + 32], 0))
            m.d.comb += quantiser.i.mx_format.eq(Mux(info.output == Output.MXFP8, MxFormat.MXFP8,
                                                     MxFormat.MXFP4))
            quantisers.append(quantiser)
        if quantisers:
            # A binary32 row is valid before the quantisers have settled on it: their scales must not show.
            with m.If(info.output != Output.BINARY32):
                m.d.comb += row.data.eq(Cat(quantiser.o.codes for quantiser in quantisers))
                m.d.comb += [row.scales[b].eq(quantiser.o.scale) for b, quantiser in enumerate(quantisers)]
        return m
