"""Proofs of the store queue hold, are not void, and fail on planted bugs (docs/formal.md)."""

import pytest

from tests.formal.memory import PROOFS
from tests.test_formal import attempt

BUGS = [(name, bug) for name, proof in PROOFS.items() for bug in proof.bugs]


@pytest.mark.parametrize("name", PROOFS)
def test_holds(name):
    proof = PROOFS[name]
    outcome = attempt(proof, mode=proof.mode, depth=proof.depth)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.parametrize("name", PROOFS)
def test_is_not_void(name):
    proof = PROOFS[name]
    outcome = attempt(proof, mode="cover", depth=proof.cover_depth)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.parametrize("name,bug", BUGS, ids=[bug.what for _, bug in BUGS])
def test_fails_on_a_bug(name, bug):
    proof = PROOFS[name]
    assert not attempt(proof, mode=proof.mode, depth=proof.depth, bug=bug).passed
