"""Reports of failures: what they say, what they leave behind, and that nothing compared is a failure."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tb import runs
from tb.build import config_hash
from tb.report import (
    CheckFailure,
    Context,
    Report,
    compare_bytes,
    compare_float32,
    compare_words,
    simulation_failure,
)
from tb.simulator import SimulationError, Simulator
from tb.stalls import Stalls
from tb.wave import Wave
from tests.stream_relay import Fault, beats, fault_beat, relay_bench, sums


@pytest.fixture(autouse=True)
def own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))


def bits(*words):
    return np.array(words, dtype=np.uint32).view(np.float32)


def test_equal_counts():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert compare_float32(x, x.copy(), tensor="Y", checker="golden") == 12
    assert compare_bytes(b"abc", b"abc", tensor="codes", checker="golden") == 3
    assert compare_words(np.arange(5), np.arange(5), tensor="n", checker="golden") == 5
    assert compare_float32(np.float32(1), np.float32(1), tensor="y", checker="golden") == 1
    nan = bits(0x7FC00000, 0x80000000)
    assert compare_float32(nan, nan, tensor="Y", checker="golden") == 2


@pytest.mark.parametrize("expected, got, words", [
    (bits(0x3F800000), bits(0x3F800001), "Y[0] is 0x3f800001 (1.0000001), expected 0x3f800000 (1.0), 1 ULP"),
    (bits(0x80000000), bits(0x00000000), "0x00000000 (0.0), expected 0x80000000 (-0.0), 0 ULP apart"),
    (bits(0x80000001), bits(0x00000001), "2 ULP apart"),
    (bits(0x7FC00000), bits(0x7FC00001), "0x7fc00001 (nan), expected 0x7fc00000 (nan); 1 of 1"),
    (bits(0x7F800000), bits(0x7F7FFFFF), "1 ULP apart"),
])
def test_bits_count_not_values(expected, got, words):
    with pytest.raises(CheckFailure) as caught:
        compare_float32(expected, got, tensor="Y", checker="golden")
    assert words in str(caught.value)


def test_nothing_compared_is_a_failure():
    for compare, empty in [(compare_float32, np.zeros((0, 4), dtype=np.float32)), (compare_bytes, b""),
                           (compare_words, np.zeros(0, dtype=np.int64))]:
        with pytest.raises(CheckFailure, match="nothing was compared"):
            compare(empty, empty, tensor="Y", checker="golden")
    with pytest.raises(CheckFailure, match=r"has shape \[3\], expected \[4\]"):
        compare_bytes(b"abcd", b"abc", tensor="codes", checker="golden")


def test_wrong_types():
    with pytest.raises(ValueError, match="compare_float32 takes float32"):
        compare_float32(np.zeros(3), np.zeros(3, dtype=np.float32), tensor="Y", checker="golden")
    with pytest.raises(ValueError, match="compare_bytes takes uint8"):
        compare_bytes(np.zeros(3, dtype=np.int8), b"abc", tensor="Y", checker="golden")
    with pytest.raises(ValueError, match="integers of one type"):
        compare_words(np.zeros(3, dtype=np.int8), np.zeros(3, dtype=np.uint8), tensor="Y", checker="golden")


def test_earliest_in_time_is_reported_first():
    expected = np.zeros((3, 4), dtype=np.float32)
    got = expected.copy()
    got[0, 2] = got[2, 2] = 1
    cycles = np.array([[30], [20], [10]])
    with pytest.raises(CheckFailure) as caught:
        compare_float32(expected, got, tensor="Y", checker="golden", cycles=cycles)
    report = caught.value.report
    assert (report.index, report.cycle, report.differ, report.compared) == ((2, 2), 10, 2, 12)
    assert report.pattern == "one column (2), rows 0 and 2"


def test_report_on_disk():
    context = Context(test="gemm 1x2x3 / odd name", seed=7, command="jalapeno gemm --m 1")
    with pytest.raises(CheckFailure) as caught:
        compare_float32(bits(1, 2), bits(1, 3), tensor="Y", checker="golden.matmul", context=context)
    report = caught.value.report
    directory = Path(report.directory)
    assert directory.parent == runs.runs_root() and "/" not in directory.name.removeprefix("runs")
    tree = json.loads((directory / "failure.json").read_text())
    assert tree["tensor"] == "Y" and tree["index"] == [1] and tree["seed"] == 7
    assert tree["expected"]["bits"] == "0x00000002" and tree["sentence"] == str(caught.value)
    text = (directory / "failure.txt").read_text()
    for part in ("golden.matmul", "gemm 1x2x3", "seed 7", "Repeat: jalapeno gemm --m 1",
                 "JALAPENO_WAVES=1 jalapeno gemm --m 1"):
        assert part in text
    assert json.loads((directory / "manifest.json").read_text())["command"] == "jalapeno gemm --m 1"
    assert runs.last_failure() == directory


def test_a_long_run_repeats_with_a_window():
    report = Report(checker="golden", test="x", problem="p", command="cmd", wave_cycle=1_000_000)
    assert "JALAPENO_WAVES=1 JALAPENO_WAVE_CYCLES=990000:1001000 cmd" in report.sentence()


def test_command_defaults_to_this_test():
    with pytest.raises(CheckFailure) as caught:
        compare_bytes(b"a", b"b", tensor="Y", checker="golden", context=Context(test="x"))
    assert "tests/test_tb_report.py::test_command_defaults_to_this_test" in caught.value.report.command


def test_another_configuration_is_refused():
    @dataclass(frozen=True)
    class Config:
        rows: int

    bench = SimpleNamespace(config_hash=config_hash(Config(4)))
    for rows, refused in [(4, False), (5, True)]:
        context = Context(test="x", simulator=SimpleNamespace(bench=bench), config=Config(rows))
        if refused:
            with pytest.raises(ValueError, match="nothing was compared"):
                compare_bytes(b"a", b"a", tensor="Y", checker="golden", context=context)
        else:
            assert compare_bytes(b"a", b"a", tensor="Y", checker="golden", context=context) == 1


def relay_failure(simulator, fault, seed, **options):
    words, expected = beats(40, seed)
    context = Context(test=f"relay {fault.name}", seed=seed, simulator=simulator)
    try:
        result = simulator.run({"i__0": words, "fault": fault_beat(fault)}, {"o": 40}, seed=seed,
                               reset=True, **options)
    except SimulationError as error:
        raise simulation_failure(error, context) from error
    context = Context(test=f"relay {fault.name}", seed=seed, simulator=simulator, result=result)
    return compare_words(expected, sums(result)[0], tensor="sum", checker="relay",
                         context=context, cycles=result.output_cycles["o"])


def test_failures_of_a_simulation_have_wave_and_marker(monkeypatch):
    monkeypatch.setenv("JALAPENO_WAVES", "1")
    with Simulator(relay_bench(), watchdog=300) as simulator:
        assert relay_failure(simulator, Fault.NONE, 1) == 40
        with pytest.raises(CheckFailure) as caught:
            relay_failure(simulator, Fault.FLIP, 1)
    report = caught.value.report
    assert report.index == (7,) and report.pattern == "one element"
    assert report.cycle == 10  # beat 0 comes out in cycle 3
    for name in ("failure.json", "failure.txt", "manifest.json", "wave.fst", "view.gtkw", "view.sucl"):
        assert (Path(report.directory) / name).stat().st_size > 0
    wave = Wave(report.wave)
    # At the marker the wrong word is on the stream.
    assert wave.value("bench.o__valid", report.wave_cycle) == 1
    assert wave.value("bench.cycle", report.wave_cycle) == report.wave_cycle
    assert wave.value("bench.o__ready", report.wave_cycle) == 1
    shown = wave.value("bench.o__payload", report.wave_cycle) & ((1 << 21) - 1)
    assert f"0x{shown:016x}" == report.got["bits"]
    manifest = json.loads((Path(report.directory) / "manifest.json").read_text())
    assert manifest["seed"] == 1 and manifest["simulator_seed"] == 1
    assert manifest["bench"]["hash"] in manifest["bench"]["directory"]


def test_a_broken_stream_makes_a_report():
    with Simulator(relay_bench(), watchdog=300) as simulator, pytest.raises(CheckFailure) as caught:
        relay_failure(simulator, Fault.CHANGE, 2, stalls=Stalls(probability=0.8))
    report = caught.value.report
    assert report.stream == "o" and "changed its payload" in report.problem
    assert report.events and report.events[-1]["cycle"] <= report.cycle
    assert "Last transfers: cycle" in report.sentence()
