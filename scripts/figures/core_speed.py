"""Simulated cycles a second of the core, and what Python, cocotb and VPI cost of them."""

from sw.core.compile import compile_program
from sw.core.image import read_elf
from tb.core.host import Host, Injection
from tb.core.memory import BackDoor
from tb.core.run import CoreSimulator
from tb.core.trace import Trace
from tb.loop import speed_ratio

from .core_programs import TIMING, small_bench

KEYS = ("sim.core_cycles_per_second", "sim.core_cocotb_over_cpp")

PROGRAM = "crc"
ROUNDS = 3


class Calls:
    """Keeps what is asked of the devices of a bench, in place of a simulator."""

    def __init__(self):
        self.made = []

    def call(self, device, body=b""):
        self.made.append((device, bytes(body)))
        return b""


def job(image, ram_bytes) -> list[tuple[str, bytes]]:
    """Calls after which a run from the reset executes ``image`` and ends with its exit."""
    calls = Calls()
    memory = BackDoor(calls, ram_bytes)
    memory.clear()
    for segment in image.segments:
        memory.load(segment.address, segment.data)
    memory.configure(TIMING, seed=0)
    Host(calls).configure(Injection(), seed=1)
    Trace(calls).configure(chunk=0, keep=False, max_cycles=3_000_000, hang_cycles=20_000)
    return calls.made


def measure(*, quick: bool) -> dict[str, object]:
    """A whole program in both, several times in turn."""
    if quick:
        return {}
    with CoreSimulator(small_bench()) as simulator:
        ram_bytes = simulator.built.ram_bytes
        calls = job(read_elf(compile_program(PROGRAM), ram_bytes=ram_bytes), ram_bytes)
        speed = speed_ratio(simulator.simulator, {}, {"event": 1}, rounds=ROUNDS, calls=calls,
                            settle_cycles=0)
    return {
        "sim.core_cocotb_over_cpp": round(speed["ratio"], 3),
        "sim.core_cycles_per_second.small": round(speed["simulator"]),
        "sim.core_cycles_per_second.small.loop": round(speed["loop"]),
    }
