"""What a run shall do, as the tables that the simulation process takes (``dpi/protocol.h``)."""

from dataclasses import dataclass

import numpy as np

from tb import protocol
from tb.stalls import FREE, Stalls, stream_seed

__all__ = ["INPUTS", "OUTPUTS", "Buffer", "Place", "Request", "Segment", "encode"]

INPUTS, OUTPUTS = 0, 1  # numbers of the two buffers that belong to single runs
RESET_CYCLES = 4
ALIGNMENT = 64  # bytes; of every stream's data within the buffer of a run


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """Bytes that the simulation process can read; made by :meth:`tb.simulator.Simulator.upload`."""

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
class Place:
    """Where a sink's beats and their cycle numbers go in the buffer of outputs."""

    offset: int
    stamps: int
    beats: int
    beat_bytes: int


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run.

    Attributes
    ----------
    message : bytes
        The tables.
    copies : list[tuple[int, numpy.ndarray]]
        Beats to copy into the buffer of inputs before the run, with their offsets.
    input_bytes, output_bytes : int
        Sizes the two buffers need.
    places : dict[str, Place]
    seed : int
    watchdog : int
        Cycles without any transfer after which the run counts as hung.
    """

    message: bytes
    copies: list
    input_bytes: int
    output_bytes: int
    places: dict
    seed: int
    watchdog: int


def encode(bench, inputs, outputs, *, watchdog, reset, stalls=FREE, seed=0, max_cycles=1_000_000_000,
           wall_seconds=600.0, drain=True, settle_cycles=8, allow_surplus=False):
    """The :class:`Request` for a run; parameters as of :meth:`tb.simulator.Simulator.submit`.

    Raises
    ------
    ValueError
        A name, size or option is wrong.
    """
    if max_cycles < 1 or wall_seconds <= 0 or settle_cycles < 0:
        raise ValueError(f"max_cycles is {max_cycles}, wall_seconds {wall_seconds}, settle_cycles "
                         f"{settle_cycles}; the first two must be above 0, the last 0 or more")
    plans, longest = _plans(bench, stalls, seed)
    plans["surplus_fails"] = not allow_surplus
    segments, copies, input_bytes = _segments(bench, inputs)
    places, output_bytes = _places(bench, outputs, plans)
    if not len(segments) and not any(place.beats for place in places.values()):
        raise ValueError("the run has neither inputs nor outputs, so it could never be seen to be done")
    header = np.zeros(1, dtype=protocol.HEADER)
    header["seed"] = seed % (1 << 64)
    header["max_cycles"] = max_cycles
    header["watchdog"] = min(watchdog + longest, (1 << 62))
    header["wall_seconds"] = wall_seconds
    header["reset_cycles"] = RESET_CYCLES if reset else 0
    header["settle_cycles"] = settle_cycles
    header["drain"] = drain
    header["streams"] = len(plans)
    header["segments"] = len(segments)
    return Request(message=header.tobytes() + plans.tobytes() + segments.tobytes(), copies=copies,
                   input_bytes=input_bytes, output_bytes=output_bytes, places=places, seed=seed,
                   watchdog=watchdog + longest)


def _plans(bench, stalls, seed):
    plans = np.zeros(len(bench.streams), dtype=protocol.PLAN)
    plans["buffer"] = -1
    if isinstance(stalls, dict):
        for name in stalls:
            bench.stream(name)
    longest = 0
    for number, port in enumerate(bench.streams):
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
    return plans, longest


def _segments(bench, inputs):
    rows, copies, size = [], [], 0
    for name, data in inputs.items():
        number, port = bench.stream(name)
        if not port.is_source:
            raise ValueError(f"{name!r} is an output of {bench.name}; inputs are "
                             f"{', '.join(p.name for p in bench.streams if p.is_source)}")
        if isinstance(data, Segment):
            data = [data]
        if isinstance(data, (list, tuple)) and all(isinstance(part, Segment) for part in data):
            rows += [(number, *_segment(part, port)) for part in data]
            continue
        beats = _beats(data, port)
        if beats.size:
            rows.append((number, INPUTS, size, len(beats), port.beat_bytes, 1))
            copies.append((size, beats.reshape(-1)))
            size += _aligned(beats.nbytes)
    return np.array(rows, dtype=protocol.SEGMENT), copies, size


def _segment(part, port):
    stride = port.beat_bytes if part.stride is None else part.stride
    beats = part.beats
    if beats is None:
        beats = (part.buffer.size - part.offset) // port.beat_bytes
    last = part.offset + max(beats - 1, 0) * stride
    if min(part.offset, last) < 0 or max(part.offset, last) + port.beat_bytes > part.buffer.size:
        raise ValueError(f"{port.name}: a segment of {beats} beats from byte {part.offset} with stride "
                         f"{stride} leaves its buffer of {part.buffer.size} bytes")
    return part.buffer.number, part.offset, beats, stride, part.repeat


def _places(bench, outputs, plans):
    places, size = {}, 0
    for name, beats in outputs.items():
        number, port = bench.stream(name)
        if port.is_source:
            raise ValueError(f"{name!r} is an input of {bench.name}; outputs are "
                             f"{', '.join(p.name for p in bench.streams if not p.is_source)}")
        if beats < 0:
            raise ValueError(f"{name}: {beats} beats are expected; it must be 0 or more")
        stamps = size + _aligned(beats * port.beat_bytes)
        places[name] = Place(offset=size, stamps=stamps, beats=beats, beat_bytes=port.beat_bytes)
        plan = plans[number]
        plan["expected"] = beats
        plan["required"] = 1
        plan["buffer"] = OUTPUTS
        plan["offset"] = size
        plan["stamps"] = stamps
        size = stamps + _aligned(beats * 8)
    return places, size


def _aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def _beats(data, port):
    """``data`` as uint8 [beats, beat bytes]."""
    payload_bytes = -(-port.width // 8)
    array = np.frombuffer(data, dtype=np.uint8) if isinstance(data, (bytes, bytearray, memoryview)) \
        else np.asarray(data)
    if array.dtype.kind not in "uifb":
        raise ValueError(f"{port.name}: inputs must be bytes, an array of numbers or a list of segments")
    if array.dtype == np.uint8 and array.ndim == 2 and array.shape[1] == payload_bytes != port.beat_bytes:
        padded = np.zeros((array.shape[0], port.beat_bytes), dtype=np.uint8)
        padded[:, :payload_bytes] = array
        return padded
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if flat.size % port.beat_bytes:
        raise ValueError(f"{port.name}: {flat.size} bytes are not a whole number of beats of "
                         f"{port.beat_bytes} bytes ({port.width} bits)")
    return flat.reshape(-1, port.beat_bytes)
