"""Registers of the slice: controls, and the counters of a selected pseudo-channel."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import LOCAL_BITS
from .port import Register, RegisterAnswer
from .pseudo_channel import Counters
from .scrub import DAILY

__all__ = ["Index", "Registers", "VERSION"]

#: Layout of the registers, in ID[0:8].
VERSION = 1


class Index(enum.Enum, shape=8):
    """Numbers of the registers. From READS on: counters of the pseudo-channel in CHANNEL, read only."""

    ID = 0              # VERSION, and the pseudo-channels in bits 8..15; read only
    CHANNEL = 1         # pseudo-channel whose counters are read
    SCRUB_INTERVAL = 2  # tile cycles from a scrubbed line to the next; 0: off
    ALL_BANK = 3        # 1: refresh all banks at once
    TEMPERATURE = 4     # bit 2: bits 0 and 1 stand for the temperature input
    READS = 16
    WRITES = 17
    ACTIVATES = 18
    ROW_HITS = 19
    REFRESHES_DUE = 20
    REFRESHES_SERVED = 21
    CORRECTED = 22
    UNCORRECTED = 23
    FIRST_VALID = 24
    FIRST_LOCATION = 25
    SCRUBBED = 26
    SCRUB_LINE = 27     # the line whose turn it is


class Registers(wiring.Component):
    """One access a cycle; each is answered, in order, with the value before it.

    A register that does not exist, or a CHANNEL beyond the last, reads as 0 and takes no notice of writes.

    Parameters
    ----------
    config : HbmConfig

    Members
    -------
    csr : In(stream of Register)
    answer : Out(stream of RegisterAnswer)
    counters : In(Counters), array of pseudo_channels
    scrub_line : In(LOCAL_BITS), array of pseudo_channels
    temperature_in : In(2): from the sensor
    temperature : Out(2), all_bank : Out(1), scrub_interval : Out(32): controls
    """

    def __init__(self, config):
        self.config = config
        channels = config.pseudo_channels
        super().__init__({
            "csr": In(stream.Signature(Register)), "answer": Out(stream.Signature(RegisterAnswer)),
            "counters": In(Counters).array(channels), "scrub_line": In(LOCAL_BITS).array(channels),
            "temperature_in": In(2), "temperature": Out(2), "all_bank": Out(1),
            "scrub_interval": Out(32, init=DAILY),
        })

    def elaborate(self, platform):
        m = Module()
        channels = self.config.pseudo_channels
        channel, override = Signal(8), Signal(3)
        counters, line = Signal(Counters), Signal(LOCAL_BITS)
        with m.Switch(channel):
            for c in range(channels):
                with m.Case(c):
                    m.d.comb += [counters.eq(self.counters[c]), line.eq(self.scrub_line[c])]

        access, value = self.csr.payload, Signal(32)
        controls = {Index.CHANNEL: channel, Index.SCRUB_INTERVAL: self.scrub_interval,
                    Index.ALL_BANK: self.all_bank, Index.TEMPERATURE: override}
        values = {Index.ID: VERSION | channels << 8, Index.SCRUB_LINE: line} | controls
        values |= {Index[name.upper()]: counters[name] for name in Counters.as_shape().members}
        m.d.comb += [self.csr.ready.eq(~self.answer.valid | self.answer.ready),
                     self.temperature.eq(self.temperature_in)]
        with m.If(override[2]):
            m.d.comb += self.temperature.eq(override[:2])
        with m.Switch(access.index):
            for index, source in values.items():
                with m.Case(index):
                    m.d.comb += value.eq(Value.cast(source))
        with m.If(self.csr.ready):
            m.d.sync += [self.answer.valid.eq(self.csr.valid), self.answer.payload.data.eq(value)]
        with m.If(self.csr.valid & self.csr.ready & access.write):
            with m.Switch(access.index):
                for index, target in controls.items():
                    with m.Case(index):
                        m.d.sync += target.eq(access.data)
        return m
