"""Proofs hold, are not void, and fail on planted bugs (docs/formal.md)."""

import pytest

from tests.formal import core, hbm, memory
from tests.formal.hbm import changed
from tests.formal.run import run

PROOFS = {f"{package} {name}": proof
          for package, module in (("hbm", hbm), ("core", core), ("memory", memory))
          for name, proof in module.PROOFS.items()}
BUGS = [(name, bug) for name, proof in PROOFS.items() for bug in proof.bugs]


def attempt(proof, *, mode, depth, bug=None, harness=None):
    harness = (harness or proof.harness)(changed(bug, proof.package))
    return run(harness, harness.ports, mode=mode, depth=depth, free=proof.free)


@pytest.mark.parametrize("name", PROOFS)
def test_holds(name):
    proof = PROOFS[name]
    outcome = attempt(proof, mode=proof.mode, depth=proof.depth)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.parametrize("name", PROOFS)
def test_is_not_void(name):
    proof = PROOFS[name]
    if proof.near_miss:
        assert not attempt(proof, mode=proof.mode, depth=proof.depth, harness=proof.near_miss).passed
        return
    outcome = attempt(proof, mode="cover", depth=proof.cover_depth)
    assert outcome.passed, outcome.log[-1000:]


@pytest.mark.parametrize("name,bug", BUGS, ids=[bug.what for _, bug in BUGS])
def test_fails_on_a_bug(name, bug):
    proof = PROOFS[name]
    assert not attempt(proof, mode=proof.mode, depth=proof.depth, bug=bug).passed
