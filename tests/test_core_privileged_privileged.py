"""Traps and interrupts of the privileged unit: entry, return, nesting, vectors, priorities, WFI."""

import itertools
import random

from hw.core.types import Cause
from tests.test_core_privileged_csr import M, run

MSTATUS, MIE, MTVEC, MEPC, MCAUSE, MTVAL, MIP = 0x300, 0x304, 0x305, 0x341, 0x342, 0x343, 0x344
MIE_BIT, MPIE_BIT, MPP = 1 << 3, 1 << 7, 3 << 11


def test_entry_and_return_of_every_cause():
    rng, seen = random.Random(1), 0

    async def scenario(bench):
        nonlocal seen
        for cause, on, before in itertools.product(Cause, (0, 1), (0, 1)):
            base = rng.getrandbits(64) & ~3
            await bench.write(MTVEC, base | rng.randrange(2))
            await bench.write(MSTATUS, on << 3 | before << 7)
            pc, tval = rng.getrandbits(64) & ~3, rng.getrandbits(64)
            # An exception goes to the base, vectored or not.
            assert await bench.trap(cause=cause.value, pc=pc, tval=tval) == base
            assert [bench.read(csr) for csr in (MEPC, MCAUSE, MTVAL)] == [pc, cause.value, tval]
            assert bench.read(MSTATUS) == MPP | on << 7
            assert await bench.mret() == pc
            assert bench.read(MSTATUS) == MPP | MPIE_BIT | on << 3
            seen += 1

    run(scenario)
    assert seen == 4 * len(Cause)


def test_nested_traps_and_a_handler_which_saves_and_restores():
    async def scenario(bench):
        await bench.write(MSTATUS, MIE_BIT)
        await bench.trap(cause=2, pc=0x100)
        saved = bench.read(MEPC), bench.read(MSTATUS)
        await bench.trap(cause=5, pc=0x200, tval=9)  # in the handler: what was before is lost
        assert (bench.read(MEPC), bench.read(MSTATUS)) == (0x200, MPP)
        assert await bench.mret() == 0x200
        assert bench.read(MSTATUS) == MPP | MPIE_BIT
        await bench.write(MEPC, saved[0])
        await bench.write(MSTATUS, saved[1])
        assert await bench.mret() == 0x100
        assert bench.read(MSTATUS) == MPP | MPIE_BIT | MIE_BIT

    run(scenario)


def test_vector_of_an_interrupt():
    async def scenario(bench):
        for base in (0, 0x8000_0100, M & ~3):
            for mode in (0, 1):
                await bench.write(MTVEC, base | mode)
                for cause in (3, 7, 11):
                    vector = await bench.trap(cause=cause, pc=0x40, interrupt=1)
                    assert vector == (base + 4 * cause * mode) & M
                    assert bench.read(MCAUSE) == 1 << 63 | cause and bench.read(MTVAL) == 0
                    assert bench.read(MEPC) == 0x40

    run(scenario)


def test_a_trap_goes_before_a_return():
    async def scenario(bench):
        await bench.write(MSTATUS, MIE_BIT)
        bench.ctx.set(bench.unit.mret, 1)
        await bench.trap(cause=11, pc=0x80, interrupt=1)
        bench.ctx.set(bench.unit.mret, 0)
        assert bench.read(MSTATUS) == MPP | MPIE_BIT and bench.read(MEPC) == 0x80

    run(scenario)


def test_every_combination_of_lines_and_enables():
    compared = 0
    bits = {"software": 3, "timer": 7, "external": 11}

    async def scenario(bench):
        nonlocal compared
        ctx, unit = bench.ctx, bench.unit
        for enables, on in itertools.product(range(8), (0, 1)):
            mie = sum((enables >> i & 1) << bit for i, bit in enumerate(bits.values()))
            await bench.write(MIE, mie)
            await bench.write(MSTATUS, on << 3)
            for lines in range(8):
                for i, name in enumerate(bits):
                    ctx.set(getattr(unit, name), lines >> i & 1)
                pending = sum((lines >> i & 1) << bit for i, bit in enumerate(bits.values()))
                assert bench.read(MIP) == pending
                ready = pending & mie
                assert ctx.get(unit.wake) == bool(ready)
                assert ctx.get(unit.interrupt.valid) == bool(ready and on)
                if ready:
                    first = next(cause for cause in (11, 3, 7) if ready >> cause & 1)
                    assert ctx.get(unit.interrupt.cause) == first
                compared += 1

    run(scenario)
    assert compared == 128


def test_an_interrupt_is_masked_within_its_handler_and_comes_again_after_it():
    async def scenario(bench):
        ctx, unit = bench.ctx, bench.unit
        await bench.write(MIE, 1 << 7)
        await bench.write(MSTATUS, MIE_BIT)
        ctx.set(unit.timer, 1)
        assert ctx.get(unit.interrupt.valid)
        await bench.trap(cause=7, pc=0, interrupt=1)
        assert not ctx.get(unit.interrupt.valid) and ctx.get(unit.wake)
        await bench.mret()
        assert ctx.get(unit.interrupt.valid)
        ctx.set(unit.timer, 0)
        assert not ctx.get(unit.interrupt.valid) and not ctx.get(unit.wake)

    run(scenario)
