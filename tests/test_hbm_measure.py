"""Traffic patterns, figures from a command trace, and the picture of it; no simulation."""

import numpy as np
import pytest

from golden.hbm import OK, Geometry, range_lines
from hw.config import HbmConfig
from scripts import cli
from scripts.commands import hbm as command
from sw.hbm import measure, patterns, timeline
from tb.hbm.trace import records

CONFIG = HbmConfig(pseudo_channels=1)
CLOCK = 1.6


@pytest.mark.parametrize("name", patterns.PATTERNS)
@pytest.mark.parametrize("channels", [1, 6])
def test_patterns_stay_inside_and_are_as_large_as_asked(name, channels):
    geometry = Geometry(pseudo_channels=channels)
    size = channels * 40e3 * 30  # 30 us at 40 GB/s
    traffic = patterns.PATTERNS[name](np.random.default_rng(1), geometry, size)
    carried = 0
    if traffic.ranges:
        for asked in traffic.ranges.asked:
            assert range_lines(geometry, **asked)[0] == OK
            carried += asked["rows"] * asked["size"]
    if traffic.requests:
        assert (traffic.requests.lines >= 0).all() and (traffic.requests.lines < geometry.lines).all()
        carried += 64 * len(traffic.requests)
    assert (0.15 if name in ("random32", "mixed64") else 0.3) * size < carried < 1.7 * size or name == "idle"
    if name.startswith("mixed"):
        assert 0.4 < traffic.requests.write.mean() < 0.6
    if name == "random32":
        assert {asked["size"] for asked in traffic.ranges.asked} == {32}


def test_command_offers_all_patterns():
    assert command.PATTERNS == tuple(patterns.PATTERNS)


def trace_of_bursts(count, *, step=2, refresh_every=200):
    """Bursts every ``step`` CK, a row for each 32, and refreshes."""
    commands = []
    for n in range(count):
        if n % 32 == 0:
            commands.append((n * step, 0, "ACT", 0, n // 32 % 16, 7))
        commands.append((n * step, 0, "RD", 0, n // 32 % 16, n % 32))
    commands += [(ck, 0, "REFPB", 2, 3, 0) for ck in range(0, count * step, refresh_every)]
    return records(sorted(commands, key=lambda command: command[0]))


@pytest.mark.parametrize("step,share", [(2, 1.0), (4, 0.5)])
def test_figures_of_a_known_trace(step, share):
    trace = trace_of_bursts(20_000, step=step)
    found = measure._figures(CONFIG, "stream", trace, np.zeros(0), CLOCK).measurement
    assert found.share == pytest.approx(share, rel=1e-3) and found.gb_s == pytest.approx(40 * share, rel=1e-3)
    assert found.row_hits == pytest.approx(31 / 32, rel=1e-3)
    window = found.window_ns / 0.4
    assert window == pytest.approx(0.67 * 20_000 * step, rel=1e-3)
    assert found.refreshes_due == int(window * 48 / 9750)
    assert abs(found.refreshes_served - window / 200) <= 1


def lone_reads():
    """A closed bank, a hit, a conflict, and a closed bank whose refresh ends with the activate."""
    return records([
        (0, 0, "REFPB", 1, 5, 0),
        (100, 0, "ACT", 0, 1, 9), (149, 0, "RD", 0, 1, 0), (156, 0, "RD", 0, 1, 1),
        (300, 0, "RD", 0, 1, 2), (307, 0, "RD", 0, 1, 3),
        (400, 0, "PRE", 0, 1, 0), (442, 0, "ACT", 0, 1, 10), (491, 0, "RD", 0, 1, 0), (498, 0, "RD", 0, 1, 1),
        (700, 0, "ACT", 1, 5, 1), (749, 0, "RD", 1, 5, 0), (756, 0, "RD", 1, 5, 1),
    ])


def test_idle_latencies_are_told_apart_and_refreshes_left_out():
    ck_cycles = 0.4 * CLOCK
    latency = np.array([83, 34, 125, 83 + 600]) * ck_cycles + [5, 6, 7, 0]
    found = measure._idle(CONFIG, lone_reads(), latency, 0.4, CLOCK)
    # The rounding up of nanoseconds to CK (49 CK for 19.5 ns) is not the device's own time.
    assert found["idle_samples"] == 3
    assert found["idle_extra_by_case"] == {
        "closed": pytest.approx(5.16, abs=0.01), "hit": pytest.approx(6, abs=0.01),
        "conflict": pytest.approx(7.64, abs=0.01)}
    assert found["idle_extra_cycles"] == found["idle_extra_by_case"]["conflict"]


def test_few_bursts_give_no_figure():
    with pytest.raises(ValueError, match="gave 50 bursts"):
        measure._figures(CONFIG, "stream", trace_of_bursts(50), np.zeros(0), CLOCK)


def test_picture(tmp_path):
    measured = measure._figures(CONFIG, "stream", trace_of_bursts(2000), np.zeros(0), CLOCK)
    timeline.draw(tmp_path / "a.png", measured, CONFIG, title="test")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="device = 3"):
        timeline.draw(tmp_path / "b.png", measured, CONFIG, title="test", device=3)
    with pytest.raises(ValueError, match="no command lies"):
        timeline.draw(tmp_path / "b.png", measured, CONFIG, title="test", first_ns=1e9)


@pytest.mark.parametrize("arguments,message", [
    (["--pattern", "nothing"], "nothing"),
    (["--pattern", "idle", "--microseconds", "3"], "'--microseconds': 3.0"),
    (["--pattern", "idle", "--set", "hbm.pins=64"], "pins"), ([], "pattern"),
])
def test_bad_input_is_refused_in_a_sentence(arguments, message, capsys):
    assert cli.run(["hbm", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
