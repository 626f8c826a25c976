"""Traffic through a slice, and its answers against the dictionary model, bit for bit."""

from dataclasses import dataclass

import numpy as np

from golden.hbm import BURST_BYTES, OK, POISON, check_bytes, decode, range_lines
from hw.hbm import port
from tb.report import CheckFailure, Report

from .backdoor import BURST_BYTES as STORED_BYTES
from .beats import pack, unpack

__all__ = ["Compared", "check_traffic", "load", "stored"]

CLASSES = 4


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Answers of requests and lines of ranges that were compared, those poisoned, cycles of the run."""

    requests: int
    lines: int
    cycles: int
    poisoned: int = 0


def load(devices, geometry, lines, data):
    """Put lines (int [n], uint8 [n, 64]) into the devices with their check bits."""
    channel, local = geometry.split(np.asarray(lines))
    halves = np.asarray(data, dtype=np.uint8).reshape(-1, 2, BURST_BYTES)
    contents = np.concatenate([halves, check_bytes(halves)], axis=2)
    for c in np.unique(channel):
        mine = channel == c
        devices.load(int(c), geometry.bursts(local[mine]).reshape(-1),
                     contents[mine].reshape(-1, STORED_BYTES))


def stored(devices, geometry, lines):
    """What the devices hold of lines: data uint8 [n, 64] after correction, and how many words were corrected
    and how many cannot be."""
    channel, local = geometry.split(np.asarray(lines))
    found = np.zeros((len(channel), 64), dtype=np.uint8)
    single = double = 0
    for c in np.unique(channel):
        mine = channel == c
        contents = devices.dump(int(c), geometry.bursts(local[mine]).reshape(-1))
        data, corrected, bad = decode(contents[:, :BURST_BYTES], contents[:, BURST_BYTES:])
        found[mine] = data.reshape(-1, 64)
        single, double = single + int(corrected.sum()), double + int(bad.sum())
    return found, single, double


def _fail(test, seed, problem, **fields):
    raise CheckFailure(Report(checker="HBM slice", test=test, seed=seed, problem=problem, **fields))


def check_traffic(simulator, geometry, memory, requests=None, ranges=None, *, test, seed=0, faults=False,
                  **run):
    """Send requests and ranges at the same time; ranges must lie where no request writes.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
        Of a :class:`tb.hbm.bench.SliceBench`.
    geometry, memory : golden.hbm
        ``memory`` is brought up to date.
    requests : Requests, optional
    ranges : Ranges, optional
    test, seed : for the report; ``seed`` is also that of the stalls
    faults : bool
        The devices have faults: a read may be poisoned, and its data are not looked at then.
    run : further arguments of Simulator.run

    Returns
    -------
    Compared

    Raises
    ------
    CheckFailure
        An answer is missing, in another order, or wrong; the first one is named.
    SimulationError
        The run did not end, or a device stopped it.
    """
    inputs, outputs = {}, {}
    if requests is not None:
        inputs["request"] = pack(port.Request, len(requests), write=requests.write, tag=requests.tags,
                                 line=requests.lines, mask=requests.masks, data=requests.data)
        outputs["response"] = len(requests)
    expected = []
    if ranges is not None:
        count = len(ranges.asked)
        fields = {name: np.array([asked[key] for asked in ranges.asked])
                  for name, key in (("address", "address"), ("rows", "rows"), ("bytes", "size"),
                                    ("stride", "stride"))}
        inputs["range"] = pack(port.Range, count, tag=np.array(ranges.tags), **fields)
        outputs["range_answer"] = count
        expected = [range_lines(geometry, **asked) for asked in ranges.asked]
        for c in range(geometry.pseudo_channels):
            outputs[f"bulk__{c}"] = sum(len(parts[c]) for _, parts in expected)
    # What ranges find is there before: no request of the run writes to it.
    result = simulator.run(inputs, outputs, seed=seed, **run)
    compared = lines = poisoned = 0
    if ranges is not None:
        _check_answers(test, seed, ranges, expected, result)
        for c in range(geometry.pseudo_channels):
            came, bad = _check_bulk(test, seed, c, memory, ranges, expected, result, faults)
            lines, poisoned = lines + came, poisoned + bad
    if requests is not None:
        compared, bad = _check_requests(test, seed, memory, requests, result, faults)
        poisoned += bad
    if compared + lines == 0:
        _fail(test, seed, "nothing was compared")
    return Compared(requests=compared, lines=lines, cycles=result.cycles, poisoned=poisoned)


def _check_requests(test, seed, memory, requests, result, faults):
    status, data = memory.requests(requests.write, requests.lines, requests.masks, requests.data)
    got = unpack(port.Response, result.outputs["response"])
    kind, answered = requests.tags >> 6, got["tag"] >> 6
    poisoned = (got["status"] == POISON) & (got["write"] == 0) & faults
    for number in range(CLASSES):
        asked, came = np.flatnonzero(kind == number), np.flatnonzero(answered == number)
        if len(asked) != len(came):
            _fail(test, seed, f"class {number} has {len(came)} answers to {len(asked)} requests",
                  stream="response")
        wrong = {
            "tag": requests.tags[asked] != got["tag"][came],
            "write": requests.write[asked] != got["write"][came],
            "status": (status[asked] != got["status"][came]) & ~poisoned[came],
            "data": (data[asked] != got["data"][came]).any(axis=1) & ~poisoned[came],
        }
        bad = np.flatnonzero(np.any(list(wrong.values()), axis=0))
        if not len(bad):
            continue
        at, answer = asked[bad[0]], came[bad[0]]
        name = next(name for name, where in wrong.items() if where[bad[0]])
        right = {"tag": requests.tags[at], "write": requests.write[at], "status": status[at],
                 "data": bytes(data[at]).hex()}[name]
        value = bytes(got[name][answer]).hex() if name == "data" else got[name][answer]
        verb = "write" if requests.write[at] else "read"
        _fail(test, seed, f"answer {answer} to request {at} ({verb} of line {requests.lines[at]}, tag "
                          f"{requests.tags[at]}): {name} is {value}, expected {right}; {len(bad)} of "
                          f"{len(asked)} answers of class {number} are wrong",
              stream="response", cycle=int(result.output_cycles["response"][answer]))
    return len(requests), int(poisoned.sum())


def _check_answers(test, seed, ranges, expected, result):
    got = unpack(port.RangeAnswer, result.outputs["range_answer"])
    for n, (status, _) in enumerate(expected):
        if got["tag"][n] != ranges.tags[n] or got["status"][n] != status:
            _fail(test, seed, f"range {n} {ranges.asked[n]} was answered with tag {got['tag'][n]}, status "
                              f"{got['status'][n]}; expected are {ranges.tags[n]} and {status}",
                  stream="range_answer")


def _check_bulk(test, seed, channel, memory, ranges, expected, result, faults):
    """Lines of one tag in order; ranges of one tag follow each other."""
    name = f"bulk__{channel}"
    got = unpack(port.BulkData, result.outputs[name])
    poisoned = (got["status"] == POISON) & faults
    for tag in sorted(set(ranges.tags)):
        mine = np.flatnonzero(got["tag"] == tag)
        lines = np.concatenate([parts[channel] for (_, parts), t in zip(expected, ranges.tags) if t == tag])
        if len(lines) != len(mine):
            _fail(test, seed, f"range tag {tag} gave {len(mine)} lines, expected are {len(lines)}",
                  stream=name)
        if not len(lines):
            continue
        wanted = lines[:, 1, None] >> (np.arange(64) // BURST_BYTES) & 1
        differs = ((memory.read(lines[:, 0]) != got["data"][mine]) & (wanted == 1)).any(axis=1)
        wrong = (differs | (got["status"][mine] != OK)) & ~poisoned[mine]
        bad = np.flatnonzero(wrong | (got["halves"][mine] != lines[:, 1])
                             | (got["last"][mine] != lines[:, 2]))
        if len(bad):
            at, (line, halves, last) = mine[bad[0]], lines[bad[0]]
            _fail(test, seed, f"line {bad[0]} of range tag {tag} (line {line} of the slice): status "
                              f"{got['status'][at]}, halves {got['halves'][at]}, last {got['last'][at]}, "
                              f"data {bytes(got['data'][at]).hex()}; expected halves {halves}, last {last}, "
                              f"data {bytes(memory.read([line])[0]).hex()}",
                  stream=name, cycle=int(result.output_cycles[name][at]))
    return len(got["tag"]), int(poisoned.sum())
