"""Division of RV64M."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import OP_BITS

__all__ = ["Divider"]


class Phase(enum.Enum, shape=2):
    IDLE = 0
    ALIGN = 1   # the divisor is moved under the dividend's first bit
    DIVIDE = 2  # a bit of the quotient a cycle
    DONE = 3    # the value waits to be taken


def leading_zeros(m, value, name):
    """The word moved left until its first bit is set, and by how much (0..63; of 0: 63)."""
    amount = []
    for step in (32, 16, 8, 4, 2, 1):
        empty, moved = Signal(name=f"{name}_empty_{step}"), Signal(64, name=f"{name}_{step}")
        m.d.comb += [empty.eq(value[64 - step:] == 0), moved.eq(Mux(empty, value << step, value))]
        amount.insert(0, empty)
        value = moved
    return value, Cat(amount)


class Divider(wiring.Component):
    """One division at a time, on magnitudes, a bit of the quotient a cycle from its first bit on.

    Results for a divisor of 0 and for overflow: RISC-V unprivileged specification, table of the M extension's
    division. From the cycle of valid and ready to the first one of done: 2 cycles and one for each bit of the
    quotient, where that has bits(|a|) - bits(|b|) + 1 bits, or none if this is below 1 or b is 0.

    Members
    -------
    valid : In(1), ready : Out(1): a division starts in a cycle with both
    op : In(OP_BITS): a DivOp (funct3 of the instruction)
    narrow : In(1): lower 32 bits of the operands, result sign-extended from 32 bits
    a, b : In(64): dividend, divisor
    kill : In(1): the division in progress, or its result, is dropped; done is 0 in this very cycle, and the
        next division may start in the next one. Nothing to a division which starts in this cycle
    done : Out(1), take : In(1, 1 if not connected): value is taken in a cycle with both
    value : Out(64): with done
    busy : Out(1): a division is in progress, or its result waits
    """

    def __init__(self):
        super().__init__({
            "valid": In(1), "ready": Out(1), "op": In(OP_BITS), "narrow": In(1), "a": In(64), "b": In(64),
            "kill": In(1), "done": Out(1), "take": In(1, init=1), "value": Out(64), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        phase = Signal(Phase)
        remainder_wanted, narrow = Signal(), Signal()
        negative_quotient, negative_remainder = Signal(), Signal()
        remainder, divisor, quotient = Signal(64), Signal(64), Signal(64)
        count = Signal(7)  # bits still to come

        unsigned_op = self.op[0]
        a, b = Signal(64), Signal(64)
        for word, port in ((a, self.a), (b, self.b)):
            upper = Mux(self.narrow, (port[31] & ~unsigned_op).replicate(32), port[32:])
            m.d.comb += word.eq(Cat(port[:32], upper))
        minus_a, minus_b = Signal(), Signal()
        m.d.comb += [minus_a.eq(a[63] & ~unsigned_op), minus_b.eq(b[63] & ~unsigned_op)]

        _, zeros_a = leading_zeros(m, remainder, "dividend")
        aligned, zeros_b = leading_zeros(m, divisor, "divisor")
        places = Signal(7)  # how much shorter the divisor is; above 63 if it is longer
        m.d.comb += places.eq(zeros_b - zeros_a)

        fits, rest = Signal(), Signal(65)
        m.d.comb += [rest.eq(remainder - divisor), fits.eq(~rest[64])]

        m.d.comb += [self.ready.eq(phase == Phase.IDLE), self.busy.eq(phase != Phase.IDLE),
                     self.done.eq((phase == Phase.DONE) & ~self.kill)]
        with m.Switch(phase):
            with m.Case(Phase.IDLE):
                m.d.sync += [
                    remainder_wanted.eq(self.op[1]), narrow.eq(self.narrow),
                    # Of a division by 0, quotient -1 and remainder a come from no step at all.
                    negative_quotient.eq((minus_a ^ minus_b) & (b != 0)), negative_remainder.eq(minus_a),
                    remainder.eq(Mux(minus_a, -a, a)), divisor.eq(Mux(minus_b, -b, b)),
                    quotient.eq(Mux(b == 0, Const(-1, 64), 0)),
                ]
                with m.If(self.valid):
                    m.d.sync += phase.eq(Phase.ALIGN)
            with m.Case(Phase.ALIGN):
                m.d.sync += [
                    divisor.eq(aligned >> zeros_a), count.eq(places),
                    phase.eq(Mux(places[6] | (divisor == 0), Phase.DONE, Phase.DIVIDE)),
                ]
            with m.Case(Phase.DIVIDE):
                m.d.sync += [
                    quotient.eq(Cat(fits, quotient)), divisor.eq(divisor >> 1), count.eq(count - 1),
                    remainder.eq(Mux(fits, rest[:64], remainder)),
                ]
                with m.If(count == 0):
                    m.d.sync += phase.eq(Phase.DONE)
            with m.Case(Phase.DONE):
                with m.If(self.take):
                    m.d.sync += phase.eq(Phase.IDLE)
        with m.If(self.kill & self.busy):
            m.d.sync += phase.eq(Phase.IDLE)

        magnitude, value, minus = Signal(64), Signal(64), Signal()
        m.d.comb += [
            magnitude.eq(Mux(remainder_wanted, remainder, quotient)),
            minus.eq(Mux(remainder_wanted, negative_remainder, negative_quotient)),
            value.eq(Mux(minus, -magnitude, magnitude)),
            self.value.eq(Cat(value[:32], Mux(narrow, value[31].replicate(32), value[32:]))),
        ]
        return m
