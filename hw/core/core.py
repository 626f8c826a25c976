"""The slice core: wiring only (docs/core.md)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from ..hbm.port import Request, Response
from .address import CONTROL
from .execute.engine import EngineLane, EnginePort
from .execute.lane import IntegerLane, OperandLane
from .frontend.frontend import FrontEnd
from .l1.control import L1Control
from .l1.l1 import L1
from .memory.lsu import LoadStoreUnit
from .memory.port import MmioRequest, MmioResponse
from .memory.router import MmioRouter
from .privileged.privileged import Privileged
from .rename.rename import Rename
from .trace import CommitTrace, Pipe, TraceRecord
from .window.commit import Commit, Waits
from .window.dispatch import Dispatch
from .window.issue_queue import IssueQueue
from .window.registers import Registers, Scoreboard
from .window.reorder_buffer import OldestFault, ReorderBuffer
from .window.types import Layouts

__all__ = ["Core"]


class Core(wiring.Component):
    """Out-of-order RV64IM_Zicsr, machine mode, with its L1.

    Parameters
    ----------
    config : CoreConfig
    ram_bytes : int
        Memory from RAM on.
    trace : bool
        With the ports ``trace`` and ``pipe``, which are for simulation.

    Members
    -------
    request : Out(stream of Request), response : In(stream of Response)
        Lines of memory; the ports of the HBM slice.
    mmio_request : Out(stream of MmioRequest), mmio_response : In(stream of MmioResponse)
        Devices, but for the registers of the L1.
    external, software, timer : In(1): interrupts, levels
    time : In(64): mtime
    head : Out(Struct): the oldest instruction, and what it waits for
    engine : Out(EnginePort), with config.engine
    trace : Out(array of TraceRecord), pipe : Out(Pipe)
    """

    def __init__(self, config, *, ram_bytes, trace=False):
        self.config = config
        self.ram_bytes = ram_bytes
        self.with_trace = trace
        layouts = self.layouts = Layouts(config)
        members = {
            "request": Out(stream.Signature(Request)), "response": In(stream.Signature(Response)),
            "mmio_request": Out(stream.Signature(MmioRequest)),
            "mmio_response": In(stream.Signature(MmioResponse)),
            "external": In(1), "software": In(1), "timer": In(1), "time": In(64),
            "head": Out(data.StructLayout({"valid": 1, "pc": 64, "age": layouts.age, "waits": Waits})),
        }
        if config.engine:
            members |= {"engine": Out(EnginePort(config))}
        if trace:
            members |= {"trace": Out(TraceRecord).array(config.width), "pipe": Out(Pipe(config))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config, width, alus = self.config, self.config.width, self.config.alus
        lanes = range(alus)
        engines = int(config.engine)
        wakes = alus + 4 + engines   # lanes, multiplier, divider, load, SYSTEM, engine
        m.submodules.front_end = front = FrontEnd(config, ram_bytes=self.ram_bytes)
        m.submodules.rename = rename = Rename(config)
        m.submodules.dispatch = dispatch = Dispatch(config)
        m.submodules.reorder_buffer = buffer = ReorderBuffer(config, finishers=alus + 5 + engines,
                                                         readers=alus)
        m.submodules.oldest_fault = oldest = OldestFault(config, sources=width + 2 + engines)
        m.submodules.scoreboard = board = Scoreboard(config, wakes=wakes)
        m.submodules.registers = registers = Registers(
            config, reads=2 * alus + 4 + 2 * engines, writes=alus + 4 + engines)
        m.submodules.commit = commit = Commit(config)
        m.submodules.privileged = privileged = Privileged(config)
        m.submodules.lsu = lsu = LoadStoreUnit(config, ram_bytes=self.ram_bytes)
        m.submodules.l1 = l1 = L1(config, ram_bytes=self.ram_bytes)
        integers = [IntegerLane(config, lane) for lane in lanes]
        agents = {name: OperandLane(config) for name in ("load", "address", "data")}
        queues = [IssueQueue(config, wakes=wakes) for _ in range(alus + 3 + engines)]
        for lane, component in enumerate(integers):
            m.submodules[f"lane{lane}"] = component
        for name, component in agents.items():
            m.submodules[f"{name}_lane"] = component
        names = [*(f"queue{lane}" for lane in lanes), "load_queue", "address_queue", "data_queue",
                 "engine_queue"]
        for name, queue in zip(names, queues):
            emit.place(m, name, queue)
        branch_lane, long_lane = integers[0], integers[-1]
        kill, flush = branch_lane.mispredict, commit.flush

        # -- rename and dispatch
        wiring.connect(m, front.o, rename.i)
        room = Signal()
        m.d.comb += [
            room.eq(buffer.room & lsu.room & Cat(queue.room for queue in queues).all()),
            rename.room.eq(room), rename.tail.eq(buffer.tail), rename.ready.eq(board.ready),
            rename.kill.eq(kill), rename.restore.eq(branch_lane.restore),
            rename.resolved.eq(branch_lane.resolved), rename.flush.eq(flush),
            rename.system_done.eq(commit.system_done),
            rename.lookup.eq(branch_lane.lookup), branch_lane.known.eq(rename.branch),
            lsu.dispatch_valid.eq(1),
        ]
        m.d.comb += [level.eq(queue.level) for level, queue in zip(rename.levels, queues)]
        for i, slot in enumerate(rename.o):
            decoded = slot.decoded
            found = oldest.i[i]
            m.d.comb += [
                rename.commits[i].eq(commit.commits[i]),
                dispatch.i[i].eq(slot), buffer.i[i].eq(slot), commit.dispatched[i].eq(slot),
                board.allocated[i].valid.eq(slot.valid & decoded.writes), board.allocated[i].tag.eq(slot.tag),
                found.valid.eq(slot.valid & decoded.exception), found.age.eq(slot.age),
                found.cause.eq(decoded.cause), found.tval.eq(decoded.tval),
                dispatch.load_index[i].eq(lsu.load_index[i]), dispatch.store_index[i].eq(lsu.store_index[i]),
            ]
            to_lsu = lsu.dispatch[i]
            m.d.comb += [
                to_lsu.load.eq(dispatch.load[i].valid), to_lsu.store.eq(dispatch.address[i].valid),
                to_lsu.age.eq(slot.age), to_lsu.op.eq(decoded.op), to_lsu.tag.eq(slot.tag),
                to_lsu.writes.eq(decoded.writes), to_lsu.pc.eq(decoded.pc),
            ]
        written = [[dispatch.integer[lane * width + i] for i in range(width)] for lane in lanes]
        written += [dispatch.load, dispatch.address, dispatch.data, dispatch.engine]

        # -- queues and lanes
        woken = [lane.wakes[0] for lane in integers] + list(long_lane.wakes[1:])
        m.d.comb += [to.eq(wake) for to, wake in zip(board.wake, woken)]
        m.d.comb += [
            board.wake[alus + 2].valid.eq(lsu.loaded.valid & lsu.loaded.writes),
            board.wake[alus + 2].tag.eq(lsu.loaded.tag), board.wake[alus + 3].eq(commit.wake),
        ]
        executing = [*integers, *agents.values()]
        if engines:
            m.submodules.engine_lane = engine_lane = EngineLane(config)
            executing.append(engine_lane)
        for queue, entries, lane in zip(queues, written, executing):
            m.d.comb += [to.eq(entry) for to, entry in zip(queue.i, entries)]
            m.d.comb += [to.eq(wake) for to, wake in zip(queue.wake, board.wake)]
            m.d.comb += [
                queue.kill.eq(kill), queue.flush.eq(flush), queue.go.eq(1), lane.issue.eq(queue.o),
                lane.kill.eq(kill), lane.flush.eq(flush),
            ]
        m.d.comb += [queues[alus - 1].blocked.eq(long_lane.blocked), queues[alus].go.eq(lsu.load_ready)]

        # -- registers
        for lane, component in enumerate(integers):
            m.d.comb += [
                registers.tags[2 * lane].eq(component.tags[0]),
                registers.tags[2 * lane + 1].eq(component.tags[1]),
                component.values[0].eq(registers.values[2 * lane]),
                component.values[1].eq(registers.values[2 * lane + 1]),
                buffer.ages[lane].eq(component.age), component.pc.eq(buffer.pcs[lane]),
                registers.results[lane].eq(component.results[0]),
            ]
        for i, component in enumerate(agents.values(), 2 * alus):
            m.d.comb += [registers.tags[i].eq(component.tag), component.value.eq(registers.values[i])]
        loaded = registers.results[alus + 2]
        m.d.comb += [
            registers.tags[2 * alus + 3].eq(commit.source),
            commit.operand.eq(registers.values[2 * alus + 3]),
            registers.results[alus].eq(long_lane.results[1]),
            registers.results[alus + 1].eq(long_lane.results[2]),
            loaded.valid.eq(lsu.loaded.valid), loaded.writes.eq(lsu.loaded.writes),
            loaded.completes.eq(1), loaded.tag.eq(lsu.loaded.tag), loaded.age.eq(lsu.loaded.age),
            loaded.value.eq(lsu.loaded.value), registers.results[alus + 3].eq(commit.result),
        ]

        # -- load-store unit and L1
        for port, component in ((lsu.issue_load, agents["load"]), (lsu.issue_address, agents["address"])):
            m.d.comb += [
                port.valid.eq(component.o.valid), port.index.eq(component.o.operation.index),
                port.a.eq(component.operand), port.immediate.eq(component.o.operation.immediate),
            ]
        m.d.comb += [
            lsu.issue_data.valid.eq(agents["data"].o.valid),
            lsu.issue_data.index.eq(agents["data"].o.operation.index),
            lsu.issue_data.value.eq(agents["data"].operand),
            lsu.kill.eq(kill), lsu.flush.eq(flush),
            lsu.head_valid.eq(buffer.heads[0].valid), lsu.head_age.eq(buffer.heads[0].age),
            lsu.commit_loads.eq(commit.loads), lsu.commit_stores.eq(commit.stores),
            l1.load.eq(lsu.l1_load), lsu.l1_load_ready.eq(l1.load_ready), lsu.l1_loaded.eq(l1.loaded),
            lsu.l1_filled.eq(l1.filled), lsu.l1_store_idle.eq(l1.store_idle),
        ]
        wiring.connect(m, lsu.l1_store, l1.store)
        wiring.connect(m, front.line_request, l1.ports[0].request)
        wiring.connect(m, l1.ports[0].response, front.line_response)
        m.submodules.router = router = MmioRouter([CONTROL, None])
        m.submodules.control = control = L1Control()
        wiring.connect(m, lsu.mmio_request, router.request)
        wiring.connect(m, router.response, lsu.mmio_response)
        wiring.connect(m, router.devices[0].request, control.request)
        wiring.connect(m, control.response, router.devices[0].response)
        for name in ("prefetch", "prefetched", "maintain", "maintained"):
            wiring.connect(m, getattr(control, name), getattr(l1, name))
        outside = router.devices[1]
        for inner, outer in ((l1.request, self.request), (l1.response, self.response),
                             (outside.request, self.mmio_request), (outside.response, self.mmio_response)):
            wiring.connect(m, inner, wiring.flipped(outer))

        # -- done, faults, commit
        finished = [*registers.results[:alus + 3]]
        for to, result in zip(buffer.done, finished):
            m.d.comb += [to.valid.eq(result.valid & result.completes), to.age.eq(result.age)]
        m.d.comb += [
            buffer.done[alus + 3].eq(branch_lane.finished), buffer.done[alus + 4].eq(lsu.store_done),
            oldest.i[width].eq(branch_lane.fault), oldest.i[width + 1].eq(lsu.fault),
            oldest.kill.eq(kill), oldest.flush.eq(flush),
            buffer.kill.eq(kill), buffer.flush.eq(flush), buffer.retire.eq(commit.retire),
            commit.fault.eq(oldest.o), commit.idle.eq(lsu.idle),
            commit.hold.eq(lsu.device_load | (self.engine.hold if engines else 0)),
            front.resolve.eq(branch_lane.resolve), front.restart.eq(commit.restart),
        ]
        m.d.comb += [to.eq(head) for to, head in zip(commit.heads, buffer.heads)]
        if engines:
            self._engine(m, engine_lane, queues[-1], registers, board, buffer, oldest, kill, flush, l1)

        # -- privileged state; a SYSTEM instruction, alone as it is, is counted in the cycle after its access
        retired = Signal.like(commit.retire)
        system_retired = Signal()
        m.d.sync += system_retired.eq(commit.system_done)
        m.d.comb += retired.eq(Mux(commit.system_done, 0, commit.retire) + system_retired)
        m.d.comb += [
            privileged.csr.eq(commit.csr), commit.csr_value.eq(privileged.csr_value),
            commit.csr_illegal.eq(privileged.csr_illegal), privileged.trap.eq(commit.trap),
            commit.vector.eq(privileged.vector), privileged.mret.eq(commit.mret),
            commit.epc.eq(privileged.epc), commit.interrupt.eq(privileged.interrupt),
            commit.wake_up.eq(privileged.wake), privileged.retired.eq(retired),
            privileged.external.eq(self.external), privileged.software.eq(self.software),
            privileged.timer.eq(self.timer), privileged.time.eq(self.time),
            self.head.valid.eq(buffer.heads[0].valid), self.head.pc.eq(buffer.heads[0].pc),
            self.head.age.eq(buffer.heads[0].age), self.head.waits.eq(commit.waits),
        ]
        self._events(m, privileged.events, front, rename, buffer, queues, commit, branch_lane, long_lane, lsu,
                     l1)
        if self.with_trace:
            self._trace(m, buffer, rename, registers, branch_lane, lsu, commit, privileged, queues, kill)
        return m

    def _engine(self, m, lane, queue, registers, board, buffer, oldest, kill, flush, l1):
        port = self.engine
        for tag, value, to, read in zip(registers.tags[-2:], registers.values[-2:], lane.values, lane.tags):
            m.d.comb += [tag.eq(read), to.eq(value)]
        m.d.comb += [
            queue.go.eq(port.ready), port.issue.eq(lane.o), registers.results[-1].eq(port.done),
            board.wake[-1].valid.eq(port.done.valid & port.done.writes), board.wake[-1].tag.eq(port.done.tag),
            buffer.done[-1].valid.eq(port.done.valid & port.done.completes),
            buffer.done[-1].age.eq(port.done.age), oldest.i[-1].eq(port.fault),
            port.kill.eq(kill), port.flush.eq(flush),
            port.head_valid.eq(buffer.heads[0].valid), port.head_age.eq(buffer.heads[0].age),
        ]
        wiring.connect(m, wiring.flipped(port.request), l1.ports[1].request)
        wiring.connect(m, l1.ports[1].response, wiring.flipped(port.response))

    def _events(self, m, events, front, rename, buffer, queues, commit, branch_lane, long_lane, lsu, l1):
        """What the performance counters can count (hw/core/privileged/counters.py)."""
        idle = {Waits.EMPTY: events.no_commit_frontend, Waits.EXECUTION: events.no_commit_execute,
                Waits.LOAD: events.no_commit_load}
        m.d.comb += [event.eq(commit.waits == why) for why, event in idle.items()]
        waits_for_room = rename.stalls.room
        m.d.comb += [
            events.no_commit_store.eq(
                (commit.waits == Waits.STORE) | (commit.waits == Waits.STORES_DRAIN)),
            events.rename_full_free_list.eq(rename.stalls.registers),
            events.rename_full_checkpoints.eq(rename.stalls.checkpoints),
            events.rename_full_reorder_buffer.eq(waits_for_room & ~buffer.room),
            events.rename_full_queue.eq(waits_for_room & ~Cat(queue.room for queue in queues).all()),
            events.rename_full_memory.eq(waits_for_room & ~lsu.room),
            events.system_stall.eq(rename.stalls.system),
            events.branches.eq(branch_lane.resolve.valid),
            events.mispredicts.eq(branch_lane.resolve.valid & branch_lane.resolve.mispredicted),
            events.flush.eq(commit.flush),
            events.exception.eq(commit.trap.valid & ~commit.trap.interrupt),
            events.interrupt.eq(commit.trap.valid & commit.trap.interrupt),
            events.icache_miss.eq(front.events.icache_miss),
            events.load_miss.eq(l1.events.load_miss), events.store_miss.eq(l1.events.store_miss),
            events.l1_writeback.eq(l1.events.writeback), events.l1_prefetch.eq(l1.events.prefetch),
            events.load_replay.eq(~lsu.load_ready), events.load_forward.eq(lsu.forwarded),
            events.divider_busy.eq(long_lane.dividing),
        ]

    def _trace(self, m, buffer, rename, registers, branch_lane, lsu, commit, privileged, queues, kill):
        m.submodules.commit_trace = trace = CommitTrace(self.config, results=len(registers.results))
        pipe = self.pipe
        m.d.comb += [to.eq(slot) for to, slot in zip(trace.dispatched, rename.o)]
        m.d.comb += [to.eq(result) for to, result in zip(trace.results, registers.results)]
        m.d.comb += [to.eq(head) for to, head in zip(trace.heads, buffer.heads)]
        m.d.comb += [to.eq(record) for to, record in zip(self.trace, trace.o)]
        m.d.comb += [
            trace.branch.valid.eq(branch_lane.finished.valid), trace.branch.age.eq(branch_lane.finished.age),
            trace.branch.next_pc.eq(branch_lane.resolve.next_pc),
            trace.load.eq(lsu.trace_load), trace.store.eq(lsu.trace_store), trace.retire.eq(commit.retire),
            trace.system_ends.eq(commit.system_done), trace.result.eq(commit.result),
            trace.trap.eq(commit.trap), trace.vector.eq(privileged.vector), trace.next_pc.eq(commit.next_pc),
            pipe.committed.eq(commit.retire), pipe.kill.eq(kill), pipe.flush.eq(commit.flush),
        ]
        for to, slot in zip(pipe.dispatched, rename.o):
            m.d.comb += [to.valid.eq(slot.valid), to.age.eq(slot.age), to.pc.eq(slot.decoded.pc),
                         to.word.eq(slot.decoded.word)]
        for to, queue in zip(pipe.issued, queues):
            m.d.comb += [to.valid.eq(queue.o.valid), to.age.eq(queue.o.operation.age)]
        m.d.comb += [to.eq(done) for to, done in zip(pipe.done, buffer.done)]
