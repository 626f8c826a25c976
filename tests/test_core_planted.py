"""Bugs planted in the core: each is in its place, lockstep finds it, and the program that does gets small."""

import importlib

import pytest

import hw.core.window.commit
from tb.core.bugs import PLANTED, Bug
from tb.core.campaign import listing, random_case, run_case, shrunk
from tb.core.planted import PlantedSimulator, planted_bench, planted_source
from tb.core.switch import SWITCH
from tb.switched import private_copies

QUICK = ("sraw", "group_bypass", "kill_leak", "eviction", "interrupted_twice", "poison")


def test_every_bug_is_in_its_place():
    texts = {bug.module: planted_source(f"hw.core.{bug.module}") for bug in PLANTED.values()}
    assert all(f"bug('{name}')" in texts[bug.module] for name, bug in PLANTED.items())
    assert len({SWITCH.number_of(name) for name in PLANTED} | {0}) == len(PLANTED) + 1


def test_a_bug_whose_place_is_gone_is_refused(monkeypatch):
    monkeypatch.setitem(PLANTED, "sraw", Bug(what="", module="execute.alu", right="a + b + a", wrong=""))
    with pytest.raises(ValueError, match="is in hw.core.execute.alu 0 times, not once"):
        planted_source("hw.core.execute.alu")


def test_copies_are_private():
    ours = hw.core.window.commit
    with private_copies(lambda module: module == ours.__name__, planted_source):
        copy = importlib.import_module(ours.__name__)
        assert copy is not ours and hasattr(copy, "bug")
    assert importlib.import_module(ours.__name__) is ours is hw.core.window.commit
    assert not hasattr(ours, "bug")


@pytest.fixture(scope="module")
def simulator():
    with PlantedSimulator(planted_bench()) as simulator:
        yield simulator


@pytest.mark.timeout(1800)
def test_without_a_bug_nothing_is_found(simulator):
    simulator.plant(None)
    for seed in range(4):
        run_case(simulator, random_case(seed))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", QUICK)
def test_a_bug_is_found(simulator, name):
    assert simulator.verdict(name).caught


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in PLANTED if name not in QUICK])
def test_every_bug_is_found(simulator, name):
    assert simulator.verdict(name).caught


@pytest.mark.timeout(1800)
def test_a_failing_program_gets_small(simulator):
    found = simulator.verdict("sraw")
    assert "sraw" in found.sentence or "sraiw" in found.sentence
    small = shrunk(simulator, simulator.case("sraw", found.seed), limit=150)
    text = listing(small.program)
    assert ("sraw" in text or "sraiw" in text) and len(text.splitlines()) < 25
    with pytest.raises(AssertionError):
        run_case(simulator, small)
    simulator.plant(None)
    run_case(simulator, small)
