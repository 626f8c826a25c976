"""Parts of the controller by themselves: a bank's times, rules between banks, debts, the order of a queue."""

import itertools
import random

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.config import HbmConfig
from hw.hbm.bank import BankMachine
from hw.hbm.queue import DEMAND_PATIENCE, SID_PATIENCE, Kind, RequestQueue
from hw.hbm.rate import SlotRate
from hw.hbm.refresh import Refresh
from hw.hbm.spacing import Spacing
from hw.hbm.startup import Startup
from hw.hbm.timing import HbmSlots, HbmTimings, clocks, slot_rate

CONFIG = HbmConfig(pseudo_channels=1)
T = HbmSlots.of(CONFIG)


def simulate(component, bench):
    m = Module()
    m.submodules.dut = component
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()


def test_timings_in_slots():
    """By hand from the table at 0.4 ns a CK: minima up, the interval down."""
    assert (clocks(19.5, 10), clocks(3900, 10, down=True), clocks(3900.3, 10, down=True)) == (49, 9750, 9750)
    assert (T.rcd_read, T.rcd_write, T.rp, T.ras, T.rc, T.faw) == (25, 12, 21, 36, 57, 19)
    assert (T.ccd_l, T.ccd_r, T.rrd_s, T.rrd_l) == (4, 2, 4, 5)
    assert (T.read_to_precharge, T.write_to_precharge) == (8, (13 + 2 + 53) // 2)
    assert (T.write_to_read_s, T.write_to_read_l, T.read_to_write) == (14, 16, 16)
    assert (T.read_data, T.rfc_bank, T.rfc_all, T.rref, T.debt_step) == (14, 350, 663, 10, 101)
    slow = HbmSlots.of(HbmConfig(pseudo_channels=1, gbit_s_pin=8.0, timings=HbmTimings(ccd_l_ck=4)))
    assert (slow.rcd_read, slow.ccd_l, slow.debt_step) == (20, 2, 81)


def test_slot_rate():
    assert str(slot_rate(10.0, 1.6)) == "25/32"
    with pytest.raises(ValueError, match="clock_ghz = 1.2: must be at least 1.25"):
        slot_rate(10.0, 1.2)
    rate = SlotRate(gbit_s_pin=10.0, clock_ghz=1.6)
    seen = []

    async def bench(ctx):
        for _ in range(320):
            await ctx.tick()
            seen.append(ctx.get(rate.slot))

    simulate(rate, bench)
    assert sum(seen) == 250
    # Evenly: never more than one slot away from its time.
    assert all(abs(sum(seen[:n]) - n * 25 / 32) < 1 for n in range(320))


COMMANDS = ("activate", "precharge", "refresh", "refresh_all", "read", "write", "auto")


async def give(ctx, part, **commands):
    """One slot with these inputs; they are low again after it."""
    for name, value in commands.items():
        ctx.set(getattr(part, name), value)
    await ctx.tick()
    for name in commands:
        ctx.set(getattr(part, name), 0)


async def slots_until(ctx, part, name, limit=1000):
    """Slots after that of the last command in which an output rises."""
    for slot in itertools.count(1):
        if ctx.get(getattr(part, name)):
            return slot
        assert slot < limit, name
        await ctx.tick()


@pytest.mark.parametrize("before,command,output,expected", [
    ([], {"activate": 1, "row_i": 9}, "read_ok", T.rcd_read),
    ([], {"activate": 1, "row_i": 9}, "write_ok", T.rcd_write),
    ([], {"activate": 1, "row_i": 9}, "precharge_ok", T.ras),
    ([("activate", 40)], {"precharge": 1}, "activate_ok", T.rp),
    ([("activate", 36)], {"precharge": 1}, "activate_ok", T.rp),
    ([("activate", 40)], {"read": 1}, "precharge_ok", T.read_to_precharge),
    ([("activate", 40)], {"write": 1}, "precharge_ok", T.write_to_precharge),
    ([("activate", 40), ("write", 4)], {"read": 1}, "precharge_ok", T.write_to_precharge - 4),
    ([("activate", 40)], {"read": 1, "auto": 1}, "activate_ok", T.read_to_precharge + T.rp),
    ([("activate", 40)], {"write": 1, "auto": 1}, "activate_ok", T.write_to_precharge + T.rp),
    # A read that closes the bank early: tRAS holds too.
    ([("activate", 25)], {"read": 1, "auto": 1}, "activate_ok", T.ras - 25 + T.rp),
    ([], {"refresh": 1}, "activate_ok", T.rfc_bank),
    ([], {"refresh_all": 1}, "activate_ok", T.rfc_all),
])
def test_times_of_a_bank(before, command, output, expected):
    bank, found = BankMachine(T), []

    async def bench(ctx):
        ctx.set(bank.slot, 1)
        for name, wait in before:
            await give(ctx, bank, **{name: 1})
            for _ in range(wait - 1):
                await ctx.tick()
        await give(ctx, bank, **command)
        found.append(await slots_until(ctx, bank, output))

    simulate(bank, bench)
    assert found == [expected]


def test_a_bank_stands_still_outside_slots():
    bank = BankMachine(T)

    async def bench(ctx):
        ctx.set(bank.slot, 1)
        await give(ctx, bank, activate=1)
        ctx.set(bank.slot, 0)
        for _ in range(200):
            await ctx.tick()
        assert not ctx.get(bank.read_ok)
        ctx.set(bank.slot, 1)
        assert await slots_until(ctx, bank, "read_ok") == T.rcd_read

    simulate(bank, bench)


def group(sid, number):
    return 1 << sid * CONFIG.bank_groups + number


@pytest.mark.parametrize("first,output,other,expected", [
    ("activate", "activate_ok", group(0, 1), T.rrd_s), ("activate", "activate_ok", group(0, 0), T.rrd_l),
    ("activate", "activate_ok", group(1, 0), T.rrd_s), ("activate", "refresh_ok", group(0, 0), T.rrd_l),
    ("activate", "refresh_ok", group(2, 3), T.rrd_s),
    ("read", "read_ok", group(0, 1), 1), ("read", "read_ok", group(0, 0), T.ccd_l),
    ("read", "read_ok", group(1, 0), T.ccd_r), ("write", "write_ok", group(0, 0), T.ccd_l),
    ("write", "write_ok", group(2, 0), T.ccd_r), ("write", "write_ok", group(0, 3), 1),
    ("read", "write_ok", group(0, 1), T.read_to_write), ("read", "write_ok", group(1, 1), T.read_to_write),
    ("write", "read_ok", group(0, 1), T.write_to_read_s),
    ("write", "read_ok", group(1, 0), T.write_to_read_s),
    ("write", "read_ok", group(0, 0), T.write_to_read_l),
    ("refresh", "activate_ok", group(1, 1), T.rref), ("refresh", "refresh_ok", group(1, 1), T.rref),
])
def test_rules_between_banks(first, output, other, expected):
    spacing, found = Spacing(CONFIG, T), []

    async def bench(ctx):
        ctx.set(spacing.slot, 1)
        await give(ctx, spacing, **{first: 1 if first == "refresh" else group(0, 0)})
        for slot in itertools.count(1):
            if ctx.get(getattr(spacing, output)) & other:
                found.append(slot)
                return
            await ctx.tick()

    simulate(spacing, bench)
    assert found == [expected]


def test_activate_window_over_all_groups():
    """As many activates as are allowed, in any groups: never five within tFAW, and no slower than that."""
    spacing, times, rng = Spacing(CONFIG, T), [], random.Random(1)

    async def bench(ctx):
        ctx.set(spacing.slot, 1)
        for slot in range(2000):
            allowed = [bit for bit in range(12) if ctx.get(spacing.activate_ok) >> bit & 1]
            if allowed:
                times.append(slot)
                await give(ctx, spacing, activate=1 << rng.choice(allowed))
            else:
                await ctx.tick()

    simulate(spacing, bench)
    assert min(b - a for a, b in itertools.pairwise(times)) >= T.rrd_s
    gaps = {b - a for a, b in zip(times, times[4:])}
    assert min(gaps) == T.faw and len(times) >= 4 * 2000 / T.faw - 4


def test_startup():
    startup, seen = Startup(T), []

    async def bench(ctx):
        ctx.set(startup.slot, 1)
        for slot in range(T.init + 3 * T.mrd + T.rfc_all + 20):
            row = ctx.get(startup.row)
            if row.op.value:
                seen.append((slot, row.op.name, row.bank, row.row))
            if ctx.get(startup.running):
                seen.append((slot, "running"))
                return
            await ctx.tick()

    simulate(startup, bench)
    begin, step = T.init, T.mrd
    assert seen == [(begin, "MRS", 0, 25), (begin + step, "MRS", 1, 13), (begin + 2 * step, "MRS", 2, 1),
                    (begin + 3 * step, "REFAB", 0, 0), (begin + 3 * step + T.rfc_all + 1, "running")]


class Debts:
    """Debts as the rule has them."""

    def __init__(self, banks, step):
        self.owed, self.step, self.slot, self.next = [0] * banks, step, 0, 0

    def tick(self, served):
        if self.slot % self.step == self.step - 1:
            self.owed[self.next] += 1
            self.next = (self.next + 1) % len(self.owed)
        self.slot += 1
        for bank, owed in enumerate(self.owed):
            if served >> bank & 1 and owed:
                self.owed[bank] -= 1


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_refresh_is_never_late(temperature):
    """Banks are pending all the time, so that only the bound brings a refresh: nobody goes beyond it."""
    refresh = Refresh(CONFIG, T)
    banks = 48
    model = Debts(banks, T.debt_step >> temperature)
    worst, count = [0], [0]

    async def bench(ctx):
        for name, value in (("slot", 1), ("running", 1), ("temperature", temperature),
                            ("closed", 0), ("pending", (1 << banks) - 1)):
            ctx.set(getattr(refresh, name), value)
        busy = [0] * banks
        while count[0] < 120:
            ready = sum(1 << bank for bank in range(banks) if not busy[bank])
            ctx.set(refresh.refreshable, ready)
            wish = ctx.get(refresh.refresh)
            assert wish & ~ready == 0 and wish.bit_count() <= 1
            assert not wish or ctx.get(refresh.forced)
            ctx.set(refresh.served, wish)
            busy = [max(0, left - 1) for left in busy]
            if wish:
                bank = wish.bit_length() - 1
                assert model.owed[bank] == 7
                busy[bank] = T.rfc_bank
                count[0] += 1
            await ctx.tick()
            model.tick(wish)
            worst[0] = max(worst[0], *model.owed)

    simulate(refresh, bench)
    assert worst[0] == 7


def test_refresh_prefers_the_bank_just_left():
    refresh, wishes = Refresh(CONFIG, T), []

    async def bench(ctx):
        for name, value in (("slot", 1), ("running", 1), ("pending", 0)):
            ctx.set(getattr(refresh, name), value)
        everything = (1 << 48) - 1
        # All banks open for a round of debts, so that each owes one.
        for _ in range(48 * T.debt_step + 2):
            await ctx.tick()
        for bank in (20, 3):
            ctx.set(refresh.closed, 1 << bank)
            await ctx.tick()
            await ctx.tick()
            ctx.set(refresh.refreshable, everything)
            wishes.append(ctx.get(refresh.refresh))
            ctx.set(refresh.served, wishes[-1])
            await ctx.tick()
            ctx.set(refresh.served, 0)
            ctx.set(refresh.refreshable, 0)

    simulate(refresh, bench)
    assert wishes == [1 << 20, 1 << 3]


def entry(row, *, bank=0, kind=Kind.BULK, ident=0, high=0):
    return {"grain": {"high": high, "bank": bank, "row": row}, "kind": kind, "id": ident, "close": 0}


def queue_run(steps, *, age_cap=64, entries=8, answers=False):
    """Runs ``steps(ctx, queue)`` on a queue whose slot is always."""
    queue = RequestQueue(entries=entries, age_cap=age_cap, answers=answers)

    async def bench(ctx):
        ctx.set(queue.slot, 1)
        await steps(ctx, queue)

    simulate(queue, bench)


async def push(ctx, queue, request, *, hit=0, bursts=0xFF, waits=0):
    ctx.set(queue.request, request)
    await give(ctx, queue, push=1, hit=hit, bursts=bursts, waits=waits)


def test_queue_gives_the_oldest_hit_and_demand_first():
    async def steps(ctx, queue):
        ctx.set(queue.column_ready, 0b111)
        await push(ctx, queue, entry(1, bank=0, ident=1), hit=0)
        await push(ctx, queue, entry(1, bank=1, ident=2), hit=1, bursts=0b1010)
        await push(ctx, queue, entry(1, bank=2, ident=3), hit=1)
        assert (ctx.get(queue.column_request.id), ctx.get(queue.column_burst)) == (2, 1)
        await push(ctx, queue, entry(1, bank=2, ident=4, kind=Kind.DEMAND), hit=1, bursts=0b11)
        assert ctx.get(queue.column_request.id) == 4
        order = []
        for _ in range(4):
            order.append((ctx.get(queue.column_request.id), ctx.get(queue.column_burst),
                          ctx.get(queue.column_last)))
            await give(ctx, queue, take=1)
        assert order == [(4, 0, 0), (4, 1, 1), (2, 1, 0), (2, 3, 1)]
        await ctx.tick()
        await ctx.tick()
        assert ctx.get(queue.count) == 2
        # Nothing is ready: nothing is proposed.
        ctx.set(queue.column_ready, 0)
        assert not ctx.get(queue.column)

    queue_run(steps)


def test_queue_follows_rows():
    async def steps(ctx, queue):
        await push(ctx, queue, entry(5, bank=3))
        await push(ctx, queue, entry(6, bank=3))
        assert ctx.get(queue.pending) == 8 and ctx.get(queue.hits) == 0
        ctx.set(queue.activate_ready, 8)
        assert ctx.get(queue.row_activate) and ctx.get(queue.row_request.grain.row) == 5
        await give(ctx, queue, activate=1, row_bank=3, row=5)
        ctx.set(queue.activate_ready, 0)
        ctx.set(queue.precharge_ready, 8)
        # The second waits for another row, which is protected by the first.
        assert ctx.get(queue.hits) == 8 and not ctx.get(queue.row_wish)
        await give(ctx, queue, auto=1, column_bank=3)
        assert ctx.get(queue.hits) == 0 and ctx.get(queue.row_wish) and not ctx.get(queue.row_activate)

    queue_run(steps)


def test_the_oldest_is_not_passed_for_ever():
    """Hits of others on its bank come without end; at the cap they stop, and the row may be closed."""
    async def steps(ctx, queue):
        ctx.set(queue.column_ready, 1)
        ctx.set(queue.precharge_ready, 1)
        await push(ctx, queue, entry(1, bank=0, ident=1))
        await push(ctx, queue, entry(2, bank=0, ident=2), hit=1)
        await push(ctx, queue, entry(2, bank=0, ident=3, kind=Kind.DEMAND), hit=1)
        waited = 0
        while not ctx.get(queue.row_wish):
            assert ctx.get(queue.column) and waited < 40
            await ctx.tick()
            waited += 1
        assert 25 <= waited <= 32 and not ctx.get(queue.column)
        assert ctx.get(queue.row_request.id) == 1

    queue_run(steps, age_cap=32)


def test_queue_collapses_in_order():
    """Random takes and pushes against a list."""
    rng, model = random.Random(2), []

    async def steps(ctx, queue):
        ident = taken = 0
        ctx.set(queue.column_ready, (1 << 48) - 1)
        for _ in range(600):
            assert ctx.get(queue.count) == len(model)
            live = [item for item in model if item[1]]
            assert bool(live) == ctx.get(queue.column)
            if live:
                assert ctx.get(queue.column_request.id) == live[0][0]
            pushes = len(model) < 8 and rng.random() < 0.5
            takes = bool(live) and rng.random() < 0.6
            if pushes:
                ctx.set(queue.request, entry(1, bank=rng.randrange(48), ident=ident))
            drained = next((item for item in model if not item[1]), None)
            bursts = (1 << rng.randrange(1, 4)) - 1
            await give(ctx, queue, push=pushes, hit=1, bursts=bursts, take=takes)
            if drained:
                model.remove(drained)
            if takes:
                live[0][1] &= live[0][1] - 1
                taken += 1
            if pushes:
                model.append([ident, bursts])
                ident = (ident + 1) % 1024
        assert taken > 200

    queue_run(steps)


def test_bursts_wait_for_their_answer():
    async def steps(ctx, queue):
        ctx.set(queue.column_ready, 1)
        await push(ctx, queue, entry(1, ident=5), hit=1, bursts=0b11, waits=0b11)
        assert not ctx.get(queue.column) and not ctx.get(queue.ready_work) and ctx.get(queue.hits) == 0
        await give(ctx, queue, answer=1, answer_id=4, answer_bursts=0b11)
        assert not ctx.get(queue.column)
        await give(ctx, queue, answer=1, answer_id=5, answer_bursts=0b10)
        assert ctx.get(queue.column) and ctx.get(queue.column_burst) == 1 and not ctx.get(queue.column_last)
        await give(ctx, queue, answer=1, answer_id=5, answer_bursts=0b01, answer_drop=1)
        assert ctx.get(queue.column_last)
        ctx.set(queue.probe, {"high": 0, "bank": 0, "row": 1})
        ctx.set(queue.probe_bursts, 0b10)
        assert ctx.get(queue.probe_found)
        ctx.set(queue.probe_bursts, 0b01)
        assert not ctx.get(queue.probe_found)

    queue_run(steps, answers=True)


@pytest.mark.parametrize("kind,patience", [(Kind.BULK, SID_PATIENCE), (Kind.DEMAND, DEMAND_PATIENCE)])
def test_a_stack_id_in_full_use_lets_others_in(kind, patience):
    """tCCD_R keeps off bank 16 while bank 0 is used in each slot; the oldest, or a demand read, stops it."""
    async def steps(ctx, queue):
        first = entry(1, bank=16, kind=kind, ident=1)
        others = [entry(1, bank=0, ident=2, high=high) for high in range(3)]
        for request in ([first, *others] if kind == Kind.BULK else [*others, first]):
            await push(ctx, queue, request, hit=1)
        ctx.set(queue.column_near, 1 << 16 | 1)
        ctx.set(queue.column_ready, 1)
        served = 0
        while ctx.get(queue.column):
            assert ctx.get(queue.column_request.id) == 2
            served += 1
            await give(ctx, queue, take=1)
        assert served == patience
        # Nobody was served: now the other may.
        ctx.set(queue.column_ready, 1 << 16 | 1)
        assert ctx.get(queue.column) and ctx.get(queue.column_request.id) == 1

    queue_run(steps)


def test_a_demand_read_closes_the_row_of_a_stream_but_not_of_another_demand_read():
    async def steps(ctx, queue):
        ctx.set(queue.column_ready, 1)
        ctx.set(queue.precharge_ready, 1)
        await push(ctx, queue, entry(1, ident=1), hit=1)
        assert ctx.get(queue.column)
        await push(ctx, queue, entry(2, ident=2, kind=Kind.DEMAND))
        # The row may be closed in this slot, so nobody uses it.
        assert ctx.get(queue.row_wish) and ctx.get(queue.row_request.id) == 2 and not ctx.get(queue.column)
        await push(ctx, queue, entry(1, ident=3, kind=Kind.DEMAND), hit=1)
        assert not ctx.get(queue.row_wish) and ctx.get(queue.column_request.id) == 3

    queue_run(steps)


def test_the_oldest_and_a_demand_read_of_different_stack_ids_do_not_stop_each_other():
    """Both have lost their patience, as after a turn of the data bus: the oldest goes first."""
    async def steps(ctx, queue):
        banks, served = {1: 16, 3: 32}, []
        await push(ctx, queue, entry(1, bank=16, ident=1), hit=1)
        await push(ctx, queue, entry(1, bank=32, ident=3, kind=Kind.DEMAND), hit=1)
        both = sum(1 << bank for bank in banks.values())
        ctx.set(queue.column_near, both)
        for _ in range(SID_PATIENCE + DEMAND_PATIENCE + 2):
            assert not ctx.get(queue.column)
            await ctx.tick()
        ctx.set(queue.column_ready, both)
        for _ in range(40):
            if ctx.get(queue.column):
                served.append(ctx.get(queue.column_request.id))
                await give(ctx, queue, take=1)
            else:
                await ctx.tick()
        assert served == [1] + [3] * 8 + [1] * 7

    queue_run(steps)
