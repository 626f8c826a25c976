"""The integer unit against Python integers: every operation at the edges of its operands and at random."""

import random

import pytest
from amaranth.sim import Simulator

from hw.core.execute.alu import Alu
from hw.core.types import AluOp

MASK = (1 << 64) - 1
EDGES = sorted({value & MASK for power in (0, 1, 5, 6, 31, 32, 63, 64) for value in
                ((1 << power) - 1, 1 << power, (1 << power) + 1, -(1 << power), ~(1 << power))})
NARROW = (AluOp.ADD, AluOp.SUB, AluOp.SLL, AluOp.SRL, AluOp.SRA)


def signed(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def expected(op, narrow, a, b):
    """RV64I by its words."""
    bits = 32 if narrow else 64
    low_a, amount = a & (1 << bits) - 1, b & bits - 1
    value = {
        AluOp.ADD: lambda: a + b, AluOp.SUB: lambda: a - b, AluOp.SLL: lambda: low_a << amount,
        AluOp.SRL: lambda: low_a >> amount, AluOp.SRA: lambda: signed(a, bits) >> amount,
        AluOp.SLT: lambda: int(signed(a) < signed(b)), AluOp.SLTU: lambda: int(a < b),
        AluOp.XOR: lambda: a ^ b, AluOp.OR: lambda: a | b, AluOp.AND: lambda: a & b,
    }[op]()
    return signed(value, bits) & MASK


@pytest.mark.parametrize("op,narrow", [(op, 0) for op in AluOp] + [(op, 1) for op in NARROW],
                         ids=lambda value: value.name if isinstance(value, AluOp) else str(value))
def test_operation(op, narrow):
    alu, compared, rng = Alu(), 0, random.Random(op.value)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    pairs += [(rng.getrandbits(64), rng.getrandbits(rng.choice((6, 64)))) for _ in range(1_000)]
    pairs += [(1 << rng.randrange(64), amount) for amount in range(64)]

    async def bench(ctx):
        nonlocal compared
        ctx.set(alu.op, op.value)
        ctx.set(alu.narrow, narrow)
        for a, b in pairs:
            ctx.set(alu.a, a)
            ctx.set(alu.b, b)
            got = ctx.get(alu.value)
            assert got == expected(op, narrow, a, b), f"{op.name} narrow={narrow} {a:#x}, {b:#x}: {got:#x}"
            compared += 1

    simulator = Simulator(alu)
    simulator.add_testbench(bench)
    simulator.run()
    assert compared == len(pairs) > 1_900


def test_every_value_of_op_is_covered():
    assert len(AluOp) == 10 and {op.name for op in NARROW} < {op.name for op in AluOp}
