"""What a run did, from the tables that the simulation process gives back, and how it ended in words."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tb import protocol
from tb.protocol import Outcome, Violation

__all__ = ["Result", "StreamResult", "decode", "sentence"]


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """What one stream did in a run.

    Attributes
    ----------
    beats, planned : int
        Transfers, and how many there should have been.
    first, last : int or None
        Cycles of the first and the last transfer, counted from the run's start.
    waiting : int
        Cycles with valid and without ready.
    starving : int
        Cycles with ready and without valid.
    valid, ready : bool
        At the end of the run.
    held : bool
        Whether it is the bench's own stall pattern that keeps the stream still at the end.
    """

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
    simulated_cycles : int
        The same with the settling cycles after it.
    start : int
        Cycle number, as in the wave (cycle n is at n ns), of the run's first cycle.
    streams : dict[str, StreamResult]
    seconds : float
        Wall clock of the simulation itself.
    last_move : int or None
        Cycle of the last transfer on any stream.
    fault_stream, fault_cycle : str, int or None
        The stream that broke the protocol or gave a beat too many, and when.
    event_table : numpy.ndarray
        The last transfers as the process keeps them; see :attr:`events`.
    probes : dict[str, str]
        After a failure the bits of the probed signals.
    told : str
        What a model of a device said when it stopped the run.
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
    last_move: int | None = None
    violation: Violation = Violation.NONE
    fault_stream: str | None = None
    fault_cycle: int | None = None
    event_table: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=protocol.EVENT))
    probes: dict = field(default_factory=dict)
    told: str = ""
    wave: Path | None = None
    wave_truncated: bool = False

    @property
    def events(self):
        """The last transfers, at most 256, oldest first: (cycle, stream, beat, first 8 bytes)."""
        names = list(self.streams)
        return [(int(e["cycle"]) - self.start, names[e["stream"]], int(e["beat"]), int(e["word"]))
                for e in self.event_table]

    @property
    def cycles_per_second(self):
        """Simulated cycles a second of wall clock."""
        return self.simulated_cycles / self.seconds if self.seconds else 0.0


def decode(body, names, request, output_buffer):
    """The :class:`Result` in an answer.

    Parameters
    ----------
    body : bytes
        STATUS, a STREAM_STATUS a stream, EVENTs.
    names : list[str]
        Of the streams.
    request : tb.request.Request
    output_buffer : numpy.ndarray
        uint8, the buffer that the sinks have written.
    """
    offset = protocol.table_bytes(protocol.STATUS)
    status = np.frombuffer(body, dtype=protocol.STATUS, count=1)[0]
    rows = np.frombuffer(body, dtype=protocol.STREAM_STATUS, count=len(names), offset=offset)
    start, fault = int(status["start"]), int(status["fault"])
    events = np.frombuffer(body, dtype=protocol.EVENT, offset=offset + rows.nbytes)
    streams = {name: _stream(row, start) for name, row in zip(names, rows, strict=True)}
    outputs, cycles = {}, {}
    for name, place in request.places.items():
        got = min(place.beats, streams[name].beats)
        data = output_buffer[place.offset:place.offset + got * place.beat_bytes]
        outputs[name] = data.reshape(got, place.beat_bytes).copy()
        cycles[name] = output_buffer[place.stamps:place.stamps + got * 8].view(np.int64) - start
    return Result(
        outcome=Outcome(int(status["outcome"])), outputs=outputs, output_cycles=cycles,
        cycles=int(status["end"]) - start, simulated_cycles=int(status["now"]) - start, start=start,
        streams=streams, last_move=int(status["last_move"]) - start if status["last_move"] >= 0 else None,
        seconds=float(status["seconds"]), seed=request.seed, violation=Violation(int(status["violation"])),
        fault_stream=names[status["stream"]] if status["stream"] >= 0 else None,
        fault_cycle=fault - start if fault >= 0 else None, event_table=events)


def _stream(row, start):
    def cycle(value):
        return int(value) - start if value >= 0 else None

    return StreamResult(beats=int(row["beats"]), planned=int(row["planned"]), first=cycle(row["first"]),
                        last=cycle(row["last"]), waiting=int(row["waiting"]), starving=int(row["starving"]),
                        valid=bool(row["valid"]), ready=bool(row["ready"]), held=bool(row["held"]))


def sentence(name, result, watchdog):
    """How a run of the bench ``name`` failed: which stream did what, or who waits for whom."""
    stream = f"Stream `{result.fault_stream}` of {name}"
    at = f"at cycle {result.fault_cycle}"
    fault = result.streams.get(result.fault_stream)
    match result.outcome:
        case Outcome.VIOLATION if result.violation == Violation.WITHDRAWN:
            return f"{stream} withdrew valid {at}, before beat {fault.beats} was taken."
        case Outcome.VIOLATION:
            return f"{stream} changed its payload {at}, while beat {fault.beats} waited for ready."
        case Outcome.DEVICE:
            return result.told
        case Outcome.SURPLUS:
            return f"{stream} gave a beat too many {at}: {fault.planned} were expected."
    reason = {Outcome.HUNG: f"no stream moved for {watchdog} cycles",
              Outcome.LIMIT: "the limit of cycles was reached",
              Outcome.WALL: "the limit of wall-clock time was reached"}[result.outcome]
    states = "; ".join(
        f"{stream} valid={int(s.valid)} ready={int(s.ready)} {s.beats} of {s.planned} beats"
        + (", held by the bench" if s.held else "")
        for stream, s in result.streams.items())
    probes = "".join(f"; {probe} = {value}" for probe, value in result.probes.items())
    return f"{name} is not done after {result.simulated_cycles} cycles, {reason}: {states}{probes}."
