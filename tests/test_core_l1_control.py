"""The L1's registers: what software writes reaches the ports of the L1, once."""

from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.core.address import CONTROL
from hw.core.l1.control import L1Control, Offset
from hw.core.l1.types import Maintenance

FULL = 0xFF


def simulate(bench):
    dut = L1Control()
    m = Module()
    m.submodules.dut = dut
    simulator = Simulator(m)
    simulator.add_clock(1e-9)

    async def process(ctx):
        ctx.set(dut.response.ready, 1)
        await bench(ctx, dut)

    simulator.add_testbench(process)
    simulator.run()


async def access(ctx, dut, offset, data=None, mask=FULL, patience=20):
    """Answer, or None if the access is not taken."""
    ctx.set(dut.request.payload, {"write": data is not None, "address": CONTROL + offset.value, "size": 3,
                                  "data": data or 0, "mask": mask})
    ctx.set(dut.request.valid, 1)
    for _ in range(patience):
        ready = ctx.get(dut.request.ready)
        await ctx.tick()
        if ready:
            ctx.set(dut.request.valid, 0)
            assert ctx.get(dut.response.valid) and not ctx.get(dut.response.payload.fault)
            got = ctx.get(dut.response.payload.data)
            await ctx.tick()
            return got
    ctx.set(dut.request.valid, 0)
    return None


def test_registers_hold_what_is_written():
    async def bench(ctx, dut):
        for offset, bits in ((Offset.ADDRESS, 40), (Offset.BYTES, 40), (Offset.ROWS, 16),
                             (Offset.STRIDE, 40)):
            assert await access(ctx, dut, offset) == 0
            await access(ctx, dut, offset, 0x1122334455667788)
            assert await access(ctx, dut, offset) == 0x1122334455667788 & ((1 << bits) - 1)
            await access(ctx, dut, offset, 0xAABB, mask=0b10)
            assert await access(ctx, dut, offset) == 0x112233445566AA88 & ((1 << bits) - 1)
        await access(ctx, dut, Offset.DONE, 5)
        assert await access(ctx, dut, Offset.DONE) == 0
        assert not ctx.get(dut.maintain.valid) and not ctx.get(dut.prefetch.valid)

    simulate(bench)


def test_operation():
    async def bench(ctx, dut):
        await access(ctx, dut, Offset.ADDRESS, 0x8000_1234)
        await access(ctx, dut, Offset.BYTES, 99)
        for written, operation in enumerate((Maintenance.CLEAN, Maintenance.FLUSH, Maintenance.INVALIDATE,
                                             Maintenance.FLUSH)):
            await access(ctx, dut, Offset.OPERATION, written)
            payload = dut.maintain.payload
            assert ctx.get(dut.maintain.valid)
            assert (ctx.get(payload.operation), ctx.get(payload.address), ctx.get(payload.bytes)) == (
                operation, 0x8000_1234, 99)
            ctx.set(dut.maintain.ready, 1)
            await ctx.tick()
            ctx.set(dut.maintain.ready, 0)
            assert not ctx.get(dut.maintain.valid)
            # It goes on: this shows, and another one waits.
            assert await access(ctx, dut, Offset.OPERATION) == 1
            assert await access(ctx, dut, Offset.OPERATION, 0) is None
            ctx.set(dut.maintained.valid, 1)
            await ctx.tick()
            ctx.set(dut.maintained.valid, 0)
            assert await access(ctx, dut, Offset.OPERATION) == 0

    simulate(bench)


def test_prefetch_and_its_semaphores():
    async def bench(ctx, dut):
        for offset, value in ((Offset.ADDRESS, 0x8000_0040), (Offset.BYTES, 128), (Offset.ROWS, 3),
                              (Offset.STRIDE, 4096), (Offset.PREFETCH, 6)):
            await access(ctx, dut, offset, value)
        names = ("address", "bytes", "rows", "stride", "semaphore")
        assert ctx.get(dut.prefetch.valid)
        assert [ctx.get(dut.prefetch.payload[name]) for name in names] == [0x8000_0040, 128, 3, 4096, 6]
        assert await access(ctx, dut, Offset.PREFETCH) == 1
        assert await access(ctx, dut, Offset.PREFETCH, 7) is None
        ctx.set(dut.prefetch.ready, 1)
        await ctx.tick()
        ctx.set(dut.prefetch.ready, 0)
        assert await access(ctx, dut, Offset.PREFETCH) == 0
        ctx.set(dut.prefetched.valid, 1)
        for semaphore, times in ((6, 2), (0, 1), (15, 17)):
            ctx.set(dut.prefetched.payload, semaphore)
            for _ in range(times):
                await ctx.tick()
        ctx.set(dut.prefetched.valid, 0)
        assert await access(ctx, dut, Offset.DONE) == 2 << 24 | 1 | 1 << 60

    simulate(bench)
