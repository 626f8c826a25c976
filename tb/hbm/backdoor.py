"""What a bench asks of its HBM devices between runs: contents, faults, trace, statistics."""

import json
from pathlib import Path

import numpy as np

__all__ = ["BURST_BYTES", "Devices", "FAULT"]

BURST_BYTES = 36
"""A burst in the device: 32 bytes of data, then the check bytes of its four words of 64 bits."""

FAULT = np.dtype([("burst", "<u8"), ("word", "<u4"), ("wrong", "<u4")])
"""An injected fault; `wrong` bits of the word were wrong after it."""


class Devices:
    """The HBM devices of a bench.

    Parameters
    ----------
    simulator : tb.simulator.Simulator

    A burst has the number ``((stack * banks + bank) * rows + row) * 32 + column``; :mod:`golden.hbm` turns
    addresses of the slice into such numbers.
    """

    def __init__(self, simulator):
        self._simulator = simulator

    def _call(self, words, body=b""):
        return self._simulator.call("hbm", " ".join(map(str, words)).encode() + b"\n" + bytes(body))

    def load(self, device, bursts, contents):
        """Write bursts: numbers int [n], contents uint8 [n, 36]."""
        bursts = np.ascontiguousarray(bursts, dtype="<i8")
        contents = np.ascontiguousarray(contents, dtype=np.uint8)
        if contents.shape != (len(bursts), BURST_BYTES):
            raise ValueError(f"contents are {contents.shape}; for {len(bursts)} bursts they must be "
                             f"[{len(bursts)}, {BURST_BYTES}]")
        self._call(["load", device, len(bursts)], bursts.tobytes() + contents.tobytes())

    def dump(self, device, bursts):
        """Contents uint8 [n, 36] of the bursts of these numbers."""
        bursts = np.ascontiguousarray(bursts, dtype="<i8")
        answer = self._call(["dump", device, len(bursts)], bursts.tobytes())
        return np.frombuffer(answer, dtype=np.uint8).reshape(len(bursts), BURST_BYTES)

    def flip(self, device, burst, word, bit):
        """Invert a stored bit: 0..63 of the data of word 0..3, 64..71 of its check bits."""
        self._call(["flip", device, burst, word, bit])

    def faults(self, device, *, rate, bits=1, seed=0):
        """From now on a burst gets a fault before it is read, with probability ``rate``.

        ``bits`` of one word become wrong, but never more than two in a word at a time.
        """
        if not 0 <= rate <= 1 or bits not in (1, 2):
            raise ValueError(f"rate is {rate}, bits {bits}; they must be from 0 to 1, and 1 or 2")
        self._call(["faults", device, round(rate * (1 << 32)), bits, seed])

    def injected(self, device):
        """The faults so far, an array of :data:`FAULT`."""
        return np.frombuffer(self._call(["injected", device]), dtype=FAULT)

    def trace(self, path):
        """Write commands into a file from now on; None completes it. The checker needs it from a reset on."""
        self._call(["trace", "" if path is None else Path(path).absolute()])

    def configure(self, config):
        """Other timings for all devices, a :class:`tb.hbm.device.DeviceConfig` of the same organisation.

        The next run has to begin with a reset.
        """
        self._call(["configure", config.settings()])

    def collect(self, on):
        """Note broken rules and go on, in place of stopping the run."""
        self._call(["collect", int(on)])

    def violations(self):
        """What was noted since the last call: list of (device, ck, rule)."""
        lines = self._call(["violations"]).decode().splitlines()
        return [(int(device), int(ck), rule) for device, ck, rule in map(str.split, lines)]

    def statistics(self):
        """Counts, a dict a device.

        Since reset: slots, commands by name, refreshes due, served and owed now, the worst debt of a bank.
        Since the start: faults injected, words read with one and with two wrong bits.
        """
        return json.loads(self._call(["statistics"]))
