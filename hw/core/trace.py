"""The trace port: a record of each instruction that retires, in the form of the RISC-V Formal Interface."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .types import Trap
from .window.types import Layouts

__all__ = ["CommitTrace", "Pipe", "TraceRecord", "access_layout"]


class TraceRecord(data.Struct):
    """One retired instruction (docs/core.md, section on the trace).

    An instruction that raises an exception is one record with ``trap``, without register and memory access.
    ``intr`` marks the first instruction of the handler of an interrupt. ``cause`` is mcause where one of both
    is set. Memory data have the byte at ``mem_addr`` lowest.
    """

    valid: unsigned(1)
    order: unsigned(64)
    insn: unsigned(32)
    pc_rdata: unsigned(64)
    pc_wdata: unsigned(64)
    trap: unsigned(1)
    intr: unsigned(1)
    cause: unsigned(64)
    rd_addr: unsigned(5)
    rd_wdata: unsigned(64)
    mem_addr: unsigned(64)
    mem_rmask: unsigned(8)
    mem_wmask: unsigned(8)
    mem_rdata: unsigned(64)
    mem_wdata: unsigned(64)


def access_layout(config):
    """Struct of a load or store that was done."""
    return data.StructLayout(
        {"valid": 1, "age": Layouts(config).age, "address": 40, "mask": 8, "data": 64})


def Pipe(config):
    """Struct of what happens to instructions in a cycle, for the pipeline view: dispatched, selected by a
    queue, done, committed (from the oldest on), and void."""
    layouts = Layouts(config)
    entered = data.StructLayout({"valid": 1, "age": layouts.age, "pc": 64, "word": 32})
    lanes = config.alus + 3 + config.engine
    return data.StructLayout({
        "dispatched": data.ArrayLayout(entered, config.width),
        "issued": data.ArrayLayout(layouts.done, lanes),
        "done": data.ArrayLayout(layouts.done, config.alus + 5 + config.engine),
        "committed": range(config.width + 1),
        "kill": layouts.kill, "flush": 1,
    })


class CommitTrace(wiring.Component):
    """Follows results and accesses of the instructions in flight, and tells them when they retire.

    Records come a cycle after the instructions have committed. For simulation: the core is built without it
    where its area counts.

    Members
    -------
    dispatched : In(array of renamed), results : In(array of result), branch : In(Struct(valid, age, next_pc))
    load, store : In(access_layout)
    heads : In(array of head), retire : In, system_ends : In(1), result : In(result)
        What commits; ``result`` is that of a SYSTEM instruction.
    trap : In(Trap), vector : In(64), next_pc : In(64)
        What happens to the oldest; ``next_pc`` after a SYSTEM instruction.
    o : Out(array of TraceRecord)
    """

    def __init__(self, config, *, results):
        self.config = config
        self.layouts = layouts = Layouts(config)
        width = config.width
        super().__init__({
            "dispatched": In(layouts.renamed).array(width), "results": In(layouts.result).array(results),
            "branch": In(data.StructLayout({"valid": 1, "age": layouts.age, "next_pc": 64})),
            "load": In(access_layout(config)), "store": In(access_layout(config)),
            "heads": In(layouts.head).array(width), "retire": In(range(width + 1)),
            "system_ends": In(1), "result": In(layouts.result), "trap": In(Trap), "vector": In(64),
            "next_pc": In(64), "o": Out(TraceRecord).array(width),
        })

    def elaborate(self, platform):
        m = Module()
        width, layouts = self.config.width, self.layouts
        index = layouts.age - 1
        depth = self.config.reorder_buffer
        access = data.StructLayout({"address": 40, "mask": 8, "data": 64})
        m.submodules.values = values = Memory(shape=64, depth=depth, init=[])
        m.submodules.nexts = nexts = Memory(shape=64, depth=depth, init=[])
        m.submodules.accesses = accesses = Memory(shape=access, depth=depth, init=[])
        for result in self.results:
            write = values.write_port()
            m.d.comb += [write.addr.eq(result.age[:index]), write.data.eq(result.value),
                         write.en.eq(result.valid & result.writes)]
        for slot in self.dispatched:
            write = nexts.write_port()
            m.d.comb += [write.addr.eq(slot.age[:index]), write.data.eq(slot.decoded.target),
                         write.en.eq(slot.valid)]
        write = nexts.write_port()
        m.d.comb += [write.addr.eq(self.branch.age[:index]), write.data.eq(self.branch.next_pc),
                     write.en.eq(self.branch.valid)]
        for done in (self.load, self.store):
            write = accesses.write_port()
            m.d.comb += [write.addr.eq(done.age[:index]), write.en.eq(done.valid),
                         write.data.eq(Cat(done.address, done.mask, done.data))]

        trapped = Signal()
        m.d.comb += trapped.eq(self.trap.valid & ~self.trap.interrupt)
        order = Signal(64)
        handler = Signal()  # the next record is the first one of an interrupt's handler
        handler_cause = Signal(4)
        count = Signal(range(width + 1))
        m.d.comb += count.eq(Mux(trapped, 1, self.retire))
        m.d.sync += order.eq(order + count)
        with m.If(self.trap.valid & self.trap.interrupt):
            m.d.sync += [handler.eq(1), handler_cause.eq(self.trap.cause)]
        with m.Elif(count != 0):
            m.d.sync += handler.eq(0)

        # One cycle later everything is in the memories.
        for i, (head, out) in enumerate(zip(self.heads, self.o)):
            kept = Signal(layouts.head, name=f"kept{i}")
            value = Signal(64, name=f"value{i}")
            next_pc = Signal(64, name=f"next_pc{i}")
            known = Signal(name=f"known{i}")
            now = Signal(TraceRecord, name=f"now{i}")
            m.d.sync += [
                kept.eq(head), now.valid.eq(count > i), now.order.eq(order + i),
                now.trap.eq(0), now.intr.eq(0), now.cause.eq(0), known.eq(0),
            ]
            if i == 0:
                system_goes_on = self.system_ends | trapped
                m.d.sync += [
                    now.trap.eq(trapped), now.intr.eq(handler),
                    known.eq(system_goes_on), value.eq(self.result.value),
                    next_pc.eq(Mux(trapped, self.vector, self.next_pc)),
                ]
                with m.If(handler):
                    m.d.sync += now.cause.eq(Cat(handler_cause, Const(0, 59), 1))
                with m.Elif(trapped):
                    m.d.sync += now.cause.eq(self.trap.cause)
            instruction = kept.instruction
            place = kept.age[:index]
            value_read = values.read_port(domain="comb")
            next_read = nexts.read_port(domain="comb")
            access_read = accesses.read_port(domain="comb")
            writes = instruction.writes & ~now.trap
            mask, got = access_read.data.mask, access_read.data
            touches = (instruction.load | instruction.store) & ~now.trap
            m.d.comb += [
                value_read.addr.eq(place), next_read.addr.eq(place), access_read.addr.eq(place),
                out.eq(now), out.insn.eq(instruction.word), out.pc_rdata.eq(kept.pc),
                out.pc_wdata.eq(Mux(known, next_pc, next_read.data)),
                out.rd_addr.eq(Mux(writes, instruction.rd, 0)),
                out.rd_wdata.eq(Mux(writes, Mux(known, value, value_read.data), 0)),
                out.mem_addr.eq(Mux(touches, got.address, 0)),
                out.mem_rmask.eq(Mux(touches & instruction.load, mask, 0)),
                out.mem_wmask.eq(Mux(touches & instruction.store, mask, 0)),
                out.mem_rdata.eq(Mux(touches & instruction.load, got.data, 0)),
                out.mem_wdata.eq(Mux(touches & instruction.store, got.data, 0)),
            ]
        return m
