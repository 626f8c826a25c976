"""Ranges: legality, and that each pseudo-channel makes exactly its own lines, in order."""

import dataclasses
import random

import pytest

from hw.config import ConfigError, HbmConfig, HbmQueues
from hw.hbm.port import Status
from hw.hbm.ranges import RangeChecker, RangeGenerator
from tests.hbm_streams import receiver, sender, simulate

CONFIGS = [HbmConfig(pseudo_channels=1, rows=64), HbmConfig(pseudo_channels=3, rows=64, bank_groups=2),
           HbmConfig(pseudo_channels=6), HbmConfig(pseudo_channels=7, stack_ids=1, rows=64)]


def lines_of(config, channel, ask):
    """Lines of a range in a pseudo-channel, burst by burst: [(local line, halves)], in order of rows."""
    found = []
    for row in range(ask["rows"]):
        start = ask["address"] + row * ask["stride"]
        lines = {}
        for burst in range(start // 32, (start + ask["bytes"]) // 32):
            grain, within = divmod(burst, 8)
            if grain % config.pseudo_channels == channel:
                local = grain // config.pseudo_channels * 4 + within // 2
                lines[local] = lines.get(local, 0) | 1 << within % 2
        found += sorted(lines.items())
    return found


def page_of(config, local):
    """What stands above column in the number of a line."""
    groups = config.bank_groups
    return local // 4 % groups, local // (16 * groups)


def random_range(config, rng, tag):
    capacity = config.capacity_bytes
    kind = rng.choice(["short", "long", "burst", "strided", "end"])
    rows, size, stride = 1, 32 * rng.randint(1, 40), 0
    if kind == "long":
        size = 32 * rng.randint(1, 1500)
    elif kind == "burst":
        size = 32
    elif kind == "strided":
        rows, size = rng.randint(2, 20), 32 * rng.randint(1, 60)
        stride = 32 * rng.choice([0, 1, 7, 8, size // 32, rng.randint(1, 300), 8 * config.pseudo_channels])
    room = capacity - (rows - 1) * stride - size
    address = room if kind == "end" else 32 * rng.randrange(room // 32 + 1)
    return {"tag": tag, "address": address, "rows": rows, "bytes": size, "stride": stride}


def in_bursts(ask):
    return {"tag": ask["tag"], "start": ask["address"] // 32, "rows": ask["rows"],
            "length": ask["bytes"] // 32, "stride": ask["stride"] // 32}


def make(config, channel, asked, *, ranges=4, grain=16, stall=0.0, seed=0, cycles=None):
    """All BulkLines of a generator."""
    queues = HbmQueues(ranges=ranges, bulk_grain=grain)
    generator, got = RangeGenerator(dataclasses.replace(config, queues=queues)), []
    expected = sum(len(lines_of(config, channel, ask)) for ask in asked)

    async def constant(ctx):
        ctx.set(generator.index, channel)

    async def finished(ctx):
        waited = 0
        while len(got) < expected or waited < 60:
            await ctx.tick()
            waited = waited + 1
            assert waited < 400 + 40 * expected + 200 * len(asked), \
                f"{len(got)} of {expected} lines after {waited} cycles"
        if cycles is not None:
            cycles.append(waited)

    words = [in_bursts(ask) for ask in asked]
    simulate(generator, constant, sender(generator.i, words, stall=stall, seed=seed), finished,
             background=[receiver(generator.o, got.append, stall=stall, seed=seed)])
    return got


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.pseudo_channels}pc")
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_pseudo_channel_makes_its_own_lines_in_order(config, stall):
    rng = random.Random(repr(config))
    channel = rng.randrange(config.pseudo_channels)
    asked = [random_range(config, rng, tag) for tag in range(40)]
    got = make(config, channel, asked, stall=stall)
    total = 0
    for ask in asked:
        expected = lines_of(config, channel, ask)
        own = [word for word in got if word["tag"] == ask["tag"]]
        assert [(word["line"], word["halves"]) for word in own] == expected
        assert [word["last"] for word in own] == [0] * (len(own) - 1) + [1] * bool(own)
        total += len(own)
    assert total == len(got) > 100


@pytest.mark.parametrize("config", CONFIGS[:2], ids=lambda config: f"{config.pseudo_channels}pc")
def test_pages_are_closed_by_the_last_line_in_them(config):
    rng = random.Random(5)
    asked = [{"tag": tag, "address": 32 * rng.randrange(20000), "rows": 1, "bytes": 32 * rng.randint(1, 3000),
              "stride": 0} for tag in range(12)]
    channel = config.pseudo_channels - 1
    got = make(config, channel, asked, ranges=1)
    closed = 0
    for ask in asked:
        own = [word for word in got if word["tag"] == ask["tag"]]
        final = {page_of(config, word["line"]): word["line"] for word in own}
        assert [word["close"] for word in own] == \
            [word["line"] == final[page_of(config, word["line"])] for word in own]
        closed += sum(word["close"] for word in own)
    assert closed > 100


def test_a_long_range_is_a_line_a_cycle():
    config, cycles = CONFIGS[2], []
    ask = {"tag": 1, "address": 32 * 11, "rows": 1, "bytes": 6 * 256 * 200, "stride": 0}
    got = make(config, 2, [ask], cycles=cycles)
    assert len(got) == 800 and cycles[0] < 800 + 12


def test_ranges_take_turns_by_grains():
    config = CONFIGS[2]
    asked = [{"tag": tag, "address": 6 * 4096 * 10 * tag, "rows": 1, "bytes": 6 * 4096, "stride": 0}
             for tag in range(4)]
    got = make(config, 0, asked, grain=16)
    runs = [[got[0]["tag"], 0]]
    for word in got:
        if word["tag"] != runs[-1][0]:
            runs.append([word["tag"], 0])
        runs[-1][1] += 1
    assert len(got) == 256 and all(length <= 16 for _, length in runs)
    assert [tag for tag, _ in runs[4:12]] == [runs[4][0], runs[5][0], runs[6][0], runs[7][0]] * 2
    assert {tag for tag, _ in runs[4:8]} == {0, 1, 2, 3}


def test_ranges_without_lines_here_take_a_cycle():
    config, cycles = CONFIGS[2], []
    asked = [{"tag": 0, "address": 6 * 256 * index, "rows": 1, "bytes": 256, "stride": 0}
             for index in range(300)]
    asked.append({"tag": 1, "address": 5 * 256, "rows": 1, "bytes": 32, "stride": 0})
    got = make(config, 5, asked, cycles=cycles)
    assert len(got) == 1 and cycles[0] < 300 + 12


def answers(config, asked, *, stall=0.3, seed=1):
    checker, got = RangeChecker(config), []
    out = [[] for _ in range(config.pseudo_channels)]

    async def finished(ctx):
        for _ in range(100 + 30 * len(asked)):
            await ctx.tick()

    simulate(checker, sender(checker.range, asked, stall=stall, seed=seed), finished,
             background=[receiver(checker.answer, got.append, stall=stall, seed=seed),
                         *(receiver(port, out[c].append, stall=stall, seed=seed + 2 + c)
                           for c, port in enumerate(checker.o))])
    return got, out


@pytest.mark.parametrize("config", CONFIGS[1:], ids=lambda config: f"{config.pseudo_channels}pc")
def test_answers_to_legal_and_illegal_ranges(config):
    capacity, rng = config.capacity_bytes, random.Random(3)
    good = {"address": 0, "rows": 1, "bytes": 32, "stride": 0}
    cases = [
        (good, Status.OK), (good | {"rows": 0}, Status.BAD_RANGE), (good | {"bytes": 0}, Status.BAD_RANGE),
        (good | {"address": 16}, Status.BAD_RANGE), (good | {"bytes": 48}, Status.BAD_RANGE),
        (good | {"rows": 2, "stride": 33}, Status.BAD_RANGE), (good | {"stride": 33}, Status.OK),
        (good | {"address": capacity - 32}, Status.OK), (good | {"address": capacity}, Status.OUT_OF_RANGE),
        (good | {"address": capacity - 32, "bytes": 64}, Status.OUT_OF_RANGE),
        (good | {"address": 2**40 - 32}, Status.OUT_OF_RANGE),
        (good | {"rows": 2, "stride": capacity}, Status.OUT_OF_RANGE),
        (good | {"rows": 2, "stride": 2**40 - 32}, Status.OUT_OF_RANGE),
        (good | {"rows": 2, "stride": capacity - 32}, Status.OK),
        (good | {"rows": 3, "stride": (capacity - 32) // 64 * 32}, Status.OK),
        (good | {"rows": 65535, "stride": capacity - 32}, Status.OUT_OF_RANGE),
        (good | {"rows": 65535, "stride": 0, "bytes": (1 << 20) - 32}, Status.OK),
        (good | {"rows": 65535, "bytes": 64, "stride": (capacity - 64) // 65534 // 32 * 32}, Status.OK),
        (good | {"rows": 65535, "bytes": 64, "stride": (capacity - 64) // 65534 // 32 * 32 + 32},
         Status.OUT_OF_RANGE),
    ]
    rng.shuffle(cases)
    asked = [ask | {"tag": tag} for tag, (ask, _) in enumerate(cases)]
    got, out = answers(config, asked)
    assert [(word["tag"], Status(word["status"])) for word in got] == \
        [(tag, status) for tag, (_, status) in enumerate(cases)]
    legal = [in_bursts(ask) for ask, (_, status) in zip(asked, cases) if status == Status.OK]
    for words in out:
        assert [word["tag"] for word in words] == [ask["tag"] for ask in legal]
        for word, ask in zip(words, legal):
            assert {name: word[name] for name in ("start", "rows", "length")} == \
                {name: ask[name] for name in ("start", "rows", "length")}
            assert word["rows"] == 1 or word["stride"] == ask["stride"]


def test_a_grain_that_is_no_power_of_two_is_refused():
    config = HbmConfig(pseudo_channels=1, queues=HbmQueues(bulk_grain=12))
    with pytest.raises(ConfigError, match="queues.bulk_grain = 12"):
        RangeGenerator(config)
