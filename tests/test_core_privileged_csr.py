"""CSR instructions: which registers exist, reset values, what a write leaves, illegal accesses; and the same
random history given to the sequential reference."""

import random
import re
from pathlib import Path

from amaranth.sim import Simulator

from golden.riscv.csr import NAMES, Csrs, is_volatile
from hw.core.config import core_preset
from hw.core.privileged.counters import COUNTERS, EVENTS
from hw.core.privileged.privileged import Privileged

M = (1 << 64) - 1
RW, RS, RC, RWI, RSI, RCI = 1, 2, 3, 5, 6, 7
HART = 3

#: Address -> (value after reset, bits which a write of any value leaves as written, bits always 1).
WRITABLE = {
    0x300: (0x1800, 0x88, 0x1800), 0x304: (0, 0x888, 0), 0x305: (0, M & ~2, 0), 0x320: (0, 0xFFFF_FFFD, 0),
    0x340: (0, M, 0), 0x341: (0, M & ~3, 0), 0x342: (0, M, 0), 0x343: (0, M, 0),
    0x301: (1 << 63 | 1 << 12 | 1 << 8, 0, 1 << 63 | 1 << 12 | 1 << 8), 0x344: (0, 0, 0),
    **{0xB03 + n: (0, M if n < 8 else 0, 0) for n in range(29)},
    **{0x323 + n: (0, 0, 0) for n in range(8, 29)},
}
EVENT_SELECTS = range(0x323, 0x32B)
RUNNING = (0xB00, 0xB02)
READ_ONLY = {0xF11: 0, 0xF12: 0, 0xF13: 0, 0xF14: HART, 0xF15: 0, **{0xC00 + n: 0 for n in range(3)}}
EXIST = set(WRITABLE) | set(EVENT_SELECTS) | set(RUNNING) | set(READ_ONLY)


class Bench:
    """The unit's inputs, one method an event; every event takes one cycle."""

    def __init__(self, ctx, unit):
        self.ctx, self.unit = ctx, unit

    def look(self, address, funct3=RS, operand=0, zero=True):
        """(value, illegal) of an access which is not made."""
        csr = self.unit.csr
        for port, value in ((csr.address, address), (csr.funct3, funct3), (csr.operand, operand),
                            (csr.source_zero, zero)):
            self.ctx.set(port, value)
        return self.ctx.get(self.unit.csr_value), self.ctx.get(self.unit.csr_illegal)

    def read(self, address):
        value, illegal = self.look(address)
        assert not illegal, hex(address)
        return value

    async def access(self, funct3, address, operand, zero=False):
        answer = self.look(address, funct3, operand, zero)
        self.ctx.set(self.unit.csr.valid, 1)
        await self.ctx.tick()
        self.ctx.set(self.unit.csr.valid, 0)
        return answer

    async def write(self, address, value):
        _, illegal = await self.access(RW, address, value)
        assert not illegal, hex(address)

    async def trap(self, *, cause, pc, tval=0, interrupt=0):
        """The address of the handler."""
        trap = self.unit.trap
        for port, value in ((trap.valid, 1), (trap.interrupt, interrupt), (trap.cause, cause), (trap.pc, pc),
                            (trap.tval, tval)):
            self.ctx.set(port, value)
        vector = self.ctx.get(self.unit.vector)
        await self.ctx.tick()
        self.ctx.set(trap.valid, 0)
        return vector

    async def mret(self):
        self.ctx.set(self.unit.mret, 1)
        epc = self.ctx.get(self.unit.epc)
        await self.ctx.tick()
        self.ctx.set(self.unit.mret, 0)
        return epc

    def state(self):
        """Every register that software sees and that does not run by itself."""
        return {address: self.read(address) for address in EXIST - set(RUNNING) - {0xC00, 0xC02}}


def run(scenario, preset="small", **options):
    unit = Privileged(core_preset(preset), hart=HART, **options)
    finished = False

    async def bench(ctx):
        nonlocal finished
        await scenario(Bench(ctx, unit))
        finished = True

    simulator = Simulator(unit)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert finished


def test_every_address_exists_or_is_illegal():
    async def scenario(bench):
        found = {address for address in range(4096) if not bench.look(address)[1]}
        assert found == EXIST == set(NAMES)
        writable = {address for address in range(4096) if not bench.look(address, RW, 5, False)[1]}
        assert writable == EXIST - set(READ_ONLY)

    run(scenario)


def test_values_after_reset():
    async def scenario(bench):
        expected = {address: reset for address, (reset, _, _) in WRITABLE.items()}
        expected |= READ_ONLY | dict.fromkeys(EVENT_SELECTS, 0) | dict.fromkeys(RUNNING, 0)
        assert {address: bench.read(address) for address in EXIST} == expected

    run(scenario)


def test_what_a_write_leaves():
    rng, compared = random.Random(3), 0

    async def scenario(bench):
        nonlocal compared
        await bench.write(0x320, 0xFFFF_FFFD)  # counters stand still
        for address, (_, mask, ones) in sorted(WRITABLE.items()):
            others = bench.state()
            for value in (M, 0, 1, 2, 3, 0xAAAA_AAAA_AAAA_AAAA, rng.getrandbits(64), rng.getrandbits(64)):
                await bench.write(address, value)
                assert bench.read(address) == value & mask | ones, f"{address:#x} {value:#x}"
                compared += 1
            assert {a for a, value in bench.state().items() if value != others[a]} <= {address}
            if address == 0x320:
                await bench.write(0x320, 0xFFFF_FFFD)

    run(scenario)
    assert compared == 8 * len(WRITABLE) > 400


