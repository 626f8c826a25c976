"""Views and pictures of waves: grammar, and that every signal they name is in the wave."""

import os
import re
import signal
import time

import pytest

from tb import lastrun, picture, views
from tb.report import CheckFailure, Context, compare_words
from tb.simulator import SimulationError, Simulator
from tb.stalls import Stalls
from tb.wave import PERIOD, Wave
from tests.stream_relay import Fault, beats, fault_beat, relay_bench, sums


@pytest.fixture(scope="module")
def bench():
    return relay_bench(waves=True)


@pytest.fixture(scope="module")
def wave(bench, tmp_path_factory):
    path = tmp_path_factory.mktemp("waves") / "relay.fst"
    with Simulator(bench) as simulator:
        words, _ = beats(30)
        simulator.run({"i__0": words}, {"o": 30}, wave=path, stalls=Stalls(probability=0.3))
    return path


def test_wave_shows_the_run(wave):
    source = Wave(wave)
    assert source.width("bench.o__payload") == 37
    assert all(source.value("bench.cycle", cycle) == cycle for cycle in range(3, 40))
    assert not [name for name in source.names if ".sink_" in name or ".source_" in name]
    cycles = [cycle for cycle in range(4, 200) if source.value("bench.o__valid", cycle) == 1
              and source.value("bench.o__ready", cycle) == 1]
    assert len(cycles) == 30
    words = [source.value("bench.o__payload", cycle) & ((1 << 21) - 1) for cycle in cycles]
    assert words == beats(30)[1].tolist()
    with pytest.raises(ValueError, match="no signal 'x'"):
        source.value("x", 0)


