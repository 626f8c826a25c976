"""Timings of the memory in nanoseconds, and what they are in clocks (CK) and in slots.

The data rate is four times CK; a burst of 8 on 32 pins is 32 bytes and takes 2 CK. The controller works in
slots of one burst: one row and one column command a pseudo-channel a slot. A minimum is rounded up, first to
CK and then to slots; a refresh interval is rounded down.
"""

import math
from dataclasses import dataclass, fields
from fractions import Fraction

__all__ = ["BURST_CK", "RULES", "HbmSlots", "HbmTimings", "clocks", "slot_rate", "to_slots"]

BURST_CK = 2
"""Clocks of a burst, and of a slot."""

MAX_DEBT = 8
"""Refreshes a bank may owe."""


@dataclass(frozen=True, kw_only=True)
class HbmTimings:
    """Minimum times in ns, those that end in `_ck` in clocks. Values: HBM4 preset of Ramulator 2.1.

    Parameters
    ----------
    rcd_read, rcd_write : activate to read, to write.
    rp, ras, rc : precharge to activate; activate to precharge; activate to activate, all of one bank.
    cl, cwl : read command to data, write command to data.
    ccd_s_ck, ccd_l_ck, ccd_r_ck : column command to column command of another bank group, of the same
        group, of another stack ID. Sources differ on `ccd_l_ck`; 4 is the other value in use.
    rrd_s, rrd_l, faw : activate to activate of another group, of the same group; window of four activates.
    rtp, wr : read command to precharge; end of write data to precharge.
    wtr_s, wtr_l : end of write data to read command, other group and same group.
    rtw : read command to write command.
    refi : each bank owes a refresh in this time, at normal temperature.
    rfc_all, rfc_bank, rref : all-bank refresh; per-bank refresh; per-bank refresh to a per-bank refresh or
        an activate of another bank.
    init, mrd : reset to the first command (shortened: 500 us in a real device); mode register command to
        any other command.
    """

    rcd_read: float = 19.5
    rcd_write: float = 9.5
    rp: float = 16.5
    ras: float = 28.5
    rc: float = 45.0
    cl: float = 10.0
    cwl: float = 5.0
    ccd_s_ck: int = 2
    ccd_l_ck: int = 7
    ccd_r_ck: int = 3
    rrd_s: float = 2.5
    rrd_l: float = 3.5
    faw: float = 15.0
    rtp: float = 6.0
    wr: float = 21.0
    wtr_s: float = 4.5
    wtr_l: float = 6.5
    rtw: float = 12.5
    refi: float = 3900.0
    rfc_all: float = 530.0
    rfc_bank: float = 280.0
    rref: float = 8.0
    init: float = 2000.0
    mrd: float = 15.0


RULES = {
    # Legal range of each field: (low, high) in ns, or in CK.
    "rcd_read": (2, 40), "rcd_write": (2, 40), "rp": (2, 40), "ras": (2, 80), "rc": (2, 120),
    "cl": (2, 24), "cwl": (1, 24), "ccd_s_ck": (2, 2), "ccd_l_ck": (2, 8), "ccd_r_ck": (2, 8),
    "rrd_s": (0.5, 16), "rrd_l": (0.5, 16), "faw": (1, 64), "rtp": (0.5, 32), "wr": (1, 64),
    "wtr_s": (0.5, 32), "wtr_l": (0.5, 32), "rtw": (1, 32), "refi": (1000, 16000), "rfc_all": (50, 1000),
    "rfc_bank": (50, 1000), "rref": (1, 64), "init": (100, 1_000_000), "mrd": (1, 100),
}


def _exact(number):
    return Fraction(number).limit_denominator(1_000_000)


def clocks(ns, gbit_s_pin, *, down=False):
    """Clocks of CK in ``ns`` at ``gbit_s_pin`` Gb/s a pin; rounded up, or ``down``."""
    exact = _exact(ns) * _exact(gbit_s_pin) / 4
    return math.floor(exact) if down else math.ceil(exact)


def to_slots(ck):
    """Slots in ``ck`` clocks, rounded up."""
    return -(-ck // BURST_CK)


def slot_rate(gbit_s_pin, clock_ghz):
    """Slots a tile cycle as an exact Fraction. ValueError if the tile is too slow to give every slot."""
    rate = _exact(gbit_s_pin) / 8 / _exact(clock_ghz)
    if rate > 1:
        raise ValueError(f"tile.clock_ghz = {clock_ghz!r}: must be at least {gbit_s_pin / 8} for a memory "
                         f"controller at {gbit_s_pin} Gb/s a pin (one slot a cycle at most)")
    return rate


@dataclass(frozen=True, kw_only=True)
class HbmSlots:
    """The timings in slots, command to command. ``debt_step`` : a next bank owes a refresh so often."""

    rcd_read: int
    rcd_write: int
    rp: int
    ras: int
    rc: int
    ccd_l: int
    ccd_r: int
    rrd_s: int
    rrd_l: int
    faw: int
    read_to_precharge: int
    write_to_precharge: int
    write_to_read_s: int
    write_to_read_l: int
    read_to_write: int
    read_data: int
    debt_step: int
    rfc_all: int
    rfc_bank: int
    rref: int
    init: int
    mrd: int
    cl_ck: int
    cwl_ck: int

    @classmethod
    def of(cls, config):
        """The slots of an HbmConfig."""
        t, rate = config.timings, config.gbit_s_pin
        ck = {f.name: getattr(t, f.name) if f.name.endswith("_ck") else clocks(getattr(t, f.name), rate)
              for f in fields(t)}
        after_write = ck["cwl"] + BURST_CK
        banks = config.stack_ids * config.banks
        same = ("rcd_read", "rcd_write", "rp", "ras", "rc", "rrd_s", "rrd_l", "faw", "rfc_all", "rfc_bank",
                "rref", "init", "mrd")
        return cls(
            **{name: to_slots(ck[name]) for name in same},
            ccd_l=to_slots(ck["ccd_l_ck"]), ccd_r=to_slots(ck["ccd_r_ck"]),
            read_to_precharge=to_slots(ck["rtp"]), write_to_precharge=to_slots(after_write + ck["wr"]),
            write_to_read_s=to_slots(after_write + ck["wtr_s"]),
            write_to_read_l=to_slots(after_write + ck["wtr_l"]),
            read_to_write=to_slots(ck["rtw"]), read_data=to_slots(ck["cl"] + BURST_CK),
            debt_step=clocks(t.refi, rate, down=True) // (banks * BURST_CK),
            cl_ck=ck["cl"], cwl_ck=ck["cwl"])
