"""The binary32 pipelines of the column foot and their fast views in one simulation, compared every cycle."""

import functools
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.numbers.float_add import Float32Adder
from hw.numbers.sum_to_float import SumToFloat32
from tb.build import Options, build
from tb.numbers.bench import SUM_WIDTHS
from tb.numbers.vectors import additions, sums
from tb.simulator import Simulator

__all__ = ["LATENCIES", "PLANTED", "Outcome", "Pipelines", "compare", "stimulus"]

#: All that hw.config.MatrixConfig allows, and 0 for the rounding as well.
LATENCIES = (0, 1, 2, 3, 4)
EXPONENT_BITS = 10
#: Cycles from the start in which the pipelines still hold what their registers came up with.
SETTLE = 1 + max(LATENCIES)

#: Bugs of the fast views, by what is wrong: the pipeline, and text of its files that stands there once with
#: what stands there instead.
PLANTED = {
    "the NaN of an addition as the machine makes it":
        ("add", 2, "if (value != value) return CANONICAL_NAN;", ""),
    "the sum of two minus zeros is +0":
        ("add", 2, "bits(number(a) + number(b))", "bits(number(a) + number(b) + 0.0f)"),
    "subnormal operands are zero":
        ("add", 0, "float value;\n",
         "float value;\n  if (!(pattern << 1 >> 24)) pattern &= 1u << 31;\n"),
    "a sum a cycle early":
        ("add", 3, "stage1 <= float32_add(i[31:0], i[63:32]);\n    stage2 <= stage1;",
         "stage2 <= float32_add(i[31:0], i[63:32]);"),
    "a NaN block as its number":
        (14, 1, "if (nan) return CANONICAL_NAN;", ""),
    "exponents without their sign":
        (28, 2, "{{22{i[37]}}, i[37:28]}", "{22'd0, i[37:28]}"),
    "sums without their sign":
        (42, 2, "{{22{i[41]}}, i[41:0]}", "{22'd0, i[41:0]}"),
    "wide sums rounded twice":
        (42, 1, "static_cast<float>(static_cast<double>(sum) * scale)",
         "static_cast<float>(static_cast<double>(static_cast<float>(sum)) * scale)"),
    "ties away from zero":
        (28, 0, "bits(static_cast<float>(static_cast<double>(sum) * scale))",
         "bits(static_cast<float>(static_cast<double>(sum) * scale * (1 + 0x1p-52)))"),
    "a block sum a cycle early":
        (14, 2, "o <= stage1;",
         "o <= float32_round({{50{i[13]}}, i[13:0]}, {{22{i[23]}}, i[23:14]}, i[24]);"),
}


class Vector(data.Struct):
    """What enters every pipeline in a cycle; ``report`` asks for the verdicts and ends the comparison."""

    add: 64
    sum14: 14 + EXPONENT_BITS + 1
    sum28: 28 + EXPONENT_BITS + 1
    sum42: 42 + EXPONENT_BITS + 1
    report: 1


