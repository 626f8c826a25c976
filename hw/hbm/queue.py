"""Collapsing queue of requests: oldest first, each entry knows whether its row is open."""

from amaranth.hdl import Array, Cat, Const, EnableInserter, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from .vectors import encode, lowest

__all__ = ["BANK_BITS", "BANK_VECTOR", "Grain", "Kind", "Request", "RequestQueue"]

BANK_BITS = 6
BANK_VECTOR = 1 << BANK_BITS
"""Width of a vector with a bit a bank: index sid * 16 + bank."""

SID_PATIENCE = 8
"""Slots for which the oldest entry lets another stack ID go on."""

DEMAND_PATIENCE = 3
"""The same for a demand read."""


class Kind(enum.Enum, shape=2):
    """Whom an entry belongs to: a bulk read, a demand read, the read half of a partial write, a write."""

    BULK = 0
    DEMAND = 1
    MERGE = 2
    WRITE = 3


class Grain(data.Struct):
    """256 bytes: four lines of one page."""

    high: 2
    bank: BANK_BITS
    row: 16


class Request(data.Struct):
    """What of an entry stays as it was: ``id`` is of the owner's; ``close`` the page after its last burst."""

    grain: Grain
    kind: Kind
    id: 10
    close: 1


class RequestQueue(wiring.Component):
    """Requests in order of age, entry 0 the oldest. An entry is up to eight bursts of one grain.

    In each slot it proposes a column command (oldest entry whose row is open and whose bank is ready) and a
    row command (oldest entry whose row is not). Demand reads come first, until the oldest entry has been
    that for ``age_cap`` slots: then it is strictly by age, nobody else uses its bank before its row is open,
    and a row that others still hit may be closed for it. Before that, demand reads close rows that others
    hit, if no demand read does. As long as a stack ID has something to do in each
    slot, tCCD_R keeps all others off; so the oldest entry, kept off for SID_PATIENCE slots, stops them.
    An entry without bursts is removed in the next slot.

    Parameters
    ----------
    entries, age_cap : int
    answers : bool
        Whether bursts may have to wait for an answer.

    Members
    -------
    slot : In(1)
    push : In(1), merge : In(1): a new entry, or more bursts for the youngest
    request : In(Request), bursts, waits : In(8), hit : In(1): of a push or a merge (bursts, waits, close);
        ``waits`` : bursts that need an answer first
    answer : In(1), answer_id : In(10), answer_bursts : In(8), answer_drop : In(1): bursts of this id need not
        wait any more, or are not needed any more
    activate, precharge : In(1), row_bank, row : In: row command decided in this slot
    auto : In(1), column_bank : In: the column command decided in this slot closes the bank
    take : In(1): the proposed column command is issued
    column_ready, activate_ready, precharge_ready : In(64): by bank
    column_near : In(64): as column_ready but for tCCD_R
    column : Out(1), column_request : Out(Request), column_burst : Out(3), column_last : Out(1)
    row_wish, row_activate : Out(1), row_request : Out(Request): activate or precharge
    pending, hits, many : Out(64): banks with entries; with open rows that entries wait for; with more than
        one of those
    probe : In(Grain), probe_bursts : In(8), probe_found : Out(1): one of these bursts is in the queue
    count : Out: entries; tail_stays : Out(1): the youngest entry exists and is not removed in this slot
    removed : Out(1), removed_id : Out(10)
    ready_work : Out(1): an entry has a burst that need not wait
    """

    def __init__(self, *, entries, age_cap, answers):
        self.entries, self.age_cap, self.answers = entries, age_cap, answers
        vector = BANK_VECTOR
        super().__init__({
            "slot": In(1), "push": In(1), "merge": In(1), "request": In(Request), "bursts": In(8),
            "waits": In(8), "hit": In(1), "answer": In(1), "answer_id": In(10), "answer_bursts": In(8),
            "answer_drop": In(1), "activate": In(1), "precharge": In(1), "row_bank": In(BANK_BITS),
            "row": In(16), "auto": In(1), "column_bank": In(BANK_BITS), "take": In(1),
            "column_near": In(vector), "column_ready": In(vector), "activate_ready": In(vector),
            "precharge_ready": In(vector),
            "column": Out(1), "column_request": Out(Request), "column_burst": Out(3), "column_last": Out(1),
            "row_wish": Out(1), "row_activate": Out(1), "row_request": Out(Request),
            "pending": Out(vector), "hits": Out(vector), "many": Out(vector),
            "probe": In(Grain), "probe_bursts": In(8), "probe_found": Out(1),
            "count": Out(range(entries + 1)), "tail_stays": Out(1),
            "removed": Out(1), "removed_id": Out(10), "ready_work": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        n = self.entries
        requests = [Signal(Request, name=f"request{i}") for i in range(n)]
        bursts = [Signal(8, name=f"bursts{i}") for i in range(n)]
        waits = [Signal(8, name=f"waits{i}") if self.answers else Const(0, 8) for i in range(n)]
        hit, valid, work = Signal(n), Signal(n), Signal(n)

        # -- what the entries say about banks
        # (A Signal for each step: an expression that is used twice is emitted twice.)
        pending, hits, many, demand_hits, demand_wants = (Const(0, BANK_VECTOR),) * 5
        for i in range(n):
            # What waits for an answer has no claim on a row: the answer may need another row of this bank.
            place, mine, hits_so_far = (Signal(BANK_VECTOR, name=f"{name}{i}") for name in (
                "place", "mine", "hits_so_far"))
            m.d.comb += [
                place.eq(Mux(valid[i] & (bursts[i] != 0), Const(1, 1) << requests[i].grain.bank, 0)),
                mine.eq(Mux(hit[i] & work[i], place, 0)), hits_so_far.eq(hits | mine),
            ]
            pending, many, hits = pending | place, many | (hits & mine), hits_so_far
            of_demand = Signal(BANK_VECTOR, name=f"of_demand{i}")
            m.d.comb += of_demand.eq(Mux(requests[i].kind == Kind.DEMAND, place, 0))
            demand_hits = demand_hits | Mux(hit[i], of_demand, 0)
            demand_wants = demand_wants | Mux(hit[i], 0, of_demand)
        rows_of_demand, taken_by_demand = Signal(BANK_VECTOR), Signal(BANK_VECTOR)
        m.d.comb += [rows_of_demand.eq(demand_hits), self.pending.eq(pending),
                     self.hits.eq(hits), self.many.eq(many)]

        # -- age of the oldest
        age = Signal(range(self.age_cap + 1))
        urgent = age == self.age_cap
        head = Signal(BANK_VECTOR)
        with m.If(urgent & ~hit[0] & work[0]):
            m.d.comb += head.eq(Const(1, 1) << requests[0].grain.bank)

        # -- candidates
        column_ready = Signal(BANK_VECTOR)
        precharge_ready, precharge_for_demand = Signal(BANK_VECTOR), Signal(BANK_VECTOR)
        kept_off, stop = Signal(range(SID_PATIENCE + 1)), Signal()
        own_sid = Signal(BANK_VECTOR)
        first_bank = requests[0].grain.bank
        m.d.comb += [own_sid.eq(Const(0xFFFF, BANK_VECTOR) << Cat(Const(0, 4), first_bank[4:])),
                     stop.eq(kept_off == SID_PATIENCE), column_ready.eq(
                         self.column_ready & ~head & ~taken_by_demand & Mux(stop, own_sid, ~0)),
                     precharge_ready.eq(self.precharge_ready & (~self.hits | head))]
        # A stream opens its rows long before it needs them: for a demand read they are closed again, and
        # not used until then, unless the oldest entry has waited its time.
        m.d.comb += [
            taken_by_demand.eq(Mux(urgent, 0, demand_wants & ~rows_of_demand)),
            precharge_for_demand.eq(Mux(urgent, precharge_ready, self.precharge_ready & ~rows_of_demand)),
        ]
        columns, activates, precharges, demand, found, empty = (Signal(n, name=name) for name in (
            "columns", "activates", "precharges", "demand", "found", "empty"))
        by_entry = []
        probed = Cat(self.probe.high, self.probe.bank, self.probe.row)
        for i in range(n):
            bank = requests[i].grain.bank
            by_entry.append((
                self.column_near.bit_select(bank, 1), column_ready.bit_select(bank, 1),
                self.activate_ready.bit_select(bank, 1), precharge_ready.bit_select(bank, 1),
                precharge_for_demand.bit_select(bank, 1), requests[i].kind == Kind.DEMAND,
                (bursts[i] & ~waits[i]) != 0,
                (requests[i].grain.as_value() == probed) & ((bursts[i] & self.probe_bursts) != 0),
                bursts[i] == 0))
        # Whole words from here on.
        (near_bank, column_bank, activate_bank, precharge_bank, demand_bank, is_demand, unwaiting, same,
         without) = (Cat(bits) for bits in zip(*by_entry, strict=True))
        need = Signal(n)
        m.d.comb += [
            demand.eq(is_demand), work.eq(unwaiting & valid), empty.eq(without & valid),
            found.eq(same & valid), need.eq(work & ~hit), columns.eq(work & hit & column_bank),
            activates.eq(need & activate_bank),
            precharges.eq(need & ((demand & demand_bank) | (~demand & precharge_bank))),
        ]

        # A demand read whose row is open, kept off by tCCD_R, stops the others too.
        demand_waits, patience = Signal(), Signal(range(DEMAND_PATIENCE + 1))
        m.d.comb += demand_waits.eq(((work & hit & demand & near_bank) != 0) & ((columns & demand) == 0))
        with m.If(~demand_waits):
            m.d.sync += patience.eq(0)
        with m.Elif(patience != DEMAND_PATIENCE):
            m.d.sync += patience.eq(patience + 1)
        candidates = Signal(n)
        # (Not while the oldest entry itself stops others: both would wait for each other.)
        hold = demand_waits & (patience == DEMAND_PATIENCE) & ~stop & ~urgent
        m.d.comb += candidates.eq(Mux(hold, 0, columns))
        m.d.comb += [self.probe_found.eq(found != 0), self.ready_work.eq(work != 0)]

        column_pick, row_pick = self._oldest(m, "column", candidates, demand, urgent), self._oldest(
            m, "row", activates | precharges, demand, urgent)
        index = self._index(m, "column_index", column_pick)
        left, first = Signal(8), Signal(8)
        m.d.comb += [
            self.column.eq(candidates != 0), self.column_request.eq(Array(requests)[index]),
            left.eq(Array(bursts)[index] & ~Array(waits)[index]), first.eq(lowest(left)),
            self.column_burst.eq(encode(first)),
            self.column_last.eq(Array(bursts)[index] == first),
            self.row_wish.eq(row_pick != 0), self.row_activate.eq((row_pick & activates) != 0),
            self.row_request.eq(Array(requests)[self._index(m, "row_index", row_pick)]),
        ]

        with m.If(column_pick[0] | ~hit[0] | ~work[0]):
            m.d.sync += kept_off.eq(0)
        with m.Elif(self.column_near.bit_select(first_bank, 1) & ~self.column_ready.bit_select(first_bank, 1)
                    & ~stop):
            m.d.sync += kept_off.eq(kept_off + 1)

        # -- removal: one a slot
        remove, shift = Signal(n), Signal(n)
        tail = valid & ~(valid >> 1)
        m.d.comb += [
            remove.eq(lowest(empty)), shift.eq(-remove), self.removed.eq(empty != 0),
            self.removed_id.eq(Array(requests)[self._index(m, "remove_index", remove)].id),
            self.tail_stays.eq((tail & ~remove) != 0),
        ]
        kept = Signal(n)
        m.d.comb += kept.eq(Mux(self.removed, valid >> 1, valid))
        new_place = Signal(n)
        m.d.comb += new_place.eq(Mux(self.push, ~kept & (kept + 1), 0))
        m.d.sync += [valid.eq(Mux(self.push, (kept << 1) | 1, kept)),
                     self.count.eq(self.count + self.push - self.removed)]
        with m.If(remove[0] | ~valid[0]):
            m.d.sync += age.eq(0)
        with m.Elif(~urgent):
            m.d.sync += age.eq(age + 1)

        # -- contents
        merged = Signal(n)
        with m.If(self.merge):
            m.d.comb += merged.eq(tail)
        taken = Signal(n)
        with m.If(self.take):
            m.d.comb += taken.eq(column_pick)
        next_bursts, next_waits, next_hit, next_request = [], [], [], []
        for i in range(n):
            bank = requests[i].grain.bank
            b, w = Signal(8, name=f"next_bursts{i}"), Signal(8, name=f"next_waits{i}")
            h, r = Signal(name=f"next_hit{i}"), Signal(Request, name=f"next_request{i}")
            answered = dropped = Const(0, 8)
            if self.answers:
                answered = Mux(self.answer & (requests[i].id == self.answer_id), self.answer_bursts, 0)
                dropped = Mux(self.answer_drop, answered, 0)
            m.d.comb += [
                b.eq((bursts[i] & ~Mux(taken[i], first, 0) & ~dropped) | Mux(merged[i], self.bursts, 0)),
                w.eq((waits[i] & ~answered) | Mux(merged[i], self.waits, 0)),
                h.eq(hit[i]), r.eq(requests[i]),
            ]
            with m.If(merged[i]):
                m.d.comb += r.close.eq(requests[i].close | self.request.close)
            with m.If((self.precharge & (self.row_bank == bank)) | (self.auto & (self.column_bank == bank))):
                m.d.comb += h.eq(0)
            with m.If(self.activate & (self.row_bank == bank)):
                m.d.comb += h.eq(requests[i].grain.row == self.row)
            next_bursts.append(b)
            next_waits.append(w)
            next_hit.append(h)
            next_request.append(r)
        for i in range(n):
            j = min(i + 1, n - 1)
            with m.If(new_place[i]):
                m.d.sync += [requests[i].eq(self.request), bursts[i].eq(self.bursts)]
                if self.answers:
                    m.d.sync += waits[i].eq(self.waits)
            with m.Else():
                m.d.sync += [
                    requests[i].eq(Mux(shift[i], next_request[j].as_value(), next_request[i].as_value())),
                    bursts[i].eq(Mux(shift[i], next_bursts[j], next_bursts[i])),
                ]
                if self.answers:
                    m.d.sync += waits[i].eq(Mux(shift[i], next_waits[j], next_waits[i]))
        hits = Signal(n, name="updated_hit")
        m.d.comb += hits.eq(Cat(next_hit))
        m.d.sync += hit.eq(Mux(self.hit, new_place, 0) | (~new_place & (
            (shift & (hits >> 1)) | (~shift & hits))))
        return EnableInserter(self.slot)(m)

    def _oldest(self, m, name, candidates, demand, urgent):
        pick = Signal(self.entries, name=f"{name}_pick")
        first = Signal(self.entries, name=f"{name}_demand")
        m.d.comb += [first.eq(candidates & demand),
                     pick.eq(lowest(Mux((first != 0) & ~urgent, first, candidates)))]
        return pick

    def _index(self, m, name, one_hot):
        index = Signal(range(self.entries), name=name)
        m.d.comb += index.eq(encode(one_hot))
        return index
