"""A pseudo-channel against the device model, which ends a run at the first broken rule: data, order, refresh.

The figures are those of a pseudo-channel alone; the slice's are in test_hbm_slice.py.
"""

import random

import numpy as np
import pytest

from hw.config import preset
from hw.hbm.port import BulkLine, ChannelData, Demand, Reply, ScrubLine
from hw.hbm.timing import HbmSlots, slot_rate
from tb.simulator import Simulator
from tb.stalls import Stalls
from tests.hbm_channel import Devices, Probe, Settings, channel_bench, unpack, words

CONFIG = preset("full").tile.hbm
T = HbmSlots.of(CONFIG)
LINES = CONFIG.stack_ids * CONFIG.banks * CONFIG.rows * 16
EVERY = (1 << 64) - 1
SLOTS_A_CYCLE = slot_rate(CONFIG.gbit_s_pin, 1.6)


@pytest.fixture(scope="module")
def sim():
    with Simulator(channel_bench(CONFIG)) as simulator:
        yield simulator


def read(line, slot=0):
    return {"write": 0, "slot": slot % 256, "line": line}


def write(line, data, mask=EVERY):
    return {"write": 1, "line": line, "data": data, "mask": mask}


def bulk(line, *, tag=0, halves=3, last=0, close=None):
    # By default as a stream over whole pages gives it: the last line of each 256 bytes in the page's last.
    close = (line % 64 >= 48 and line % 4 == 3) if close is None else close
    return {"tag": tag, "line": line, "halves": halves, "last": last, "close": int(close)}


def run(sim, *, demand=(), lines=(), scrub=(), settings=(), reset=True, **options):
    """Runs until all is answered; (result, replies, bulk data, probes)."""
    inputs = {name: words(shape, rows) for name, shape, rows in (
        ("demand", Demand, demand), ("bulk", BulkLine, lines), ("scrub", ScrubLine, scrub),
        ("settings", Settings, settings)) if rows}
    reads = sum(not request["write"] for request in demand)
    result = sim.run(inputs, {"reply": reads, "data": len(lines), "probe": len(settings)}, reset=reset,
                     max_cycles=2_000_000, **options)
    return (result, unpack(Reply, result.outputs["reply"]), unpack(ChannelData, result.outputs["data"]),
            unpack(Probe, result.outputs["probe"]))


class Model:
    """What memory holds, by line, as requests come in order."""

    def __init__(self, initial=None):
        self.lines = dict(initial or {})

    def apply(self, request):
        """The expected data of a read; None of a write."""
        line = request["line"]
        if not request["write"]:
            return self.lines[line]
        mask = sum(0xFF << 8 * byte for byte in range(64) if request["mask"] >> byte & 1)
        self.lines[line] = (self.lines.get(line, 0) & ~mask) | (request["data"] & mask)
        return None


def check_replies(requests, model, replies):
    """Each read is answered once, under its slot, with what the model has."""
    expected = {}
    for request in requests:
        value = model.apply(request)
        if value is not None:
            expected.setdefault(request["slot"], []).append(value)
    compared = 0
    for reply in replies:
        assert reply["status"] == 0
        values = expected[reply["slot"]]
        assert reply["data"] in values, f"slot {reply['slot']}"
        values.remove(reply["data"])
        compared += 1
    assert compared and not any(expected.values())
    return compared


