"""The sequential hart: one instruction a step, alone or against the records of the core.

What a sequential model cannot know it takes from the observed record: that an interrupt came before this
instruction (it checks that it was enabled), what a device answered, and the volatile CSRs (csr.py). All else
is computed, and every field has to be equal.

Order of checks of an access: alignment first, then whether anything is there. RAM, the device windows, and
nothing else exist; fetches only from RAM. Loads and stores in a device window may be of any size. A device
may refuse a load (the observed record says so), never a store, which is done after its commit.
"""

from collections import deque

from .csr import NAMES, Csrs, is_volatile
from .execute import Cause, compile_word
from .memory import RAM, Memory
from .record import COMPARED, HISTORY, RECORD, Mismatch, Record
from .semantics import M

__all__ = ["Hart"]

_INTERRUPTS = (11, 3, 7)
_PRIORITY = {cause: place for place, cause in enumerate(_INTERRUPTS)}
_TRAP, _INTR, _CAUSE, _RD, _VALUE, _MASK, _DATA = (
    RECORD.names.index(name) for name in
    ("trap", "intr", "cause", "rd_addr", "rd_wdata", "mem_rmask", "mem_rdata"))


class Hart:
    """A hart at its reset, or anywhere after.

    Parameters
    ----------
    memory : Memory, or the number of bytes of a RAM to make.
    pc : address of the first instruction.
    devices : object with ``load(address, size)`` (an integer, or None to refuse),
        ``store(address, size, value)`` and ``lines(order)`` (pending bits of mip), used where there is no
        observed record; without it devices read 0.
    csrs : parameters of Csrs (csr.py): hartid, marchid, counters, events.

    Attributes
    ----------
    x : registers 0 to 31 as unsigned integers.
    pc : address of the next instruction.
    order : its number.
    csrs : Csrs.
    memory : Memory.
    """

    def __init__(self, memory, *, pc=RAM, devices=None, **csrs):
        self.memory = memory if isinstance(memory, Memory) else Memory(memory)
        self.x = [0] * 32
        self.pc = pc
        self.order = 0
        self.csrs = Csrs(**csrs)
        self.devices = devices
        self._compiled = {}
        self._words = self.memory.views[4]
        self._history = deque(maxlen=HISTORY)
        self._complaint = None

    # Called by the functions that execute.py makes.

    def trap(self, order, word, pc, cause, tval):
        """Take an exception; its record."""
        self.csrs.uncount()
        vector = self.csrs.enter(cause=cause, pc=pc, tval=tval)
        return (order, word, pc, vector, 1, 0, cause, 0, 0, 0, 0, 0, 0, 0)

    def load_elsewhere(self, order, word, pc, address, size, observed):
        """A load that is not a plain one of RAM: the bytes, or the record of its trap."""
        if address % size:
            return self.trap(order, word, pc, Cause.MISALIGNED_LOAD, address)
        if not self.memory.is_device(address):
            return self.trap(order, word, pc, Cause.LOAD_FAULT, address)
        if observed is None:
            value = self.devices.load(address, size) if self.devices else 0
            if value is None:
                return self.trap(order, word, pc, Cause.LOAD_FAULT, address)
            return value & (1 << 8 * size) - 1
        if observed[_TRAP] and observed[_CAUSE] == Cause.LOAD_FAULT:
            return self.trap(order, word, pc, Cause.LOAD_FAULT, address)
        return observed[_DATA] & (1 << 8 * size) - 1

    def store_elsewhere(self, order, word, pc, address, size, value):
        """A store that is not to RAM: None, or the record of its trap."""
        if address % size:
            return self.trap(order, word, pc, Cause.MISALIGNED_STORE, address)
        if not self.memory.is_device(address):
            return self.trap(order, word, pc, Cause.STORE_FAULT, address)
        if self.devices:
            self.devices.store(address, size, value)
        return None

    @staticmethod
    def csr_exists(address):
        return address in NAMES

    def read_csr(self, address, order, observed):
        """Value of a register that exists. Volatile ones: the observed value."""
        value = self.csrs.read(address, order)
        if value is not None:
            return value
        if observed is not None:
            value = observed[_VALUE]
            if address == 0x344 and value & ~0x888:
                self._complaint = f"mip = {value:#x}: only bits 3, 7 and 11 can be set"
            return value
        return self.csrs.lines if address == 0x344 else order if is_volatile(address) else 0

    # Stepping.

    def _fetch(self, order, pc, observed):
        """Fetch where RAM is not, or is not only, plain: a function, or the record of the trap."""
        offset = pc - RAM
        if not 0 <= offset < self.memory.size or offset >> 6 in self.memory.poisoned:
            # The core has no word to show; whatever stands there is not compared.
            return self.trap(order, observed[1] if observed else 0, pc, Cause.FETCH_FAULT, pc)
        return None

    def _execute(self, order, observed):
        pc = self.pc
        offset = pc - RAM
        if not 0 <= offset < self.memory.size or self.memory.poisoned:
            trapped = self._fetch(order, pc, observed)
            if trapped:
                return trapped
        word = self._words[offset >> 2]
        run = self._compiled.get(word)
        if run is None:
            run = self._compiled[word] = compile_word(self, word)
        return run(order, pc, observed)

    def _interrupt(self, cause):
        """Enter the handler of an interrupt; a sentence if it may not be taken."""
        number = cause & M >> 1
        if not cause >> 63 or number not in _PRIORITY:
            return f"cause = {cause:#x}: is not that of an interrupt of this core"
        if not self.csrs.interrupts_on:
            return f"interrupt {number} was taken while mstatus.MIE = 0"
        if not self.csrs.mie >> number & 1:
            return f"interrupt {number} was taken while mie = {self.csrs.mie:#x}"
        self.pc = self.csrs.enter(cause=cause, pc=self.pc, tval=0)
        return None

    def _after_interrupt(self, order, observed):
        """Record of a handler's first instruction, and a sentence if the interrupt may not be taken."""
        cause = observed[_CAUSE]
        reason = self._interrupt(cause)
        record = self._execute(order, observed)
        return (*record[:_INTR], int(reason is None), 0 if reason else cause, *record[_CAUSE + 1:]), reason

    def pending(self):
        """mcause of the interrupt that the lines cause now, without observed records; None: none does."""
        ready = self.csrs.lines & self.csrs.mie if self.csrs.interrupts_on else 0
        return next((1 << 63 | cause for cause in _INTERRUPTS if ready >> cause & 1), None)

    def step(self, observed=None):
        """Execute one instruction; its Record.

        ``observed``: the Record it is to be compared with. None: devices and interrupts are those of
        ``devices``. ValueError if the observed interrupt may not be taken.
        """
        order = self.order
        if observed is None:
            cause = None
            if self.devices:
                self.csrs.lines = self.devices.lines(order)
                cause = self.pending()
            if cause is None:
                record = self._execute(order, None)
            else:
                self._interrupt(cause)
                record = self._execute(order, None)
                record = (*record[:_INTR], 1, cause, *record[_CAUSE + 1:])
        else:
            record, reason = self._slow(order, tuple(observed)[:len(COMPARED)])
            if reason:
                raise ValueError(f"order = {order}: {reason}")
        self.pc = record[3]
        self.order = order + 1
        record = Record._make((*record, order if observed is None else observed[-1]))
        self._history.append(record)
        return record

    def compare(self, records):
        """Step once a record and compare all fields but ``cycle``.

        ``records``: array of RECORD, the next ones in program order. The first Mismatch, or None; after a
        Mismatch the hart has executed that instruction its own way and is of no further use.
        """
        if records.dtype != RECORD:
            raise ValueError(f"records: dtype is {records.dtype}, must be RECORD")
        # Columns first: numpy makes integers of a whole column faster than of a row.
        rows = zip(*(records[name].tolist() for name in COMPARED))
        words, compiled, size, poisoned = self._words, self._compiled, self.memory.size, self.memory.poisoned
        order, pc = self.order, self.pc
        for row in rows:
            if row[5] or poisoned:
                self.pc = pc
                record, reason = self._slow(order, row)
                if reason:
                    return self._mismatch(records, order, record, row, reason)
            else:
                offset = pc - RAM
                if 0 <= offset < size:
                    word = words[offset >> 2]
                    run = compiled.get(word)
                    if run is None:
                        run = compiled[word] = compile_word(self, word)
                    record = run(order, pc, row)
                else:
                    record = self._fetch(order, pc, row)
            if record != row or self._complaint:
                return self._mismatch(records, order, record, row, self._complaint)
            pc = record[3]
            order += 1
        self.order, self.pc = order, pc
        self._history.extend(map(Record._make, records[-HISTORY:].tolist()))
        return None

    def _slow(self, order, row):
        if row[_INTR]:
            return self._after_interrupt(order, row)
        return self._execute(order, row), None

    def _mismatch(self, records, order, record, row, reason):
        index = order - self.order
        got = Record._make(records[index].tolist())
        expected = Record(*record, got.cycle)
        differing = tuple(name for name, one, other in zip(COMPARED, expected, got) if one != other)
        before = deque(self._history, maxlen=HISTORY)
        before.extend(map(Record._make, records[max(0, index - HISTORY):index].tolist()))
        reason = reason or f"{' and '.join(differing)} differ{'s' if len(differing) == 1 else ''}"
        self.order, self.pc = order + 1, record[3]
        return Mismatch(index, expected, got, differing, reason, tuple(before))
