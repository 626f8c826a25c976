"""Multiplication of RV64M."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.core.types import OP_BITS

__all__ = ["Multiplier"]


class Multiplier(wiring.Component):
    """Pipelined multiplication: one starts a cycle, its value is there `latency` cycles later.

    Four unsigned products of 32 x 32 bits are registered, then added. The upper half of a signed product is
    that of the unsigned one, less each operand whose partner is negative. With a latency of 3 or more the
    operands are registered first; every further cycle delays the value. Nothing here is dropped: whoever
    starts a product knows whether it is still wanted.

    Parameters
    ----------
    latency : cycles, at least 2.

    Members
    -------
    valid : In(1): a multiplication starts
    op : In(OP_BITS): funct3: 0 MUL, 1 MULH, 2 MULHSU (a signed), 3 MULHU
    narrow : In(1): MULW
    a, b : In(64)
    done : Out(1): valid, `latency` cycles later
    value : Out(64): with done
    """

    def __init__(self, latency):
        if not isinstance(latency, int) or isinstance(latency, bool) or latency < 2:
            raise ValueError(f"multiplier.latency = {latency!r}: must be a whole number of at least 2")
        self.latency = latency
        super().__init__({
            "valid": In(1), "op": In(OP_BITS), "narrow": In(1), "a": In(64), "b": In(64),
            "done": Out(1), "value": Out(64),
        })

    def elaborate(self, platform):
        m = Module()

        def delayed(value, name):
            register = Signal(value.shape(), name=name, reset_less=True)
            m.d.sync += register.eq(value)
            return register

        valids = Signal(self.latency)
        m.d.sync += valids.eq(Cat(self.valid, valids))
        m.d.comb += self.done.eq(valids[-1])

        a, b, op, narrow = self.a, self.b, self.op, self.narrow
        if self.latency >= 3:
            a, b = delayed(a, "a_in"), delayed(b, "b_in")
            op, narrow = delayed(op, "op_in"), delayed(narrow, "narrow_in")

        signed_a = (op[:2] == 1) | (op[:2] == 2)
        signed_b = op[:2] == 1
        low = delayed(a[:32] * b[:32], "low")
        cross_a = delayed(a[32:] * b[:32], "cross_a")
        cross_b = delayed(a[:32] * b[32:], "cross_b")
        high = delayed(a[32:] * b[32:], "high")
        excess = delayed((Mux(signed_a & a[63], b, 0) + Mux(signed_b & b[63], a, 0))[:64], "excess")
        upper, narrow = delayed(op[:2] != 0, "upper"), delayed(narrow, "narrow_products")

        middle, product, value = Signal(66), Signal(128), Signal(64)
        m.d.comb += [
            middle.eq(cross_a + cross_b + low[32:]),
            product.eq(Cat(low[:32], middle[:32], (high + middle[32:] - excess)[:64])),
        ]
        with m.If(narrow):
            m.d.comb += value.eq(Cat(product[:32], product[31].replicate(32)))
        with m.Else():
            m.d.comb += value.eq(Mux(upper, product[64:], product[:64]))
        for stage in range(self.latency - (2 if self.latency >= 3 else 1)):
            value = delayed(value, f"value_{stage}")
        m.d.comb += self.value.eq(value)
        return m
