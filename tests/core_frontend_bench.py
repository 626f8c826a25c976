"""A program in memory, and a model of the path through it that the front end has to hand over."""

import random
from dataclasses import dataclass, field

from amaranth.hdl import Value
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.core.address import RAM
from hw.core.frontend.fetch import FetchEvents
from hw.core.frontend.frontend import FrontEnd
from hw.core.types import (
    Cause,
    ControlKind,
    Decoded,
    LineRequest,
    LineResponse,
    LineStatus,
    Resolve,
    Restart,
)

MASK = (1 << 64) - 1


class Packed:
    """A structure as a number: much quicker than the simulator's views."""

    def __init__(self, struct):
        layout = data.Layout.cast(struct)
        self.fields = [(name, field.offset, (1 << field.width) - 1) for name, field in layout]
        self.width = layout.size

    def pack(self, **values):
        return sum((int(values[name]) & mask) << offset
                   for name, offset, mask in self.fields if name in values)

    def unpack(self, number):
        return {name: number >> offset & mask for name, offset, mask in self.fields}


REQUEST, RESPONSE = Packed(LineRequest), Packed(LineResponse)
RESOLVE, RESTART = Packed(Resolve), Packed(Restart)
EVENTS = [name for name, _ in data.Layout.cast(FetchEvents)]


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def offset_b(word):
    return signed((word >> 31 << 12) | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5
                  | (word >> 8 & 15) << 1, 13)


def offset_j(word):
    return signed((word >> 31 << 20) | (word >> 12 & 255) << 12 | (word >> 20 & 1) << 11
                  | (word >> 21 & 1023) << 1, 21)


def branch(offset, funct3=0):
    """A conditional branch of x8 and x9."""
    return (0x63 | funct3 << 12 | 8 << 15 | 9 << 20 | (offset >> 12 & 1) << 31 | (offset >> 11 & 1) << 7
            | (offset >> 5 & 63) << 25 | (offset >> 1 & 15) << 8)


def jal(offset, rd=0):
    return (0x6F | rd << 7 | (offset >> 20 & 1) << 31 | (offset >> 1 & 1023) << 21 | (offset >> 11 & 1) << 20
            | (offset >> 12 & 255) << 12)


def jalr(rd=0, rs1=9):
    return 0x67 | rd << 7 | rs1 << 15


def addi(rd=1, immediate=0):
    return 0x13 | rd << 7 | (immediate & 0xFFF) << 20


RET = jalr(0, 1)
INDIRECT = jalr(0, 9)


def kind_of(word):
    """ControlKind by the words of the specification, and whether it can be resolved."""
    rd, rs1, funct3 = word >> 7 & 31, word >> 15 & 31, word >> 12 & 7
    if word & 0x7F == 0x63:
        return ControlKind.NONE if funct3 in (2, 3) else ControlKind.BRANCH
    if word & 0x7F == 0x6F:
        return ControlKind.CALL if rd in (1, 5) else ControlKind.JUMP
    if word & 0x7F == 0x67 and funct3 == 0:
        if rd in (1, 5):
            return ControlKind.INDIRECT_CALL
        return ControlKind.RETURN if rs1 in (1, 5) else ControlKind.INDIRECT
    return ControlKind.NONE


@dataclass
class Given:
    """A control transfer handed over and not resolved."""

    pc: int
    word: int
    kind: ControlKind
    target: int
    history: int
    returns: int
    next_pc: int = None


