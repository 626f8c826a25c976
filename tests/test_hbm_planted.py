"""Bugs planted in the HBM controller: each is in its place, and both checkers name its rule."""

import pytest

from tb.hbm.planted import LARGER, PLANTED, Verdict, planted_bench, planted_source, verdict
from tb.hbm.switch import number_of
from tb.hbm.table import RULES
from tb.simulator import Simulator


def test_every_rule_has_a_bug():
    text = "".join(planted_source(module) for module in {module for module, *_ in PLANTED.values()})
    without = [rule for rule in RULES if f"bug('{rule}')" not in text and f"'{rule}')" not in text]
    assert sorted(without) == sorted(LARGER)
    assert len({number_of(rule) for rule in RULES} | {0}) == len(RULES) + 1


def test_a_bug_whose_place_is_gone_is_refused(monkeypatch):
    monkeypatch.setitem(PLANTED, "tRP", ("bank", "dead.eq(t.rp + 1)", ""))
    with pytest.raises(ValueError, match="is in hw.hbm.bank 0 times, not once"):
        planted_source("bank")


def test_verdict_reads_the_sentence():
    sentence = "HBM device 1: rule tRP is broken: ACT at CK 6; at least 42 CK are required; so is tRC."
    found = Verdict(rule="tRC", sentence=sentence, checker=frozenset(("tRP", "tRC")))
    assert found.by_device == {"tRP", "tRC"} and found.caught
    assert not Verdict(rule="tRC", sentence=sentence, checker=frozenset(("tRP",))).caught
    assert not Verdict(rule="tRC", sentence="", checker=frozenset(("tRC",))).caught


@pytest.fixture(scope="module")
def simulator():
    with Simulator(planted_bench()) as simulator:
        yield simulator


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rule", [None, *RULES])
def test_both_checkers_name_the_rule(simulator, rule, tmp_path):
    found = verdict(simulator, rule, tmp_path / "trace")
    if rule is None:
        assert (found.sentence, found.checker) == ("", frozenset())
    else:
        assert found.caught, f"device: {found.sentence or 'nothing'}; checker: {sorted(found.checker)}"
