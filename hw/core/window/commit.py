"""Commit: instructions take effect in program order; traps, interrupts and SYSTEM instructions."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ..types import Cause, Restart, SystemOp, Trap, Unit
from .types import Layouts

__all__ = ["Commit", "Waits"]


class Waits(enum.Enum, shape=4):
    """What the oldest instruction waits for, for a report on a core that stands still."""

    NOTHING = 0       # it commits, or traps, now
    EMPTY = 1         # the front end: there is no instruction
    EXECUTION = 2     # its operands or its unit
    LOAD = 3          # its data
    STORE = 4         # its address or its data
    STORES_DRAIN = 5  # a fence: stores that have committed
    INTERRUPT = 6     # WFI


class Commit(wiring.Component):
    """Retires up to ``width`` instructions a cycle, or one SYSTEM instruction, or takes a trap.

    A trap or restart is decided in one cycle and broadcast as ``flush`` and ``restart`` in the next, in which
    nothing commits.

    Members
    -------
    heads : In(array of head), retire : Out: from and to the reorder buffer
    fault : In(fault): the oldest exception
    dispatched : In(array of renamed): to remember a SYSTEM instruction
    commits : Out(array of Struct(valid, rd, tag)): for renaming
    loads, stores : Out: how many commit
    idle : In(1): no committed store is pending
    hold : In(1): no interrupt may be taken in this cycle
    source : Out(tag), operand : In(64): register read by a SYSTEM instruction
    result : Out(result), wake : Out(wake): register written by it
    csr, csr_value, csr_illegal, trap, vector, mret, epc, interrupt, wake_up : Privileged's ports
    restart : Out(Restart), flush : Out(1), system_done : Out(1)
    next_pc : Out(64): where execution goes on behind a SYSTEM instruction
    waits : Out(Waits)
    """

    def __init__(self, config):
        self.config = config
        self.layouts = layouts = Layouts(config)
        width = config.width
        commit = data.StructLayout({"valid": 1, "rd": 5, "tag": layouts.tag})
        count = range(width + 1)
        super().__init__({
            "heads": In(layouts.head).array(width), "retire": Out(count), "fault": In(layouts.fault),
            "dispatched": In(layouts.renamed).array(width),
            "commits": Out(commit).array(width), "loads": Out(count), "stores": Out(count),
            "idle": In(1), "hold": In(1),
            "source": Out(layouts.tag), "operand": In(64), "result": Out(layouts.result),
            "wake": Out(layouts.wake),
            "csr": Out(data.StructLayout(
                {"valid": 1, "address": 12, "funct3": 3, "operand": 64, "source_zero": 1})),
            "csr_value": In(64), "csr_illegal": In(1), "trap": Out(Trap), "vector": In(64), "mret": Out(1),
            "epc": In(64), "interrupt": In(data.StructLayout({"valid": 1, "cause": 4})), "wake_up": In(1),
            "restart": Out(Restart), "flush": Out(1), "system_done": Out(1), "next_pc": Out(64),
            "waits": Out(Waits),
        })

    def elaborate(self, platform):
        m = Module()
        config, layouts, head = self.config, self.layouts, self.heads[0]
        m.d.comb += self.flush.eq(self.restart.valid)
        calm = head.valid & ~self.flush

        # The one SYSTEM instruction in flight.
        system = Signal(data.StructLayout({
            "op": SystemOp, "source": layouts.tag, "reads": 1, "tag": layouts.tag, "writes": 1}))
        for slot in self.dispatched:
            with m.If(slot.valid & (slot.decoded.unit == Unit.SYSTEM)):
                m.d.sync += [
                    system.op.eq(slot.decoded.op), system.source.eq(slot.rs1.tag),
                    system.reads.eq(slot.decoded.reads1), system.tag.eq(slot.tag),
                    system.writes.eq(slot.decoded.writes),
                ]
        at_system = Signal()
        interrupted = Signal()
        faulted = Signal()
        m.d.comb += [
            at_system.eq(calm & head.instruction.system),
            # WFI ends, and the next instruction is interrupted.
            interrupted.eq(calm & self.interrupt.valid & ~self.hold
                           & ~(at_system & (system.op == SystemOp.WFI))),
            faulted.eq(calm & self.fault.valid & (self.fault.age == head.age)),
        ]

        word = head.instruction.word
        system_trap = Signal()   # it raises an exception
        system_ends = Signal()   # it commits
        m.d.comb += [
            self.source.eq(system.source),
            self.csr.address.eq(word[20:32]), self.csr.funct3.eq(word[12:15]),
            self.csr.source_zero.eq(word[15:20] == 0),
            self.csr.operand.eq(Mux(word[14], word[15:20], Mux(system.reads, self.operand, 0))),
        ]
        m.d.comb += [self.trap.pc.eq(head.pc), self.trap.cause.eq(self.fault.cause),
                     self.trap.tval.eq(self.fault.tval)]
        with m.If(interrupted):
            m.d.comb += [self.trap.valid.eq(1), self.trap.interrupt.eq(1),
                         self.trap.cause.eq(self.interrupt.cause), self.trap.tval.eq(0)]
        with m.Elif(faulted):
            m.d.comb += self.trap.valid.eq(1)
        with m.Elif(at_system):
            m.d.comb += [self.trap.valid.eq(system_trap), self.trap.tval.eq(0)]
            with m.Switch(system.op):
                with m.Case(SystemOp.CSR):
                    m.d.comb += [
                        self.csr.valid.eq(1), system_trap.eq(self.csr_illegal),
                        system_ends.eq(~self.csr_illegal),
                        self.trap.cause.eq(Cause.ILLEGAL), self.trap.tval.eq(word),
                    ]
                with m.Case(SystemOp.ECALL):
                    m.d.comb += [system_trap.eq(1), self.trap.cause.eq(Cause.ECALL_M)]
                with m.Case(SystemOp.EBREAK):
                    m.d.comb += [system_trap.eq(1), self.trap.cause.eq(Cause.BREAKPOINT),
                                 self.trap.tval.eq(head.pc)]
                with m.Case(SystemOp.MRET):
                    m.d.comb += [system_ends.eq(1), self.mret.eq(1)]
                with m.Case(SystemOp.WFI):
                    m.d.comb += system_ends.eq(self.wake_up)
                with m.Case(SystemOp.FENCE, SystemOp.FENCE_I):
                    m.d.comb += system_ends.eq(self.idle)
        m.d.comb += [
            self.system_done.eq(system_ends),
            self.wake.valid.eq(system_ends & system.writes), self.wake.tag.eq(system.tag),
            self.result.valid.eq(system_ends), self.result.writes.eq(system.writes),
            self.result.tag.eq(system.tag), self.result.value.eq(self.csr_value),
            self.result.age.eq(head.age),
        ]

        # Everything else: done, not an exception, and nothing before it stays.
        goes = calm & ~interrupted & ~faulted
        gone = []
        for i, slot in enumerate(self.heads):
            ordinary = Signal(name=f"commits{i}")
            stays = self.fault.valid & (self.fault.age == slot.age)
            goes = goes & slot.valid & slot.done & ~stays & ~slot.instruction.system
            m.d.comb += ordinary.eq(goes | (system_ends if i == 0 else 0))
            gone.append(ordinary)
            m.d.comb += [
                self.commits[i].valid.eq(ordinary & slot.instruction.writes),
                self.commits[i].rd.eq(slot.instruction.rd), self.commits[i].tag.eq(slot.instruction.tag),
            ]
        total = [Signal(range(config.width + 1), name=f"total{i}") for i in range(3)]
        for count, out, field in zip(total, (self.retire, self.loads, self.stores), (None, "load", "store")):
            ones = 0
            for ordinary, slot in zip(gone, self.heads):
                ones = ones + (ordinary & (slot.instruction[field] if field else 1))
            m.d.comb += [count.eq(ones), out.eq(count)]

        leaves = system_ends & ((system.op == SystemOp.MRET) | (system.op == SystemOp.FENCE_I))
        m.d.comb += self.next_pc.eq(Mux(system.op == SystemOp.MRET, self.epc, head.pc + 4))
        m.d.sync += [
            self.restart.valid.eq(self.trap.valid | leaves),
            self.restart.invalidate.eq(system_ends & (system.op == SystemOp.FENCE_I)),
            self.restart.pc.eq(Mux(self.trap.valid, self.vector, self.next_pc)),
        ]

        m.d.comb += self.waits.eq(Waits.EXECUTION)
        with m.If(Cat(gone).any() | self.trap.valid | self.flush):
            m.d.comb += self.waits.eq(Waits.NOTHING)
        with m.Elif(~head.valid):
            m.d.comb += self.waits.eq(Waits.EMPTY)
        with m.Elif(at_system):
            m.d.comb += self.waits.eq(Mux(system.op == SystemOp.WFI, Waits.INTERRUPT, Waits.STORES_DRAIN))
        with m.Elif(head.instruction.load):
            m.d.comb += self.waits.eq(Waits.LOAD)
        with m.Elif(head.instruction.store):
            m.d.comb += self.waits.eq(Waits.STORE)
        return m