def test_an_event_select_holds_the_number_of_an_event_or_zero():
    async def scenario(bench):
        for address in EVENT_SELECTS:
            for value in (*range(40), M, 1 << 63 | 1, 1 << 32, 32 + 1, 256 + 3):
                await bench.write(address, value)
                assert bench.read(address) == (value if value <= 23 else 0), value

    run(scenario)


def test_set_clear_and_their_immediate_forms_write_unless_the_field_is_zero():
    rng, compared = random.Random(1), 0

    async def scenario(bench):
        nonlocal compared
        value = 0
        for _ in range(500):
            funct3, zero = rng.choice((RW, RS, RC, RWI, RSI, RCI)), rng.randrange(3) == 0
            # A register other than x0 may hold 0, and an immediate of 0 is field 0.
            operand = 0 if zero or rng.randrange(8) == 0 else rng.getrandbits(5 if funct3 & 4 else 64)
            got = await bench.access(funct3, 0x340, operand, zero)
            assert got == (value, 0)
            value = {RW: operand, RS: value | operand, RC: value & ~operand}[funct3 & 3]
            assert bench.read(0x340) == value
            compared += 1

    run(scenario)
    assert compared == 500


def test_an_illegal_access_changes_nothing():
    rng = random.Random(2)

    async def scenario(bench):
        for address in (0x300, 0x304, 0x305, 0x340, 0x341, 0x342, 0x343):
            await bench.write(address, rng.getrandbits(64))
        before = bench.state()
        missing = [0x000, 0x100, 0x302, 0x303, 0x306, 0x30A, 0x310, 0x321, 0x322, 0x345, 0x34A, 0x3A0, 0x3B0,
                   0x7A0, 0x7B0, 0xB01, 0xB20, 0xB80, 0xC03, 0xC1F, 0xC80, 0xF10, 0xF16, 0x180, 0x140]
        for address in missing:
            for funct3 in (RW, RS, RC, RWI, RSI, RCI):
                for zero in (False, True):
                    assert (await bench.access(funct3, address, M, zero))[1] == 1, hex(address)
        for address, value in READ_ONLY.items():
            for funct3, zero in ((RW, 0), (RW, 1), (RWI, 1), (RS, 0), (RC, 0), (RSI, 0), (RCI, 0)):
                assert (await bench.access(funct3, address, M, zero))[1] == 1, hex(address)
            for funct3 in (RS, RC):  # a register other than x0 which holds 0
                assert (await bench.access(funct3, address, 0, False))[1] == 1, hex(address)
            for funct3 in (RS, RC, RSI, RCI):
                got = await bench.access(funct3, address, 0, True)
                assert got[1] == 0 and (address in (0xC00,) or got[0] == value)
        assert bench.state() == before

    run(scenario)


def test_an_access_that_is_not_valid_changes_nothing():
    async def scenario(bench):
        before = bench.state()
        for address in EXIST:
            bench.look(address, RW, M, False)
            await bench.ctx.tick()
        assert bench.state() == before

    run(scenario)


def test_random_history_against_the_sequential_reference():
    """Accesses, traps and returns, one instruction after the other, each retired in the cycle after it."""
    rng, compared, order = random.Random(4), 0, 0
    golden = Csrs(hartid=HART, counters=COUNTERS, events=EVENTS)
    addresses = sorted(EXIST) + [0x300, 0x304, 0x305, 0x320, 0x341, 0x342, 0xB02, 0xC02] * 8

    async def scenario(bench):
        nonlocal compared, order
        ctx, unit = bench.ctx, bench.unit
        for _ in range(3_000):
            retires = 1
            kind = rng.choice(("csr", "csr", "csr", "trap", "interrupt", "mret"))
            if kind == "csr":
                address, funct3 = rng.choice(addresses), rng.choice((RW, RS, RC))
                operand = rng.choice((0, M, 4, 1 << rng.randrange(64), rng.getrandbits(64)))
                zero = funct3 != RW and rng.randrange(4) == 0
                writes = funct3 == RW or not zero
                value, illegal = await bench.access(funct3, address, 0 if zero else operand, zero)
                assert illegal == (writes and address >> 10 == 3), hex(address)
                if illegal:
                    retires = 0
                    golden.uncount()
                else:
                    want = golden.read(address, order)
                    if want is None:
                        assert is_volatile(address), hex(address)
                        want = value
                    assert value == want, f"{address:#x}: {value:#x}, expected {want:#x}"
                    if writes:
                        written = {RW: operand, RS: want | operand, RC: want & ~operand & M}[funct3]
                        golden.write(address, written, order)
                    compared += 1
            elif kind == "mret":
                assert await bench.mret() == golden.leave()
            else:
                interrupt, cause = kind == "interrupt", rng.choice((3, 7, 11))
                pc, tval = rng.getrandbits(64), rng.getrandbits(64)
                vector = await bench.trap(cause=cause, pc=pc, tval=tval, interrupt=interrupt)
                if not interrupt:
                    golden.uncount()
                    order += 1
                assert vector == golden.enter(cause=interrupt << 63 | cause, pc=pc, tval=tval)
                continue
            order += 1
            ctx.set(unit.retired, retires)
            await ctx.tick()
            ctx.set(unit.retired, 0)

    run(scenario)
    assert compared > 1_000


def test_the_table_in_the_documentation_lists_the_registers_that_exist():
    text = (Path(__file__).parent.parent / "docs" / "core-csrs.md").read_text()
    listed = set()
    for low, high in re.findall(r"^\| 0x([0-9A-F]{3})(?:\.\.0x([0-9A-F]{3}))? \|", text, re.MULTILINE):
        listed |= set(range(int(low, 16), int(high or low, 16) + 1))
    assert listed == EXIST
