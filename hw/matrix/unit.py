"""One unit of the matrix engine: arrays, feet, edges and control, wired."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from ..numbers.formats import Mode
from .array import QuadArray
from .column import BLOCK_ROWS
from .edge import CODE_BITS, WestEdge
from .foot import Foot, foot_latency, row_wave, scale_wave
from .job import UnitCommand
from .output import OutputRows, output_row
from .sequencer import Sequencer, edge_to_foot

__all__ = ["Unit", "weight_beat", "activation_row", "delayed"]


def weight_beat(config):
    """Payload of a weight beat (a layout): per row group 32 code bytes, then per row group 2 scale bytes.

    MXFP8 weights: one block (column) a group, the second scale byte is not used. MXFP4: blocks of two
    neighbouring columns, 16 bytes each.
    """
    return data.StructLayout({"codes": data.ArrayLayout(CODE_BITS, config.row_groups),
                              "scales": data.ArrayLayout(16, config.row_groups)})


def activation_row(config):
    """Payload of a row of activations (a layout): 32 code bytes a row group (MXFP4: the low 16), scales."""
    return data.StructLayout({"codes": data.ArrayLayout(CODE_BITS, config.row_groups),
                              "scales": data.ArrayLayout(8, config.row_groups)})


def delayed(m, name, value, cycles, *, reset_less=True):
    """``value`` ``cycles`` cycles later."""
    for cycle in range(cycles):
        register = Signal(len(value), name=f"{name}_late{cycle + 1}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value


class Unit(wiring.Component):
    """``rows`` x ``cols`` of weight-stationary array with everything it needs to do jobs of its own.

    Members
    -------
    command : In(stream of UnitCommand)
    weights : In(stream of weight_beat); activations : In(stream of activation_row)
    c : In(stream of 32 * cols bits): rows of binary32, for jobs with has_c
    o : Out(stream of output_row)
    done : Out(1): the last row of a job has left

    Latency from the acceptance of the last row of activations to the result row at ``o``: 37 +
    product_latency + cols / 4 + sum_latency + row_groups * add_latency cycles.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "command": In(stream.Signature(UnitCommand)),
            "weights": In(stream.Signature(weight_beat(config))),
            "activations": In(stream.Signature(activation_row(config))),
            "c": In(stream.Signature(32 * config.cols)),
            "o": Out(stream.Signature(output_row(config))),
            "done": Out(1),
        })

    @property
    def module_name(self):
        c = self.config
        return (f"unit_{c.rows}x{c.cols}_a{c.accumulator_rows}_o{c.output_rows}_p{c.product_latency}"
                f"_s{c.sum_latency}_f{c.add_latency}_q{c.quantise_latency}")

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.output = output = OutputRows(config)
        wiring.connect(m, wiring.flipped(self.command), sequencer.command)
        wiring.connect(m, output.o, wiring.flipped(self.o))
        wide_activations, wide_weights = Signal(), Signal()
        m.d.comb += [
            wide_activations.eq(sequencer.mode != Mode.MXFP4_MXFP4),
            wide_weights.eq(sequencer.mode == Mode.MXFP8_MXFP8),
            sequencer.weights_valid.eq(self.weights.valid), self.weights.ready.eq(sequencer.weights_ready),
            sequencer.activations_valid.eq(self.activations.valid),
            self.activations.ready.eq(sequencer.activations_ready),
            sequencer.c_valid.eq(self.c.valid), self.c.ready.eq(sequencer.c_ready),
            sequencer.freed.eq(output.freed), self.done.eq(output.done),
            output.info_valid.eq(sequencer.info_valid), output.info_row.eq(sequencer.output_row),
            output.info.eq(sequencer.info),
        ]
        to_foot = edge_to_foot(config)
        load = delayed(m, "load", Cat(sequencer.low, sequencer.high, sequencer.quad), 1, reset_less=False)
        swap = delayed(m, "swap", sequencer.swap, to_foot - 2, reset_less=False)
        early_swap = delayed(m, "array_swap", sequencer.swap, 1, reset_less=False)

        row = Signal(row_wave(config))
        scale = Signal(scale_wave(config))
        m.d.comb += [
            row.valid.eq(sequencer.issue & ~sequencer.listening), row.fresh.eq(sequencer.fresh),
            row.emit.eq(sequencer.emit), row.subtile.eq(sequencer.subtile), row.row.eq(sequencer.row),
            row.output_row.eq(sequencer.output_row),
            scale.low.eq(sequencer.low), scale.high.eq(sequencer.high), scale.quad.eq(sequencer.quad),
        ]
        psums = []
        for g in range(config.row_groups):
            edge = emit.place(m, f"edge{g}", WestEdge())
            array = emit.place(m, f"array{g}", QuadArray(quads=config.cols // 4,
                                                         product_latency=config.product_latency))
            m.d.comb += [
                edge.wide_activations.eq(wide_activations), edge.wide_weights.eq(wide_weights),
                edge.activation_codes.eq(self.activations.payload.codes[g]),
                edge.activation_scale.eq(self.activations.payload.scales[g]),
                edge.activation_lanes.eq(self._lanes(sequencer.lanes, g)),
                edge.activation_valid.eq(sequencer.issue),
                edge.weight_codes.eq(self.weights.payload.codes[g]),
                edge.weight_scales.eq(self.weights.payload.scales[g]),
                edge.weight_lanes.eq(self._lanes(sequencer.weight_lanes, g)),
                edge.weight_valid.eq(sequencer.low | sequencer.high),
                row.present[g].eq(sequencer.lanes > BLOCK_ROWS * g),
                row.nan[g].eq(edge.activation_nan), row.scale[g].eq(self.activations.payload.scales[g]),
                scale.nan[g].eq(edge.weight_nan), scale.scale[g].eq(self.weights.payload.scales[g]),
                array.wide_activations.eq(wide_activations), array.wide_weights.eq(wide_weights),
                array.activations.eq(edge.activations), array.weights.eq(edge.weights),
                array.load.eq(load), array.swap.eq(early_swap),
            ]
            psums.append(array.psum)

        row_west = delayed(m, "row", row.as_value(), to_foot - 1)
        scale_west = delayed(m, "scale", scale.as_value(), to_foot - 2)
        completed = delayed(m, "completed", sequencer.completed,
                            to_foot + config.cols // 4 - 1 + foot_latency(config) + 1, reset_less=False)
        m.d.comb += output.completed.eq(completed)
        quads = config.cols // 4
        columns = []
        for q in range(quads):
            foot = emit.place(m, f"foot{q}", Foot(config))
            width = len(psums[0]) // quads
            m.d.comb += [
                foot.mode.eq(sequencer.mode),
                foot.psum.eq(Cat(psum[width * q:width * (q + 1)] for psum in psums)),
                foot.row_i.eq(row_west), foot.scale_i.eq(scale_west), foot.swap_i.eq(swap),
                foot.preset_valid.eq(self.c.valid & self.c.ready), foot.preset_row.eq(sequencer.preset_row),
                foot.preset_data.eq(self.c.payload[128 * q:128 * (q + 1)]),
                foot.read_enable.eq(output.read_enable), foot.read_row.eq(output.read_row),
            ]
            row_west, scale_west, swap = foot.row_o, foot.scale_o, foot.swap_o
            columns.append(foot.read_data)
        m.d.comb += output.read_data.eq(Cat(*columns))
        return m

    @staticmethod
    def _lanes(lanes, group):
        """Rows in use of a row group, 0 to 32, of ``lanes`` in the whole unit."""
        above = lanes - BLOCK_ROWS * group
        return Mux(lanes <= BLOCK_ROWS * group, 0, Mux(above > BLOCK_ROWS, BLOCK_ROWS, above))[:6]
