"""A persistent simulation of one bench: requests go in, the design runs free, results come out.

    with Simulator(bench) as simulator:
        weights = simulator.upload(array)
        result = simulator.run(inputs={"w": [Segment(buffer=weights)], "x": x}, outputs={"y": 64})
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tb import protocol
from tb.buffers import SharedBuffer
from tb.build import build_root
from tb.protocol import Kind, Outcome, Violation
from tb.runs import waves_wanted
from tb.stalls import FREE, Stalls, stream_seed
from tb.verilator import Runner

__all__ = ["Buffer", "Result", "Segment", "SimulationError", "Simulator", "StreamResult"]

PROJECT = Path(__file__).parent.parent
INPUTS, OUTPUTS = 0, 1  # numbers of the two buffers that belong to single runs


class SimulationError(RuntimeError):
    """A run did not end as it should; ``result`` has what is known, the message is a sentence about it."""

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """Bytes that the simulation process can read; made by :meth:`Simulator.upload`."""

    number: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Beats of a buffer, in order.

    Attributes
    ----------
    buffer : Buffer
    offset : int
        Byte of the first beat.
    beats : int, optional
        All from ``offset`` to the end of the buffer where not given.
    stride : int, optional
        Bytes from one beat to the next; a beat's own size where not given.
    repeat : int
        How many times the segment is sent.
    """

    buffer: Buffer
    offset: int = 0
    beats: int | None = None
    stride: int | None = None
    repeat: int = 1


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """What one stream did in a run; ``first`` and ``last`` are cycles from the run's start, or None."""

    beats: int
    planned: int
    first: int | None
    last: int | None
    waiting: int
    starving: int
    valid: bool
    ready: bool
    held: bool


@dataclass(kw_only=True)
class Result:
    """Outcome of a run.

    Attributes
    ----------
    outputs : dict[str, numpy.ndarray]
        Beats received, uint8 [beats, beat bytes].
    output_cycles : dict[str, numpy.ndarray]
        Cycle of each of them, int64 [beats], counted from the start of the run.
    cycles : int
        From the start of the run to its last required transfer, both included.
    start : int
        Cycle number, as in the wave (cycle n is at n ns), of the run's first cycle.
    streams : dict[str, StreamResult]
    seconds : float
        Wall clock of the simulation itself.
    events : list[tuple[int, str, int, int]]
        The last transfers, oldest first: cycle counted from the start, stream, beat, first 8 bytes.
    """

    outcome: Outcome
    outputs: dict
    output_cycles: dict
    cycles: int
    simulated_cycles: int
    start: int
    streams: dict
    seconds: float
    seed: int
    violation: Violation = Violation.NONE
    fault_stream: str | None = None
    fault_cycle: int | None = None
    events: list = field(default_factory=list)
    probes: dict = field(default_factory=dict)
    wave: Path | None = None
    wave_truncated: bool = False

    @property
    def cycles_per_second(self):
        """Simulated cycles a second of wall clock."""
        return self.simulated_cycles / self.seconds if self.seconds else 0.0


