"""Registers of the L1 for software: maintenance by range, and bulk prefetch."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..types import DeviceRequest, DeviceResponse
from .types import Bulk, Maintain, Maintenance

__all__ = ["L1Control", "Offset"]


class Offset(enum.Enum, shape=16):
    """Of the registers, from address.CONTROL; 8 bytes each."""

    ADDRESS = 0x00   # first byte of the range
    BYTES = 0x08     # of the range; of a row of a prefetch (20 bits)
    OPERATION = 0x10  # a write begins one: 0 clean, 1 or 3 flush, 2 invalidate; read: 1 while it goes on
    ROWS = 0x18      # of a prefetch (16 bits)
    STRIDE = 0x20    # bytes from a row to the next
    PREFETCH = 0x28  # a write begins one, its data being the semaphore; read: 1 while one is waiting to begin
    DONE = 0x30      # prefetches that have ended, by semaphore, 4 bits each, modulo 16; read only


class L1Control(wiring.Component):
    """One access at a time, answered two cycles later. Registers are read and written by doublewords, stores
    of fewer bytes change only those. Others read as 0 and take no notice of writes.

    A write of OPERATION while one is under way, or of PREFETCH while one waits, waits until it can begin.
    Operations see stores that are in the L1: FENCE comes first. No access is a fault.

    Members
    -------
    request : In(stream of DeviceRequest), of whose address the lower 16 bits count
    response : Out(stream of DeviceResponse)
    prefetch : Out(stream of Bulk), prefetched : In(stream of 4), maintain : Out(stream of Maintain),
    maintained : In(stream of 1): to the ports of the L1 of these names
    """

    def __init__(self):
        super().__init__({
            "request": In(stream.Signature(DeviceRequest)), "response": Out(stream.Signature(DeviceResponse)),
            "prefetch": Out(stream.Signature(Bulk)), "prefetched": In(stream.Signature(4)),
            "maintain": Out(stream.Signature(Maintain)), "maintained": In(stream.Signature(1)),
        })

    def elaborate(self, platform):
        m = Module()
        access, value = self.request.payload, Signal(64)
        address, size, rows, stride = Signal(40), Signal(40), Signal(16), Signal(40)
        done, under_way = Signal(64), Signal()
        bits = Cat(bit.replicate(8) for bit in access.mask)
        begins = {Offset.OPERATION: self.maintain, Offset.PREFETCH: self.prefetch}
        # Of the two operations, the one that was written waits here until the L1 has taken it.
        blocked, taken = Signal(), Signal()
        m.d.comb += [
            taken.eq(self.request.valid & self.request.ready),
            self.request.ready.eq(~self.response.valid & ~blocked),
            self.prefetched.ready.eq(1), self.maintained.ready.eq(1),
        ]
        register = access.address[3:16]
        for offset, begun in begins.items():
            with m.If(begun.valid & begun.ready):
                m.d.sync += begun.valid.eq(0)
            busy = begun.valid | (under_way if offset is Offset.OPERATION else 0)
            with m.If(register == offset.value >> 3):
                m.d.comb += [value.eq(busy), blocked.eq(busy & access.write)]
                with m.If(taken & access.write):
                    m.d.sync += begun.valid.eq(1)
                    if offset is Offset.OPERATION:
                        # 3 flushes, which loses nothing.
                        chosen = Mux(access.data[:2] == 3, Maintenance.FLUSH, access.data[:2])
                        m.d.sync += [Value.cast(begun.payload.operation).eq(chosen), under_way.eq(1),
                                     begun.payload.address.eq(address), begun.payload.bytes.eq(size)]
                    else:
                        m.d.sync += [begun.payload.address.eq(address), begun.payload.bytes.eq(size),
                                     begun.payload.rows.eq(rows), begun.payload.stride.eq(stride),
                                     begun.payload.semaphore.eq(access.data)]
        for offset, held in ((Offset.ADDRESS, address), (Offset.BYTES, size), (Offset.ROWS, rows),
                             (Offset.STRIDE, stride)):
            with m.If(register == offset.value >> 3):
                m.d.comb += value.eq(held)
                with m.If(taken & access.write):
                    m.d.sync += held.eq((access.data & bits) | (held & ~bits))
        with m.If(register == Offset.DONE.value >> 3):
            m.d.comb += value.eq(done)
        with m.If(self.maintained.valid):
            m.d.sync += under_way.eq(0)
        with m.If(self.prefetched.valid):
            field = done.word_select(self.prefetched.payload, 4)
            m.d.sync += field.eq(field + 1)

        with m.If(taken):
            m.d.sync += [self.response.valid.eq(1), self.response.payload.data.eq(value),
                         self.response.payload.fault.eq(0)]
        with m.Elif(self.response.ready):
            m.d.sync += self.response.valid.eq(0)
        return m
