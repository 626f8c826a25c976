"""Accesses to devices, one at a time."""

from amaranth.hdl import Module, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .port import MmioRequest, MmioResponse

__all__ = ["DeviceAccess", "DeviceState"]


class DeviceState(enum.Enum, shape=2):
    IDLE = 0
    REQUEST = 1
    WAIT = 2
    ANSWERED = 3  # the value of a load is kept until the load is committed


class DeviceAccess(wiring.Component):
    """Carries the committed store or the oldest load that is offered to the devices.

    A store's error response is ignored: the store is already committed.

    Members
    -------
    store_valid, load_valid : In(1): an access is offered; not both. A load is never offered in the cycle of a
        flush.
    access : In(MmioRequest); ``write`` is set here
    store_done : Out(1): pulse
    answered : Out(1): pulse; then value : Out(64), fault : Out(1), until forget : In(1)
    holds : Out(1): value and fault are there
    abandon : In(1): the load is no longer wanted; its answer, if it has begun, is dropped
    loading : Out(1): a load has begun and is not committed: an interrupt would do it twice
    request, response : the devices' bus
    """

    def __init__(self):
        super().__init__({
            "store_valid": In(1), "load_valid": In(1), "access": In(MmioRequest), "store_done": Out(1),
            "answered": Out(1), "value": Out(64), "fault": Out(1), "forget": In(1), "holds": Out(1),
            "abandon": In(1), "loading": Out(1),
            "request": Out(stream.Signature(MmioRequest)), "response": In(stream.Signature(MmioResponse)),
        })

    def elaborate(self, platform):
        m = Module()
        state, abandoned = Signal(DeviceState), Signal()
        access = Signal(MmioRequest)
        dropped = abandoned | self.abandon
        m.d.comb += [
            self.request.payload.eq(access),
            # An interrupt that was taken in the cycle in which a load began comes just in time to stop it.
            self.request.valid.eq((state == DeviceState.REQUEST) & ~(self.abandon & ~access.write)),
            self.response.ready.eq(1),
            self.holds.eq(state == DeviceState.ANSWERED),
            self.loading.eq((state != DeviceState.IDLE) & ~access.write & ~abandoned),
        ]
        with m.If(self.abandon):
            m.d.sync += abandoned.eq(1)
        with m.Switch(state):
            with m.Case(DeviceState.IDLE):
                with m.If(self.store_valid | self.load_valid):
                    m.d.sync += [access.eq(self.access), access.write.eq(self.store_valid), abandoned.eq(0),
                                 state.eq(DeviceState.REQUEST)]
            with m.Case(DeviceState.REQUEST):
                with m.If(~self.request.valid):
                    m.d.sync += state.eq(DeviceState.IDLE)
                with m.Elif(self.request.ready):
                    m.d.sync += state.eq(DeviceState.WAIT)
            with m.Case(DeviceState.WAIT):
                with m.If(self.response.valid):
                    m.d.sync += [self.value.eq(self.response.payload.data),
                                 self.fault.eq(self.response.payload.fault), state.eq(DeviceState.IDLE)]
                    with m.If(access.write):
                        m.d.comb += self.store_done.eq(1)
                    with m.Elif(~dropped):
                        m.d.comb += self.answered.eq(1)
                        m.d.sync += state.eq(DeviceState.ANSWERED)
            with m.Case(DeviceState.ANSWERED):
                with m.If(self.forget | self.abandon):
                    m.d.sync += state.eq(DeviceState.IDLE)
        return m
