"""Timer and software interrupt: the registers of SiFive's CLINT for one hart."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import DeviceRequest, DeviceResponse

__all__ = ["Clint", "Offset"]


class Offset(enum.Enum, shape=16):
    """Of the registers, from address.CLINT."""

    MSIP = 0x0000      # 4 bytes: bit 0 is the software interrupt
    MTIMECMP = 0x4000  # 8 bytes: the timer interrupt is pending while mtime >= mtimecmp (unsigned)
    MTIME = 0xBFF8     # 8 bytes


class Clint(wiring.Component):
    """One access at a time, of any size; bytes outside the registers read 0 and take no notice of writes.

    An access takes three cycles: when it is answered, the lines follow the registers already, so that an
    interrupt which a store has withdrawn is not seen after it. After reset msip and mtime are 0 and mtimecmp
    is all ones: no interrupt is pending.

    Parameters
    ----------
    divider : cycles from one mtime to the next.

    Members
    -------
    request : In(stream of DeviceRequest), of whose address the lower 16 bits count
    response : Out(stream of DeviceResponse); never a fault
    software, timer : Out(1): lines
    time : Out(64): mtime
    """

    def __init__(self, *, divider=1):
        if not isinstance(divider, int) or isinstance(divider, bool) or divider < 1:
            raise ValueError(f"clint.divider = {divider!r}: must be a whole number of at least 1")
        self.divider = divider
        super().__init__({
            "request": In(stream.Signature(DeviceRequest)), "response": Out(stream.Signature(DeviceResponse)),
            "software": Out(1), "timer": Out(1), "time": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        compare = Signal(64, init=(1 << 64) - 1)
        m.d.sync += self.timer.eq(self.time >= compare)

        if self.divider == 1:
            m.d.sync += self.time.eq(self.time + 1)
        else:
            left = Signal(range(self.divider))
            m.d.sync += left.eq(left + 1)
            with m.If(left == self.divider - 1):
                m.d.sync += [left.eq(0), self.time.eq(self.time + 1)]

        access, value = self.request.payload, Signal(64)
        bits = Cat(bit.replicate(8) for bit in access.mask)
        settling = Signal()
        m.d.comb += self.request.ready.eq(~settling & ~self.response.valid)
        write = Signal()
        m.d.comb += write.eq(self.request.valid & self.request.ready & access.write)

        with m.Switch(access.address[3:16]):
            with m.Case(Offset.MSIP.value >> 3):
                m.d.comb += value.eq(self.software)
                with m.If(write & access.mask[0]):
                    m.d.sync += self.software.eq(access.data[0])
            for offset, register in ((Offset.MTIMECMP, compare), (Offset.MTIME, self.time)):
                with m.Case(offset.value >> 3):
                    m.d.comb += value.eq(register)
                    with m.If(write):
                        m.d.sync += register.eq((access.data & bits) | (register & ~bits))

        m.d.sync += settling.eq(self.request.valid & self.request.ready)
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += self.response.payload.data.eq(value)
        with m.If(self.response.ready):
            m.d.sync += self.response.valid.eq(0)
        with m.If(settling):
            m.d.sync += self.response.valid.eq(1)
        return m
