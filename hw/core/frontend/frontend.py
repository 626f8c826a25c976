"""The front end: fetch, buffer, decoders."""

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..address import RAM
from ..types import LineRequest, LineResponse, Resolve, Restart, bundle
from .buffer import FetchBuffer
from .decode import Decoder
from .fetch import Fetch, FetchEvents

__all__ = ["FrontEnd"]


class FrontEnd(wiring.Component):
    """Instructions in the order of the predicted path, decoded, up to ``width`` at once.

    Of what it hands over only the direction of conditional branches and the targets of JALR can be wrong;
    `resolve` says so. A bundle is taken whole; its slots from ``count`` on mean nothing. What `o` offers in a
    cycle with ``restart.valid`` or ``resolve.mispredicted`` is void; ``o.valid`` is there again three cycles
    later at the earliest, with the new path only. After a FETCH_FAULT, or a JAL to an address not on 4 bytes,
    nothing comes until one of them. A restart leaves the predictor's history and the index of its return
    stack as they are.

    Parameters
    ----------
    config : CoreConfig
    reset_pc : first address
    ram_bytes : bytes of memory, from address RAM on; a fetch elsewhere is FETCH_FAULT

    Members
    -------
    o : Out(stream of bundle(width))
    resolve : In(Resolve): outcome of a conditional branch or JALR, at most one a cycle
    restart : In(Restart)
    line_request, line_response : line port to the L1; at most two requests at once
    events : Out(FetchEvents)
    """

    def __init__(self, config, *, reset_pc=RAM, ram_bytes):
        self.config = config
        self.fetch = Fetch(config.predictor, reset_pc=reset_pc, ram_bytes=ram_bytes)
        self.buffer = FetchBuffer(depth=config.predictor.buffer, words=self.fetch.words, width=config.width)
        super().__init__({
            "o": Out(stream.Signature(bundle(config.width))),
            "resolve": In(Resolve), "restart": In(Restart),
            "line_request": Out(stream.Signature(LineRequest)),
            "line_response": In(stream.Signature(LineResponse)),
            "events": Out(FetchEvents)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch, m.submodules.buffer = fetch, buffer = self.fetch, self.buffer
        wiring.connect(m, wiring.flipped(self.line_request), fetch.line_request)
        wiring.connect(m, wiring.flipped(self.line_response), fetch.line_response)
        m.d.comb += [
            fetch.resolve.eq(self.resolve), fetch.restart.eq(self.restart), self.events.eq(fetch.events),
            buffer.push.eq(fetch.push), buffer.block.eq(fetch.block), buffer.clear.eq(fetch.clear),
            fetch.room.eq(buffer.room),
            self.o.valid.eq(buffer.count != 0), self.o.payload.count.eq(buffer.count),
            buffer.take.eq(self.o.ready & self.o.valid),
        ]
        for k in range(self.config.width):
            m.submodules[f"decoder{k}"] = decoder = Decoder(engine=self.config.engine)
            fetched, slot = buffer.slots[k], self.o.payload.slots[k]
            m.d.comb += [
                decoder.word.eq(fetched.word), decoder.pc.eq(fetched.pc), decoder.fault.eq(fetched.fault),
                slot.eq(decoder.o),
                slot.target.eq(Mux(fetched.taken, fetched.target, fetched.pc + 4)),
                slot.history.eq(fetched.history), slot.returns.eq(fetched.returns),
            ]
        return m
