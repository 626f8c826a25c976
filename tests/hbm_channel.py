"""A pseudo-channel with the device model behind it, and traffic for it."""

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.hbm.counters import Counters
from hw.hbm.port import BulkLine, ChannelData, Demand, Reply, ScrubLine
from hw.hbm.pseudo_channel import PseudoChannel
from hw.hbm.rate import SlotRate
from tb.build import Options, build
from tb.hbm.backdoor import Devices
from tb.hbm.bench import table_of
from tb.hbm.device import DeviceConfig, HbmDevice

CLOCK_GHZ = 1.6


class Probe(data.Struct):
    """A look at the counters; ``slots`` since reset."""

    counters: Counters
    slots: 32
    idle: 1


class Settings(data.Struct):
    """``wait`` tile cycles before it counts, then the inputs are as given. ``probe`` : answer."""

    wait: 32
    temperature: 2
    all_bank: 1
    until_idle: 1


class ChannelBench(wiring.Component):
    """SlotRate, PseudoChannel and device; every stream of the controller is a stream of the bench."""

    def __init__(self, config, device):
        self.config, self.device = config, device
        super().__init__({
            "demand": In(stream.Signature(Demand)), "bulk": In(stream.Signature(BulkLine)),
            "scrub": In(stream.Signature(ScrubLine)), "reply": Out(stream.Signature(Reply)),
            "data": Out(stream.Signature(ChannelData)),
            "settings": In(stream.Signature(Settings)), "probe": Out(stream.Signature(Probe)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rate = rate = SlotRate(gbit_s_pin=self.config.gbit_s_pin, clock_ghz=CLOCK_GHZ)
        channel = emit.place(m, "channel", PseudoChannel(self.config))
        device = emit.place(m, "device", HbmDevice(self.device))
        for name in ("demand", "bulk", "scrub"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(channel, name))
        for name in ("reply", "data"):
            wiring.connect(m, getattr(channel, name), wiring.flipped(getattr(self, name)))
        dfi = channel.dfi
        slots, waited = Signal(32), Signal(32)
        temperature, all_bank = Signal(2), Signal()
        m.d.comb += [
            channel.slot.eq(rate.slot), channel.temperature.eq(temperature), channel.all_bank.eq(all_bank),
            device.index.eq(0), device.slot.eq(dfi.slot), device.row.eq(dfi.row),
            device.column.eq(dfi.column), device.wdata.eq(dfi.wdata),
            device.wcheck.eq(dfi.wcheck), device.temperature.eq(temperature),
            dfi.rdata.eq(device.rdata), dfi.rcheck.eq(device.rcheck), dfi.rvalid.eq(device.rvalid),
        ]
        m.submodules.probes = probes = fifo.SyncFIFO(width=Probe.as_shape().size, depth=4)
        probe, settings = Signal(Probe), self.settings.payload
        over = (waited >= settings.wait) & (channel.idle | ~settings.until_idle)
        m.d.sync += slots.eq(slots + rate.slot)
        m.d.comb += [
            self.settings.ready.eq(over & probes.w_rdy), probes.w_en.eq(over & self.settings.valid),
            probe.counters.eq(channel.counters), probe.slots.eq(slots), probe.idle.eq(channel.idle),
            probes.w_data.eq(probe), self.probe.valid.eq(probes.r_rdy), self.probe.payload.eq(probes.r_data),
            probes.r_en.eq(self.probe.ready),
        ]
        with m.If(self.settings.valid):
            m.d.sync += waited.eq(waited + 1)
            with m.If(self.settings.ready):
                m.d.sync += [waited.eq(0), temperature.eq(settings.temperature),
                             all_bank.eq(settings.all_bank)]
        return m


def channel_bench(config, *, log=None):
    """The build of a :class:`ChannelBench`."""
    device = DeviceConfig(clock_ghz=CLOCK_GHZ, table=table_of(config))
    return build(ChannelBench(config, device), name="hbm_channel",
                 options=Options(optimise="-O1", verilator_args=("--output-split-cfuncs", "4000")),
                 log=log)


def words(shape, rows):
    """Beats for a stream of ``shape`` from dicts of fields."""
    size = -(-shape.as_shape().size // 8)
    size += -size % 4
    beats = b"".join(shape.const(row).as_bits().to_bytes(size, "little") for row in rows)
    return np.frombuffer(beats, np.uint8).reshape(-1, size)


def unpack(shape, beats):
    """Dicts of integers from beats."""
    layout = shape.as_shape() if hasattr(shape, "as_shape") else shape
    rows = []
    for beat in np.ascontiguousarray(beats).view(np.uint8):
        word = int.from_bytes(beat.tobytes(), "little")
        rows.append({name: word >> field.offset & ((1 << field.width) - 1) for name, field in layout})
    return rows


__all__ = ["Devices", "channel_bench", "unpack", "words"]
