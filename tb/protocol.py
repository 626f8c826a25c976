"""Tables and messages between :mod:`tb.simulator` and the simulation process; twin of ``dpi/protocol.h``.

A message is a header of two integers (kind, number of bytes) and its bytes, over a Unix socket. Tables are
NumPy structured arrays with the layout of the C structs.
"""

import enum
import struct

__all__ = ["EVENT", "HEADER", "IdlePayload", "Kind", "Outcome", "PLAN", "SEGMENT", "STATUS", "STREAM_STATUS",
           "TABLES", "Violation", "receive", "send"]


class Kind(enum.IntEnum):
    """What a message is."""

    HELLO = 0      # process -> client: ready; JSON
    MAP = 1        # a buffer; its file descriptor travels along
    RUN = 2        # HEADER, PLANs, SEGMENTs
    STATUS = 3     # process -> client: STATUS, STREAM_STATUSes, EVENTs
    WAVE = 4       # JSON: open or close the wave file
    PROBE = 5      # JSON list of hierarchical names -> JSON of values
    QUIT = 6
    OK = 7         # process -> client: JSON
    ERROR = 8      # process -> client: a sentence
    CALL = 9       # name of a device model, a zero byte, bytes for it -> OK with its bytes


class Outcome(enum.IntEnum):
    """How a run ended."""

    RUNNING = 0
    DONE = 1
    HUNG = 2
    LIMIT = 3
    WALL = 4
    VIOLATION = 5
    SURPLUS = 6
    DEVICE = 7


class Violation(enum.IntEnum):
    """How a stream broke the ready/valid protocol."""

    NONE = 0
    WITHDRAWN = 1
    CHANGED = 2


class IdlePayload(enum.IntEnum):
    """What a source drives while valid is low: the last payload, or random bits."""

    KEEP = 0
    POISON_ONCE = 1
    POISON_EVERY_CYCLE = 2


HEADER = [("seed", "<u8"), ("max_cycles", "<i8"), ("watchdog", "<i8"), ("wall_seconds", "<f8"),
          ("reset_cycles", "<i8"), ("settle_cycles", "<i8"), ("drain", "<i4"), ("streams", "<i4"),
          ("segments", "<i4"), ("reserved", "<i4")]
PLAN = [("seed", "<u8"), ("stall_threshold", "<u8"), ("long_threshold", "<u8"), ("long_cycles", "<i8"),
        ("hold_beat", "<i8"), ("hold_cycles", "<i8"), ("expected", "<i8"), ("offset", "<i8"),
        ("stamps", "<i8"), ("buffer", "<i4"), ("required", "<i4"),
        ("idle_payload", "<i4"), ("surplus_fails", "<i4")]
SEGMENT = [("stream", "<i4"), ("buffer", "<i4"), ("offset", "<i8"), ("beats", "<i8"), ("stride", "<i8"),
           ("repeat", "<i8")]
STATUS = [("outcome", "<i4"), ("stream", "<i4"), ("violation", "<i4"), ("events", "<i4"), ("start", "<i8"),
          ("end", "<i8"), ("now", "<i8"), ("last_move", "<i8"), ("fault", "<i8"), ("seconds", "<f8")]
STREAM_STATUS = [("beats", "<i8"), ("planned", "<i8"), ("first", "<i8"), ("last", "<i8"), ("waiting", "<i8"),
                 ("starving", "<i8"), ("valid", "<i4"), ("ready", "<i4"), ("held", "<i4"),
                 ("reserved", "<i4")]
EVENT = [("cycle", "<i8"), ("beat", "<i8"), ("word", "<u8"), ("stream", "<i4"), ("reserved", "<i4")]

# In the order of tb_layout().
TABLES = (HEADER, PLAN, SEGMENT, STATUS, STREAM_STATUS, EVENT)

_FRAME = struct.Struct("<II")


def table_bytes(table):
    """Bytes of one row of ``table``; every field is as long as its type says."""
    return sum(int(code[-1]) for _, code in table)


def send(channel, kind, body=b""):
    """Send one message over the socket ``channel``."""
    channel.sendall(_FRAME.pack(kind, len(body)) + bytes(body))


def receive(channel):
    """The next message as (kind, bytes).

    Raises
    ------
    EOFError
        The other side is gone.
    """
    kind, size = _FRAME.unpack(_exactly(channel, _FRAME.size))
    return Kind(kind), _exactly(channel, size)


def _exactly(channel, size):
    parts = []
    while size:
        part = channel.recv(size)
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
