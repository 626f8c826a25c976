"""Memory that a client and its simulation process share, without a copy between them."""

import mmap
import os
import tempfile

import numpy as np

__all__ = ["SharedBuffer"]


def _anonymous_file():
    if hasattr(os, "memfd_create"):
        return os.memfd_create("jalapeno")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedBuffer:
    """Bytes in an anonymous shared file; it vanishes with the last process that uses it.

    Parameters
    ----------
    size : int
        Bytes; at least 1 page is taken.

    Attributes
    ----------
    array : numpy.ndarray
        uint8 view of all bytes.
    fd : int
        File descriptor to hand to the other process.
    """

    def __init__(self, size):
        self.size = max(-(-size // mmap.PAGESIZE), 1) * mmap.PAGESIZE
        self.fd = _anonymous_file()
        os.ftruncate(self.fd, self.size)
        self.array = np.frombuffer(mmap.mmap(self.fd, self.size), dtype=np.uint8)

    def close(self):
        """Give the file descriptor back; views of ``array`` stay usable."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
