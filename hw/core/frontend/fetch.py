"""Fetch: predicts a block's successor while its bytes are read, and checks that when they are there."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...hbm.vectors import lowest, select
from ..address import RAM
from ..types import HISTORY_BITS, ControlKind, LineRequest, LineResponse, Resolve, Restart
from .buffer import Block
from .decode import control_kind, immediate_b, immediate_j
from .icache import InstructionCache
from .predictor import Counters, ReturnStack, TargetBuffer, next_history

__all__ = ["Fetch", "FetchEvents"]


class FetchEvents(data.Struct):
    """Pulses."""

    icache_miss: unsigned(1)      # a line is fetched that is waited for
    icache_prefetch: unsigned(1)  # the line after it is fetched
    stall_icache: unsigned(1)     # a cycle in which a block waits for its line
    stall_buffer: unsigned(1)     # a cycle in which a block waits for room in the buffer
    resteer: unsigned(1)          # the check of a block's prediction changed the path: one cycle lost
    btb_miss: unsigned(1)         # of these: a taken transfer that the target buffer did not know


class Fetch(wiring.Component):
    """Two stages, a block of ``fetch_bytes`` (aligned) a cycle.

    F0: the block's address goes to the cache; target buffer, counters and return stack give the address of
    the next one, in the same cycle. F1: the cache's answer. Its words are examined for control transfers, and
    the block's successor is determined anew: JAL and conditional branches go where they say, branches if
    their counter is for it; returns to the top of the stack; other JALRs where the target buffer says, else
    to the next instruction. Where F0 went elsewhere, F0 starts again (``resteer``, one cycle lost) and the
    target buffer is corrected. So nothing but the direction of a branch or the target of a JALR can be wrong
    in what F1 gives to the buffer.

    After a fetch fault, and after a JAL to an address not on 4 bytes, nothing is fetched until `resolve` or
    `restart` gives a new path.

    Parameters
    ----------
    config : PredictorConfig
    reset_pc : first address
    ram_bytes : bytes of memory, from address RAM on

    Members
    -------
    push, block : Out, room : In: to the buffer; clear : Out(1): the path is left
    resolve : In(Resolve), restart : In(Restart)
    line_request, line_response : line port
    events : Out(FetchEvents)
    """

    def __init__(self, config, *, reset_pc, ram_bytes):
        self.config, self.reset_pc, self.ram_bytes = config, reset_pc, ram_bytes
        self.words = config.fetch_bytes // 4
        super().__init__({
            "push": Out(1), "block": Out(Block(self.words)), "room": In(1), "clear": Out(1),
            "resolve": In(Resolve), "restart": In(Restart),
            "line_request": Out(stream.Signature(LineRequest)),
            "line_response": In(stream.Signature(LineResponse)),
            "events": Out(FetchEvents)})

    def elaborate(self, platform):
        m = Module()
        config, words = self.config, self.words
        word_bits = (words - 1).bit_length()
        block_bits = 2 + word_bits
        m.submodules.cache = cache = InstructionCache(sets=config.sets, ways=config.ways,
                                                      ram_bytes=self.ram_bytes)
        m.submodules.counters = counters = Counters(counters=config.counters, words=words,
                                                    history=config.history)
        m.submodules.targets = targets = TargetBuffer(targets=config.targets, words=words)
        m.submodules.stack = stack = ReturnStack(returns=config.returns)
        wiring.connect(m, wiring.flipped(self.line_request), cache.request)
        wiring.connect(m, wiring.flipped(self.line_response), cache.response)
        resolve, restart = self.resolve, self.restart
        resolve_taken = resolve.taken | (resolve.kind != ControlKind.BRANCH)

        prediction = data.StructLayout({
            "pc": 64, "history": HISTORY_BITS, "returns": stack.bits,  # before the block
            "directions": words, "taken": words, "target": 64})  # taken: one-hot, or 0
        running = Signal(init=1)
        pc, history, returns = Signal(64, init=self.reset_pc), Signal(HISTORY_BITS), Signal(stack.bits)
        f0, f1, f1_valid = Signal(prediction), Signal(prediction), Signal()
        leave, stall, redirect, resteer, stop = Signal(), Signal(), Signal(), Signal(), Signal()

        def words_from(address):
            """Mask of the words of a block from ``address`` on."""
            return (C((1 << words) - 1, words) << address[2:block_bits])[:words]

        def transfer_pc(block, one_hot):
            """Address of the word ``one_hot`` of the block."""
            index = Cat(Cat(one_hot[k] for k in range(words) if k >> bit & 1).any()
                        for bit in range(word_bits))
            return Cat(C(0, 2), index, block[block_bits:])

        # F0: where the next block is, by what is known without the block's bytes.
        hits = targets.hits
        f0_pc, f0_kind = Signal(64), Signal(ControlKind)
        f0_taken = Cat(hits[k].valid & ((hits[k].kind != ControlKind.BRANCH) | counters.taken[k])
                       for k in range(words))
        m.d.comb += [
            counters.block.eq(pc[block_bits:]), counters.history.eq(history),
            targets.block.eq(pc[block_bits:]), stack.index.eq(returns),
            f0.pc.eq(pc), f0.history.eq(history), f0.returns.eq(returns),
            f0.directions.eq(counters.taken), f0.taken.eq(lowest(f0_taken & words_from(pc))),
            f0_kind.eq(select(f0.taken, [hits[k].kind.as_value() for k in range(words)])),
            f0_pc.eq(transfer_pc(pc, f0.taken)),
            f0.target.eq(Mux(f0_kind == ControlKind.RETURN, stack.top,
                             select(f0.taken, [hits[k].target for k in range(words)]) << 2)),
        ]

        # F1: where it really is, as far as the words tell.
        data_words = [Signal(32, name=f"word{k}") for k in range(words)]
        block_data = cache.data.word_select(f1.pc[block_bits:6], 32 * words) if block_bits < 6 else cache.data
        kinds = [Signal(ControlKind, name=f"kind{k}") for k in range(words)]
        goes, stops = Signal(words), Signal(words)
        for k in range(words):
            word, kind = data_words[k], kinds[k]
            misaligned = Mux(word[3], word[21], word[8])  # bit 1 of JAL's offset, or of a branch's
            m.d.comb += [word.eq(block_data[32 * k:32 * k + 32]), kind.eq(control_kind(word))]
            with m.Switch(kind):
                with m.Case(ControlKind.BRANCH):
                    m.d.comb += goes[k].eq(f1.directions[k] & ~misaligned)
                with m.Case(ControlKind.JUMP, ControlKind.CALL):
                    m.d.comb += [goes[k].eq(1), stops[k].eq(misaligned)]
                with m.Case(ControlKind.RETURN):
                    m.d.comb += goes[k].eq(1)
                with m.Case(ControlKind.INDIRECT, ControlKind.INDIRECT_CALL):
                    m.d.comb += goes[k].eq(f1.taken[k])
        used, taken = Signal(words), Signal(words)
        kind, word = Signal(ControlKind), Signal(32)
        f1_pc, target = Signal(64), Signal(64)
        m.d.comb += [
            used.eq(words_from(f1.pc)),
            taken.eq(lowest(goes & used)),
            kind.eq(select(taken, [k.as_value() for k in kinds])),
            word.eq(select(taken, data_words)),
            f1_pc.eq(transfer_pc(f1.pc, taken)),
            stack.check_index.eq(f1.returns),
            target.eq(f1_pc + Mux(kind == ControlKind.BRANCH, immediate_b(word), immediate_j(word))),
            stop.eq(cache.fault | ((taken & stops) != 0)),
        ]
        with m.If(kind == ControlKind.RETURN):
            m.d.comb += target.eq(stack.check_top)
        with m.Elif((kind == ControlKind.INDIRECT) | (kind == ControlKind.INDIRECT_CALL)):
            m.d.comb += target.eq(f1.target)
        ready = cache.hit | cache.fault
        differs = (taken != f1.taken) | ((taken != 0) & (target != f1.target))
        m.d.comb += [
            cache.line.eq(Mux(stall, f1.pc, pc)[6:]),
            cache.inside.eq((f1.pc >= RAM) & (f1.pc < RAM + self.ram_bytes)),
            cache.wanted.eq(f1_valid), cache.invalidate.eq(restart.valid & restart.invalidate),
            leave.eq(f1_valid & ready & self.room),
            stall.eq(f1_valid & ~leave),
            resteer.eq(leave & ~stop & differs),
            self.push.eq(leave),
            self.block.pc.eq(Cat(C(0, block_bits), f1.pc[block_bits:])),
            self.block.words.eq(Cat(data_words)),
            self.block.first.eq(f1.pc[2:block_bits]),
            self.block.last.eq(Mux(cache.fault, f1.pc[2:block_bits],
                                   Mux(taken != 0, f1_pc[2:block_bits], words - 1))),
            self.block.taken.eq((taken != 0) & ~cache.fault), self.block.fault.eq(cache.fault),
            self.block.target.eq(target), self.block.history.eq(f1.history),
            self.block.returns.eq(f1.returns),
        ]

        # The path goes on.
        m.d.comb += [redirect.eq(restart.valid | (resolve.valid & resolve.mispredicted)),
                     self.clear.eq(redirect)]
        with m.If(~stall):
            m.d.sync += [f1_valid.eq(running & ~resteer & ~(leave & stop)), f1.eq(f0)]
        with m.If(leave & stop):
            m.d.sync += running.eq(0)

        def follow(block, block_history, block_returns, one_hot, one_kind, address, to):
            """State after a block whose word ``one_hot`` goes ``to`` an address."""
            call = (one_kind == ControlKind.CALL) | (one_kind == ControlKind.INDIRECT_CALL)
            m.d.sync += [pc.eq(to), returns.eq(block_returns)]
            with m.If(one_hot != 0):
                m.d.sync += history.eq(next_history(config.history, block_history, address, to))
                with m.If(call):
                    m.d.sync += returns.eq(block_returns + 1)
                with m.Elif(one_kind == ControlKind.RETURN):
                    m.d.sync += returns.eq(block_returns - 1)
            with m.Else():
                m.d.sync += history.eq(block_history)
            m.d.comb += [stack.push.eq((one_hot != 0) & call), stack.push_index.eq(block_returns + 1),
                         stack.push_pc.eq(address)]

        def after(address):
            """Address of the next block."""
            return Cat(C(0, block_bits), (address[block_bits:] + 1)[:64 - block_bits])

        with m.If(restart.valid):
            m.d.sync += [pc.eq(Cat(C(0, 2), restart.pc[2:])), running.eq(1), f1_valid.eq(0)]
        with m.Elif(redirect):
            m.d.sync += [running.eq(1), f1_valid.eq(0)]
            to = Cat(C(0, 2), resolve.next_pc[2:])
            follow(None, resolve.history, resolve.returns[:stack.bits], resolve_taken, resolve.kind,
                   resolve.pc, to)
        with m.Elif(resteer):
            follow(f1.pc, f1.history, f1.returns, taken, kind, f1_pc, Mux(taken != 0, target, after(f1.pc)))
        with m.Elif(running & ~stall):
            follow(pc, history, returns, f0.taken, f0_kind, f0_pc, Mux(f0.taken != 0, f0.target, after(pc)))

        # Training: outcomes of conditional branches; targets of mispredicted transfers, of those that F1
        # found, and the removal of those that F1 found to be none.
        entry, forget, known = targets.write_target, Signal(), Signal()
        missed = resolve.valid & resolve.mispredicted & resolve_taken
        m.d.comb += [
            counters.update.eq(resolve.valid & (resolve.kind == ControlKind.BRANCH)),
            counters.update_taken.eq(resolve.taken), counters.update_pc.eq(resolve.pc),
            counters.update_history.eq(resolve.history),
            # F0 went at a word at which, or before which, F1 does not.
            forget.eq((f1.taken != 0) & ((taken == 0) | (taken > f1.taken))),
            known.eq(taken == f1.taken),
            targets.write.eq(missed | resteer),
            entry.valid.eq(1),
        ]
        with m.If(missed):
            m.d.comb += [targets.write_pc.eq(resolve.pc), entry.kind.eq(resolve.kind),
                         entry.target.eq(resolve.next_pc[2:])]
        with m.Else():
            m.d.comb += [targets.write_pc.eq(Mux(forget, transfer_pc(f1.pc, f1.taken), f1_pc)),
                         entry.valid.eq(~forget), entry.kind.eq(kind), entry.target.eq(target[2:])]

        events = self.events
        m.d.comb += [
            events.icache_miss.eq(cache.miss), events.icache_prefetch.eq(cache.prefetch),
            events.stall_icache.eq(f1_valid & ~ready), events.stall_buffer.eq(f1_valid & ready & ~self.room),
            events.resteer.eq(resteer & ~redirect),
            events.btb_miss.eq(resteer & ~redirect & ~forget & ~known),
        ]
        return m
