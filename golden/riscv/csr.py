"""Control and status registers of the core: machine mode only.

What exists, and what a write leaves (behaviour of Spike with ``--priv=m``, except where said):

=================================== =======================================================================
mvendorid marchid mimpid mhartid    read-only, 0 (mhartid: the hart's number)
mconfigptr                          read-only, 0
mstatus                             MIE and MPIE are written; MPP reads 3; everything else reads 0
misa                                RV64IM; writes are ignored (Spike lets M be switched off)
mie                                 bits 3, 7 and 11 are written, the others read 0
mtvec                               bit 1 reads 0: direct or vectored (base + 4 * cause), base on 4 bytes
mscratch mcause mtval               all 64 bits are written
mepc                                bits 1 and 0 read 0
mip                                 bits 3, 7 and 11 show the lines; writes are ignored
mcycle minstret                     64-bit counters, written
mcountinhibit                       bits 0 and 2 to 31 are written (in Spike it reads 0)
mhpmevent3..31                      0 to `events` are written, anything else leaves 0; only `counters` of them
mhpmcounter3..31                    64-bit counters, written; only `counters` of them, the others read 0
cycle time instret                  read-only shadows of mcycle, the CLINT's mtime and minstret
=================================== =======================================================================

Every other address is illegal: mcounteren, menvcfg, medeleg and their like need modes that this core has not.
A write to an address whose upper two bits are ones is illegal.

minstret: an instruction that traps is not counted; one that writes minstret is not counted either, so the
next instruction reads what was written. A write of mcountinhibit counts for the instruction that does it.

Volatile registers (`is_volatile`) hold what a sequential model cannot know: their reads take the value that
was observed.
"""

from .semantics import M

__all__ = ["Csrs", "MIE_MASK", "NAMES", "is_volatile"]

MIE_MASK = 0x888
MISA = 2 << 62 | 1 << 8 | 1 << 12
MSTATUS_MPP = 3 << 11

NAMES = {
    0x300: "mstatus", 0x301: "misa", 0x304: "mie", 0x305: "mtvec", 0x320: "mcountinhibit",
    0x340: "mscratch", 0x341: "mepc", 0x342: "mcause", 0x343: "mtval", 0x344: "mip",
    0xB00: "mcycle", 0xB02: "minstret", 0xC00: "cycle", 0xC01: "time", 0xC02: "instret",
    0xF11: "mvendorid", 0xF12: "marchid", 0xF13: "mimpid", 0xF14: "mhartid", 0xF15: "mconfigptr",
    **{0x320 + n: f"mhpmevent{n}" for n in range(3, 32)},
    **{0xB00 + n: f"mhpmcounter{n}" for n in range(3, 32)},
}
"""Address -> name, of every register that exists."""

_VOLATILE = ({0xB00, 0xC00, 0xC01, 0x344} | set(range(0xB03, 0xB20)) | set(range(0x323, 0x340)))


def is_volatile(address):
    """Whether a read takes the observed value."""
    return address in _VOLATILE


class Csrs:
    """State of the registers.

    Parameters
    ----------
    hartid, marchid : values of these registers.
    counters : mhpmcounters that count; the others, and their events, read 0.
    events : highest number that mhpmevent holds; None: not known, reads of mhpmevent take the observed value.

    Attributes
    ----------
    interrupts_on, previous_on : mstatus.MIE and mstatus.MPIE.
    mie, mtvec, mscratch, mepc, mcause, mtval, mcountinhibit : as a read gives them.
    lines : pending bits of mip, for a hart that is run without an observed record.
    """

    def __init__(self, *, hartid=0, marchid=0, counters=29, events=None):
        self.counters, self.events = counters, events
        self._selected = {}
        self.hartid, self.marchid = hartid, marchid
        self.interrupts_on = self.previous_on = 0
        self.mie = self.mtvec = self.mscratch = self.mepc = self.mcause = self.mtval = 0
        self.mcountinhibit = 0
        self.lines = 0
        # minstret is order + bias while it counts, and `stopped` while mcountinhibit.IR is set.
        self._bias = 0
        self._stopped = None

    @property
    def mstatus(self):
        return MSTATUS_MPP | self.previous_on << 7 | self.interrupts_on << 3

    def instret(self, order):
        """minstret as the instruction with that order reads it."""
        return (order + self._bias if self._stopped is None else self._stopped) & M

    def uncount(self):
        """The present instruction does not retire: it traps, or it has written minstret."""
        self._bias -= 1

    def _absent(self, address):
        return address >> 5 in (0x320 >> 5, 0xB00 >> 5) and address & 31 >= 3 + self.counters

    def read(self, address, order):
        """Value of a register that exists; None if it is volatile."""
        match address:
            case 0x300:
                return self.mstatus
            case 0x301:
                return MISA
            case 0x304:
                return self.mie
            case 0x305:
                return self.mtvec
            case 0x320:
                return self.mcountinhibit
            case 0x340:
                return self.mscratch
            case 0x341:
                return self.mepc
            case 0x342:
                return self.mcause
            case 0x343:
                return self.mtval
            case 0xB02 | 0xC02:
                return self.instret(order)
            case _ if 0x323 <= address < 0x340 and self.events is not None:
                return self._selected.get(address, 0)
            case 0xF12:
                return self.marchid
            case 0xF14:
                return self.hartid
            case _:
                return None if is_volatile(address) and not self._absent(address) else 0

    def write(self, address, value, order):
        """Write a register that exists and is not read-only."""
        match address:
            case 0x300:
                self.interrupts_on, self.previous_on = value >> 3 & 1, value >> 7 & 1
            case 0x304:
                self.mie = value & MIE_MASK
            case 0x305:
                self.mtvec = value & ~2
            case 0x340:
                self.mscratch = value
            case 0x341:
                self.mepc = value & ~3
            case 0x342:
                self.mcause = value
            case 0x343:
                self.mtval = value
            case 0x320:
                count = self.instret(order)
                self.mcountinhibit = value & 0xFFFF_FFFD
                self._stopped, self._bias = (count, 0) if value & 4 else (None, count - order)
            case _ if 0x323 <= address < 0x340:
                known = self.events is not None and not self._absent(address)
                self._selected[address] = value if known and value <= self.events else 0
            case 0xB02:
                if self._stopped is None:
                    self._bias = value - order - 1
                else:
                    self._stopped = value

    def enter(self, *, cause, pc, tval):
        """Take a trap; the address of its handler."""
        self.mepc, self.mcause, self.mtval = pc & ~3, cause, tval
        self.previous_on, self.interrupts_on = self.interrupts_on, 0
        base = self.mtvec & ~3
        return base + 4 * (cause & (M >> 1)) & M if self.mtvec & 1 and cause >> 63 else base

    def leave(self):
        """MRET; the address where execution goes on."""
        self.interrupts_on, self.previous_on = self.previous_on, 1
        return self.mepc
