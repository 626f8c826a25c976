"""The matrix engine: units side by side, one command queue, one bus of activations."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from .dispatch import Dispatcher
from .edge import CODE_BITS
from .job import Command, Response
from .output import output_row
from .unit import Unit, activation_row, weight_beat

__all__ = ["Engine", "engine_activation_row"]


def engine_activation_row(config):
    """Payload of the activation bus (a layout): ``row`` for every unit whose bit in ``units`` is set.

    ``codes``: per row group 32 code bytes (MXFP4: the low 16); then ``scales``, one byte a row group.
    """
    return data.StructLayout({"codes": data.ArrayLayout(CODE_BITS, config.row_groups),
                              "scales": data.ArrayLayout(8, config.row_groups),
                              "units": unsigned(config.units)})


class Engine(wiring.Component):
    """All units of a tile.

    Jobs go to runs of units and run at the same time where the units differ. Each unit has its own weight
    edge, C and output; rows of activations are sent once to all units that share them.

    Members
    -------
    command : In(stream of Command); response : Out(stream of Response), in the order of the commands
    activations : In(stream of engine_activation_row)
        For each job in the order of its passes, m rows a pass. A row that no unit wants is dropped.
    weights, c, o : arrays of streams, one a unit; see :class:`Unit`
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "command": In(stream.Signature(Command)),
            "response": Out(stream.Signature(Response)),
            "activations": In(stream.Signature(engine_activation_row(config))),
            "weights": In(stream.Signature(weight_beat(config))).array(config.units),
            "c": In(stream.Signature(32 * config.cols)).array(config.units),
            "o": Out(stream.Signature(output_row(config))).array(config.units),
        })

    @property
    def module_name(self):
        c = self.config
        return f"engine_{c.units}x{c.rows}x{c.cols}"

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.dispatcher = dispatcher = Dispatcher(config)
        wiring.connect(m, wiring.flipped(self.command), dispatcher.i)
        wiring.connect(m, dispatcher.response, wiring.flipped(self.response))
        bus = self.activations
        room = Signal(config.units)
        m.d.comb += bus.ready.eq((bus.payload.units & ~room) == 0)
        row = Cat(bus.payload.codes.as_value(), bus.payload.scales.as_value())
        for u in range(config.units):
            unit = emit.place(m, f"unit{u}", Unit(config))
            queue = fifo.SyncFIFOBuffered(width=activation_row(config).size, depth=4)
            m.submodules[f"activations{u}"] = queue
            m.d.comb += [
                queue.w_data.eq(row), queue.w_en.eq(bus.valid & bus.ready & bus.payload.units[u]),
                room[u].eq(queue.w_rdy),
                unit.activations.payload.eq(queue.r_data), unit.activations.valid.eq(queue.r_rdy),
                queue.r_en.eq(unit.activations.ready),
                unit.command.payload.eq(dispatcher.o.payload), unit.command.valid.eq(dispatcher.o_valid[u]),
                dispatcher.o_ready[u].eq(unit.command.ready), dispatcher.done[u].eq(unit.done),
                unit.weights.payload.eq(self.weights[u].payload),
                unit.weights.valid.eq(self.weights[u].valid),
                self.weights[u].ready.eq(unit.weights.ready),
                unit.c.payload.eq(self.c[u].payload), unit.c.valid.eq(self.c[u].valid),
                self.c[u].ready.eq(unit.c.ready),
                self.o[u].payload.eq(unit.o.payload), self.o[u].valid.eq(unit.o.valid),
                unit.o.ready.eq(self.o[u].ready),
            ]
        return m