def traffic(kind, count, seed):
    """Writes of each line first, then a mix."""
    rng = random.Random(seed)
    pool = {
        "scattered": [rng.randrange(LINES) for _ in range(300)],
        "two banks": [(rng.randrange(CONFIG.rows) * 3 * 256) + rng.choice((0, 4)) for _ in range(40)],
        "one row": list(range(16)),
        "one line": [12345, 12346],
        "edges": [0, 1, 255, 256, LINES - 1, LINES - 2, LINES - 256, LINES // 2],
    }[kind]
    requests = [write(line, rng.getrandbits(512)) for line in pool]
    slot = 0
    for _ in range(count):
        line = rng.choice(pool)
        if rng.random() < 0.5:
            requests.append(read(line, slot))
            slot += 1
        else:
            mask = rng.choice((EVERY, rng.getrandbits(64), 1 << rng.randrange(64), (1 << 32) - 1,
                               EVERY ^ (1 << 63), 0, 0xFF << 40))
            requests.append(write(line, rng.getrandbits(512), mask))
    return requests


@pytest.mark.parametrize("kind", ["scattered", "two banks", "one row", "one line", "edges"])
@pytest.mark.parametrize("stalls", [False, True])
def test_reads_see_all_older_writes(sim, kind, stalls):
    requests = traffic(kind, 1500, seed=len(kind))
    options = {"stalls": Stalls(probability=0.3), "seed": 5} if stalls else {}
    _, replies, _, _ = run(sim, demand=requests, **options)
    assert check_replies(requests, Model(), replies) > 600


def test_bulk_is_in_order_beside_demand(sim):
    rng = random.Random(3)
    base = 7 * 64
    first = [write(base + i, rng.getrandbits(512)) for i in range(256)]
    other = [write(5_000_000 + i, rng.getrandbits(512)) for i in range(64)]
    run(sim, demand=first + other, settings=[{"until_idle": 1}])
    # Now both kinds at once, the stream with single halves and holes.
    lines = []
    for i in range(1200):
        at = rng.randrange(256)
        halves = rng.choice((1, 2, 3))
        lines += [bulk(base + at, tag=i % 256, halves=halves, last=i & 1, close=rng.random() < 0.1)]
    requests = [read(5_000_000 + rng.randrange(64), slot) for slot in range(400)]
    _, replies, data, _ = run(sim, demand=requests, lines=lines, stalls=Stalls(probability=0.2), seed=2,
                              reset=False)
    model = Model()
    for request in first + other:
        model.apply(request)
    assert check_replies(requests, model, replies) == 400
    assert len(data) == len(lines)
    for line, got in zip(lines, data, strict=True):
        assert (got["tag"], got["halves"], got["last"], got["status"]) == (
            line["tag"], line["halves"], line["last"], 0)
        wanted = sum(((1 << 256) - 1) << 256 * half for half in range(2) if line["halves"] >> half & 1)
        assert got["data"] & wanted == model.lines[line["line"]] & wanted


def bandwidth(result, bursts):
    """Share of slots that carried data, from the first tenth of the lines on."""
    cycles = np.sort(np.concatenate([result.output_cycles["data"], result.output_cycles["reply"]]))
    begin, end = len(cycles) // 10, len(cycles) - 1 - len(cycles) // 20
    return bursts * (end - begin) / len(cycles) / (float(cycles[end] - cycles[begin]) * float(SLOTS_A_CYCLE))


def refreshes_keep_up(sim, worst=2):
    """Served and due, at most one or two refreshes a bank apart."""
    figures = Devices(sim).statistics()[0]
    assert figures["worst_debt"] <= worst
    assert figures["refreshes_served"] + figures["refreshes_owed"] >= figures["refreshes_due"] > 40
    return figures


def test_stream(sim):
    lines = [bulk(6400 + i) for i in range(12_000)]
    result, _, _, _ = run(sim, lines=lines)
    figures = refreshes_keep_up(sim, worst=1)
    assert bandwidth(result, 2 * len(lines)) >= 0.98
    assert figures["refreshes_served"] >= 0.9 * figures["refreshes_due"]
    # Pages are opened once and close themselves.
    assert figures["ACT"] <= len(lines) // 16 + 4 and figures["PRE"] == 0


def test_four_streams(sim):
    bases = [64 * (1000 + k * LINES // 256 + 37 * k) for k in range(4)]
    lines = [bulk(base + 16 * turn + i, tag=k) for turn in range(150) for k, base in enumerate(bases)
             for i in range(16)]
    result, _, data, _ = run(sim, lines=lines)
    refreshes_keep_up(sim)
    assert [line["tag"] for line in data] == [line["tag"] for line in lines]
    assert bandwidth(result, 2 * len(lines)) >= 0.93


def test_random_256_bytes(sim):
    rng = random.Random(1)
    lines = []
    for _ in range(2000):
        base = 4 * rng.randrange(LINES // 4)
        lines += [bulk(base + i, close=i == 3) for i in range(4)]
    result, _, _, _ = run(sim, lines=lines)
    refreshes_keep_up(sim)
    assert bandwidth(result, 2 * len(lines)) >= 0.85


def test_random_32_bytes_reach_the_activate_window(sim):
    """Four activates in tFAW, but for the pause of tRREFD that each refresh makes in them."""
    rng = random.Random(1)
    lines = [bulk(rng.randrange(LINES), halves=1, close=1) for _ in range(3000)]
    result, _, _, _ = run(sim, lines=lines)
    refreshes_keep_up(sim)
    pause = T.rrd_s + T.rref - (T.faw - 3 * T.rrd_s)
    bound = 4 / T.faw * (1 - pause / T.debt_step)
    assert 0.97 * bound <= bandwidth(result, len(lines)) <= 1.01 * bound


def test_half_reads_half_writes(sim):
    rng = random.Random(2)
    requests, lines = [], []
    for _ in range(40):
        to, source = (64 * rng.randrange(LINES // 64) for _ in range(2))
        requests += [write(to + i, i) for i in range(64)]
        lines += [bulk(source + i) for i in range(64)]
    result, _, _, _ = run(sim, demand=requests, lines=lines)
    refreshes_keep_up(sim, worst=4)
    assert bandwidth(result, 4 * len(lines)) >= 0.75


@pytest.mark.parametrize("temperature,all_bank", [(1, 0), (2, 0), (0, 1)])
def test_refresh_rates(sim, temperature, all_bank):
    """Twice and four times as often, and all banks at once: in time, under load and idle."""
    settings = [{"wait": 100, "temperature": temperature, "all_bank": all_bank},
                *[{"wait": 15_000, "temperature": temperature, "all_bank": all_bank}] * 2]
    lines = [bulk(i) for i in range(6000)]
    result, _, _, probes = run(sim, lines=lines, settings=settings)
    figures = Devices(sim).statistics()[0]
    assert figures["worst_debt"] <= 8
    busy_slots = figures["slots"] - T.init
    assert figures["refreshes_due"] >= 0.95 * (busy_slots << temperature) / T.debt_step
    assert figures["refreshes_served"] + figures["refreshes_owed"] >= figures["refreshes_due"]
    assert (figures["REFAB"] > 3, figures["REFPB"] > 50) == (bool(all_bank), not all_bank)


def test_debts_are_paid_when_idle(sim):
    """Some reads leave rows open; left alone, the controller closes them and owes nothing but the latest."""
    rng = random.Random(4)
    requests = [read(rng.randrange(LINES), slot) for slot in range(800)]
    run(sim, demand=requests, settings=[{"wait": 15_000}] * 2)
    figures = Devices(sim).statistics()[0]
    # The device counts from REFAB on, the controller from its end: a few banks ahead.
    assert figures["refreshes_owed"] <= T.rfc_all // T.debt_step + 2 and figures["worst_debt"] <= 2


def burst_number(line, half):
    """Of a burst in the device: ((stack ID * banks + bank) * rows + row) * 32 + column."""
    groups = CONFIG.bank_groups
    low, rest = line % 4, line // 4
    group, rest = rest % groups, rest // groups
    high, rest = rest % 4, rest // 4
    inner, rest = rest % (CONFIG.banks // groups), rest // (CONFIG.banks // groups)
    sid, row = rest % CONFIG.stack_ids, rest // CONFIG.stack_ids
    bank = sid * CONFIG.banks + inner * groups + group
    return (bank * CONFIG.rows + row) * 32 + 2 * (4 * high + low) + half


def counters(probe):
    """The counters of a probe, by name."""
    layout = Probe.as_shape()["counters"].shape.as_shape()
    return {name: probe["counters"] >> field.offset & (1 << field.width) - 1 for name, field in layout}


def test_single_errors_are_corrected_and_scrubbed_double_errors_poison(sim):
    rng = random.Random(6)
    lines = [rng.randrange(LINES) for _ in range(24)]
    requests = [write(line, rng.getrandbits(512)) for line in lines]
    run(sim, demand=requests, settings=[{"until_idle": 1}])
    devices = Devices(sim)
    single, double, clean = lines[:8], lines[8:16], lines[16:]
    for index, line in enumerate(single):
        devices.flip(0, burst_number(line, index % 2), index % 4, rng.randrange(72))
    for index, line in enumerate(double):
        for bit in rng.sample(range(72), 2):
            devices.flip(0, burst_number(line, index % 2), index % 4, bit)
    result, replies, _, probes = run(
        sim, demand=[read(line, slot) for slot, line in enumerate(lines)], settings=[{"until_idle": 1}])
    model = Model()
    for request in requests:
        model.apply(request)
    assert len(replies) == len(lines)
    for reply in replies:
        line = lines[reply["slot"]]
        if line in double:
            assert reply["status"] == 1
        else:
            assert (reply["status"], reply["data"]) == (0, model.lines[line])
    found = counters(probes[0])
    assert (found["corrected"], found["uncorrected"], found["first_valid"]) == (8, 8, 1)

    # A scrub mends what can be mended, and writes nothing else.
    _, _, _, probes = run(sim, scrub=[{"line": line} for line in lines], settings=[
        {"wait": 8000, "until_idle": 1}])
    assert counters(probes[0])["scrubbed"] == 8
    assert Devices(sim).statistics()[0]["WR"] == 8
    _, replies, _, probes = run(
        sim, demand=[read(line, slot) for slot, line in enumerate(lines)], settings=[{"until_idle": 1}])
    assert counters(probes[0])["corrected"] == 0 and counters(probes[0])["uncorrected"] == 8
    assert {lines[reply["slot"]] for reply in replies if reply["status"]} == set(double)

    # A partial write leaves a bad word bad, unless it writes all of it.
    some = [write(line, rng.getrandbits(512), 1 << 32 * (index % 2) + 8 * (index % 4) if index < 4 else
                  0xFF << 32 * (index % 2) + 8 * (index % 4)) for index, line in enumerate(double)]
    _, replies, _, _ = run(sim, demand=some + [read(line, slot) for slot, line in enumerate(double)])
    for request in some:
        model.apply(request)
    for reply in replies:
        line = double[reply["slot"]]
        if reply["slot"] < 4:
            assert reply["status"] == 1
        else:
            assert (reply["status"], reply["data"]) == (0, model.lines[line])
    assert len(clean) == 8 and len(replies) == 8


def test_idle_latency(sim):
    """Row hit, closed bank, row conflict: at most five tile cycles over the device, in the best phase."""
    device = {"hit": 0, "closed": T.rcd_read, "conflict": T.rp + T.rcd_read}
    rng, best = random.Random(8), dict.fromkeys(device, 1000)
    for attempt in range(10):
        line = 768 * rng.randrange(LINES // 768 - 8) + 64 * attempt
        for kind, at in (("closed", line), ("hit", line ^ 1), ("conflict", line + 5 * 768)):
            result, _, _, _ = run(sim, demand=[read(at)], reset=attempt == 0 and kind == "closed")
            best[kind] = min(best[kind], int(result.output_cycles["reply"][0]))
    for kind, slots in device.items():
        minimum = float((slots + T.ccd_l + T.read_data) / SLOTS_A_CYCLE)
        assert minimum < best[kind] <= minimum + 5, (kind, best[kind], minimum)
