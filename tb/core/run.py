"""Runs a program on a core's bench.

    with CoreSimulator(core_bench(config)) as simulator:
        run = run_core(simulator, image)
"""

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from golden.hbm import Geometry, check_bytes
from golden.riscv.record import RECORD
from hw.core.address import LINE, RAM
from tb.hbm.backdoor import Devices
from tb.protocol import Outcome
from tb.simulator import SimulationError, Simulator

from .host import Host, Injection
from .memory import BackDoor, MemoryTiming
from .pipe import PIPE, Pipe
from .trace import Event, Trace

__all__ = ["CoreRun", "CoreSimulator", "NotEnded", "run_core"]

CHUNK = 100_000
FOREVER = 1 << 50


class NotEnded(RuntimeError):
    """The program did not end within the cycles it was given; ``run`` is what it did (CoreRun)."""

    def __init__(self, message, run):
        super().__init__(message)
        self.run = run


@dataclass(kw_only=True)
class CoreRun:
    """What a program did.

    Attributes
    ----------
    exit_code : int or None
        As stored, unsigned; None if it did not end.
    console : bytes
    records : numpy.ndarray
        RECORDs, all of them, if they were asked for.
    cycles, instructions : int
        From the reset to the end.
    counters : dict
        Of the memory: reads, writes, most (requests in flight); of injected interrupts: external, software,
        timer.
    pipe : numpy.ndarray
        Pipeline events (tb.core.pipe.PIPE), if they were asked for.
    start : int
        Cycle of the wave that is cycle 0 of the records.
    seconds : float
        Of simulation.
    """

    exit_code: int | None = None
    console: bytes = b""
    records: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=RECORD))
    cycles: int = 0
    instructions: int = 0
    counters: dict = field(default_factory=dict)
    pipe: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=PIPE))
    start: int = 0
    seconds: float = 0.0

    @property
    def ipc(self):
        """Instructions a cycle."""
        return self.instructions / self.cycles if self.cycles else 0.0


