"""What is proved of the HBM slice: harnesses with free inputs, and for each a bug on which it fails."""

import importlib
import types
from dataclasses import dataclass
from types import SimpleNamespace

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data

from hw.config import HbmConfig
from hw.hbm.timing import HbmSlots
from tb.planted import Bug

__all__ = ["PROOFS", "Harness", "Proof", "changed"]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A harness and how it is run.

    Parameters
    ----------
    what : the claim, in a person's words
    harness : function of ``load`` (name of a module of hw.hbm -> the module) -> Harness
    mode, depth : of tests.formal.run
    cover_depth : cycles within which every cover statement is reached: the assumptions are not void
    near_miss : in place of covers, a harness with a stricter claim, which must fail
    bugs : each has to make it fail
    free : registers that start from any value
    package : of the modules that ``load`` names
    """

    what: str
    harness: object
    mode: str
    depth: int = 1
    cover_depth: int = 0
    near_miss: object = None
    bugs: tuple
    free: tuple = ()
    package: str = "hw.hbm"


def changed(bug=None, package="hw.hbm"):
    """``load`` for harnesses: modules as they are, except that with the bug."""

    def load(name):
        module = importlib.import_module(f"{package}.{name}")
        if bug is None or bug.module != module.__name__:
            return module
        copy = types.ModuleType(module.__name__)
        copy.__package__, copy.__file__ = module.__package__, module.__file__
        exec(compile(bug.source(), str(bug.path), "exec"), copy.__dict__)
        return copy

    return load


class Harness(Elaboratable):
    """``ports``: the free inputs."""

    def __init__(self):
        self.ports = []

    def free(self, shape, name):
        signal = Signal(shape, name=name)
        self.ports.append(Value.cast(signal))
        return signal


# -- address map --------------------------------------------------------------------------------


class MapIsBijection(Harness):
    """For any line: its place is legal, and leads back to it. For any legal place: it has a line."""

    def __init__(self, load, **geometry):
        super().__init__()
        # Of a HbmConfig, but with fewer rows than one may have.
        self.config = SimpleNamespace(banks=16, page_bytes=1024, **geometry)
        self.map = load("address_map").AddressMap(self.config)
        self.bits = max(3, (self.map.lines - 1).bit_length())
        self.line = self.free(self.bits, "line")
        self.place = self.free(data.StructLayout({
            "channel": 6, "sid": 2, "group": 2, "in_group": 3, "row": 16, "high": 2, "low": 2}), "place")

    def elaborate(self, platform):
        m = Module()
        config, groups = self.config, self.config.bank_groups
        group_bits = groups.bit_length() - 1
        # Registers, because the tools prove sequential circuits.
        line, p = Signal.like(self.line), Signal.like(self.place)
        m.d.sync += [line.eq(self.line), p.eq(self.place)]

        def number(channel, sid, bank, row, column):
            """The line at a place, from the words of the page: nested counters, low to high."""
            local = row * config.stack_ids + sid
            for digit, size in ((bank >> group_bits, config.banks // groups), (column >> 2, 4),
                                (bank & (groups - 1), groups)):
                local = local * size + digit
            return (local * config.pseudo_channels + channel) * 4 + (column & 3)

        m.d.comb += Assume(line < self.map.lines)
        local, channel = self.map.split(line)
        place = self.map.locate(local)
        m.d.comb += [
            Assert(channel < config.pseudo_channels), Assert(place["sid"] < config.stack_ids),
            Assert(place["row"] < config.rows), Assert(local < self.map.local_lines),
            Assert(number(channel, place["sid"], place["bank"], place["row"], place["column"]) == line),
            Cover((channel == config.pseudo_channels - 1) & (place["row"] == config.rows - 1)),
        ]

        m.d.comb += [Assume(p.channel < config.pseudo_channels), Assume(p.sid < config.stack_ids),
                     Assume(p.row < config.rows), Assume(p.group < groups),
                     Assume(p.in_group < config.banks // groups)]
        bank, column, there = p.in_group * groups + p.group, Cat(p.low, p.high), Signal(self.bits)
        asked = number(p.channel, p.sid, bank, p.row, column)
        m.d.comb += [there.eq(asked), Assert(asked < self.map.lines)]
        local, channel = self.map.split(there)
        back = self.map.locate(local)
        m.d.comb += [Assert(channel == p.channel), Assert(back["sid"] == p.sid), Assert(back["bank"] == bank),
                     Assert(back["row"] == p.row), Assert(back["column"] == column)]
        return m


# -- request and response -----------------------------------------------------------------------


class RingConserves(Harness):
    """A watched request: it is answered once, with its own tag and answer, after those of its class before
    it, and as soon as nothing holds it up."""

    CLASSES, DEPTH, DATA = 2, 2, 2

    def __init__(self, load):
        super().__init__()
        self.ring = load("reorder").ResponseRing(depth=self.DEPTH, data_bits=self.DATA, classes=self.CLASSES)
        self.opens = self.free(1, "opens")
        self.tag, self.write = self.free(8, "tag"), self.free(1, "write")
        self.completes, self.slot = self.free(1, "completes"), self.free(8, "slot")
        self.answer, self.status = self.free(self.DATA, "answer"), self.free(2, "status")
        self.ready, self.watch = self.free(1, "ready"), self.free(1, "watch")

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = self.ring
        opening, response = ring.opening, ring.response
        m.d.comb += [
            opening.valid.eq(self.opens), opening.payload.tag.eq(self.tag),
            opening.payload.write.eq(self.write), ring.complete_valid.eq(self.completes),
            ring.complete.slot.eq(self.slot), ring.complete.data.eq(self.answer),
            ring.complete.status.eq(self.status), response.ready.eq(self.ready),
        ]
        entered, leaves = opening.valid & opening.ready, response.valid & response.ready

        # Places that are open and not complete; a pseudo-channel answers only those.
        waiting = Signal(self.CLASSES * self.DEPTH)

        def place(slot):
            return Cat(slot[:self.DEPTH.bit_length() - 1], slot[6:6 + self.CLASSES.bit_length() - 1])

        opened = Mux(entered, 1 << place(ring.slot), 0)
        closed = Mux(self.completes, 1 << place(self.slot), 0)
        m.d.sync += waiting.eq((waiting | opened) & ~closed)
        m.d.comb += [Assume(~self.completes | waiting.bit_select(place(self.slot), 1)),
                     Assume((self.slot & 0b10111110) == 0),
                     Assert(~entered | ((ring.slot & 0b10111110) == 0)),
                     # A place is given to one request at a time.
                     Assert((opened & waiting) == 0)]

        kinds = [self.tag[6] == c for c in range(self.CLASSES)]
        counts = [Signal(4, name=f"inside{c}") for c in range(self.CLASSES)]
        for c, count in enumerate(counts):
            m.d.sync += count.eq(count + (entered & kinds[c]) - (leaves & (response.payload.tag[6] == c)))
            # The output holds one more than the ring has places.
            m.d.comb += Assert(count <= self.DEPTH + 1)
        m.d.comb += Assert(~leaves | (Array(counts)[response.payload.tag[6]] != 0))

        # The watched one: after it entered, ``ahead`` of its class leave before it does.
        watched, answered, gone = Signal(), Signal(), Signal()
        kept = Signal(data.StructLayout({"tag": 8, "write": 1, "slot": 8, "answer": self.DATA, "status": 2}))
        ahead = Signal(4)
        same = response.payload.tag[6] == kept.tag[6]
        with m.If(entered & self.watch & ~watched):
            m.d.sync += [watched.eq(1), kept.tag.eq(self.tag), kept.write.eq(self.write),
                         kept.slot.eq(ring.slot),
                         ahead.eq(Array(counts)[self.tag[6]]
                                  - (leaves & (response.payload.tag[6] == self.tag[6])))]
        # An answer may leave in the cycle in which it comes.
        arrives, answer, status = Signal(), Signal(self.DATA), Signal(2)
        m.d.comb += [arrives.eq(watched & ~answered & self.completes & (self.slot == kept.slot)),
                     answer.eq(Mux(arrives, self.answer, kept.answer)),
                     status.eq(Mux(arrives, self.status, kept.status))]
        with m.If(arrives):
            m.d.sync += [answered.eq(1), kept.answer.eq(self.answer), kept.status.eq(self.status)]
        turn = watched & ~gone & leaves & same
        with m.If(turn & (ahead != 0)):
            m.d.sync += ahead.eq(ahead - 1)
        with m.If(turn & (ahead == 0)):
            m.d.sync += gone.eq(1)
            m.d.comb += [
                Assert(answered | arrives), Assert(response.payload.tag == kept.tag),
                Assert(response.payload.write == kept.write), Assert(response.payload.data == answer),
                Assert(Value.cast(response.payload.status) == status),
            ]
        # Progress: complete, first of its class, and a reader that takes everything.
        patience = Signal(4)
        held = watched & answered & ~gone & (ahead == 0)
        m.d.sync += patience.eq(Mux(held & self.ready, patience + 1, Mux(held, patience, 0)))
        m.d.comb += [Assert(patience <= self.CLASSES + 1), Cover(gone & (ahead == 0) & (kept.tag[6] == 1)),
                     Cover(gone & (counts[0] == self.DEPTH + 1))]
        return m


class BufferKeepsOrder(Harness):
    """Two places: what goes in comes out once, in order, and valid words stay."""

    def __init__(self, load):
        super().__init__()
        self.buffer = load("demand").TwoPlaces(3)
        self.valid, self.word, self.ready = self.free(1, "valid"), self.free(3, "word"), self.free(1, "ready")

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        m.d.comb += [buffer.i.valid.eq(self.valid), buffer.i.payload.eq(self.word),
                     buffer.o.ready.eq(self.ready)]
        # The buffer against a queue of three entries, the oldest first.
        queue, count = [Signal(3, name=f"entry{n}") for n in range(3)], Signal(2)
        entered, leaves = self.valid & buffer.i.ready, buffer.o.valid & self.ready
        after = count - leaves
        for n, entry in enumerate(queue):
            moved = Mux(leaves, queue[n + 1] if n < 2 else 0, entry)
            m.d.sync += entry.eq(Mux(entered & (after == n), self.word, moved))
        m.d.sync += count.eq(after + entered)
        m.d.comb += [Assert(count <= 2), Assert(buffer.o.valid == (count != 0)),
                     Assert((count == 0) | (buffer.o.payload == queue[0])),
                     Assert(buffer.i.ready == (count != 2)), Cover(count == 2),
                     Assert((count != 2) | (buffer.second == queue[1]))]
        return m


# -- timing rules and refresh --------------------------------------------------------------------

#: Short times in which every rule can bind by itself, so that proofs stay small.
SHORT = HbmSlots(
    rcd_read=3, rcd_write=2, rp=2, ras=4, rc=6, ccd_l=3, ccd_r=2, rrd_s=2, rrd_l=3, faw=10,
    read_to_precharge=2, write_to_precharge=5, write_to_read_s=4, write_to_read_l=5, read_to_write=3,
    read_data=4, debt_step=4, rfc_all=7, rfc_bank=5, rref=3, init=4, mrd=2, cl_ck=4, cwl_ck=2)


class RulesOfTwoBanks(Harness):
    """Two arbitrary banks among others, and any commands that bank machines and spacing allow: every rule of
    one bank, and every rule between two, holds; at most four activates in tFAW over all banks."""

    CONFIG = SimpleNamespace(stack_ids=2, bank_groups=2)
    GROUPS = 4
    FREE = ("*group_of_*",)

    def __init__(self, load):
        super().__init__()
        self.machines = [load("bank").BankMachine(SHORT) for _ in range(2)]
        self.spacing = load("spacing").Spacing(self.CONFIG, SHORT)
        # Bank 2 stands for all others; its state is not looked at, only its group.
        self.row_bank, self.column_bank = self.free(2, "row_bank"), self.free(2, "column_bank")
        self.row_op, self.column_op = self.free(2, "row_op"), self.free(2, "column_op")
        self.auto, self.other_row, self.other_column = (
            self.free(1, "auto"), self.free(2, "other_row"), self.free(2, "other_column"))

    def elaborate(self, platform):
        m = Module()
        spacing = m.submodules.spacing = self.spacing
        own = [Signal(2, name=f"group_of_{n}") for n in range(2)]
        m.d.sync += [group.eq(group) for group in own]
        row_groups, column_groups = [*own, self.other_row], [*own, self.other_column]
        event = {name: [Signal(name=f"{name}_{n}") for n in range(3)]
                 for name in ("activate", "precharge", "refresh", "read", "write")}
        m.d.comb += spacing.slot.eq(1)
        for n in range(3):
            row, column = self.row_bank == n, self.column_bank == n
            machine = self.machines[n] if n < 2 else None
            rests, opened = Const(1, 1), {name: Const(1, 1) for name in ("read", "write", "precharge")}
            if machine is not None:
                m.submodules[f"bank{n}"] = machine
                rests = machine.activate_ok
                opened = {name: getattr(machine, f"{name}_ok") for name in opened}
                m.d.comb += [machine.slot.eq(1), machine.auto.eq(self.auto)]
                m.d.comb += [getattr(machine, name).eq(signals[n]) for name, signals in event.items()]

            def of(vector, groups, n=n):
                return vector.bit_select(groups[n], 1)

            m.d.comb += [
                event["activate"][n].eq(row & (self.row_op == 1) & rests
                                        & of(spacing.activate_ok, row_groups)),
                event["precharge"][n].eq(row & (self.row_op == 2) & opened["precharge"]),
                event["refresh"][n].eq(row & (self.row_op == 3) & rests
                                       & of(spacing.refresh_ok, row_groups)),
                # The queues do not close a row and use it in the same slot.
                event["read"][n].eq(column & (self.column_op == 1) & opened["read"] & ~event["precharge"][n]
                                    & of(spacing.read_ok, column_groups)),
                event["write"][n].eq(column & (self.column_op == 2) & opened["write"] & ~event["precharge"][n]
                                     & of(spacing.write_ok, column_groups)),
            ]
        for name, groups in (("activate", row_groups), ("read", column_groups), ("write", column_groups)):
            m.d.comb += getattr(spacing, name).eq(sum(
                Mux(event[name][n], 1 << groups[n], 0) for n in range(3)))
        m.d.comb += spacing.refresh.eq(Cat(event["refresh"]).any())
        since = self._since(m, event)
        self._one_bank(m, event, since)
        self._two_banks(m, event, since, own)

        # All banks: at most four in a window of tFAW.
        window = Signal(SHORT.faw - 1)
        activated = Cat(event["activate"]).any()
        m.d.sync += window.eq(Cat(activated, window))
        m.d.comb += [Assert(~activated | (sum(window) < 4)), Cover(activated & (sum(window) == 3))]
        return m

    def _since(self, m, event):
        """Slots since the last command of a kind to banks 0 and 1; 15 for long ago or never."""
        since = {}
        for name, signals in event.items():
            since[name] = [Signal(4, init=15, name=f"since_{name}_{n}") for n in range(2)]
            for n, count in enumerate(since[name]):
                m.d.sync += count.eq(Mux(signals[n], 1, Mux(count == 15, 15, count + 1)))
        return since

    def _one_bank(self, m, event, since):
        t = SHORT
        for n in range(2):
            act, pre, ref, rd, wr = (event[name][n] for name in event)
            is_open, closes = Signal(name=f"is_open_{n}"), Signal(name=f"closes_{n}")
            m.d.sync += [is_open.eq((is_open | act) & ~(pre | ((rd | wr) & self.auto))),
                         closes.eq((closes | ((rd | wr) & self.auto)) & ~act)]
            ages = {name: counts[n] for name, counts in since.items()}
            rests = ((ages["precharge"] >= t.rp) & (ages["refresh"] >= t.rfc_bank)
                     & (ages["activate"] >= t.rc)
                     & (~closes | ((ages["activate"] >= t.ras + t.rp)
                                   & (ages["read"] >= t.read_to_precharge + t.rp)
                                   & (ages["write"] >= t.write_to_precharge + t.rp))))
            rules = [
                # No activate to a bank that is open, in refresh, or not yet precharged for long enough.
                (act | ref, ~is_open & rests),
                (pre, is_open & (ages["activate"] >= t.ras) & (ages["read"] >= t.read_to_precharge)
                 & (ages["write"] >= t.write_to_precharge)),
                (rd, is_open & (ages["activate"] >= t.rcd_read)),
                (wr, is_open & (ages["activate"] >= t.rcd_write)),
            ]
            m.d.comb += [Assert(~when | holds) for when, holds in rules]
            m.d.comb += [Cover(act & (ages["refresh"] == t.rfc_bank)), Cover(act & closes),
                         Cover(ref & (ages["precharge"] == t.rp))]

    def _two_banks(self, m, event, since, own):
        t = SHORT
        same_group, same_stack = own[0] == own[1], own[0][1] == own[1][1]
        ccd = Mux(same_group, t.ccd_l, Mux(same_stack, 1, t.ccd_r))
        rrd = Mux(same_group, t.rrd_l, t.rrd_s)
        wtr = Mux(same_group, t.write_to_read_l, t.write_to_read_s)
        for n in range(2):
            act, _, ref, rd, wr = (event[name][n] for name in event)
            other = {name: counts[1 - n] for name, counts in since.items()}
            mine = {name: counts[n] for name, counts in since.items()}
            rules = [
                (act, (other["activate"] >= rrd) & (other["refresh"] >= t.rref)),
                (ref, (other["activate"] >= rrd) & (other["refresh"] >= t.rref)),
                (rd | wr, (other["read"] >= ccd) & (other["write"] >= ccd)
                 & (mine["read"] >= t.ccd_l) & (mine["write"] >= t.ccd_l)),
                (rd, (other["write"] >= wtr) & (mine["write"] >= t.write_to_read_l)),
                (wr, (other["read"] >= t.read_to_write) & (mine["read"] >= t.read_to_write)),
            ]
            m.d.comb += [Assert(~when | holds) for when, holds in rules]
            m.d.comb += [Cover(rd & (other["write"] == wtr) & ~same_group),
                         Cover(act & (other["activate"] == rrd) & same_group)]


class OneCommandABus(Harness):
    """Whatever queues, refresh and start-up wish for: one row and one column command a slot, and what is told
    to the banks is what goes to the device in the next slot."""

    def __init__(self, load):
        super().__init__()
        self.scheduler = load("scheduler").Scheduler(HbmConfig(pseudo_channels=1))
        self.names = load("command")
        self.inputs = {name: self.free(Value.cast(getattr(self.scheduler, name)).shape(), f"in_{name}")
                       for name, member in self.scheduler.signature.members.items()
                       if member.flow.name == "In" and name != "slot"}

    def elaborate(self, platform):
        m = Module()
        m.submodules.scheduler = s = self.scheduler
        m.d.comb += [Value.cast(getattr(s, name)).eq(value) for name, value in self.inputs.items()]
        m.d.comb += s.slot.eq(1)
        ops, columns = self.names.RowOp, self.names.ColumnOp
        # Start-up gives MRS and REFAB only.
        m.d.comb += Assume(sum(self.inputs["startup"][:3] == op.value
                               for op in (ops.NOP, ops.MRS, ops.REFAB)) != 0)
        # What Refresh promises: one wish of one kind.
        wishes = Value.cast(s.refresh_wish), Value.cast(s.precharge_wish)
        for wish in wishes:
            m.d.comb += Assume((wish & (wish - 1)) == 0)
        m.d.comb += Assume(((wishes[0] != 0) + (wishes[1] != 0) + s.refresh_all_wish) <= 1)
        # What a queue promises: a burst of a bank that is ready, and so of one queue only.
        for queue in ("read", "write"):
            ready = getattr(s, f"{queue}_column_ready")
            m.d.comb += Assume(~getattr(s, f"{queue}_column") | (ready != 0))
        row = {"activate": ops.ACT, "precharge": ops.PRE, "refresh": ops.REFPB, "refresh_all": ops.REFAB}
        column = {"read": (columns.RD, columns.RDA), "write": (columns.WR, columns.WRA)}
        m.d.comb += [Assert(sum(getattr(s, name) for name in row) <= 1), Assert(~(s.read & s.write)),
                     Assert(~s.auto | s.read | s.write)]
        started, before = Signal(), Signal(6)
        m.d.sync += [started.eq(1), before.eq(Cat(s.activate, s.precharge, s.refresh, s.refresh_all, s.read,
                                                  s.write))]
        told = Value.cast(s.row_command.op)
        for bit, op in enumerate(row.values()):
            m.d.comb += [Assert(~started | ~before[bit] | (told == op.value)),
                         Assert(~started | before[bit] | (told != op.value)), Cover(before[bit])]
        told = Value.cast(s.column_command.op)
        for bit, (plain, auto) in enumerate(column.values(), 4):
            m.d.comb += [Assert(~started | (before[bit] == ((told == plain.value) | (told == auto.value)))),
                         Cover(before[bit])]
        return m


class RefreshInTime(Harness):
    """Three banks under any traffic that the controller lets through: no bank ever owes more than 8 refreshes
    (``most``: another bound, to show that debts do rise)."""

    CONFIG = SimpleNamespace(stack_ids=1, banks=3)

    def __init__(self, load, most=8):
        super().__init__()
        self.most = most
        self.refresh = load("refresh").Refresh(self.CONFIG, SHORT)
        self.machines = [load("bank").BankMachine(SHORT) for _ in range(3)]
        self.pending, self.quiet = self.free(3, "pending"), self.free(1, "quiet")
        self.row_op, self.row_bank = self.free(2, "row_op"), self.free(2, "row_bank")
        self.column_op, self.column_bank = self.free(2, "column_op"), self.free(2, "column_bank")
        self.auto = self.free(1, "auto")

    def elaborate(self, platform):
        m = Module()
        m.submodules.refresh = refresh = self.refresh
        since_row = Signal(4, init=15)  # slots since an activate or a refresh
        rests = since_row >= max(SHORT.rref, SHORT.rrd_l)
        wish = Cat(refresh.refresh, refresh.precharge) != 0
        # Row bus: the wish of the refresh if it is forced; else anything, the wish among it.
        by_refresh = wish & (refresh.forced | (self.row_op == 0))
        rows = []
        for n, bank in enumerate(self.machines):
            m.submodules[f"bank{n}"] = bank
            mine = (self.row_bank == n) & ~by_refresh & ~refresh.block[n]
            here = (self.column_bank == n) & ~refresh.block[n] & ~bank.precharge
            m.d.comb += [
                bank.slot.eq(1), bank.auto.eq(self.auto),
                bank.activate.eq(mine & (self.row_op == 1) & bank.activate_ok & rests),
                bank.precharge.eq(Mux(by_refresh, refresh.precharge[n],
                                      mine & (self.row_op == 2) & bank.precharge_ok)),
                bank.refresh.eq(by_refresh & refresh.refresh[n]),
                bank.read.eq(here & (self.column_op == 1) & bank.read_ok),
                bank.write.eq(here & (self.column_op == 2) & bank.write_ok),
                refresh.closed[n].eq(bank.closed), refresh.refreshable[n].eq(bank.activate_ok & rests),
                refresh.closable[n].eq(bank.precharge_ok), refresh.served[n].eq(bank.refresh),
            ]
            rows += [bank.activate, bank.refresh]
        m.d.comb += [refresh.slot.eq(1), refresh.running.eq(1), refresh.quiet.eq(self.quiet),
                     refresh.pending.eq(self.pending)]
        m.d.sync += since_row.eq(Mux(Cat(rows).any(), 1, Mux(since_row == 15, 15, since_row + 1)))

        # What each bank owes, counted here again.
        time, turn = Signal(range(SHORT.debt_step)), Signal(range(3))
        last = time == SHORT.debt_step - 1
        m.d.sync += [time.eq(Mux(last, 0, time + 1)),
                     turn.eq(Mux(last, Mux(turn == 2, 0, turn + 1), turn))]
        m.d.comb += Assert(refresh.due == last)
        for n, bank in enumerate(self.machines):
            debt = Signal(5, name=f"owes_{n}")
            grows = last & (turn == n)
            m.d.sync += debt.eq(debt + grows - (bank.refresh & ((debt != 0) | grows)))
            m.d.comb += Assert(debt <= self.most)
        return m


PROOFS = {
    "address map": Proof(
        what="every line has one legal place, and every place one line: 3 pseudo-channels, 3 stack IDs, "
             "5 rows",
        harness=lambda load: MapIsBijection(load, pseudo_channels=3, stack_ids=3, bank_groups=4, rows=5),
        mode="bounded", depth=2, cover_depth=2,
        bugs=(Bug(what="the quotient of a division is one bit short of exact", module="hw.hbm.address_map",
                  right="while limit * (-(1 << shift) % odd) >= 1 << shift:",
                  wrong="while 16 * limit * (-(1 << shift) % odd) >= 257 << shift:"),)),
    "response ring": Proof(
        what="a request is answered once, in order in its class, with its own data, and within 3 cycles "
             "where nothing holds it up: 2 classes of 2 places",
        harness=RingConserves, mode="unbounded", cover_depth=14,
        bugs=(Bug(what="a class takes more requests than it has places", module="hw.hbm.reorder",
                  right="room.eq(counts[c] != depth)", wrong="room.eq(1)"),
              Bug(what="an answer goes past older ones of its class", module="hw.hbm.reorder",
                  right="self.complete_valid & (index == head) & (owner == chosen)",
                  wrong="self.complete_valid & (owner == chosen)"))),
    "buffer": Proof(
        what="two places between streams keep every word, once and in order",
        harness=BufferKeepsOrder, mode="unbounded", cover_depth=6,
        bugs=(Bug(what="the word in the second place is lost", module="hw.hbm.demand",
                  right="valid.eq(waiting | taken), waiting.eq(0)",
                  wrong="valid.eq(taken), waiting.eq(0)"),)),
    "timing rules": Proof(
        what="rules of one bank and of two arbitrary banks, no activate to a bank in refresh, tFAW over all "
             "banks",
        harness=RulesOfTwoBanks, mode="bounded", depth=16, cover_depth=14, free=RulesOfTwoBanks.FREE,
        bugs=(Bug(what="five activates in a window of tFAW", module="hw.hbm.spacing",
                  right="(in_window >= 4)", wrong="(in_window >= 5)"),
              Bug(what="a bank in refresh takes an activate too soon", module="hw.hbm.bank",
                  right="dead.eq(t.rfc_bank - 1)", wrong="dead.eq(t.rp - 1)"),
              Bug(what="a row is closed before tRAS", module="hw.hbm.bank",
                  right="may_close = (age >= t.ras) & (hold == 0)", wrong="may_close = hold == 0"))),
    "command buses": Proof(
        what="one row and one column command a slot, and banks are told what the device gets",
        harness=OneCommandABus, mode="unbounded", cover_depth=4,
        bugs=(Bug(what="reads go while writes do", module="hw.hbm.scheduler",
                  right="Mux(writing, 0, self.read_ok & self.may_read & allowed)",
                  wrong="self.read_ok & self.may_read & allowed"),)),
    "refresh age": Proof(
        what="no bank owes more than 8 refreshes: three banks, any traffic, each owes one more in 12 slots",
        harness=RefreshInTime, near_miss=lambda load: RefreshInTime(load, most=6), mode="bounded", depth=130,
        bugs=(Bug(what="a bank has to be refreshed at a debt of 9, not 7", module="hw.hbm.refresh",
                  right="must.eq((planes[0] & planes[1] & planes[2]) | planes[3])",
                  wrong="must.eq(planes[3] & planes[0])"),)),
}
"""All proofs, by name."""
