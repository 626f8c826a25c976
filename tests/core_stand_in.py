"""A machine with the core's ports that follows commands in memory, to test the bench without a core.

Each doubleword from RAM on is a command, read line by line, and gives one trace record.
Its kind is the highest byte, its value the lower 32 bits. CONSOLE: a character. WRITE: the command itself, to
bytes 8 to 15 of line 100. EXIT: with the value. STAND_STILL. INTERRUPT: wait for one, withdraw all. DEVICE:
load from the device at that address. Others do nothing.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.core.address import HOST, RAM
from hw.core.memory.port import MmioRequest, MmioResponse
from hw.core.trace import Pipe, TraceRecord
from hw.hbm.port import Request, Response, Status

__all__ = ["CONSOLE", "DEVICE", "EXIT", "INTERRUPT", "STAND_STILL", "StandIn", "WRITE", "command"]

CONSOLE, WRITE, EXIT, STAND_STILL, INTERRUPT, DEVICE = range(1, 7)
WRITTEN_LINE = 100


class Waits(enum.Enum, shape=4):
    NOTHING = 0
    LOST_RESPONSE = 5


def command(kind, value=0):
    """A command's doubleword."""
    return kind << 56 | value


class StandIn(wiring.Component):
    """Members as of hw.core.core.Core with trace."""

    def __init__(self, config):
        self.config = config
        super().__init__({
            "request": Out(stream.Signature(Request)), "response": In(stream.Signature(Response)),
            "mmio_request": Out(stream.Signature(MmioRequest)),
            "mmio_response": In(stream.Signature(MmioResponse)),
            "external": In(1), "software": In(1), "timer": In(1), "time": In(64),
            "head": Out(data.StructLayout({"valid": 1, "pc": 64, "age": 7, "waits": Waits})),
            "trace": Out(TraceRecord).array(config.width), "pipe": Out(Pipe(config)),
        })

    def elaborate(self, platform):
        m = Module()
        line, word = Signal(32), Signal(3)
        commands = Signal(data.ArrayLayout(64, 8))
        now = Signal(64)
        order = Signal(64)
        kind, value = now[56:64], now[:32]
        request, mmio, record = self.request.payload, self.mmio_request.payload, self.trace[0]
        poisoned = Signal()
        m.d.comb += [
            now.eq(commands[word]), request.tag.eq(line), mmio.size.eq(3), mmio.mask.eq(0xFF),
            mmio.data.eq(Mux(kind == INTERRUPT, ~0, value)), mmio.write.eq(kind != DEVICE),
            record.order.eq(order), record.insn.eq(value), record.pc_rdata.eq(RAM + Cat(0, 0, order)),
            record.pc_wdata.eq(RAM + 4 + Cat(0, 0, order)), record.trap.eq(poisoned),
            self.head.pc.eq(record.pc_rdata), self.head.age.eq(order), self.head.valid.eq(1),
            self.head.waits.eq(Waits.LOST_RESPONSE),
        ]
        with m.If(kind == DEVICE):
            m.d.comb += mmio.address.eq(value)
        with m.Else():
            m.d.comb += mmio.address.eq(Mux(kind == EXIT, HOST + 8, Mux(kind == CONSOLE, HOST, HOST + 24)))
        lines = Cat(self.external, self.software, self.timer)
        done = Signal()

        def finish():
            m.d.comb += done.eq(1)
            with m.If(word == 7):
                m.next = "fetch"
            with m.Else():
                m.next = "execute"

        with m.FSM():
            with m.State("fetch"):
                m.d.comb += [self.request.valid.eq(1), request.line.eq(line)]
                with m.If(self.request.ready):
                    m.next = "fetched"
            with m.State("fetched"):
                m.d.comb += self.response.ready.eq(1)
                with m.If(self.response.valid):
                    m.d.sync += [commands.eq(self.response.payload.data), word.eq(0), line.eq(line + 1),
                                 poisoned.eq(self.response.payload.status != Status.OK)]
                    m.next = "execute"
            with m.State("execute"):
                with m.Switch(kind):
                    with m.Case(CONSOLE, EXIT, DEVICE):
                        m.d.comb += self.mmio_request.valid.eq(1)
                        with m.If(self.mmio_request.ready):
                            m.next = "answer"
                    with m.Case(WRITE):
                        m.d.comb += [self.request.valid.eq(1), request.write.eq(1),
                                     request.line.eq(WRITTEN_LINE), request.mask.eq(0xFF00),
                                     request.data.eq(now << 64)]
                        with m.If(self.request.ready):
                            m.next = "written"
                    with m.Case(STAND_STILL):
                        pass
                    with m.Case(INTERRUPT):
                        with m.If(lines.any()):
                            m.d.comb += [self.mmio_request.valid.eq(1), record.intr.eq(1)]
                            with m.If(self.mmio_request.ready):
                                m.next = "answer"
                    with m.Default():
                        finish()
            with m.State("answer"):
                m.d.comb += [self.mmio_response.ready.eq(1), record.rd_wdata.eq(
                    self.mmio_response.payload.data), record.trap.eq(self.mmio_response.payload.fault)]
                with m.If(self.mmio_response.valid):
                    finish()
            with m.State("written"):
                m.d.comb += self.response.ready.eq(1)
                with m.If(self.response.valid):
                    finish()
        with m.If(done):
            m.d.comb += record.valid.eq(1)
            m.d.sync += [order.eq(order + 1), word.eq(word + 1)]
        return m