class Simulator:
    """One simulation process.

    Parameters
    ----------
    bench : tb.build.Bench
    watchdog : int
        A run is hung when no stream moved for so many cycles (plus the longest stall it was given).
    probes : tuple[str, ...]
        Hierarchical names below the top, as ``dut.control.state``, read when a run does not end well; they
        must have been made visible by the build's options.
    verilator_seed : int
        For what Verilator randomises itself.
    """

    def __init__(self, bench, *, watchdog=20_000, probes=(), verilator_seed=1):
        self.bench = bench
        self.watchdog = watchdog
        self.probes = tuple(probes)
        self.verilator_seed = verilator_seed
        self._process = None
        self._channel = None
        self._buffers = {}
        self._next_buffer = 2
        self._must_reset = True
        self._pending = None
        self._session_wave = None

    # -- process ----------------------------------------------------------------------------------------

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.close()

    def start(self):
        """Start the process; done by ``with`` and by the first run."""
        if self._process is not None:
            return
        root = build_root() / "processes"
        root.mkdir(parents=True, exist_ok=True)
        self._directory = tempfile.TemporaryDirectory(dir=root, prefix=f"{self.bench.name}-")
        directory = Path(self._directory.name)
        arguments, env = Runner(self.bench.options).launch_command(
            build_dir=self.bench.directory, top="bench", test_module="tb.serve")
        ours, theirs = socket.socketpair()
        env.update(
            TB_SOCKET=str(theirs.fileno()),
            TB_STREAMS=json.dumps([[int(port.is_source), port.words] for port in self.bench.streams]),
            PYTHONPATH=os.pathsep.join([str(PROJECT), env.get("PYTHONPATH", "")]),
            COCOTB_RESULTS_FILE=str(directory / "results.xml"),
            COCOTB_RANDOM_SEED=str(self.verilator_seed),
            COCOTB_LOG_LEVEL="WARNING",
            GPI_LOG_LEVEL="WARNING",
        )
        self._log = directory / "simulation.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*arguments, f"+verilator+seed+{self.verilator_seed}", "+verilator+rand+reset+2"],
                env=env, cwd=directory, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)
        theirs.close()
        self._channel = ours
        ours.settimeout(60)
        self._expect(Kind.HELLO)
        self._must_reset = True
        self._session_wave = None
        if waves_wanted() and self.bench.options.waves:
            self._session_wave = directory / "wave.fst"
            self.open_wave(self._session_wave)

    def close(self):
        """End the process; open waves are completed."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with contextlib.suppress(OSError):
            self._channel.close()  # the process ends when its client is gone
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        self._directory.cleanup()

    @property
    def process_id(self):
        """Of the simulation process, or None while there is none."""
        return None if self._process is None else self._process.pid

    def _expect(self, kind):
        try:
            got, body = protocol.receive(self._channel)
        except (EOFError, ConnectionError):
            raise SimulationError(f"the simulation of {self.bench.name} ended by itself "
                                  f"({self._exit_state()}): {self._log_tail()}") from None
        if got == Kind.ERROR:
            raise SimulationError(f"the simulation of {self.bench.name} refused a request: {body.decode()}")
        if got != kind:
            raise SimulationError(f"the simulation of {self.bench.name} answered {got.name}, not {kind.name}")
        return body

    def _exit_state(self):
        try:
            return f"exit code {self._process.wait(timeout=5)}"
        except subprocess.TimeoutExpired:
            return "still running"

    def _log_tail(self):
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return "\n".join(lines[-12:]) or "it printed nothing"

    # -- buffers ----------------------------------------------------------------------------------------

    def upload(self, array):
        """Make an array readable for the simulation, once, for any number of runs.

        A ``numpy.memmap`` is mapped from its own file; anything else is copied once into shared memory.

        Returns
        -------
        Buffer
        """
        self.start()
        number = self._next_buffer
        self._next_buffer += 1
        if isinstance(array, np.memmap) and array.flags["C_CONTIGUOUS"] and array.filename:
            return self._upload_file(number, array)
        data = np.frombuffer(np.ascontiguousarray(array), dtype=np.uint8) if not isinstance(array, bytes) \
            else np.frombuffer(array, dtype=np.uint8)
        shared = SharedBuffer(data.size)
        shared.array[:data.size] = data
        self._map(number, shared.fd, 0, shared.size, False)
        shared.close()
        return Buffer(number=number, size=data.size)

    def _upload_file(self, number, array):
        page = os.sysconf("SC_PAGE_SIZE")
        # The view may begin inside the map; the map begins at array.offset rounded down by NumPy itself.
        base = array
        while isinstance(base.base, np.memmap):
            base = base.base
        start = base.offset + array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        if start % page:
            return self.upload(np.asarray(array))
        with open(array.filename, "rb") as file:
            self._map(number, file.fileno(), start, array.nbytes, False)
        return Buffer(number=number, size=array.nbytes)

    def _map(self, number, fd, offset, size, writable):
        body = json.dumps({"buffer": number, "offset": offset, "size": size, "writable": int(writable)})
        protocol.send(self._channel, Kind.MAP, body.encode())
        socket.send_fds(self._channel, [b"f"], [fd])
        self._expect(Kind.OK)

    def _arena(self, number, size):
        """The shared buffer of inputs or outputs of single runs, at least ``size`` bytes."""
        shared = self._buffers.get(number)
        if shared is None or shared.size < size:
            if shared is not None:
                shared.close()
            shared = self._buffers[number] = SharedBuffer(max(size, 2 * (shared.size if shared else 0)))
            self._map(number, shared.fd, 0, shared.size, number == OUTPUTS)
        return shared

    # -- runs -------------------------------------------------------------------------------------------

    def run(self, inputs, outputs, **options):
        """Run to the end and return the :class:`Result`; options as for :meth:`submit`.

        Raises
        ------
        SimulationError
            The run hung, reached a limit, or a stream of the design broke the protocol.
        ValueError
            A name, size or option is wrong.
        """
        self.submit(inputs, outputs, **options)
        return self.result()

    def submit(self, inputs, outputs, *, stalls=FREE, seed=0, max_cycles=1_000_000_000, wall_seconds=600.0,
               reset=None, drain=True, settle_cycles=8, wave=None, wave_cycles=(0, None),
               wave_limit=1 << 30, allow_surplus=False):
        """Begin a run without waiting for it; :meth:`result` waits.

        Parameters
        ----------
        inputs : dict[str, array | bytes | list[Segment]]
            Beats for each source stream: bytes (a multiple of the beat size), a uint8 array
            [beats, bytes of the payload] that is padded here, or segments of uploaded buffers.
        outputs : dict[str, int]
            Beats each sink stream must get for the run to be done. A stream not named must stay silent.
        stalls : Stalls or dict[str, Stalls]
            For all streams, or by name.
        seed : int
            Of stalls and poison.
        max_cycles, wall_seconds : int, float
            Limits of the run.
        reset : bool, optional
            Reset the design first. By default only for the first run and after a failure.
        drain : bool
            Done only when all inputs are taken as well.
        settle_cycles : int
            Cycles that the design goes on after it is done, in which a surplus beat is noticed.
        wave : path, optional
            FST file of this run (the build must have waves).
        wave_cycles : tuple[int, int | None]
            First and last cycle in the file, from the start of the run.
        wave_limit : int
            Bytes after which the file is closed.
        allow_surplus : bool
            Whether a stream may give more beats than ``outputs`` says; they are dropped.
        """
        self.start()
        if self._pending is not None:
            raise SimulationError(f"{self.bench.name} is already running; take its result first")
        reset = self._must_reset if reset is None else reset
        if self._must_reset and not reset:
            raise ValueError("the first run and the run after a failure need a reset; reset=False was given")
        streams = self.bench.streams
        plans = np.zeros(len(streams), dtype=protocol.PLAN)
        plans["buffer"] = -1
        plans["surplus_fails"] = not allow_surplus
        if isinstance(stalls, dict):
            for name in stalls:
                self.bench.stream(name)
        longest = 0
        for number, port in enumerate(streams):
            stall = stalls.get(port.name, FREE) if isinstance(stalls, dict) else stalls
            if not isinstance(stall, Stalls):
                raise ValueError(f"stalls is {stall!r}; it must be Stalls or a dict of stream name to Stalls")
            longest += stall.longest
            plan = plans[number]
            plan["seed"] = stream_seed(seed, port.name)
            plan["stall_threshold"] = round(stall.probability * (1 << 32))
            plan["long_threshold"] = round(stall.long_probability * (1 << 32))
            plan["long_cycles"] = stall.long_cycles
            plan["hold_beat"] = -1 if stall.hold_beat is None else stall.hold_beat
            plan["hold_cycles"] = stall.hold_cycles
            plan["idle_payload"] = stall.idle_payload
        segments = self._segments(inputs)
        places = self._places(outputs, plans)
        if not places and not len(segments):
            raise ValueError("the run has neither inputs nor outputs, so it could never be seen to be done")
        header = np.zeros(1, dtype=protocol.HEADER)
        header["seed"] = seed % (1 << 64)
        header["max_cycles"] = max_cycles
        header["watchdog"] = self.watchdog + longest
        header["wall_seconds"] = wall_seconds
        header["reset_cycles"] = 4 if reset else 0
        header["settle_cycles"] = settle_cycles
        header["drain"] = drain
        header["streams"] = len(streams)
        header["segments"] = len(segments)
        if wave is not None:
            self.open_wave(wave, first=wave_cycles[0], last=wave_cycles[1], limit=wave_limit)
        protocol.send(self._channel, Kind.RUN, header.tobytes() + plans.tobytes() + segments.tobytes())
        self._must_reset = True  # until the result says otherwise
        self._pending = (places, seed, wave, wall_seconds)

    def result(self):
        """Wait for the run begun by :meth:`submit`."""
        if self._pending is None:
            raise SimulationError(f"{self.bench.name} has no run to wait for")
        places, seed, wave, wall_seconds = self._pending
        self._pending = None
        # The process watches the wall clock itself; this limit is for a process that hangs in one cycle.
        self._channel.settimeout(wall_seconds + 60)
        try:
            body = self._expect(Kind.STATUS)
        except TimeoutError:
            self._abandon()
            raise SimulationError(f"the simulation of {self.bench.name} did not answer for "
                                  f"{wall_seconds + 60:.0f} s and was ended") from None
        except BaseException:
            self._abandon()
            raise
        result = self._decode(body, places, seed)
        if wave is not None:
            result.wave = Path(wave)
            result.wave_truncated = self.close_wave()
        if result.outcome == Outcome.DONE:
            self._must_reset = False
            return result
        if self.probes:
            result.probes = self.read_probes(self.probes)
        raise SimulationError(_sentence(self.bench, result, self.watchdog), result)

    def _abandon(self):
        self.close()
        self._pending = None

    def _segments(self, inputs):
        rows, arrays, size = [], [], 0
        for name, data in inputs.items():
            number, port = self.bench.stream(name)
            if not port.is_source:
                raise ValueError(f"{name!r} is an output of {self.bench.name}; inputs are "
                                 f"{', '.join(p.name for p in self.bench.streams if p.is_source)}")
            if isinstance(data, Segment):
                data = [data]
            if isinstance(data, (list, tuple)) and all(isinstance(part, Segment) for part in data):
                for part in data:
                    stride = port.beat_bytes if part.stride is None else part.stride
                    beats = part.beats
                    if beats is None:
                        beats = (part.buffer.size - part.offset) // port.beat_bytes
                    far = part.offset + max(beats - 1, 0) * stride
                    last = max(part.offset, far) + port.beat_bytes
                    if min(part.offset, far) < 0 or last > part.buffer.size:
                        raise ValueError(f"{name}: a segment of {beats} beats from byte {part.offset} "
                                         f"with stride {stride} leaves its buffer of {part.buffer.size}")
                    rows.append((number, part.buffer.number, part.offset, beats, stride, part.repeat))
                continue
            beats = _beats(data, port)
            if beats.size:
                rows.append((number, INPUTS, size, len(beats), port.beat_bytes, 1))
                arrays.append((size, beats))
                size += -(-beats.nbytes // 64) * 64
        if arrays:
            arena = self._arena(INPUTS, size).array
            for offset, beats in arrays:
                arena[offset:offset + beats.nbytes] = beats.reshape(-1)
        return np.array(rows, dtype=protocol.SEGMENT)

    def _places(self, outputs, plans):
        places, size = {}, 0
        for name, beats in outputs.items():
            number, port = self.bench.stream(name)
            if port.is_source:
                raise ValueError(f"{name!r} is an input of {self.bench.name}; outputs are "
                                 f"{', '.join(p.name for p in self.bench.streams if not p.is_source)}")
            if beats < 0:
                raise ValueError(f"{name}: {beats} beats are expected; it must be 0 or more")
            data_bytes = -(-beats * port.beat_bytes // 64) * 64
            places[name] = (size, size + data_bytes, port.beat_bytes, beats)
            plans[number]["expected"] = beats
            plans[number]["required"] = 1
            plans[number]["buffer"] = OUTPUTS
            plans[number]["offset"] = size
            plans[number]["stamps"] = size + data_bytes
            size += data_bytes + -(-beats * 8 // 64) * 64
        if size:
            self._arena(OUTPUTS, size)
        return places

    def _decode(self, body, places, seed):
        offset = protocol.table_bytes(protocol.STATUS)
        status = np.frombuffer(body, dtype=protocol.STATUS, count=1)[0]
        streams = np.frombuffer(body, protocol.STREAM_STATUS, count=len(self.bench.streams), offset=offset)
        offset += streams.nbytes
        start = int(status["start"])
        names = [port.name for port in self.bench.streams]
        outcome = Outcome(int(status["outcome"]))
        events = []
        if outcome != Outcome.DONE:
            table = np.frombuffer(body, dtype=protocol.EVENT, offset=offset)
            events = [(int(e["cycle"]) - start, names[e["stream"]], int(e["beat"]), int(e["word"]))
                      for e in table]
        results = {name: _stream_result(row, start) for name, row in zip(names, streams, strict=True)}
        outputs, cycles = {}, {}
        for name, (place, stamps, beat_bytes, beats) in places.items():
            got = min(beats, results[name].beats)
            arena = self._buffers[OUTPUTS].array if got else np.zeros(0, dtype=np.uint8)
            outputs[name] = arena[place:place + got * beat_bytes].reshape(got, beat_bytes).copy()
            cycles[name] = arena[stamps:stamps + got * 8].view(np.int64) - start
        fault = int(status["fault"])
        return Result(
            outcome=outcome, outputs=outputs, output_cycles=cycles, cycles=int(status["end"]) - start,
            simulated_cycles=int(status["now"]) - start, start=start, streams=results,
            seconds=float(status["seconds"]), seed=seed, violation=Violation(int(status["violation"])),
            fault_stream=names[status["stream"]] if status["stream"] >= 0 else None,
            fault_cycle=fault - start if fault >= 0 else None, events=events)

    # -- waves and probes -------------------------------------------------------------------------------

    def open_wave(self, path, *, first=0, last=None, limit=1 << 30):
        """Write an FST file from now on (cycles counted from the next one) until :meth:`close_wave`."""
        if not self.bench.options.waves:
            raise ValueError(f"{self.bench.name} was built without waves; build it with Options(waves=True)")
        self.start()
        path = Path(path).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        request = {"path": str(path), "first": first, "last": -1 if last is None else last, "limit": limit}
        protocol.send(self._channel, Kind.WAVE, json.dumps(request).encode())
        self._expect(Kind.OK)

    def close_wave(self):
        """Complete the wave file; True when it had been cut at its size limit."""
        protocol.send(self._channel, Kind.WAVE, json.dumps({"path": None}).encode())
        return json.loads(self._expect(Kind.OK))["truncated"]

    def finish_wave(self):
        """Complete the wave that ``JALAPENO_WAVES=1`` asked for; its path, or None where there is none."""
        path, self._session_wave = self._session_wave, None
        if path is None:
            return None
        if self._process is not None:
            self.close_wave()
        return path if path.is_file() else None

    def read_probes(self, names):
        """Values of signals below the top as strings of bits."""
        protocol.send(self._channel, Kind.PROBE, json.dumps(list(names)).encode())
        return json.loads(self._expect(Kind.OK))


def _stream_result(row, start):
    def cycle(value):
        return int(value) - start if value >= 0 else None

    return StreamResult(beats=int(row["beats"]), planned=int(row["planned"]), first=cycle(row["first"]),
                        last=cycle(row["last"]), waiting=int(row["waiting"]), starving=int(row["starving"]),
                        valid=bool(row["valid"]), ready=bool(row["ready"]), held=bool(row["held"]))


def _beats(data, port):
    """``data`` as uint8 [beats, beat bytes]."""
    payload_bytes = -(-port.width // 8)
    array = np.frombuffer(data, dtype=np.uint8) if isinstance(data, (bytes, bytearray, memoryview)) \
        else np.asarray(data)
    if array.dtype == np.uint8 and array.ndim == 2 and array.shape[1] == payload_bytes != port.beat_bytes:
        padded = np.zeros((array.shape[0], port.beat_bytes), dtype=np.uint8)
        padded[:, :payload_bytes] = array
        return padded
    if array.dtype == object:
        raise ValueError(f"{port.name}: inputs must be bytes, an array of numbers or a list of segments")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if flat.size % port.beat_bytes:
        raise ValueError(f"{port.name}: {flat.size} bytes are not a whole number of beats of "
                         f"{port.beat_bytes} bytes ({port.width} bits)")
    return flat.reshape(-1, port.beat_bytes)


def _sentence(bench, result, watchdog):
    name = f"Stream `{result.fault_stream}` of {bench.name}"
    beat = result.streams[result.fault_stream].beats if result.fault_stream else 0
    at = f"at cycle {result.fault_cycle}"
    match result.outcome:
        case Outcome.VIOLATION if result.violation == Violation.WITHDRAWN:
            return f"{name} withdrew valid {at}, before beat {beat} was taken."
        case Outcome.VIOLATION:
            return f"{name} changed its payload {at}, while beat {beat} waited for ready."
        case Outcome.SURPLUS:
            planned = result.streams[result.fault_stream].planned
            return f"{name} gave a beat too many {at}: {planned} were expected."
    reason = {Outcome.HUNG: f"no stream moved for {watchdog} cycles",
              Outcome.LIMIT: "the limit of cycles was reached",
              Outcome.WALL: "the limit of wall-clock time was reached"}[result.outcome]
    states = "; ".join(
        f"{name} valid={int(s.valid)} ready={int(s.ready)} {s.beats} of {s.planned} beats"
        + (", held by the bench" if s.held else "")
        for name, s in result.streams.items())
    probes = "".join(f"; {name} = {value}" for name, value in result.probes.items())
    return f"{bench.name} is not done after {result.simulated_cycles} cycles, {reason}: {states}{probes}."
