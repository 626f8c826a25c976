"""The proof of the L1 holds, is not void, and fails on planted bugs (docs/formal.md)."""

import pytest

from tests.formal.l1 import LONG, PROOFS
from tests.test_formal import attempt

PROOF = PROOFS["L1"]


def test_holds():
    outcome = attempt(PROOF, mode=PROOF.mode, depth=PROOF.depth)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.nightly
def test_holds_for_longer():
    outcome = attempt(PROOF, mode=PROOF.mode, depth=LONG)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.nightly
def test_is_not_void():
    outcome = attempt(PROOF, mode=PROOF.mode, depth=PROOF.cover_depth, harness=PROOF.near_miss)
    assert not outcome.passed, outcome.log[-1000:]


@pytest.mark.parametrize("bug", [
    pytest.param(bug, id=bug.what, marks=[pytest.mark.nightly] if n else [])
    for n, bug in enumerate(PROOF.bugs)])
def test_fails_on_a_bug(bug):
    assert not attempt(PROOF, mode=PROOF.mode, depth=PROOF.depth, bug=bug).passed
