"""Memory of the sequential model: RAM, device windows, and nothing else.

RAM is one anonymous mapping, so only the pages that are touched exist, and a RAM of many gigabytes costs
nothing. It is seen through views of 1, 2, 4 and 8 bytes, which is quick and possible because misaligned
accesses trap.
"""

import mmap
import sys

__all__ = ["ADDRESS_BITS", "DEVICE_BYTES", "DEVICES", "LINE", "RAM", "Memory"]

RAM = 0x8000_0000
"""First byte of the RAM."""

DEVICES = {"clint": 0x0200_0000, "control": 0x0300_0000, "host": 0x1000_0000}
"""Base addresses of the device windows, DEVICE_BYTES each (docs/core.md)."""

DEVICE_BYTES = 0x1_0000
ADDRESS_BITS = 40
LINE = 64
PAGE = 4096


class Memory:
    """RAM of ``size`` bytes from RAM on.

    Parameters
    ----------
    size : bytes, a multiple of 64 that ends below 2^40.

    Attributes
    ----------
    views : {1, 2, 4, 8: view of the whole RAM in elements of that many bytes}.
    poisoned : numbers of lines ((address - RAM) / 64) that cannot be read: fetches and loads of them are
        access faults; stores are done.
    """

    def __init__(self, size):
        limit = (1 << ADDRESS_BITS) - RAM
        if not isinstance(size, int) or not LINE <= size <= limit or size % LINE:
            raise ValueError(f"size = {size!r}: must be a multiple of {LINE} from {LINE} to {limit}")
        if sys.byteorder != "little":
            raise ValueError(f"byte order = {sys.byteorder!r}: the model needs a little-endian machine")
        self.size = size
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        if sys.platform == "linux":
            flags |= 0x4000  # MAP_NORESERVE, which the module names from Python 3.13 on
        self._bytes = memoryview(mmap.mmap(-1, -(-size // PAGE) * PAGE, flags=flags))
        self.views = {1: self._bytes, 2: self._bytes.cast("H"), 4: self._bytes.cast("I"),
                      8: self._bytes.cast("Q")}
        self.poisoned = set()

    def _offset(self, address, count):
        offset = address - RAM
        if not 0 <= offset <= self.size - count:
            raise ValueError(f"address = {address:#x}: {count} bytes from there are not in RAM, which is "
                             f"{RAM:#x} to {RAM + self.size - 1:#x}")
        return offset

    def read(self, address, count):
        """``count`` bytes of RAM, whatever their alignment."""
        offset = self._offset(address, count)
        return bytes(self._bytes[offset:offset + count])

    def write(self, address, data):
        """Put bytes into RAM."""
        offset = self._offset(address, len(data))
        self._bytes[offset:offset + len(data)] = data

    @staticmethod
    def is_device(address):
        """Whether the byte lies in the window of a device."""
        return any(base <= address < base + DEVICE_BYTES for base in DEVICES.values())
