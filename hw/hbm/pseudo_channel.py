"""The controller of one pseudo-channel: queues, scheduler, refresh, write path and return path, wired."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import config_hash
from .banks import Banks
from .command import DfiSignature
from .counters import Counters, EventCounters
from .intake import Intake
from .port import BulkLine, ChannelData, Demand, Reply, ScrubLine
from .queue import Kind, RequestQueue
from .refresh import Refresh
from .return_path import ReturnPath
from .scheduler import Scheduler
from .spacing import Spacing
from .startup import Startup
from .timing import HbmSlots
from .write_buffer import WriteBuffer

__all__ = ["Counters", "PseudoChannel"]


class PseudoChannel(wiring.Component):
    """Controller of one pseudo-channel.

    A request that is accepted in one slot can cause a command decided in the next slot, which is at ``dfi``
    in the slot after; a reply is valid one cycle after its last burst was at ``dfi``.

    Parameters
    ----------
    config : HbmConfig

    Members
    -------
    slot : In(1): this tile cycle is a slot (``SlotRate``); requests are taken in such cycles only
    temperature : In(2): refresh interval is refi (0), refi / 2 (1), refi / 4 (2)
    all_bank : In(1): refresh all banks at once in place of one by one
    demand : In(stream of Demand): a write is ordered when it is accepted
    bulk : In(stream of BulkLine)
    scrub : In(stream of ScrubLine): lines to read, and to write back if an error was corrected
    reply : Out(stream of Reply): demand reads, in any order
    data : Out(stream of ChannelData): bulk reads, in order
    dfi : Out(DfiSignature)
    counters : Out(Counters)
    idle : Out(1): start-up is over and nothing is queued or under way
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "slot": In(1), "temperature": In(2), "all_bank": In(1),
            "demand": In(stream.Signature(Demand)), "bulk": In(stream.Signature(BulkLine)),
            "scrub": In(stream.Signature(ScrubLine)),
            "reply": Out(stream.Signature(Reply)), "data": Out(stream.Signature(ChannelData)),
            "dfi": Out(DfiSignature()), "counters": Out(Counters), "idle": Out(1),
        })

    @property
    def module_name(self):
        return f"hbm_pseudo_channel_{config_hash(self.config)[:8]}"

    def elaborate(self, platform):
        m = Module()
        config, queues = self.config, self.config.queues
        t = HbmSlots.of(config)
        count = config.stack_ids * config.banks
        m.submodules.startup = startup = Startup(t)
        m.submodules.intake = intake = Intake(config)
        m.submodules.reads = reads = RequestQueue(entries=queues.read_entries, age_cap=queues.age_cap,
                                                  answers=False)
        m.submodules.writes = writes = RequestQueue(entries=queues.write_entries, age_cap=queues.age_cap,
                                                    answers=True)
        m.submodules.banks = banks = Banks(config, t)
        m.submodules.spacing = spacing = Spacing(config, t)
        m.submodules.refresh = refresh = Refresh(config, t)
        m.submodules.scheduler = scheduler = Scheduler(config)
        m.submodules.buffer = buffer = WriteBuffer(entries=queues.write_entries)
        m.submodules.returns = returns = ReturnPath(config)
        m.submodules.counting = counting = EventCounters()
        for part in (startup, intake, reads, writes, banks, spacing, refresh, scheduler, buffer, returns,
                     counting):
            m.d.comb += part.slot.eq(self.slot)
        for name in ("demand", "bulk", "scrub"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(intake, name))
        wiring.connect(m, returns.reply, wiring.flipped(self.reply))
        wiring.connect(m, returns.data, wiring.flipped(self.data))
        self._queues(m, intake, reads, writes, banks, scheduler, buffer)
        self._rows_and_columns(m, startup, banks, spacing, refresh, scheduler, t, count)

        # -- intake and what it asks
        outstanding = Signal(range(queues.demand_reads + 1))
        m.d.sync += outstanding.eq(outstanding + (intake.demand_read & self.slot)
                                   - (self.reply.valid & self.reply.ready))
        m.d.comb += [
            intake.running.eq(startup.running), intake.demand_room.eq(outstanding != queues.demand_reads),
            intake.place.eq(returns.place), intake.room.eq(returns.room), returns.alloc.eq(intake.alloc),
            returns.line.eq(self.bulk.payload), intake.free.eq(buffer.free),
            intake.region.eq(buffer.region), intake.busy.eq(buffer.busy), buffer.take.eq(intake.take),
            buffer.accept.eq(intake.accept), buffer.accept_region.eq(intake.accept_region),
            buffer.accept_line.eq(intake.accept_line), buffer.accept_scrub.eq(intake.accept_scrub),
            buffer.accept_data.eq(self.demand.payload.data),
            buffer.accept_mask.eq(Mux(intake.accept_scrub, 0, self.demand.payload.mask)),
            banks.lookup_bank.eq(intake.request.grain.bank), banks.lookup_row.eq(intake.request.grain.row),
            intake.hit.eq(banks.lookup_hit), scheduler.drain.eq(intake.drain),
            scheduler.running.eq(startup.running), scheduler.startup.eq(startup.row),
        ]

        # -- writes: how many bursts wait
        left = Signal(10)
        added = Mux(intake.accept, sum(intake.write_bursts[2 * line] + intake.write_bursts[2 * line + 1]
                                       for line in range(4)), 0)
        with m.If(self.slot):
            m.d.sync += left.eq(left + added - scheduler.write - (buffer.answer & buffer.answer_drop))
        m.d.comb += [
            scheduler.write_left.eq(left), scheduler.write_full.eq(writes.count >= queues.write_entries - 2),
            buffer.fetch_region.eq(writes.column_request.id), buffer.fetch_burst.eq(writes.column_burst),
            buffer.give.eq(writes.removed), buffer.given.eq(writes.removed_id),
        ]

        # -- data of reads
        tag, request = returns.tag, reads.column_request
        m.d.comb += [
            returns.issue.eq(scheduler.read), tag.kind.eq(request.kind), tag.burst.eq(reads.column_burst),
            tag.id.eq(request.id + Mux(request.kind == Kind.BULK, reads.column_burst[1:], 0)),
            tag.location.sid.eq(request.grain.bank[4:]), tag.location.bank.eq(request.grain.bank[:4]),
            tag.location.row.eq(request.grain.row),
            tag.location.column.eq(Cat(reads.column_burst[1:], request.grain.high)),
            buffer.merge_fetch.eq(returns.merge_fetch), buffer.merge_region.eq(returns.merge_region),
            buffer.merge_burst.eq(returns.merge_burst), buffer.read.eq(returns.read),
            buffer.corrected.eq(returns.corrected), buffer.bad.eq(returns.bad),
        ]

        # -- the edge
        dfi = self.dfi
        m.d.comb += [
            dfi.slot.eq(self.slot), dfi.row.eq(scheduler.row_command),
            dfi.column.eq(scheduler.column_command), dfi.wdata.eq(buffer.wdata),
            dfi.wcheck.eq(buffer.wcheck), returns.rdata.eq(dfi.rdata),
            returns.rcheck.eq(dfi.rcheck), returns.rvalid.eq(dfi.rvalid),
        ]

        quiet = Signal()
        m.d.comb += [
            quiet.eq((reads.count == 0) & (writes.count == 0) & ~intake.waiting), refresh.quiet.eq(quiet),
            self.idle.eq(quiet & startup.running & (outstanding == 0) & returns.empty & ~buffer.busy),
            refresh.temperature.eq(self.temperature), refresh.all_bank.eq(self.all_bank),
        ]
        used = banks.used.bit_select(scheduler.column_bank, 1)
        column = scheduler.read | scheduler.write
        m.d.comb += [
            counting.reads.eq(scheduler.read), counting.writes.eq(scheduler.write),
            counting.activates.eq(scheduler.activate), counting.row_hits.eq(column & used),
            counting.refreshes_due.eq(refresh.due),
            counting.refreshes_served.eq(Mux(scheduler.refresh_all & startup.running, count,
                                             scheduler.refresh)),
            counting.scrubbed.eq(buffer.scrubbed), counting.arrived.eq(returns.arrived),
            counting.corrected.eq(returns.corrected), counting.bad.eq(returns.bad),
            counting.location.eq(returns.location), self.counters.eq(counting.o),
        ]
        return m

    def _queues(self, m, intake, reads, writes, banks, scheduler, buffer):
        """Entrances of the queues, proposals to the scheduler, and its decisions back."""
        for queue, prefix in ((reads, "read"), (writes, "write")):
            m.d.comb += [
                queue.request.grain.eq(intake.request.grain), queue.request.close.eq(intake.request.close),
                queue.hit.eq(intake.hit), queue.probe.eq(intake.request.grain),
                queue.probe_bursts.eq(intake.probe_bursts),
                queue.push.eq(getattr(intake, f"{prefix}_push")),
                queue.merge.eq(getattr(intake, f"{prefix}_merge")),
                queue.request.id.eq(getattr(intake, f"{prefix}_id")),
                queue.bursts.eq(getattr(intake, f"{prefix}_bursts")),
                getattr(intake, f"{prefix}_count").eq(queue.count),
                getattr(intake, f"{prefix}_tail_stays").eq(queue.tail_stays),
                getattr(intake, f"{prefix}_found").eq(queue.probe_found),
                queue.row_bank.eq(scheduler.row_bank), queue.row.eq(scheduler.row),
                queue.activate.eq(scheduler.activate), queue.precharge.eq(scheduler.precharge),
                queue.auto.eq(scheduler.auto), queue.column_bank.eq(scheduler.column_bank),
            ]
            for name in ("column", "column_request", "column_burst", "column_last", "row_wish",
                         "row_activate", "row_request", "pending", "hits", "many", "ready_work"):
                m.d.comb += getattr(scheduler, f"{prefix}_{name}").eq(getattr(queue, name))
            for name in ("take", "column_near", "column_ready", "activate_ready", "precharge_ready"):
                m.d.comb += getattr(queue, name).eq(getattr(scheduler, f"{prefix}_{name}"))
        m.d.comb += [
            reads.request.kind.eq(intake.read_kind), writes.request.kind.eq(Kind.WRITE),
            writes.waits.eq(intake.write_waits), writes.answer.eq(buffer.answer),
            writes.answer_id.eq(buffer.answer_id), writes.answer_bursts.eq(buffer.answer_bursts),
            writes.answer_drop.eq(buffer.answer_drop),
        ]

    def _rows_and_columns(self, m, startup, banks, spacing, refresh, scheduler, t, count):
        """Banks, spacing and refresh around the scheduler."""
        config = self.config
        for name in ("activate", "precharge", "refresh", "refresh_all", "row_bank", "row", "read", "write",
                     "auto", "column_bank"):
            m.d.comb += getattr(banks, name).eq(getattr(scheduler, name))
        for name in ("read_ok", "write_ok", "precharge_ok", "activate_ok"):
            m.d.comb += getattr(scheduler, name).eq(getattr(banks, name))
        group_bits = config.bank_groups.bit_length() - 1

        def one_hot(command, bank):
            # Group of a bank: its low bits, in its stack ID.
            return Mux(command, Const(1, 1) << Cat(bank[:group_bits], bank[4:]), 0)

        def by_bank(groups):
            each = config.bank_groups
            return Cat(groups[each * sid:each * (sid + 1)].replicate(config.banks // each)
                       for sid in range(config.stack_ids))

        m.d.comb += [
            spacing.activate.eq(one_hot(scheduler.activate, scheduler.row_bank)),
            spacing.read.eq(one_hot(scheduler.read, scheduler.column_bank)),
            spacing.write.eq(one_hot(scheduler.write, scheduler.column_bank)),
            spacing.refresh.eq(scheduler.refresh),
            scheduler.may_activate.eq(by_bank(spacing.activate_ok)),
            scheduler.may_read.eq(by_bank(spacing.read_ok)),
            scheduler.may_write.eq(by_bank(spacing.write_ok)),
            scheduler.may_near.eq(by_bank(spacing.column_near)),
            refresh.running.eq(startup.running), refresh.closed.eq(banks.closed),
            refresh.refreshable.eq(banks.activate_ok & by_bank(spacing.refresh_ok)),
            refresh.closable.eq(banks.precharge_ok),
            refresh.pending.eq(scheduler.read_pending | scheduler.write_pending),
            refresh.may_all.eq(banks.activate_ok[:count].all()),
            refresh.served.eq(Mux(scheduler.refresh_all, Const((1 << count) - 1, count), Mux(
                scheduler.refresh, (Const(1, 1) << scheduler.row_bank)[:count], 0))),
            scheduler.block.eq(refresh.block), scheduler.forced.eq(refresh.forced),
            scheduler.refresh_wish.eq(refresh.refresh), scheduler.precharge_wish.eq(refresh.precharge),
            scheduler.refresh_all_wish.eq(refresh.refresh_all),
        ]