class Verdict(data.Struct):
    """Of one fast view. Of the first cycle that differs: its number, the operand word, both outputs."""

    number: 32
    compared: 32
    mismatches: 32
    cycle: 32
    operands: 64
    rtl: 32
    fast: 32


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the comparator of one fast view counted; ``first``: the first mismatch as a sentence, or ""."""

    view: str
    compared: int
    mismatches: int
    first: str


def pipeline(kind, latency):
    """The RTL pipeline: ``kind`` is "add" or the width of a block sum."""
    if kind == "add":
        return Float32Adder(latency=latency)
    return SumToFloat32(width=kind, latency=latency)


def edited(kind, latency, prefix, old, new):
    """A pipeline under a name of its own, whose fast view has ``old`` replaced by ``new``."""
    component = pipeline(kind, latency)
    component._MustUse__silence = True  # only its files are wanted
    module = component.module_name

    class Edited(type(component)):
        module_name = property(lambda self: f"{prefix}_{module}")

        def fast_view(self):
            # The module, the file and the functions get the prefix.
            files = component.fast_view()
            if sum(text.count(old) for text in files.values()) != 1:
                raise ValueError(f"{module} does not have {old!r} exactly once; an edit needs that")
            files = {name: text.replace(old, new).replace("float32_add", f"{prefix}_add")
                     .replace("float32_round", f"{prefix}_round") for name, text in files.items()}
            text = files[f"{module}.sv"].replace(f"module {module} (", f"module {prefix}_{module} (")
            return {f"{prefix}_{module}.sv": text, f"{prefix}.cc": files["float32.cc"]}

    parameters = {"latency": latency} if kind == "add" else {"latency": latency, "width": kind}
    return Edited(**parameters)


class Pipelines(wiring.Component):
    """Every pair gets the same operands in every cycle, data or not; compared from cycle ``SETTLE`` on.

    Parameters
    ----------
    pairs : list of (kind, RTL pipeline, pipeline whose fast view is placed)

    Members
    -------
    i : In(stream of Vector), always taken
    o : Out(stream of Verdict): one beat a pair, in order, after ``report``
    """

    def __init__(self, pairs):
        self.pairs = list(pairs)
        super().__init__({"i": In(stream.Signature(Vector)), "o": Out(stream.Signature(Verdict))})

    def elaborate(self, platform):
        m = Module()
        cycle, done = Signal(32), Signal()
        comparing = Signal()
        m.d.sync += cycle.eq(cycle + 1)
        m.d.comb += [self.i.ready.eq(1), comparing.eq((cycle >= SETTLE) & ~done)]
        with m.If(self.i.valid & self.i.payload.report):
            m.d.sync += done.eq(1)
        number = Signal(range(len(self.pairs) + 1))
        m.d.comb += self.o.valid.eq(done & (number != len(self.pairs)))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += number.eq(number + 1)
        for n, (kind, rtl, view) in enumerate(self.pairs):
            operands = self.i.payload.add if kind == "add" else getattr(self.i.payload, f"sum{kind}")
            m.submodules[f"rtl{n}"] = rtl
            emit.place(m, f"fast{n}", view)
            late = Cat(operands, Const(0, 64 - len(operands)))
            for stage in range(rtl.latency):
                register = Signal(64, name=f"operands{n}_late{stage}", reset_less=True)
                m.d.sync += register.eq(late)
                late = register
            verdict = Signal(Verdict, name=f"verdict{n}")
            differs = Signal(name=f"differs{n}")
            m.d.comb += [rtl.i.eq(operands), view.i.eq(operands), differs.eq(rtl.o != view.o)]
            with m.If(comparing):
                m.d.sync += [verdict.number.eq(n), verdict.compared.eq(verdict.compared + 1),
                             verdict.mismatches.eq(verdict.mismatches + differs)]
                with m.If(differs & (verdict.mismatches == 0)):
                    m.d.sync += [verdict.cycle.eq(cycle), verdict.operands.eq(late), verdict.rtl.eq(rtl.o),
                                 verdict.fast.eq(view.o)]
            with m.If(number == n):
                m.d.comb += self.o.payload.eq(verdict)
        return m


def stimulus(count, seed):
    """Operands of ``count`` cycles: uint8 [count, 23], payloads of Vector, the last with ``report``; and the
    pairs to add among them, uint32 [count, 2].

    Classes of tb.numbers.vectors; one block sum in eight has any exponent that ten bits hold.
    """
    rng = np.random.default_rng(seed)
    pairs = additions(rng, count)
    columns = [_bits(pairs[:, 0], 32), _bits(pairs[:, 1], 32)]
    for width in SUM_WIDTHS:
        values, exponents, nan = sums(rng, count, width)
        exponents = np.where(rng.random(count) < 1 / 8, rng.integers(-512, 512, count), exponents)
        columns += [_bits(values, width), _bits(exponents, EXPONENT_BITS), _bits(nan, 1)]
    report = np.zeros(count, np.uint8)
    report[-1] = 1
    bits = np.concatenate([*columns, _bits(report, 1)], axis=1)
    return np.packbits(bits, axis=1, bitorder="little"), pairs


def _bits(values, width):
    return (values.astype(np.int64)[:, None] >> np.arange(width) & 1).astype(np.uint8)


def compare(*, count, seed=1, stalls=None, log=None):
    """Compare every pipeline at every latency with its fast view, and with those that have a planted bug.

    Parameters: ``count``, operands for each pipeline; ``seed``, of them and the stalls; ``stalls``, of the
    input: cycles with noise as operands come on top.

    Returns
    -------
    list[Outcome]
        Of the pipelines ("add latency 2", "sum14 latency 0", ...), then of PLANTED.
    """
    bench, names = _bench(log)
    beats, _ = stimulus(count, seed)
    with Simulator(bench) as simulator:
        result = simulator.run({"i": beats}, {"o": len(names)}, stalls={"i": stalls} if stalls else {},
                               seed=seed)
    return [_outcome(name, n, words) for n, (name, words) in
            enumerate(zip(names, result.outputs["o"].view("<u4"), strict=True))]


@functools.cache
def _bench(log):
    pairs = {}
    for kind in ("add", *SUM_WIDTHS):
        for latency in LATENCIES:
            name = f"{kind if kind == 'add' else f'sum{kind}'} latency {latency}"
            pairs[name] = (kind, pipeline(kind, latency), pipeline(kind, latency))
    for n, (name, (kind, latency, old, new)) in enumerate(PLANTED.items()):
        pairs[name] = (kind, pipeline(kind, latency), edited(kind, latency, f"planted{n}", old, new))
    bench = build(Pipelines(pairs.values()), name="lockstep_numbers", log=log,
                  options=Options(view="fast", optimise="-O1"))
    return bench, list(pairs)


def _outcome(view, expected, words):
    number, compared, mismatches, cycle, low, high, rtl, fast = (int(word) for word in words)
    if number != expected or not compared:
        raise RuntimeError(f"{view}: got the verdict of pair {number} over {compared} cycles")
    first = ""
    if mismatches:
        first = f"{view}, cycle {cycle}: operands {high:08x}{low:08x} give {fast:08x}, {rtl:08x} in the RTL"
    return Outcome(view=view, compared=compared, mismatches=mismatches, first=first)
