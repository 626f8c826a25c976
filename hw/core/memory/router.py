"""Device bus: one master, several devices by address."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..address import DEVICE_BYTES
from .port import MmioRequest, MmioResponse

__all__ = ["MmioRouter"]


class MmioRouter(wiring.Component):
    """Hands each access to the device whose window holds it, one at a time; elsewhere it is refused.

    Parameters
    ----------
    bases : list of int or None
        First addresses of the windows, DEVICE_BYTES each; None, as the last, is everything else.

    Members
    -------
    request : In(stream of MmioRequest), response : Out(stream of MmioResponse)
    devices : Out(Signature{request: Out(stream), response: In(stream)}), an array, in the order of bases
    """

    def __init__(self, bases):
        self.bases = list(bases)
        bus = wiring.Signature({"request": Out(stream.Signature(MmioRequest)),
                                "response": In(stream.Signature(MmioResponse))})
        super().__init__({
            "request": In(stream.Signature(MmioRequest)), "response": Out(stream.Signature(MmioResponse)),
            "devices": Out(bus).array(len(self.bases))})

    def elaborate(self, platform):
        m = Module()
        busy = Signal()
        chosen = Signal(len(self.bases))
        nobody = Signal()
        here = Signal(len(self.bases))
        shift = DEVICE_BYTES.bit_length() - 1
        for i, (base, device) in enumerate(zip(self.bases, self.devices)):
            inside = ~here[:i].any() if base is None else \
                self.request.payload.address[shift:] == base >> shift
            m.d.comb += [
                here[i].eq(inside),
                device.request.payload.eq(self.request.payload),
                device.request.valid.eq(self.request.valid & ~busy & here[i]),
                device.response.ready.eq(busy & chosen[i] & self.response.ready),
            ]
            with m.If(here[i]):
                m.d.comb += self.request.ready.eq(~busy & device.request.ready)
            with m.If(chosen[i]):
                m.d.comb += [self.response.valid.eq(busy & device.response.valid),
                             self.response.payload.eq(device.response.payload)]
        with m.If(~here.any()):
            m.d.comb += self.request.ready.eq(~busy)
        with m.If(nobody):
            m.d.comb += [self.response.valid.eq(busy), self.response.payload.fault.eq(1)]
        with m.If(self.response.valid & self.response.ready):
            m.d.sync += busy.eq(0)
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += [busy.eq(1), chosen.eq(here), nobody.eq(~here.any())]
        return m
