"""The engine port: operands, values, memory, precise traps and wrong paths, with a small engine behind it."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import enum, wiring

from hw.core.address import HOST, RAM
from hw.core.config import core_preset
from hw.core.core import Core
from hw.core.types import Cause, LineStatus, younger
from sw.core.image import Image
from tb.build import Options
from tb.core.bench import core_bench
from tb.core.encode import encode
from tb.core.run import CoreSimulator, run_core

RAM_BYTES = 1 << 20
ADD, LOAD, REFUSED = 0, 1, 2
"""funct7 of the engine: a + b after a while; the first doubleword of the line at a; an exception."""


class Phase(enum.Enum, shape=2):
    IDLE = 0
    WAIT = 1
    ASK = 2
    ANSWER = 3


class CoreWithEngine(wiring.Component):
    """A core and an engine that does one thing at a time."""

    def __init__(self, config):
        self.core = Core(config, ram_bytes=RAM_BYTES, trace=True)
        members = dict(self.core.signature.members)
        del members["engine"]
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        for name, member in self.signature.members.items():
            inner, outer = getattr(core, name), getattr(self, name)
            if member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            elif member.dimensions:
                m.d.comb += [to.eq(value) for to, value in zip(outer, inner)]
            else:
                m.d.comb += outer.eq(inner) if member.flow is wiring.Out else inner.eq(outer)

        port = core.engine
        phase, held, count = Signal(Phase), Signal(port.issue.shape()), Signal(3)
        void = Signal()
        m.d.comb += [
            void.eq(port.flush | (port.kill.valid & younger(held.age, port.kill.age))),
            port.ready.eq((phase == Phase.IDLE) & ~port.issue.valid),
            port.done.age.eq(held.age), port.done.tag.eq(held.tag), port.done.writes.eq(held.writes),
            port.done.completes.eq(1), port.fault.age.eq(held.age),
            port.request.payload.line.eq(held.a[6:40]), port.response.ready.eq(1),
        ]
        answer = port.response.payload
        with m.Switch(phase):
            with m.Case(Phase.IDLE):
                with m.If(port.issue.valid):
                    m.d.sync += [held.eq(port.issue), phase.eq(Phase.WAIT), count.eq(4)]
            with m.Case(Phase.WAIT):
                m.d.sync += count.eq(count - (count != 0))
                with m.If(void):
                    m.d.sync += phase.eq(Phase.IDLE)
                with m.Elif(count == 0):
                    with m.If(held.funct7 == ADD):
                        m.d.comb += [port.done.valid.eq(1), port.done.value.eq(held.a + held.b)]
                        m.d.sync += phase.eq(Phase.IDLE)
                    with m.Elif(held.funct7 == REFUSED):
                        m.d.comb += [port.fault.valid.eq(1), port.fault.cause.eq(Cause.ILLEGAL)]
                        m.d.sync += phase.eq(Phase.IDLE)
                    with m.Elif(port.head_valid & (port.head_age == held.age)):
                        m.d.comb += port.hold.eq(1)
                        m.d.sync += phase.eq(Phase.ASK)
            with m.Case(Phase.ASK):
                m.d.comb += [port.hold.eq(1), port.request.valid.eq(1)]
                with m.If(port.request.ready):
                    m.d.sync += phase.eq(Phase.ANSWER)
            with m.Case(Phase.ANSWER):
                m.d.comb += port.hold.eq(1)
                with m.If(port.response.valid):
                    m.d.comb += [
                        port.done.valid.eq(answer.status == LineStatus.OK),
                        port.done.value.eq(answer.data[:64]),
                        port.fault.valid.eq(answer.status != LineStatus.OK),
                        port.fault.cause.eq(Cause.LOAD_FAULT), port.fault.tval.eq(held.a),
                    ]
                    m.d.sync += phase.eq(Phase.IDLE)
        return m


def engine_word(funct7, *, rd=0, rs1=0, rs2=0):
    """custom-0 with all three registers."""
    return 0x0B | rd << 7 | 7 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25


@pytest.fixture(scope="module")
def simulator():
    config = core_preset("tiny", engine=True)
    built = core_bench(config, name="core_engine", options=Options(optimise="-O0"), ram_bytes=RAM_BYTES,
                       core=CoreWithEngine(config))
    with CoreSimulator(built) as simulator:
        yield simulator


def exit_with(register):
    return [encode("lui", rd=31, imm=HOST >> 12), encode("sd", rs1=31, rs2=register, imm=8), encode("jal")]


def run(simulator, words, *, name, poison=()):
    return run_core(simulator, Image.of(words, name=name), max_cycles=20_000, hang_cycles=2_000,
                    keep_records=True, poison=poison)


def test_values_in_a_loop(simulator):
    """Each turn adds through the engine what the turn before gave; the last turn's wrong path asks it too."""
    words = [
        encode("addi", rd=1, imm=3), encode("addi", rd=2, imm=20), encode("addi", rd=3),
        engine_word(ADD, rd=3, rs1=3, rs2=1),
        encode("addi", rd=2, rs1=2, imm=-1),
        encode("bne", rs1=2, imm=-8),
        *exit_with(3),
    ]
    found = run(simulator, words, name="loop")
    assert found.exit_code == 60
    records = found.records[found.records["insn"] == words[3]]
    assert len(records) == 20
    assert records["rd_wdata"].tolist() == list(range(3, 63, 3))


