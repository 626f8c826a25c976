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
from pathlib import Path

import numpy as np

from tb import protocol
from tb.buffers import SharedBuffer
from tb.build import build_root
from tb.protocol import Kind, Outcome
from tb.request import INPUTS, OUTPUTS, Buffer, Segment, encode
from tb.result import Result, StreamResult, decode, sentence
from tb.runs import default_command, new_run, wave_window, waves_wanted
from tb.verilator import Runner
from tb.views import write_views

__all__ = ["Buffer", "Result", "Segment", "SimulationError", "Simulator", "StreamResult"]

PROJECT = Path(__file__).parent.parent
SESSION_WAVE_BYTES = 1 << 28  # of a wave that JALAPENO_WAVES=1 asks for


class SimulationError(RuntimeError):
    """A run did not end as it should; ``result`` has what is known, the message is a sentence about it."""

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result


class Simulator:
    """One simulation process.

    Parameters
    ----------
    bench : tb.build.Bench
    watchdog : int
        A run is hung when no stream moved for so many cycles (plus the longest stall it was given).
    verilator_seed : int
        For what Verilator randomises itself.
    """

    def __init__(self, bench, *, watchdog=20_000, verilator_seed=1):
        self.bench = bench
        self.watchdog = watchdog
        self.verilator_seed = verilator_seed
        self._process = None
        self._channel = None
        self._directories = []
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
        self._directories.append(tempfile.TemporaryDirectory(dir=root, prefix=f"{self.bench.name}-"))
        directory = Path(self._directories[-1].name)
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
            self._session_wave = self._open_session_wave()

    def _open_session_wave(self):
        directory = new_run(f"waves {self.bench.name}", {
            "command": default_command(), "simulator_seed": self.verilator_seed, "config": self.bench.config,
            "bench": {"name": self.bench.name, "hash": self.bench.hash}})
        first, last = wave_window()
        self.open_wave(directory / "wave.fst", first=first, last=last, limit=SESSION_WAVE_BYTES)
        return directory / "wave.fst"

    def close(self):
        """End the process, complete its open waves, and remove what it left on disk."""
        if self._process is not None and self._pending is None:
            self.finish_wave()
        self._stop()
        while self._directories:
            self._directories.pop().cleanup()

    def _stop(self):
        if self._process is None:
            return
        process, self._process = self._process, None
        self._pending = None
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

    @property
    def process_id(self):
        """Of the simulation process, or None while there is none."""
        return None if self._process is None else self._process.pid

    def call(self, device, body=b""):
        """Ask the model of a device that is compiled into the bench, between two runs.

        Parameters
        ----------
        device : str
            The name under which its C++ is known (``bench::calls()`` in ``dpi/bench.h``).
        body : bytes

        Returns
        -------
        bytes

        Raises
        ------
        SimulationError
            The model refused, with its sentence.
        """
        self.start()
        return self._request(Kind.CALL, device.encode() + b"\0" + bytes(body))

    def _ask(self, kind, request, fd=None):
        """Send a request that is not a run, as JSON, and return its answer."""
        return self._request(kind, json.dumps(request).encode(), fd)

    def _request(self, kind, body, fd=None):
        if self._pending is not None:
            # Whatever arrives in the middle of a run ends it: that is how a process notices a lost client.
            raise SimulationError(f"{self.bench.name} is running; take its result first")
        protocol.send(self._channel, kind, body)
        if fd is not None:
            socket.send_fds(self._channel, [b"f"], [fd])
        return self._expect(Kind.OK)

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
        self._ask(Kind.MAP, {"buffer": number, "offset": offset, "size": size, "writable": int(writable)}, fd)

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

    def submit(self, inputs, outputs, *, reset=None, wave=None, wave_cycles=(0, None), wave_limit=1 << 30,
               wall_seconds=600.0, **options):
        """Begin a run without waiting for it; :meth:`result` waits.

        Parameters
        ----------
        inputs : dict[str, array | bytes | list[Segment]]
            Beats for each source stream: bytes (a multiple of the beat size), a uint8 array
            [beats, bytes of the payload] that is padded here, or segments of uploaded buffers.
        outputs : dict[str, int]
            Beats each sink stream must get for the run to be done. A stream not named must stay silent.
        reset : bool, optional
            Reset the design first. By default only for the first run and after a failure.
        wave : path, optional
            FST file of this run (the build must have waves).
        wave_cycles : tuple[int, int | None]
            First and last cycle in the file, from the start of the run.
        wave_limit : int
            Bytes after which the file is closed.
        stalls : Stalls or dict[str, Stalls]
            For all streams, or by name; none by default.
        seed : int
            Of stalls and poison; 0 by default.
        max_cycles, wall_seconds : int, float
            Limits of the run.
        drain : bool
            Done only when all inputs are taken as well; true by default.
        settle_cycles : int
            Cycles that the design goes on after it is done, in which a surplus beat is noticed; 8 by default.
        allow_surplus : bool
            Whether a stream may give more beats than ``outputs`` says; they are dropped.
        """
        self.start()
        if self._pending is not None:
            raise SimulationError(f"{self.bench.name} is already running; take its result first")
        reset = self._must_reset if reset is None else reset
        if self._must_reset and not reset:
            raise ValueError("the first run and the run after a failure need a reset; reset=False was given")
        request = encode(self.bench, inputs, outputs, watchdog=self.watchdog, reset=reset,
                         wall_seconds=wall_seconds, **options)
        if request.copies:
            arena = self._arena(INPUTS, request.input_bytes).array
            for offset, beats in request.copies:
                arena[offset:offset + beats.size] = beats
        if request.output_bytes:
            self._arena(OUTPUTS, request.output_bytes)
        if wave is not None:
            self.open_wave(wave, first=wave_cycles[0], last=wave_cycles[1], limit=wave_limit)
        protocol.send(self._channel, Kind.RUN, request.message)
        self._must_reset = True  # until the result says otherwise
        self._pending = (request, wave, wall_seconds)

    def result(self):
        """Wait for the run begun by :meth:`submit`."""
        if self._pending is None:
            raise SimulationError(f"{self.bench.name} has no run to wait for")
        request, wave, wall_seconds = self._pending
        self._pending = None
        # The process watches the wall clock itself; this limit is for a process that hangs in one cycle.
        self._channel.settimeout(wall_seconds + 60)
        try:
            body = self._expect(Kind.STATUS)
        except TimeoutError:
            self._stop()
            raise SimulationError(f"the simulation of {self.bench.name} did not answer for "
                                  f"{wall_seconds + 60:.0f} s and was ended") from None
        except BaseException:
            self._stop()
            raise
        outputs = self._buffers[OUTPUTS].array if request.output_bytes else np.zeros(0, dtype=np.uint8)
        result = decode(body, [port.name for port in self.bench.streams], request, outputs)
        if wave is not None:
            result.wave = Path(wave)
            result.wave_truncated = self.close_wave()
        if result.outcome == Outcome.DONE:
            self._must_reset = False
            return result
        if result.outcome == Outcome.DEVICE:
            result.told = self.call("stopped").decode()
        if self.bench.options.probes:
            result.probes = self.read_probes(self.bench.options.probes)
        raise SimulationError(sentence(self.bench.name, result, request.watchdog), result)

    # -- waves and probes -------------------------------------------------------------------------------

    def open_wave(self, path, *, first=0, last=None, limit=1 << 30):
        """Write an FST file from now on (cycles counted from the next one) until :meth:`close_wave`."""
        if not self.bench.options.waves:
            raise ValueError(f"{self.bench.name} was built without waves; build it with Options(waves=True)")
        self.start()
        path = Path(path).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        request = {"path": str(path), "first": first, "last": -1 if last is None else last, "limit": limit}
        self._ask(Kind.WAVE, request)

    def close_wave(self):
        """Complete the wave file; True when it had been cut at its size limit."""
        return json.loads(self._ask(Kind.WAVE, {"path": None}))["truncated"]

    def finish_wave(self):
        """Complete the wave that ``JALAPENO_WAVES=1`` asked for, with its views; its path, or None."""
        path, self._session_wave = self._session_wave, None
        if path is None:
            return None
        if self._process is not None:
            self.close_wave()
        if not path.is_file():
            return None
        write_views(path.parent, path, self.bench.streams, cycle=0)
        return path

    def read_probes(self, names):
        """Values, as strings of bits, of signals below the design that the build made visible."""
        return json.loads(self._ask(Kind.PROBE, list(names)))
