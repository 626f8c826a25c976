"""Planted bugs: each is caught by the check that all results go through, which names where."""

import pytest

import hw.matrix.engine
from tb.matrix.planted import CONFIG, jobs, verdict
from tb.planted import PLANTED, planted_engine


@pytest.fixture(autouse=True)
def reports_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path))


def test_the_right_engine_passes():
    found = verdict()
    assert not found.caught and found.sentence is None


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught_and_its_place_named(bug):
    found = verdict(bug)
    number = int(found.tensor.rsplit(" ", 1)[1])
    row, column = found.index
    assert row < jobs()[number].m and column < jobs()[number].n
    assert found.sentence.startswith(f"Y of job {number}[{row},{column}] is 0x")
    assert "expected 0x" in found.sentence and "at cycle" in found.sentence


def test_a_planted_bug_is_planted_in_a_copy():
    before = hw.matrix.engine.Engine
    engine = planted_engine("sign", CONFIG)
    engine._MustUse__silence = True
    assert type(engine) is not before and type(engine).__name__ == "Engine"
    assert hw.matrix.engine.Engine is before


def test_each_bug_says_what_it_is_and_where():
    assert len(PLANTED) >= 10
    assert len({bug.what for bug in PLANTED.values()}) == len(PLANTED)
    for bug in PLANTED.values():
        assert bug.right != bug.wrong and bug.line > 1 and bug.path.is_file() and bug.source()
