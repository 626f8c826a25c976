"""The persistent simulator: data, stalls, state between runs, limits, broken streams, ends of processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tb.protocol import IdlePayload, Outcome
from tb.simulator import Segment, SimulationError, Simulator
from tb.stalls import Stalls
from tests.stream_relay import Fault, beats, fault_beat, relay_bench, sums


@pytest.fixture(scope="module")
def bench():
    return relay_bench()


@pytest.fixture(scope="module")
def simulator(bench):
    with Simulator(bench, watchdog=500) as simulator:
        yield simulator


def run(simulator, count=40, *, fault=Fault.NONE, seed=0, **options):
    words, expected = beats(count, seed)
    options.setdefault("reset", True)
    result = simulator.run({"i__0": words, "fault": fault_beat(fault)}, {"o": count}, seed=seed, **options)
    return result, expected


STALLS = [Stalls(), Stalls(probability=0.3), Stalls(probability=0.05, long_probability=0.5, long_cycles=30),
          Stalls(probability=0.9, idle_payload=IdlePayload.POISON_EVERY_CYCLE),
          {"o": Stalls(hold_beat=7, hold_cycles=10_000)}, {"i__0": Stalls(hold_beat=3, hold_cycles=2_000)}]


@pytest.mark.parametrize("stalls", STALLS, ids=range(len(STALLS)))
def test_data_arrives_in_order(simulator, stalls):
    result, expected = run(simulator, 300, stalls=stalls, seed=5)
    got, number = sums(result)
    assert len(got) == 300
    assert np.array_equal(got, expected)
    assert np.array_equal(number, np.arange(300))
    assert result.streams["i__0"].beats == 300 and result.streams["o"].beats == 300
    if isinstance(stalls, dict):
        assert result.cycles > min(s.hold_cycles for s in stalls.values())


def test_free_run_moves_one_beat_a_cycle(simulator):
    result, _ = run(simulator, 1000)
    stream = result.streams["o"]
    assert stream.last - stream.first == 999
    assert np.array_equal(result.output_cycles["o"], stream.first + np.arange(1000))
    assert result.cycles == stream.last + 1


def test_same_seed_same_run(simulator):
    stalls = Stalls(probability=0.4, long_probability=0.1)
    first, again, other = (run(simulator, 200, stalls=stalls, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first.output_cycles["o"], again.output_cycles["o"])
    assert first.streams == again.streams
    assert not np.array_equal(first.output_cycles["o"], other.output_cycles["o"])


def test_stalls_of_one_stream_do_not_move_with_another(simulator):
    # The sink's ready pattern depends on its own name and the seed alone.
    stall = Stalls(probability=0.5)
    both, one = (run(simulator, 100, stalls=stalls, seed=9)[0]
                 for stalls in ({"o": stall, "fault": stall}, {"o": stall}))
    assert np.array_equal(both.output_cycles["o"], one.output_cycles["o"])


def test_state_carries_on_until_reset(simulator):
    run(simulator, 10)
    result, _ = run(simulator, 5, reset=False)
    assert sums(result)[1].tolist() == [10, 11, 12, 13, 14]
    result, _ = run(simulator, 5, reset=True)
    assert sums(result)[1].tolist() == [0, 1, 2, 3, 4]


def test_segments_of_uploaded_buffers(simulator, tmp_path):
    words, _ = beats(64)
    buffer = simulator.upload(words)
    result = simulator.run(
        {"i__0": [Segment(buffer=buffer, beats=4, repeat=3), Segment(buffer=buffer, offset=80, beats=2),
                  Segment(buffer=buffer, offset=8, beats=3, stride=16),
                  Segment(buffer=buffer, offset=63 * 8, beats=64, stride=-8)]},
        {"o": 12 + 2 + 3 + 64}, reset=True)
    order = [0, 1, 2, 3] * 3 + [10, 11] + [1, 3, 5] + list(range(63, -1, -1))
    assert np.array_equal(sums(result)[0], beats(64)[1][order])

    path = tmp_path / "words.bin"
    np.concatenate([np.zeros(512, dtype=np.uint64), words]).tofile(path)
    for offset in (512 * 8, 0):  # a map that begins at a page, and a slice of one that does not
        mapped = np.memmap(path, dtype=np.uint64, mode="r", offset=offset)
        mapped = mapped if offset else mapped[512 + 3:]
        result = simulator.run({"i__0": Segment(buffer=simulator.upload(mapped), beats=20)}, {"o": 20})
        start = 0 if offset else 3
        assert np.array_equal(sums(result)[0], beats(64)[1][start:start + 20])


def test_padded_beats(simulator):
    words, expected = beats(30)
    narrow = words.view(np.uint8).reshape(30, 8)[:, :5]  # 40 bits
    result = simulator.run({"i__0": narrow}, {"o": 30}, reset=True)
    assert np.array_equal(sums(result)[0], expected)


@pytest.mark.parametrize("fault, stalls, expected", [
    (Fault.WITHDRAW, Stalls(probability=0.8), ["Stream `o`", "withdrew valid"]),
    (Fault.CHANGE, Stalls(probability=0.8), ["Stream `o`", "changed its payload"]),
    (Fault.HANG, Stalls(), ["not done", "no stream moved for 500 cycles", "i__0 valid=1 ready=0 6 of 40",
                            "o valid=0 ready=1 6 of 40", "stopped = 1; store.level = 000"]),
    (Fault.DROP, Stalls(), ["not done", "o valid=0 ready=1 39 of 40 beats"]),
    (Fault.REPEAT, Stalls(), ["Stream `o`", "a beat too many", "40 were expected"]),
], ids=lambda value: value.name if isinstance(value, Fault) else None)
def test_broken_streams_are_named(simulator, fault, stalls, expected):
    with pytest.raises(SimulationError) as caught:
        run(simulator, fault=fault, stalls=stalls)
    for part in expected:
        assert part in str(caught.value)
    result = caught.value.result
    assert result.events and result.events[-1][0] >= result.events[0][0]
    # The next run resets by itself and is whole.
    words, sum_ = beats(10)
    result = simulator.run({"i__0": words, "fault": fault_beat(Fault.NONE)}, {"o": 10})
    assert np.array_equal(sums(result)[0], sum_)


def test_protocol_is_only_broken_by_the_broken(simulator):
    for seed in range(5):
        run(simulator, 100, stalls=Stalls(probability=0.8), seed=seed)


def test_poison_shows_a_design_that_looks_at_payload_without_valid(simulator):
    def got(idle):
        result, expected = run(simulator, 50, fault=Fault.PEEK,
                               stalls={"i__0": Stalls(probability=0.5, idle_payload=idle)})
        return result.outputs["o"]

    keep, once, every = got(IdlePayload.KEEP), got(IdlePayload.POISON_ONCE), got(
        IdlePayload.POISON_EVERY_CYCLE)
    assert not np.array_equal(keep, once)
    assert not np.array_equal(once, every)


def test_limits(simulator):
    for options, reason in [({"max_cycles": 50}, "limit of cycles"), ({"wall_seconds": 0.2}, "wall-clock")]:
        with pytest.raises(SimulationError, match=reason) as caught:
            words, _ = beats(10)
            simulator.run({"i__0": words}, {"o": 10}, reset=True,
                          stalls={"o": Stalls(hold_beat=1, hold_cycles=1 << 40)}, **options)
        assert caught.value.result.outcome in (Outcome.LIMIT, Outcome.WALL)
        assert caught.value.result.streams["o"].held


@pytest.mark.parametrize("inputs, outputs, options, message", [
    ({"nothing": b""}, {"o": 1}, {}, "no stream 'nothing'"),
    ({"o": b""}, {"o": 1}, {}, "'o' is an output"),
    ({"i__0": b"1234567"}, {"o": 1}, {}, "7 bytes are not a whole number of beats of 8 bytes"),
    ({}, {"i__0": 1}, {}, "'i__0' is an input"),
    ({}, {"o": -1}, {}, "-1 beats"),
    ({}, {}, {}, "neither inputs nor outputs"),
    ({}, {"o": 1}, {"stalls": {"x": Stalls()}}, "no stream 'x'"),
    ({}, {"o": 1}, {"stalls": 0.5}, "stalls is 0.5"),
    ({}, {"o": 1}, {"wave": "x.fst"}, "built without waves"),
])
def test_wrong_requests(simulator, inputs, outputs, options, message):
    with pytest.raises(ValueError, match=message.replace("(", "\\(")):
        simulator.run(inputs, outputs, **options)
    run(simulator, 3)


def test_segment_outside_its_buffer(simulator):
    buffer = simulator.upload(np.zeros(4, dtype=np.uint64))
    for segment in (Segment(buffer=buffer, beats=5), Segment(buffer=buffer, offset=-8, beats=1),
                    Segment(buffer=buffer, beats=3, stride=16), Segment(buffer=buffer, beats=2, stride=-8)):
        with pytest.raises(ValueError, match="i__0: a segment of"):
            simulator.run({"i__0": segment}, {"o": 1})


def test_two_simulators_at_once(bench):
    with Simulator(bench) as one, Simulator(bench) as two:
        jobs = [(simulator, *beats(5000, seed)) for seed, simulator in enumerate((one, two))]
        for simulator, words, _ in jobs:
            simulator.submit({"i__0": words}, {"o": 5000})
        for simulator, _, expected in jobs:
            assert np.array_equal(sums(simulator.result())[0], expected)


def test_a_run_costs_little_more_than_its_cycles(simulator):
    words, _ = beats(4)
    run(simulator, 4)
    times = []
    for _ in range(30):
        begun = time.perf_counter()
        simulator.run({"i__0": words}, {"o": 4})
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.002


def test_a_process_that_dies_is_reported(bench):
    with Simulator(bench) as simulator:
        run(simulator, 3)
        os.kill(simulator.process_id, signal.SIGKILL)
        with pytest.raises(SimulationError, match="ended by itself"):
            run(simulator, 3)


def test_no_process_outlives_its_client(bench, tmp_path):
    script = tmp_path / "client.py"
    script.write_text(
        "from tb.simulator import Simulator\nfrom tb.stalls import Stalls\n"
        "from tests.stream_relay import *\n"
        "simulator = Simulator(relay_bench(), watchdog=1 << 50)\nsimulator.start()\n"
        "print(simulator.process_id, flush=True)\n"
        "simulator.run({'i__0': beats(9)[0]}, {'o': 9}, max_cycles=1 << 60,\n"
        "              stalls={'o': Stalls(hold_beat=1, hold_cycles=1 << 50)})\n")
    root = Path(__file__).parents[1]
    client = subprocess.Popen([sys.executable, script], cwd=root, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(root)})
    process = int(client.stdout.readline())
    time.sleep(0.5)
    client.kill()
    client.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists()
