"""Bugs to be planted in the core, one place each (tb/core/planted.py)."""

from dataclasses import dataclass

__all__ = ["PLANTED", "Bug"]


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug and the text that makes it.

    Attributes
    ----------
    what : in a person's words
    module : below ``hw.core``
    right, wrong : text that is in the module exactly once, and what stands there instead
    profile : of the random programs that are to find it
    """

    what: str
    module: str
    right: str
    wrong: str
    profile: str = "mixed"


PLANTED = {
    "stale_forwarding": Bug(
        what="a load gets the data that the store's entry had a lap before", module="memory.store_queue",
        right="has_data.eq((has_data | valued) & ~allocated)",
        wrong="has_data.eq((has_data | valued) & ~Mux(bug('stale_forwarding'), 0, allocated))",
        profile="memory"),
    "younger_store": Bug(
        what="a load gets the data of a younger store", module="memory.store_queue",
        right="older.eq(span(head, self.search_position, n))",
        wrong="older.eq(span(head, Mux(bug('younger_store'), tail, self.search_position), n))",
        profile="memory"),
    "partial_store": Bug(
        what="a store that has only some of a load's bytes is forwarded", module="memory.store_queue",
        right="(self.search_mask & ~own) == 0",
        wrong="(bug('partial_store') | ((self.search_mask & ~own) == 0))", profile="memory"),
    "early_drain": Bug(
        what="stores go to the L1 when they are done, not when they have committed",
        module="memory.store_queue", right="next_committed.eq(committed + self.commit)",
        wrong="next_committed.eq(committed + Mux(bug('early_drain'), (told.bit_select(committed[:bits], 1)"
              " & (committed != tail)), self.commit))", profile="memory"),
    "load_first": Bug(
        what="loads pass stores without address", module="memory.lsu",
        right="with m.Elif(m_found.unknown):",
        wrong="with m.Elif(m_found.unknown & ~bug('load_first')):", profile="memory"),
    "mtval": Bug(
        what="a faulting load's mtval is that of another access", module="memory.lsu",
        right="Mux(failed, m_address, stores.done_address)",
        wrong="Mux(failed & ~bug('mtval'), m_address, stores.done_address)", profile="trap"),
    "wrong_line": Bug(
        what="a load that missed waits for another line than its own", module="memory.lsu",
        right="loads.sleep.mshr.eq(answer.mshr)",
        wrong="loads.sleep.mshr.eq(Mux(bug('wrong_line'), 0, answer.mshr))", profile="memory"),
    "lost_wake_up": Bug(
        what="a wake-up is lost where a load's comes in the same cycle", module="window.issue_queue",
        right="with m.If(woken):",
        wrong="with m.If(woken & ~(bug('lost_wake_up') & self.wake[0].valid & self.wake[-2].valid)):"),
    "queue_kill": Bug(
        what="a kill does not reach the first entry of an issue queue", module="window.issue_queue",
        right="void[e].eq(self.kill.valid & ",
        wrong="void[e].eq(self.kill.valid & ~Mux(bug('queue_kill'), int(e == 0), 0) & ", profile="branch"),
    "scoreboard": Bug(
        what="a register that was handed out counts as ready", module="window.registers",
        right="bits.eq(self.ready & ~ones(self.allocated)[:count])",
        wrong="bits.eq(self.ready & ~Mux(bug('scoreboard'), 0, ones(self.allocated)[:count]))",
        profile="alu"),
    "younger_fault": Bug(
        what="the exception that comes last is kept, not the oldest", module="window.reorder_buffer",
        right="takes = alive & (~kept.valid |", wrong="takes = alive & (~kept.valid | bug('younger_fault') |",
        profile="trap"),
    "interrupted_twice": Bug(
        what="the instruction before which an interrupt is taken commits as well", module="window.commit",
        right="goes = calm & ~interrupted &",
        wrong="goes = calm & (~interrupted | bug('interrupted_twice')) &", profile="interrupt"),
    "fence_idle": Bug(
        what="FENCE.I does not wait for stores", module="window.commit",
        right="system_ends.eq(self.idle)", wrong="system_ends.eq(self.idle | bug('fence_idle'))",
        profile="self_modify"),
    "flush_leak": Bug(
        what="a flush does not give back registers", module="rename.free_list",
        right="head.eq(committed)", wrong="head.eq(Mux(bug('flush_leak'), head, committed))",
        profile="trap"),
    "kill_leak": Bug(
        what="a kill does not give back registers", module="rename.free_list",
        right="head.eq(self.restored)", wrong="head.eq(Mux(bug('kill_leak'), head, self.restored))",
        profile="branch"),
    "group_bypass": Bug(
        what="a source that a lower slot of the group writes has the old register", module="rename.table",
        right="looked_up(table, self.sources[i][field], self.targets[:i])",
        wrong="Mux(bug('group_bypass'), table[self.sources[i][field]], "
              "looked_up(table, self.sources[i][field], self.targets[:i]))", profile="alu"),
    "checkpoint_group": Bug(
        what="a checkpoint lacks what its own group writes", module="rename.table",
        right="with m.If(before):", wrong="with m.If(before & ~bug('checkpoint_group')):", profile="branch"),
    "committed_slot": Bug(
        what="the committed table does not learn what the second slot writes", module="rename.table",
        right="with m.If(commit.valid & (commit.rd == register)):",
        wrong="with m.If(commit.valid & (commit.rd == register) & ~(bug('committed_slot') & int(i == 1))):",
        profile="trap"),
    "checkpoint_freed": Bug(
        what="a kill frees the checkpoints of older branches too", module="rename.rename",
        right="(self.kill.valid & younger(ages[c], self.kill.age))",
        wrong="(self.kill.valid & (bug('checkpoint_freed') | younger(ages[c], self.kill.age)))",
        profile="late"),
    "divider_kill": Bug(
        what="a kill does not end a division", module="execute.lane",
        right="divider.kill.eq(_void(self.kill, self.flush, age))",
        wrong="divider.kill.eq(_void(self.kill, self.flush, age) & ~bug('divider_kill'))", profile="divide"),
    "sraw": Bug(
        what="sraw takes its sign from bit 63", module="execute.alu",
        right="Mux(self.narrow, a[31], a[63]))", wrong="Mux(self.narrow & ~bug('sraw'), a[31], a[63]))",
        profile="alu"),
    "branch_unsigned": Bug(
        what="BLT and BGE compare unsigned", module="execute.branch",
        right="below_signed.eq(below ^ a[63] ^ b[63])",
        wrong="below_signed.eq(below ^ ((a[63] ^ b[63]) & ~bug('branch_unsigned')))", profile="branch"),
    "mulhsu": Bug(
        what="MULHSU takes both operands as unsigned", module="execute.multiply",
        right="signed_a = (op[:2] == 1) | (op[:2] == 2)",
        wrong="signed_a = (op[:2] == 1) | ((op[:2] == 2) & ~bug('mulhsu'))", profile="alu"),
    "fence_i": Bug(
        what="FENCE.I leaves the first way of the instruction cache", module="frontend.icache",
        right="m.d.sync += valid[way].eq(0)",
        wrong="m.d.sync += valid[way].eq(Mux(bug('fence_i') & int(way == 0), valid[way], 0))",
        profile="self_modify"),
    "mpie": Bug(
        what="MRET does not give back mstatus.MIE", module="privileged.csr",
        right="self.enable.eq(previous), previous.eq(1)",
        wrong="self.enable.eq(previous & ~bug('mpie')), previous.eq(1)", profile="interrupt"),
    "merge_byte": Bug(
        what="a fill overwrites one of the bytes that were stored meanwhile", module="l1.mshrs",
        right="kept | self.store_mask & by_store",
        wrong="kept | self.store_mask & Mux(bug('merge_byte'), ~(0x20 << 16), -1) & by_store",
        profile="memory"),
    "eviction": Bug(
        what="a line that is driven out loses its last doubleword", module="l1.l1",
        right="ask.mask.eq((1 << 64) - 1), ask.data.eq(evicted)",
        wrong="ask.mask.eq(Mux(bug('eviction'), (1 << 56) - 1, (1 << 64) - 1)), ask.data.eq(evicted)",
        profile="memory"),
    "poison": Bug(
        what="a line that came poisoned is read as if it were right", module="l1.bank",
        right="Mux(self.merges, WayState.INVALID, WayState.POISON)",
        wrong="Mux(self.merges, WayState.INVALID, Mux(bug('poison'), WayState.VALID, WayState.POISON))",
        profile="poison"),
}
