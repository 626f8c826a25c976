"""The branch unit: every condition at the edges and at random; targets, links and predictions."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.execute.branch import Branch
from hw.core.types import BranchOp
from tests.test_core_execute_alu import EDGES, MASK, signed

CONDITIONS = {
    BranchOp.BEQ: lambda a, b: a == b, BranchOp.BNE: lambda a, b: a != b,
    BranchOp.BLT: lambda a, b: signed(a) < signed(b), BranchOp.BGE: lambda a, b: signed(a) >= signed(b),
    BranchOp.BLTU: lambda a, b: a < b, BranchOp.BGEU: lambda a, b: a >= b,
    BranchOp.JALR: lambda a, b: True,
}


@pytest.mark.parametrize("op", BranchOp, ids=lambda op: op.name)
def test_operation(op):
    branch, compared, rng = Branch(), 0, random.Random(op.value)
    seen = set()
    pairs = [(a, b) for a in EDGES for b in EDGES]
    for _ in range(1_500):
        a = rng.getrandbits(64)
        pairs.append((a, rng.choice((a, a ^ 1 << rng.randrange(64), rng.getrandbits(64)))))

    async def bench(ctx):
        nonlocal compared
        ctx.set(branch.op, op.value)
        for a, b in pairs:
            pc = rng.choice((0x8000_0000, MASK - 3, 0, rng.getrandbits(64) & ~3))
            if op == BranchOp.JALR:
                immediate = rng.choice((-2048, -1, 0, 1, 2, 3, 2047))
                destination = (a + immediate) & MASK & ~1
            else:
                immediate = 2 * rng.choice((-2048, -2, -1, 0, 1, 2, 2047, rng.randrange(-2048, 2048)))
                destination = (pc + immediate) & MASK
            link = (pc + 4) & MASK
            taken = CONDITIONS[op](a, b)
            next_pc = destination if taken else link
            target = rng.choice((destination, link, next_pc ^ 1 << rng.randrange(64)))
            for port, value in ((branch.a, a), (branch.b, b), (branch.pc, pc), (branch.immediate, immediate),
                                (branch.target, target)):
                ctx.set(port, value)
            got = {name: ctx.get(getattr(branch, name))
                   for name in ("value", "next_pc", "taken", "mispredicted", "misaligned")}
            want = {"value": link, "next_pc": next_pc, "taken": taken, "mispredicted": next_pc != target,
                    "misaligned": taken and next_pc % 4 != 0}
            assert got == want, f"{op.name} {a:#x}, {b:#x}, pc {pc:#x}, {immediate}, target {target:#x}"
            compared += 1
            seen.add((taken, want["mispredicted"], want["misaligned"]))

    simulator = Simulator(branch)
    simulator.add_testbench(bench)
    simulator.run()
    assert compared == len(pairs) > 1_900
    assert len(seen) == (4 if op == BranchOp.JALR else 6)  # every combination of the flags
