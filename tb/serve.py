"""The cocotb test inside the simulation process: takes requests over a socket, lets the design run free.

Started by :mod:`tb.simulator`. Between runs the process waits in ``recv`` and simulated time stands still.
Only the standard library and cocotb are imported here, so that a process starts quickly.
"""

import ctypes
import json
import os
import socket

import cocotb
from cocotb.triggers import ValueChange

from tb import protocol
from tb.protocol import Kind


def _library():
    lib = ctypes.CDLL(None)
    lib.tb_begin.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    lib.tb_error.restype = ctypes.c_char_p
    lib.tb_status.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    lib.tb_status.restype = ctypes.c_int64
    lib.tb_map.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32]
    lib.tb_stream.argtypes = [ctypes.c_int32, ctypes.c_int64]
    lib.tb_wave_open.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
    lib.tb_call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]
    lib.tb_call.restype = ctypes.c_int64
    lib.tb_answer.restype = ctypes.c_void_p
    for index, table in enumerate(protocol.TABLES):
        size = lib.tb_layout(index)
        assert size == protocol.table_bytes(table), f"table {index}: {size} bytes in C"
    return lib


def _probe(dut, name):
    handle = dut["dut"]
    for part in name.split("."):
        handle = handle[part]
    return str(handle.value)


@cocotb.test()
async def serve(dut):
    """Serve one client until it closes its connection."""
    lib = _library()
    channel = socket.socket(fileno=int(os.environ["TB_SOCKET"]))
    for stream in json.loads(os.environ["TB_STREAMS"]):
        lib.tb_stream(*stream)
    lib.tb_lifeline(channel.fileno())
    answer = ctypes.create_string_buffer(1 << 20)
    protocol.send(channel, Kind.HELLO, json.dumps({"pid": os.getpid()}).encode())
    while True:
        try:
            kind, body = protocol.receive(channel)
            if kind == Kind.RUN:
                if lib.tb_begin(body, len(body)) != 0:
                    protocol.send(channel, Kind.ERROR, lib.tb_error())
                    continue
                await ValueChange(dut.wakeup)
                if lib.tb_abandoned():
                    return
                size = lib.tb_status(answer, len(answer))
                protocol.send(channel, Kind.STATUS, memoryview(answer)[:size])
            elif kind == Kind.MAP:
                _, fds, _, _ = socket.recv_fds(channel, 1, 1)
                _map(lib, channel, json.loads(body), fds[0])
            elif kind == Kind.WAVE:
                _wave(lib, channel, json.loads(body))
            elif kind == Kind.PROBE:
                values = {name: _probe(dut, name) for name in json.loads(body)}
                protocol.send(channel, Kind.OK, json.dumps(values).encode())
            elif kind == Kind.CALL:
                _call(lib, channel, body)
            elif kind == Kind.QUIT:
                protocol.send(channel, Kind.OK, b"{}")
                return
        except EOFError:
            return


def _map(lib, channel, request, fd):
    result = lib.tb_map(request["buffer"], fd, request["offset"], request["size"], request["writable"])
    os.close(fd)
    if result == 0:
        protocol.send(channel, Kind.OK, b"{}")
    else:
        protocol.send(channel, Kind.ERROR, f"mapping {request['size']} bytes failed".encode())


def _call(lib, channel, body):
    name, _, body = body.partition(b"\0")
    size = lib.tb_call(name, body, len(body))
    answer = ctypes.string_at(lib.tb_answer(), size if size >= 0 else -1 - size)
    protocol.send(channel, Kind.OK if size >= 0 else Kind.ERROR, answer)


def _wave(lib, channel, request):
    if request["path"] is None:
        truncated = lib.tb_wave_close()
        protocol.send(channel, Kind.OK, json.dumps({"truncated": bool(truncated)}).encode())
        return
    result = lib.tb_wave_open(request["path"].encode(), request["first"], request["last"], request["limit"])
    if result == 0:
        protocol.send(channel, Kind.OK, b"{}")
    else:
        protocol.send(channel, Kind.ERROR, f"cannot write the wave file {request['path']}".encode())