@dataclass
class Bench:
    """The front end with a memory, a consumer and a model of the path.

    ``words``: the program from RAM on. ``outcome(given)``: the address that a conditional branch or JALR goes
    to; it is asked when the instruction is handed over, in order. With ``architectural`` it is asked only
    on the right path, and what is on a wrong one counts as predicted rightly; ``executed(pc, word)`` is
    called for each instruction of the right path. ``ready``, ``resolve``, ``restart``, ``accept``:
    probabilities, of a bundle taken, a transfer resolved, a restart, a line's request taken, in a cycle.
    ``resolve_after``: cycles from an instruction's hand-over. ``latency``: cycles of a line, from and to.
    ``modify``: changes the program, before a restart that invalidates the cache. A Bench counts what it
    sees.
    """

    config: object
    words: list
    outcome: object
    seed: int = 0
    ready: float = 1.0
    resolve: float = 1.0
    restart: float = 0.0
    accept: float = 1.0
    latency: tuple = (1, 1)
    poisoned: frozenset = frozenset()
    in_order: bool = True
    reset_pc: int = RAM
    resolve_after: int = 1
    restart_target: object = None
    modify: object = None
    architectural: bool = False
    executed: object = None
    log: list = field(default_factory=list)
    counts: dict = field(default_factory=lambda: dict.fromkeys(
        ("given", "resolved", "mispredicted", "restarts", "faults", "misaligned", "branches", "requests",
         "cycles"), 0))

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        self.ram_bytes = 4 * len(self.words)
        assert self.ram_bytes % 64 == 0
        self.dut = FrontEnd(self.config, reset_pc=self.reset_pc, ram_bytes=self.ram_bytes)
        self.events = dict.fromkeys(EVENTS, 0)
        self.times, self.mispredicted_at = [], []  # cycles of hand-overs, of mispredictions
        self.latencies, self.first_valid, self.killed_at = [], None, None
        self.pending = []      # control transfers, oldest first
        self.want = self.reset_pc
        self.stopped = False   # nothing more comes on this path

    def line(self, number):
        first = (number * 64 - RAM) // 4
        return sum(word << 32 * k for k, word in enumerate(self.words[first:first + 16]))

    def check(self, slot):
        """One instruction handed over, a dictionary of Decoded's fields."""
        pc = slot["pc"]
        where = f"cycle {self.counts['cycles']}, pc {pc:#x}"
        assert not self.stopped, f"{where}: handed over after a fault"
        assert pc == self.want, f"{where}: expected {self.want:#x}"
        self.counts["given"] += 1
        self.log.append(pc)
        self.times.append(self.counts["cycles"])
        right = all(given.next_pc == given.target for _, given in self.pending)
        inside = RAM <= pc < RAM + self.ram_bytes
        if not inside or pc // 64 in self.poisoned:
            assert slot["exception"] and slot["cause"] == Cause.FETCH_FAULT.value, where
            assert slot["tval"] == pc and slot["word"] == 0, where
            self.counts["faults"] += 1
            self.stopped = True
            return
        word = self.words[(pc - RAM) // 4]
        assert slot["word"] == word, f"{where}: word {slot['word']:#x}, expected {word:#x}"
        if self.executed and right:
            self.executed(pc, word)
        kind = kind_of(word)
        sequential = (pc + 4) & MASK
        if kind in (ControlKind.JUMP, ControlKind.CALL):
            target = (pc + offset_j(word)) & MASK
            if target % 4:
                assert slot["exception"] and slot["cause"] == Cause.MISALIGNED_FETCH.value, where
                assert slot["tval"] == target and slot["kind"] == 0, where
                self.counts["misaligned"] += 1
                self.stopped = True
                return
            assert slot["target"] == target, f"{where}: target {slot['target']:#x}, expected {target:#x}"
        elif kind == ControlKind.BRANCH:
            taken = (pc + offset_b(word)) & MASK
            assert slot["target"] in ((sequential,) if taken % 4 else (sequential, taken)), where
        elif kind == ControlKind.NONE:
            assert slot["target"] == sequential, where
        assert slot["target"] % 4 == 0
        assert slot["kind"] == kind.value and not (kind != ControlKind.NONE and slot["exception"]), where
        self.want = slot["target"]
        if kind in (ControlKind.BRANCH, ControlKind.RETURN, ControlKind.INDIRECT, ControlKind.INDIRECT_CALL):
            given = Given(pc, word, kind, slot["target"], slot["history"], slot["returns"])
            given.next_pc = self.outcome(given) if right or not self.architectural else given.target
            self.pending.append((self.counts["cycles"], given))

    def run(self, cycles):
        """``cycles`` cycles; returns the counts."""
        dut, rng, counts = self.dut, self.rng, self.counts
        width = self.config.width

        o, events = Value.cast(dut.o.payload), Value.cast(dut.events)
        request_payload, response_payload = Value.cast(dut.line_request.payload), Value.cast(
            dut.line_response.payload)
        resolve_port, restart_port = Value.cast(dut.resolve), Value.cast(dut.restart)
        slot_bits, count_bits = Packed(Decoded).width, width.bit_length()
        decoded = Packed(Decoded)

        async def bench(ctx):
            answers, held_request, held_bundle, quiet = [], None, None, 0
            for cycle in range(cycles):
                counts["cycles"] = cycle
                # Inputs of this cycle.
                due = [k for k, (at, _) in enumerate(self.pending) if cycle >= at + self.resolve_after]
                resolved = None
                if due and rng.random() < self.resolve:
                    resolved = 0 if self.in_order else rng.choice(due)
                dead_end = self.stopped and not self.pending
                restarts = rng.random() < self.restart or (dead_end and rng.random() < 0.1)
                invalidate = restarts and self.modify is not None and rng.random() < 0.5
                restart_pc = (self.restart_target or self.random_pc)(rng) if restarts else 0
                if invalidate:
                    self.modify(self, rng)
                ctx.set(restart_port, RESTART.pack(valid=restarts, pc=restart_pc, invalidate=invalidate))
                mispredicted = False
                if resolved is not None:
                    given = self.pending[resolved][1]
                    next_pc = given.next_pc
                    mispredicted = next_pc != given.target
                    taken = given.kind != ControlKind.BRANCH or next_pc != given.pc + 4
                    ctx.set(resolve_port, RESOLVE.pack(
                        valid=1, mispredicted=mispredicted, taken=taken, kind=given.kind.value, pc=given.pc,
                        next_pc=next_pc, history=given.history, returns=given.returns))
                else:
                    ctx.set(resolve_port, 0)
                ready = rng.random() < self.ready
                ctx.set(dut.o.ready, ready)
                accept = rng.random() < self.accept
                ctx.set(dut.line_request.ready, accept)
                answer = answers[0][1] if answers and answers[0][0] <= cycle else None
                ctx.set(dut.line_response.valid, answer is not None)
                if answer is not None:
                    tag, line, content = answer
                    status = LineStatus.POISON if line in self.poisoned else LineStatus.OK
                    ctx.set(response_payload, RESPONSE.pack(tag=tag, status=status.value, data=content))
                    assert ctx.get(dut.line_response.ready)
                    answers.pop(0)

                # Outputs.
                pulses = ctx.get(events)
                for k, name in enumerate(EVENTS):
                    self.events[name] += pulses >> k & 1
                request = None
                if ctx.get(dut.line_request.valid):
                    fields = REQUEST.unpack(ctx.get(request_payload))
                    request = fields["tag"], fields["line"]
                    assert not fields["write"]
                    assert RAM <= request[1] * 64 < RAM + self.ram_bytes, "a request outside the memory"
                assert held_request is None or request == held_request, "a request changed while it waited"
                held_request = request
                if request is not None and accept:
                    held_request = None
                    counts["requests"] += 1
                    at = cycle + rng.randint(*self.latency)
                    if answers:
                        at = max(at, answers[-1][0] + 1)
                    # An erroneous line has data too, and they are wrong.
                    bad = request[1] in self.poisoned
                    answers.append((at, (*request, rng.getrandbits(512) if bad else self.line(request[1]))))
                    assert len(answers) <= 2, "more than two requests at once"
                killed = restarts or mispredicted
                offered = None
                if ctx.get(dut.o.valid):
                    payload = ctx.get(o)
                    count = payload & (1 << count_bits) - 1
                    assert 1 <= count <= width
                    offered = count, (payload >> count_bits) & (1 << slot_bits * count) - 1
                    quiet = 0
                if held_bundle is not None:
                    assert offered == held_bundle, "a bundle changed while it waited"
                held_bundle = None if ready or killed else offered
                if offered is not None and self.first_valid is None:
                    self.first_valid = cycle
                if killed:
                    self.first_valid = None
                    self.killed_at = cycle
                elif self.first_valid == cycle and self.killed_at is not None:
                    self.latencies.append(cycle - self.killed_at)
                if offered is not None and ready and not killed:
                    for k in range(count):
                        self.check(decoded.unpack(offered[1] >> slot_bits * k))
                quiet += 1
                assert quiet < 2000 or self.stopped, f"cycle {cycle}: nothing comes, {self.want:#x} is next"

                # What this cycle's events mean for the path.
                if resolved is not None:
                    counts["resolved"] += 1
                    counts["branches"] += given.kind == ControlKind.BRANCH
                    if mispredicted:
                        counts["mispredicted"] += 1
                        self.mispredicted_at.append(cycle)
                        del self.pending[resolved:]
                        self.want, self.stopped = next_pc, False
                    else:
                        del self.pending[resolved]
                if restarts:
                    counts["restarts"] += 1
                    self.pending.clear()
                    self.want, self.stopped = restart_pc, False
                await ctx.tick()
            counts["cycles"] = cycles

        simulator = Simulator(dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        return counts

    def random_pc(self, rng):
        return RAM + 4 * rng.randrange(len(self.words))