def test_memory_after_an_older_store(simulator):
    words = [
        encode("auipc", rd=1, imm=1), encode("addi", rd=2, imm=77), encode("sd", rs1=1, rs2=2),
        encode("fence"), engine_word(LOAD, rd=3, rs1=1), *exit_with(3),
    ]
    assert run(simulator, words, name="memory").exit_code == 77


@pytest.mark.parametrize("funct7,address,poison,cause,tval", [
    (REFUSED, RAM, (), Cause.ILLEGAL, 0), (LOAD, RAM + RAM_BYTES, (), Cause.LOAD_FAULT, RAM + RAM_BYTES),
    (LOAD, RAM + 0x2000, (RAM + 0x2000,), Cause.LOAD_FAULT, RAM + 0x2000),
])
def test_precise_traps(simulator, funct7, address, poison, cause, tval):
    """The handler sees what was before the instruction, and nothing of what is behind it."""
    handler = 40
    words = [
        encode("auipc", rd=4), encode("addi", rd=4, rs1=4, imm=handler * 4),
        encode("csrrw", rs1=4, csr=0x305), encode("addi", rd=5, imm=1),
        encode("lui", rd=1, imm=(address >> 12) - (1 << 20)),  # of an address with bit 31 set
        encode("slli", rd=1, rs1=1, imm=32), encode("srli", rd=1, rs1=1, imm=32),
        engine_word(funct7, rd=5, rs1=1), encode("addi", rd=5, imm=2),
    ]
    trapping = RAM + 4 * 7
    words += [0] * (handler - len(words))
    words += [encode("csrrs", rd=6, csr=0x341), encode("csrrs", rd=7, csr=0x342),
              encode("csrrs", rd=8, csr=0x343), *exit_with(5)]
    found = run(simulator, words, name="trap", poison=poison)
    assert found.exit_code == 1  # neither written by the instruction nor by the next
    values = {int(r["rd_addr"]): int(r["rd_wdata"]) for r in found.records}
    assert (values[6], values[7], values[8]) == (trapping, cause.value, tval)
    assert found.records[found.records["trap"] == 1]["pc_rdata"].tolist() == [trapping]


def test_illegal_without_the_port():
    from amaranth.sim import Simulator

    from hw.core.frontend.decode import Decoder

    decoder = Decoder()

    async def testbench(ctx):
        ctx.set(decoder.word, engine_word(ADD, rd=1))
        assert ctx.get(decoder.o.exception) and ctx.get(decoder.o.cause) == Cause.ILLEGAL

    simulator = Simulator(decoder)
    simulator.add_testbench(testbench)
    simulator.run()
