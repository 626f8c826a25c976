"""A hart with devices of its own, to run a program without the core.

The devices do what docs/core.md says of the real ones, in a time that is counted in instructions.
"""

from .hart import Hart
from .memory import DEVICE_BYTES, DEVICES, RAM

__all__ = ["Devices", "Machine"]

_MSIP, _MTIMECMP, _MTIME = (DEVICES["clint"] + offset for offset in (0, 0x4000, 0xBFF8))
_CONSOLE, _EXIT, _LOAD, _WITHDRAW = (DEVICES["host"] + offset for offset in (0, 8, 16, 24))


class Devices:
    """CLINT and host device. mtime is the number of the instruction.

    Attributes
    ----------
    console : bytes written.
    exit_code : None until the program stores it.
    injected : bits of mip that are set from outside, until the program withdraws them.
    """

    def __init__(self):
        self.console = bytearray()
        self.exit_code = None
        self.injected = 0
        self._time = 0
        self._msip = 0
        self._mtimecmp = (1 << 64) - 1

    def lines(self, order):
        """Pending bits of mip."""
        self._time = order
        return self.injected | self._msip << 3 | (order >= self._mtimecmp) << 7

    def load(self, address, size):
        for base, value in ((_MSIP, self._msip), (_MTIMECMP, self._mtimecmp), (_MTIME, self._time)):
            if base <= address < base + 8:
                return value >> 8 * (address - base)
        refused = DEVICES["host"] <= address < DEVICES["host"] + DEVICE_BYTES and address >> 3 != _LOAD >> 3
        return None if refused else 0

    def store(self, address, size, value):
        if address == _CONSOLE:
            self.console.append(value & 255)
        elif address == _EXIT:
            self.exit_code = value
        elif address == _WITHDRAW:
            self.injected &= ~value
        elif address == _MSIP:
            self._msip = value & 1
        elif _MTIMECMP <= address < _MTIMECMP + 8:
            shift = 8 * (address - _MTIMECMP)
            mask = (1 << 8 * size) - 1 << shift
            self._mtimecmp = self._mtimecmp & ~mask | value << shift


class Machine:
    """A Hart with Devices and a program.

    Parameters
    ----------
    image : (address, bytes) of what lies in RAM.
    ram_bytes : size of the RAM.
    """

    def __init__(self, image, *, ram_bytes, pc=RAM):
        self.devices = Devices()
        self.hart = Hart(ram_bytes, pc=pc, devices=self.devices)
        for address, data in image:
            self.hart.memory.write(address, data)

    def run(self, limit, inject=None):
        """Run until the program stores an exit code; its Records.

        ``limit``: steps after which RuntimeError is raised. ``inject``: function of a step's number, bits of
        mip to set before it.
        """
        records = []
        for number in range(limit):
            if inject:
                self.devices.injected |= inject(number)
            records.append(self.hart.step())
            if self.devices.exit_code is not None:
                return records
        raise RuntimeError(f"the program has not ended after {limit} instructions, pc = {self.hart.pc:#x}")
