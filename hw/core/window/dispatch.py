"""Dispatch: renamed instructions become entries of the issue queues."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..types import Unit
from .types import Layouts

__all__ = ["Dispatch"]


class Dispatch(wiring.Component):
    """Combinational. A store goes to two queues: one for its address, one for its data.

    Members
    -------
    i : In(array of renamed)
    load_index, store_index : In(array): entries of the load-store unit
    integer : Out(array of alus * width of entry): lane by lane
    load, address, data, engine : Out(array of entry)
    """

    def __init__(self, config):
        self.config = config
        layouts = self.layouts = Layouts(config)
        width = config.width
        super().__init__({
            "i": In(layouts.renamed).array(width),
            "load_index": In(layouts.load).array(width), "store_index": In(layouts.store).array(width),
            "integer": Out(layouts.entry).array(config.alus * width),
            "load": Out(layouts.entry).array(width), "address": Out(layouts.entry).array(width),
            "data": Out(layouts.entry).array(width), "engine": Out(layouts.entry).array(width),
        })

    def elaborate(self, platform):
        m = Module()
        width, alus = self.config.width, self.config.alus
        for i, slot in enumerate(self.i):
            decoded = slot.decoded
            unit = decoded.unit
            lanes = []
            for lane in range(alus):
                here = (unit == Unit.ALU) & (slot.lane == lane)
                if lane == 0:
                    here = here | (unit == Unit.BRANCH)
                if lane == alus - 1:
                    here = here | (unit == Unit.MULTIPLY) | (unit == Unit.DIVIDE)
                lanes.append((self.integer[lane * width + i], here))
            store = unit == Unit.STORE
            lanes += [(self.load[i], unit == Unit.LOAD), (self.address[i], store), (self.data[i], store),
                      (self.engine[i], unit == Unit.ENGINE)]
            for out, here in lanes:
                operation = out.operation
                m.d.comb += [
                    out.valid.eq(slot.valid & here), out.gated.eq(unit == Unit.DIVIDE),
                    out.rs1.eq(slot.rs1), out.rs2.eq(slot.rs2),
                    operation.unit.eq(unit), operation.op.eq(decoded.op), operation.narrow.eq(decoded.narrow),
                    operation.a.eq(decoded.a), operation.b_immediate.eq(decoded.b_immediate),
                    operation.reads1.eq(decoded.reads1), operation.reads2.eq(decoded.reads2),
                    operation.immediate.eq(decoded.immediate), operation.writes.eq(decoded.writes),
                    operation.tag.eq(slot.tag), operation.age.eq(slot.age),
                    operation.checkpoint.eq(slot.checkpoint),
                ]
            # These wait for one source only.
            m.d.comb += [
                self.load[i].operation.index.eq(self.load_index[i]), self.load[i].rs2.ready.eq(1),
                self.address[i].operation.index.eq(self.store_index[i]), self.address[i].rs2.ready.eq(1),
                self.data[i].operation.index.eq(self.store_index[i]), self.data[i].rs2.ready.eq(1),
                self.data[i].rs1.eq(slot.rs2), self.data[i].operation.reads1.eq(decoded.reads2),
            ]
        return m
