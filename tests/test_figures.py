"""Figures: fresh quick values equal the committed ones, README's table is current, the tools do their job."""

import json
import types

import pytest

from scripts import cli
from scripts.figures import collect, table
from scripts.figures.targets import TARGETS, Target

MODULES = collect.modules()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_fresh_quick_run_equals_the_committed_figures(name):
    module = MODULES[name]
    fresh = collect.measure(name, module, quick=True)
    noisy = {target.key for target in TARGETS if target.noisy}
    assert not noisy & set(fresh), "a noisy figure says nothing in a comparison"
    own = [target for target in TARGETS if target.key.startswith(tuple(module.KEYS))]
    promised = {target.key for target in own if target.quick}
    assert promised <= set(fresh), "a figure marked quick was not measured by the quick run"
    assert not collect.differences(fresh, collect.load(), noisy)


def test_only_what_is_explained_is_missed():
    figures = collect.load()
    states = {target.key: target.state(figures) for target in TARGETS}
    pages = {target.key: target.beyond or target.pending for target in TARGETS}
    explained = {key for key, page in pages.items() if page}
    assert not any(target.beyond and target.pending for target in TARGETS), "out of reach, or open: not both"
    assert "met" in states.values()
    assert {key for key, state in states.items() if state == "missed"} <= explained
    assert {key for key in explained if states[key] == "met"} == set(), "met: take its explanation away"
    assert all((table.ROOT / page).is_file() for page in pages.values() if page)


def test_readme_table_is_current():
    text = table.README.read_text(encoding="utf-8")
    assert table.with_table(text, table.markdown(collect.load())) == text, "run `jalapeno figures --quick`"


def test_every_target_is_there_once():
    keys = [target.key for target in TARGETS]
    assert len(keys) == len(set(keys)) and not any("<" in key for key in keys)
    prefixes = [(name, key) for name, module in MODULES.items() for key in module.KEYS]
    for name, key in prefixes:
        assert not [other for owner, other in prefixes if owner != name and other.startswith(key)]


@pytest.mark.parametrize("bounds,value,state", [
    ({"at_least": 0.95}, 0.95, "met"), ({"at_least": 0.95}, 0.949, "missed"),
    ({"at_most": 0.02}, 0.02, "met"), ({"at_most": 0.02}, 0.021, "missed"),
    ({"equals": 0}, 0, "met"), ({"equals": 0}, 1, "missed"), ({"equals": 0}, False, "missed"),
    ({"equals": True}, True, "met"), ({"equals": True}, 1, "missed"), ({"equals": True}, False, "missed"),
    ({"equals": "=total"}, 10, "met"), ({"equals": "=total"}, 9, "missed"),
    ({"equals": "=absent"}, 9, "not measured"), ({}, 3.5, "reported"),
])
def test_states(bounds, value, state):
    target = Target(key="k", what="x", **bounds)
    assert target.state({"k": value, "total": 10}) == state
    assert target.state({"total": 10}) == "not measured"


def test_asked():
    assert Target(key="k", what="x", at_least=1_000_000).asked() == "≥ 1,000,000"
    assert Target(key="k", what="x", equals="=a.total").asked() == "= a.total"
    assert Target(key="k", what="x", equals=True).asked() == "= true"
    assert Target(key="k", what="x").asked() == "reported"


def test_merge_keeps_other_modules_and_drops_what_is_gone(tmp_path, monkeypatch):
    path = tmp_path / "figures.json"
    collect.save({"a.old": 1, "a.kept": 2, "b.other": 3}, path)
    module = types.SimpleNamespace(KEYS=("a.",), measure=lambda *, quick: {"a.kept": 5, "a.new": True})
    monkeypatch.setattr(collect, "modules", lambda: {"a": module})
    assert [name for name, _, _ in collect.collect(quick=True, path=path)] == ["a"]
    assert collect.load(path) == {"a.old": 1, "a.kept": 5, "a.new": True, "b.other": 3}
    list(collect.collect(path=path))
    assert collect.load(path) == {"a.kept": 5, "a.new": True, "b.other": 3}
    assert list(json.loads(path.read_text())) == sorted(json.loads(path.read_text()))
    module.measure = lambda *, quick: {"a.kept": 6, "a.new": False}
    list(collect.collect(only="a.new", path=path))
    assert collect.load(path) == {"a.kept": 5, "a.new": False, "b.other": 3}
    list(collect.collect(path=None))
    assert collect.load(path)["a.kept"] == 5
    with pytest.raises(collect.FigureError, match="--only = 'c'"):
        list(collect.collect(only="c", path=path))
    assert [item.name for item in tmp_path.iterdir()] == ["figures.json"]


@pytest.mark.parametrize("figures,message", [
    ({"b.x": 1}, "must start with"), ({"a.x": None}, "number, bool or text"),
    ({"a.x": [1]}, "number, bool or text"), ({"a.x": float("nan")}, "finite"),
])
def test_measurements_that_break_the_contract(figures, message):
    module = types.SimpleNamespace(KEYS=("a.",), measure=lambda *, quick: figures)
    with pytest.raises(collect.FigureError, match=message):
        collect.measure("a", module, quick=True)


def test_differences():
    found = collect.differences({"a": 1, "b": 2.0, "c": 3, "n": 9}, {"a": 1, "b": 2.5, "n": 1}, {"n"})
    assert [(item.key, item.committed, item.fresh) for item in found] == [("b", 2.5, 2.0), ("c", None, 3)]


def test_table_needs_its_markers():
    with pytest.raises(collect.FigureError, match="once each"):
        table.with_table("no markers", "x")
    text = f"a\n{table.BEGIN}\nold\n{table.END}\nb\n"
    assert table.with_table(text, "new") == f"a\n{table.BEGIN}\nnew\n{table.END}\nb\n"


def test_check_fails_on_a_difference_and_writes_nothing(monkeypatch, capsys):
    before = collect.FIGURES.read_bytes()
    assert cli.run(["figures", "--only", "config.", "--quick", "--check"]) == 0
    monkeypatch.setattr(collect, "load", lambda *_: {"config.published.max_error": 0.5})
    assert cli.run(["figures", "--only", "config.", "--quick", "--check"]) == 1
    assert "differ from figures.json, first config." in capsys.readouterr().err
    assert cli.run(["figures", "--only", "nothing."]) == 2
    assert collect.FIGURES.read_bytes() == before
