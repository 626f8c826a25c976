"""Demand requests: to their pseudo-channel and back, in order within a class."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import AddressMap
from .port import Demand, Reply, Request, Response, Status
from .reorder import ResponseRing

__all__ = ["DemandFrontEnd", "TwoPlaces", "rotate"]


def rotate(m, requests, last):
    """One-hot grant of the lowest set bit of ``requests`` above the one-hot ``last``, else of the lowest."""
    above, pick = Signal(len(requests)), Signal(len(requests))
    m.d.comb += above.eq(requests & ~(last | (last - 1)))
    source = Mux(above != 0, above, requests)
    m.d.comb += pick.eq(source & -source)
    return pick


class TwoPlaces(wiring.Component):
    """Two places between two streams, so that ready does not run through. A word passes in one cycle.

    Members
    -------
    i : In(stream of ``shape``)
    o : Out(stream of ``shape``)

    ``second`` is the place that is used while the first is taken (a Signal, for proofs).
    """

    def __init__(self, shape):
        self.second = Signal(shape)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        second, waiting = self.second, Signal()
        first, valid = Signal.like(second), Signal()
        m.d.comb += [self.i.ready.eq(~waiting), self.o.valid.eq(valid), self.o.payload.eq(first)]
        taken = self.i.valid & self.i.ready
        with m.If(~valid | self.o.ready):
            m.d.sync += [valid.eq(waiting | taken), waiting.eq(0)]
            with m.If(waiting):
                m.d.sync += first.eq(second)
            with m.Else():
                m.d.sync += first.eq(self.i.payload)
        with m.Elif(taken):
            m.d.sync += [second.eq(self.i.payload), waiting.eq(1)]
        return m


class DemandFrontEnd(wiring.Component):
    """Gives each request a place in the response ring, sends it to its pseudo-channel, collects answers.

    A write is answered when its pseudo-channel has taken it: from then on every read, demand or bulk, sees
    it. A line outside the slice is answered with OUT_OF_RANGE in its turn and touches nothing. Requests go
    in order: one whose pseudo-channel or class is full holds up those behind it.

    Idle, a request is offered to its pseudo-channel in the cycle after its transfer, and its answer is given
    in the cycle of the reply. One request and one response a cycle.

    Parameters
    ----------
    config : HbmConfig
    depth : int
        Requests of a class under way at most (ResponseRing).

    Members
    -------
    request : In(stream of Request)
    response : Out(stream of Response)
    demand : Out(stream of Demand), array of pseudo_channels
    reply : In(stream of Reply), array of pseudo_channels
    """

    def __init__(self, config, *, depth=64):
        self.config, self.depth = config, depth
        channels = config.pseudo_channels
        super().__init__({
            "request": In(stream.Signature(Request)), "response": Out(stream.Signature(Response)),
            "demand": Out(stream.Signature(Demand)).array(channels),
            "reply": In(stream.Signature(Reply)).array(channels),
        })

    def elaborate(self, platform):
        m = Module()
        channels = self.config.pseudo_channels
        address_map = AddressMap(self.config)
        m.submodules.ring = ring = ResponseRing(depth=self.depth)
        wiring.connect(m, wiring.flipped(self.response), ring.response)

        # A request is taken when its class and its pseudo-channel have room.
        asked = self.request.payload
        line_bits = max(3, (address_map.lines - 1).bit_length())
        local, channel = address_map.split(asked.line[:line_bits])
        is_outside, room, enters = Signal(), Signal(), Signal()
        m.d.comb += [
            is_outside.eq(asked.line >= address_map.lines),
            ring.opening.valid.eq(self.request.valid & room),
            self.request.ready.eq(ring.opening.ready & room),
            ring.opening.payload.tag.eq(asked.tag), ring.opening.payload.write.eq(asked.write),
            enters.eq(ring.opening.valid & ring.opening.ready),
        ]

        # To a pseudo-channel, or straight back.
        outside, outside_slot = Signal(), Signal(8)
        requests = Signal(2 * channels + 1)  # for the ring: replies, then writes taken, then outside
        last = Signal(2 * channels + 1, init=1)
        grant = rotate(m, requests, last)
        with m.If(requests != 0):
            m.d.sync += last.eq(grant)
        outside_free = ~outside | grant[-1]
        with m.If(outside_free):
            m.d.sync += [outside.eq(enters & is_outside), outside_slot.eq(ring.slot)]
        with m.If(is_outside):
            m.d.comb += room.eq(outside_free)
        m.d.comb += requests[-1].eq(outside)

        completion = ring.complete
        m.d.comb += ring.complete_valid.eq(requests != 0)
        for c in range(channels):
            m.submodules[f"buffer{c}"] = buffer = TwoPlaces(Demand)
            mine = ~is_outside & (channel == c)
            request = buffer.i.payload
            m.d.comb += [
                buffer.i.valid.eq(enters & mine), request.write.eq(asked.write), request.slot.eq(ring.slot),
                request.line.eq(local), request.mask.eq(asked.mask), request.data.eq(asked.data),
            ]
            with m.If(mine):
                m.d.comb += room.eq(buffer.i.ready)

            demand, reply = self.demand[c], self.reply[c]
            taken, taken_slot = Signal(name=f"taken{c}"), Signal(8, name=f"taken_slot{c}")
            taken_free = ~taken | grant[channels + c]
            allowed = ~buffer.o.payload.write | taken_free
            m.d.comb += [
                demand.payload.eq(buffer.o.payload), demand.valid.eq(buffer.o.valid & allowed),
                buffer.o.ready.eq(demand.ready & allowed),
                requests[c].eq(reply.valid), requests[channels + c].eq(taken), reply.ready.eq(grant[c]),
            ]
            with m.If(taken_free):
                m.d.sync += [taken.eq(demand.valid & demand.ready & demand.payload.write),
                             taken_slot.eq(demand.payload.slot)]
            with m.If(grant[c]):
                m.d.comb += [completion.slot.eq(reply.payload.slot), completion.data.eq(reply.payload.data),
                             completion.status.eq(reply.payload.status)]
            with m.If(grant[channels + c]):
                m.d.comb += completion.slot.eq(taken_slot)
        with m.If(grant[-1]):
            m.d.comb += [completion.slot.eq(outside_slot), completion.status.eq(Status.OUT_OF_RANGE)]
        return m