class CoreSimulator:
    """A process that simulates one CoreBench, for any number of programs.

    Parameters
    ----------
    built : tb.core.bench.CoreBuild
    verilator_seed : int

    Attributes
    ----------
    simulator : tb.simulator.Simulator
    memory : BackDoor (a double), or None
    host : Host
    trace : Trace
    pipe : Pipe
    last : tb.simulator.Result or None
        Of the last part of a run; ``start`` is that of its first.
    """

    def __init__(self, built, *, verilator_seed=1):
        self.built = built
        # A core is watched by its own trace; no stream moves before the end of a run.
        self.simulator = Simulator(built.bench, watchdog=FOREVER, verilator_seed=verilator_seed)
        self.memory = BackDoor(self.simulator, built.ram_bytes) if built.hbm is None else None
        self.host, self.trace, self.pipe = (part(self.simulator) for part in (Host, Trace, Pipe))
        self._loaded = False
        self.last = None

    def __enter__(self):
        self.simulator.start()
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """End the process."""
        self.simulator.close()

    def load(self, image, poison=()):
        """Memory holds ``image`` (sw.core.image.Image) and zeros; ``poison``: addresses of poisoned lines."""
        if self.memory is not None:
            self.memory.clear()
            for segment in image.segments:
                self.memory.load(segment.address, segment.data)
            for address in poison:
                self.memory.poison(address)
            return
        if poison:
            raise ValueError("lines are poisoned in the memory double only, not in an HBM slice")
        if self._loaded:  # what the program before has written would still be there
            self.simulator.close()
        self._loaded = True
        self._load_devices(image)

    def _load_devices(self, image):
        geometry, devices = Geometry.of(self.built.hbm), Devices(self.simulator)
        for segment in image.segments:
            first = (segment.address - RAM) // LINE * LINE
            before = segment.address - RAM - first
            data = np.zeros(-(-(before + len(segment.data)) // LINE) * LINE, dtype=np.uint8)
            data[before:before + len(segment.data)] = np.frombuffer(segment.data, dtype=np.uint8)
            lines = first // LINE + np.arange(len(data) // LINE)
            channels, local = geometry.split(lines)
            bursts = data.reshape(-1, 2, 32)
            contents = np.concatenate([bursts, check_bytes(bursts)], axis=-1)
            for channel in np.unique(channels):
                here = channels == channel
                devices.load(int(channel), geometry.bursts(local[here]).reshape(-1),
                             contents[here].reshape(-1, 36))


def run_core(simulator, image, *, max_cycles=10_000_000, seed=0, timing=None, injection=None, mmio_stall=0.0,
             poison=(), hang_cycles=20_000, keep_records=False, observe=None, pipe_events=0, chunk=CHUNK,
             progress=None, wall_seconds=3600.0, must_end=True):
    """Run a program from the reset until it stores its exit code.

    Parameters
    ----------
    simulator : CoreSimulator
    image : sw.core.image.Image
    max_cycles : int
    seed : int
        Of all that is random around the core.
    timing : MemoryTiming, optional
        Latency, bandwidth and stalls of the memory double.
    injection : Injection, optional
        Random interrupts.
    mmio_stall : float
        Probability, each cycle, of no progress at the host device.
    poison : iterable of addresses
    hang_cycles : int
        A core that commits nothing for so long is stuck.
    keep_records : bool
        Return all records.
    observe : callable, optional
        Called with each chunk of records (array of RECORD) in order; what it raises ends the run.
    pipe_events : int
        Keep so many pipeline events.
    progress : callable, optional
        Called with (cycles, instructions) after each chunk.
    must_end : bool
        Whether reaching ``max_cycles`` is an error.

    Returns
    -------
    CoreRun

    Raises
    ------
    SimulationError
        The core is stuck; the message names the head of its reorder buffer and what it waits for.
    NotEnded
        ``max_cycles`` were not enough.
    """
    wants = keep_records or observe is not None
    simulator.load(image, poison)
    if simulator.memory is not None:
        simulator.memory.configure(timing or MemoryTiming(), seed=seed)
    elif timing is not None:
        raise ValueError("timing is for the memory double; the HBM slice has its own")
    simulator.host.configure(injection or Injection(), seed=seed + 1, stall=mmio_stall)
    # Where nobody looks at records, they still count, and a pause lets progress be shown.
    simulator.trace.configure(chunk=chunk if wants or progress else 0, keep=wants, max_cycles=max_cycles,
                              hang_cycles=hang_cycles)
    if pipe_events:
        simulator.pipe.configure(pipe_events)
    run, kept, event = CoreRun(), [], None
    while event not in (Event.EXIT, Event.LIMIT):
        try:
            result = simulator.simulator.run({}, {"event": 1}, reset=event is None, settle_cycles=0,
                                             max_cycles=FOREVER, wall_seconds=wall_seconds)
        except SimulationError as error:
            # What was committed before can be wrong already: that is the better message.
            if wants and error.result is not None and error.result.outcome == Outcome.DEVICE:
                _look(simulator, observe, kept, keep_records)
            raise
        if event is None:
            run.start = result.start
        # Cycles of records count from the reset, so that is where the run began.
        simulator.last = dataclasses.replace(result, start=run.start)
        event = Event(int(result.outputs["event"].view("<u4")[0, 0]))
        run.seconds += result.seconds
        if wants:
            _look(simulator, observe, kept, keep_records)
        run.cycles, run.instructions = simulator.trace.counts()
        if progress:
            progress(run.cycles, run.instructions)
    run.records = np.concatenate(kept) if kept else run.records
    run.console = simulator.host.console()
    run.exit_code = simulator.host.exit_code()
    run.counters = simulator.host.injected()
    if simulator.memory is not None:
        run.counters |= simulator.memory.counts()
    if pipe_events:
        run.pipe = simulator.pipe.events()
        simulator.pipe.configure(0)
    if event == Event.LIMIT and must_end:
        raise NotEnded(f"{image.name} has not ended after {run.cycles:,} cycles and {run.instructions:,} "
                       "instructions", run)
    return run


def _look(simulator, observe, kept, keep_records):
    records = simulator.trace.records()
    if keep_records:
        kept.append(records)
    if observe is not None and len(records):
        observe(records)
