"""A program on the sequential model alone, with a host device: what it prints and how it ends."""

from golden.riscv import RAM, Hart, Memory
from hw.core.address import HOST

from .run import CoreRun

__all__ = ["load_memory", "run_reference"]

STEPS = 1000  # between two looks at whether the program has ended


class _Host:
    """Console and exit of the host device; other devices read 0."""

    def __init__(self):
        self.console = bytearray()
        self.exit_code = None

    def load(self, address, size):
        return 0

    def store(self, address, size, value):
        if address == HOST:
            self.console.append(value & 0xFF)
        elif address == HOST + 8 and self.exit_code is None:
            self.exit_code = value

    def lines(self, order):
        return 0


def load_memory(image, ram_bytes, poison=()):
    """Memory of the sequential model that holds ``image``."""
    memory = Memory(ram_bytes)
    for segment in image.segments:
        memory.write(segment.address, segment.data)
    memory.poisoned.update((address - RAM) // 64 for address in poison)
    return memory


def run_reference(image, *, ram_bytes, max_instructions=10_000_000):
    """The CoreRun of ``image`` on golden.riscv, one cycle an instruction, without interrupts.

    ``exit_code`` is None if ``max_instructions`` were not enough.
    """
    host = _Host()
    hart = Hart(load_memory(image, ram_bytes), devices=host)
    while host.exit_code is None and hart.order < max_instructions:
        for _ in range(STEPS):
            hart.step()
            if host.exit_code is not None:
                break
    return CoreRun(exit_code=host.exit_code, console=bytes(host.console), instructions=hart.order,
                   cycles=hart.order)