def test_not_a_wave(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        Wave(tmp_path / "none.fst")
    (tmp_path / "bad.fst").write_bytes(b"no wave" * 100)
    with pytest.raises(ValueError, match="cannot be read as a wave file"):
        Wave(tmp_path / "bad.fst")


def test_gtkwave_view(bench, wave, tmp_path):
    paths = views.write_views(tmp_path, wave, bench.streams, cycle=12, first="o")
    lines = paths["gtkwave"].read_text().splitlines()
    assert lines[0] == f'[dumpfile] "{wave}"'
    marker = next(line for line in lines if line.startswith("*"))
    assert re.fullmatch(r"\*-?\d+\.\d+ 12000( -1){26}", marker)
    source = Wave(wave)
    named, flags, depth = [], None, 0
    groups = []
    for line in lines[5:]:
        if line.startswith("@"):
            flags = line
        elif line.startswith("-"):
            depth += {"@800200": 1, "@1000200": -1}[flags]
            if flags == "@800200":
                groups.append(line[1:])
        elif not line.startswith("["):
            name, width = re.fullmatch(r"([\w.$]+?)(?:\[(\d+):0\])?", line).groups()
            assert source.width(name) == int(width or 0) + 1
            assert depth == 1
            named.append(name)
    assert depth == 0
    assert groups[:2] == ["run", "o"] and set(groups) >= {"i__0", "fault", "store"}
    assert len(named) == len(set(named)) > 15
    assert set(named) <= set(source.names)


def test_surfer_view(bench, wave, tmp_path):
    paths = views.write_views(tmp_path, wave, bench.streams, cycle=12)
    names = set(Wave(wave).names)
    item, formats = 0, 0
    for line in paths["surfer"].read_text().splitlines():
        command, _, argument = line.partition(" ")
        if command == "variable_add":
            assert argument in names
            item += 1
        elif command == "divider_add":
            assert argument
            item += 1
        elif command == "item_focus":
            digits = "".join(f"{ord(c) - ord('a'):x}" for c in argument.removesuffix("_"))
            assert int(digits, 16) == item - 1
        elif command == "item_set_format":
            formats += 1
            assert argument in {surfer for _, surfer in views.RADIX.values()}
        elif command == "marker_set":
            assert argument == f"failure {12 * PERIOD}"
        elif command == "cursor_set":
            assert argument == str(12 * PERIOD)
        else:
            assert line == "item_unfocus"
    assert item > 15 and formats > 5


def test_picture(wave, tmp_path):
    signals = [views.Signal(name="bench.clk", width=1, radix="bin"),
               views.Signal(name="bench.o__valid", width=1, radix="bin"),
               views.Signal(name="bench.o__payload", width=37),
               views.Signal(name="bench.cycle", width=64, radix="dec")]
    path = picture.draw(tmp_path / "a.png", wave, signals, cycle=12, title="thirty beats")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 5000
    with pytest.raises(ValueError, match="no signal 'bench.nothing'"):
        picture.draw(tmp_path / "b.png", wave, [views.Signal(name="bench.nothing", width=1)], cycle=1)


def test_window_and_size_limit(bench, tmp_path):
    with Simulator(bench) as simulator:
        words, _ = beats(2000)
        path = tmp_path / "window.fst"
        simulator.run({"i__0": words}, {"o": 2000}, wave=path, wave_cycles=(100, 110))
        times = [time for time, _ in Wave(path).changes("bench.clk")]
        assert 20 <= len(times) <= 22
        assert times[-1] - times[0] <= 11 * PERIOD
        words, _ = beats(300_000)
        result = simulator.run({"i__0": words}, {"o": 300_000}, wave=tmp_path / "cut.fst",
                               wave_limit=100_000)
        assert result.wave_truncated
        assert Wave(tmp_path / "cut.fst").names


@pytest.mark.parametrize("end", ["TERM", "INT", "client"])
def test_wave_is_whole_however_the_process_ends(bench, tmp_path, end):
    path = tmp_path / "wave.fst"
    simulator = Simulator(bench, watchdog=1 << 50)
    simulator.open_wave(path)
    simulator.submit({"i__0": beats(9)[0]}, {"o": 9}, stalls={"o": Stalls(hold_beat=1, hold_cycles=1 << 50)},
                     max_cycles=1 << 50)
    time.sleep(0.3)
    if end == "client":
        simulator.close()
    else:
        os.kill(simulator.process_id, getattr(signal, f"SIG{end}"))
        with pytest.raises(SimulationError, match="ended by itself"):
            simulator.result()
    changes = Wave(path).changes("bench.cycle")
    assert len(changes) > 1000


def test_wave_by_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("JALAPENO_WAVES", "1")
    monkeypatch.setenv("JALAPENO_WAVE_CYCLES", "20:40")
    with Simulator(relay_bench()) as simulator:
        for _ in range(3):
            simulator.run({"i__0": beats(30)[0]}, {"o": 30})
    (directory,) = (tmp_path / "runs").iterdir()
    times = [time for time, _ in Wave(directory / "wave.fst").changes("bench.clk")]
    assert times[0] == 20 * PERIOD and 40 * PERIOD <= times[-1] < 41 * PERIOD
    assert (directory / "view.gtkw").exists() and (directory / "manifest.json").exists()
    for window in ("40:20", "x", "5"):
        monkeypatch.setenv("JALAPENO_WAVE_CYCLES", window)
        with pytest.raises(ValueError, match="JALAPENO_WAVE_CYCLES is"):
            Simulator(relay_bench()).start()


def test_last_run(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("PATH", "")
    assert lastrun.describe()["found"] is False
    assert "No failure" in lastrun.open_viewer()["reason"]
    with pytest.raises(ValueError, match="No failure"):
        lastrun.render()
    with Simulator(bench) as simulator:
        words, expected = beats(20)
        result = simulator.run({"i__0": words, "fault": fault_beat(Fault.FLIP)}, {"o": 20},
                               wave=tmp_path / "w.fst")
        with pytest.raises(CheckFailure):
            compare_words(expected, sums(result)[0], tensor="sum", checker="relay",
                          cycles=result.output_cycles["o"],
                          context=Context(test="relay", seed=3, simulator=simulator, result=result))
    last = lastrun.describe()
    assert last["found"] and "sum[7]" in last["sentence"] and last["cycle"] == result.start + 10
    assert set(last["files"]) == {"report", "text", "manifest", "wave", "gtkwave", "surfer"}
    assert [viewer["command"][0] for viewer in last["viewers"]] == ["surfer", "gtkwave"]
    opened = lastrun.open_viewer()
    assert opened["opened"] is None and "neither surfer nor gtkwave" in opened["reason"]
    assert lastrun.render().read_bytes()[:4] == b"\x89PNG"
