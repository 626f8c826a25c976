"""What the benches of the slice are fed with and how its answers are compared, without a slice."""

import numpy as np
import pytest

from golden.hbm import Geometry, Memory
from hw.hbm import port
from tb.hbm import check
from tb.hbm.beats import pack, unpack
from tb.hbm.traffic import PROFILES, random_ranges, random_requests
from tb.report import CheckFailure

GEOMETRY = Geometry(pseudo_channels=3, rows=64)


def test_beats_are_as_amaranth_packs_them():
    rng = np.random.default_rng(1)
    data, masks = rng.integers(0, 256, size=(3, 64), dtype=np.uint8), rng.random((3, 64)) < 0.5
    beats = pack(port.Request, 3, write=np.array([True, False, True]), tag=np.array([1, 255, 7]), line=9,
                 mask=masks, data=data)
    for n in range(3):
        word = port.Request.const({
            "write": int(n != 1), "tag": [1, 255, 7][n], "line": 9,
            "mask": int.from_bytes(np.packbits(masks[n], bitorder="little").tobytes(), "little"),
            "data": int.from_bytes(data[n].tobytes(), "little")}).as_bits()
        assert word.to_bytes(78, "little") == beats[n].tobytes()
    back = unpack(port.Request, beats)
    assert back["tag"].tolist() == [1, 255, 7] and np.array_equal(back["data"], data)


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(profile):
    requests = random_requests(np.random.default_rng(2), GEOMETRY, profile, 1000)
    inside = requests.lines < GEOMETRY.lines
    assert inside.all() or profile == "edges" and 0 < inside.sum() < 1000
    assert len(set(requests.tags)) > 200 and 200 < requests.write.sum() < 800
    channel, local = GEOMETRY.split(requests.lines[inside])
    places = np.stack([channel, *GEOMETRY.locate(local)])
    banks, rows = (len({tuple(place) for place in places[:count].T}) for count in (3, 4))
    pages = {"two banks": (2, 6), "same row": (1, 1)}
    assert (banks, rows) == pages.get(profile, (banks, rows))
    if profile == "one group":
        assert len(set(places[2] % 4)) == 1 and 2 < banks <= 12


class Answers:
    """In place of a simulator: answers as the model gives them, with one of them changed."""

    def __init__(self, requests, answers, order):
        status, data = answers
        beats = pack(port.Response, len(requests), tag=requests.tags, write=requests.write, status=status,
                     data=data)
        self.outputs, self.cycles = {"response": beats[order]}, 1
        self.output_cycles = {"response": np.arange(len(requests))}

    def run(self, inputs, outputs, **options):
        return self


def test_wrong_answers_are_found():
    rng = np.random.default_rng(3)
    requests = random_requests(rng, GEOMETRY, "same line", 200)
    arguments = (requests.write, requests.lines, requests.masks, requests.data)
    status, data = Memory(GEOMETRY).requests(*arguments)
    order = np.argsort(requests.tags >> 6, kind="stable")  # classes may pass each other

    def verdict(status, data, order, **options):
        answers = Answers(requests, (status, data), order)
        return check.check_traffic(answers, GEOMETRY, Memory(GEOMETRY), requests, test="answers", **options)

    assert verdict(status, data, order).requests == 200
    read = np.flatnonzero(~requests.write & data.any(axis=1))[5]
    wrong = data.copy()
    wrong[read, 17] ^= 4
    with pytest.raises(CheckFailure, match=rf"to request {read} \(read of line .*data is"):
        verdict(status, wrong, order)
    poisoned = status.copy()
    poisoned[read] = 1
    with pytest.raises(CheckFailure, match="status is 1, expected 0"):
        verdict(poisoned, data, order)
    # Where faults are injected a read may be poisoned, but never wrong without saying so.
    assert verdict(poisoned, wrong, order, faults=True).poisoned == 1
    with pytest.raises(CheckFailure, match="data is"):
        verdict(status, wrong, order, faults=True)
    swapped = order.copy()
    swapped[[3, 4]] = order[[4, 3]]
    with pytest.raises(CheckFailure, match="tag is"):
        verdict(status, data, swapped)
    with pytest.raises(CheckFailure, match="answers to"):
        verdict(status, data, np.where(order == order[0], order[-1], order))


def test_ranges_stay_within_their_bytes():
    ranges = random_ranges(np.random.default_rng(4), 1 << 20, 1 << 22, 300)
    for asked in ranges.asked:
        assert asked["address"] >= 1 << 20
        assert asked["address"] + (asked["rows"] - 1) * asked["stride"] + asked["size"] <= 1 << 22
