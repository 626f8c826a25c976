"""`jalapeno wave`: says what the last failure was, opens it on request, and is plain when there is none."""

import json

import pytest

from scripts import cli
from tb import lastrun, runs


@pytest.fixture
def failure(tmp_path, monkeypatch):
    """A recorded failure with a wave, in a runs directory of its own."""
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))
    directory = runs.new_run("gemm 1x1x32", {"seed": 5})
    report = {"sentence": "y[0, 3]: expected 1.0, got 2.0.", "problem": "1 of 4 differ", "wave_cycle": 41,
              "command": "jalapeno gemm --m 1"}
    (directory / "failure.json").write_text(json.dumps(report))
    for name in ("failure.txt", "wave.fst", "view.gtkw", "view.sucl"):
        (directory / name).touch()
    runs.set_last_failure(directory)
    return directory


def test_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path))
    assert cli.run(["wave"]) == 0
    assert capsys.readouterr().out.startswith("No failure is recorded under")
    assert cli.run(["wave", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"] is False
    assert cli.run(["wave", "--picture", str(tmp_path / "x.png")]) == 2
    assert capsys.readouterr().err.startswith("jalapeno: No failure is recorded")


def test_description(failure, capsys):
    assert cli.run(["wave"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("y[0, 3]: expected 1.0, got 2.0.\n") and str(failure / "wave.fst") in out
    assert "repeat: jalapeno gemm --m 1" in out
    assert "opened" not in out, "without a terminal no viewer is started"
    assert cli.run(["wave", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cycle"] == 41 and document["files"]["wave"] == str(failure / "wave.fst")


@pytest.mark.parametrize("installed", [True, False])
def test_open(failure, installed, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(lastrun.shutil, "which", lambda name: f"/bin/{name}" if installed else None)
    monkeypatch.setattr(lastrun.subprocess, "Popen", lambda command, **_: started.append(command))
    assert cli.run(["wave", "--open"]) == 0
    out = capsys.readouterr().out
    assert len(started) == installed
    assert ("opened: surfer" in out) == installed and ("neither surfer nor gtkwave" in out) == (not installed)
