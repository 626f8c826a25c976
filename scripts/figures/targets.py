"""What is asked of each figure: the key, the bound, and how its value behaves."""

from collections.abc import Mapping
from dataclasses import dataclass

from hw.config import MODES

MET, MISSED, REPORTED, ABSENT = "met", "missed", "reported", "not measured"


@dataclass(frozen=True, kw_only=True)
class Target:
    """One figure and its bound.

    Parameters
    ----------
    key : the key in figures.json.
    what : what is measured, for a reader who sees only the table.
    at_least, at_most, equals : the bounds; with none of them the figure is only reported.
        `equals` may name another key as `"=key"`.
    noisy : depends on the machine or its load; never compared between runs.
    quick : measured in seconds, and so compared with figures.json in `make test`.
    beyond : page, from the root, that shows why the bound is out of reach; for a figure that is missed.
    pending : page that says what was measured and tried; for a figure that is missed and to be met yet.
    """

    key: str
    what: str
    at_least: float | None = None
    at_most: float | None = None
    equals: object = None
    noisy: bool = False
    quick: bool = False
    beyond: str = ""
    pending: str = ""

    def asked(self) -> str:
        """The bound as text."""
        parts = []
        if self.at_least is not None:
            parts.append(f"≥ {self.at_least:,}")
        if self.at_most is not None:
            parts.append(f"≤ {self.at_most:,}")
        if isinstance(self.equals, str) and self.equals.startswith("="):
            parts.append(self.equals.replace("=", "= ", 1))
        elif self.equals is not None:
            parts.append(f"= {str(self.equals).lower()}")
        return ", ".join(parts) or "reported"

    def state(self, figures: Mapping[str, object]) -> str:
        """`met`, `missed`, `reported` (no bound) or `not measured`, given all figures."""
        if self.key not in figures:
            return ABSENT
        if self.at_least is None and self.at_most is None and self.equals is None:
            return REPORTED
        value, equals = figures[self.key], self.equals
        if isinstance(equals, str) and equals.startswith("="):
            if equals[1:] not in figures:
                return ABSENT
            equals = figures[equals[1:]]
        # A bool is an int to Python; a key that is asked to be true must not be met by a count of 1.
        ok = equals is None or (type(value) is type(equals) and value == equals)
        ok = ok and (self.at_least is None or value >= self.at_least)
        ok = ok and (self.at_most is None or value <= self.at_most)
        return MET if ok else MISSED


def _by_mode(key: str, what: str, **bounds) -> list[Target]:
    return [Target(key=key.replace("<mode>", mode), what=what, **bounds) for mode in MODES]


CONFIG = [
    Target(key="config.published.max_error", at_most=0.01, quick=True,
           what="full against published peaks (4:2:1 of 13.4), bandwidth, capacity: worst relative error"),
    Target(key="config.peak.mxfp8_mxfp8.error_as_printed", quick=True,
           what="3.355 against 3.4 as printed, which is 13.4 / 4 = 3.35 in two digits"),
]

NUMBERS = [
    Target(key="numbers.fp32.compared", at_least=1_000_000,
           what="binary32 additions, conversions and quantisations of the RTL against NumPy"),
    Target(key="numbers.fp32.mismatches", equals=0, what="of which differ"),
]

MATRIX = [
    Target(key="matrix.exhaustive.compared", at_least=65_792 + 4_096, quick=True,
           what="element products of every code pair through the RTL quad"),
    Target(key="matrix.exhaustive.mismatches", equals=0, quick=True, what="of which differ"),
    *_by_mode("matrix.gemm256.<mode>.utilisation", "256x256x256 on small, fill and drain included",
              at_least=0.95, quick=True),
    *_by_mode("matrix.gemm256.<mode>.steady", "the same in steady state", at_least=0.99, quick=True),
    *_by_mode("matrix.gemm256.<mode>.cycles", "the same in cycles", quick=True),
    Target(key="matrix.gemm256.mismatches", equals=0, quick=True,
           what="elements of these products that differ from golden"),
    Target(key="matrix.gemm256.ratio_error", at_most=0.01, quick=True,
           what="deviation of the three cycle counts from 1 : 2 : 4"),
    Target(key="matrix.decode.overhead", at_most=0.02, quick=True,
           what="one-row products: cycles over the bound set by loading weights, less 1"),
    Target(key="matrix.shapes.compared", at_least=1, what="elements of ragged products compared"),
    Target(key="matrix.shapes.mismatches", equals=0, what="of which differ"),
    Target(key="matrix.sizes_identical", equals=True, what="tiny, small, 16 units, full: the same bits"),
    Target(key="matrix.views_compared", at_least=4 * 20_000,
           what="cycles in which the fast view of an array was compared with its RTL, at four sizes"),
    Target(key="matrix.views_mismatches", equals=0, what="of which differ in any bit of any sum"),
    Target(key="matrix.views_identical", equals=True, what="the fast view is the RTL, cycle by cycle"),
]

QUAD = [
    Target(key="quad.area_ratio", at_most=1.7,
           what="cells of the quad over four plain MXFP4 PEs (goal 1.5)"),
]

SIMULATION = [
    Target(key="sim.cocotb_over_cpp", at_least=0.8, noisy=True,
           what="speed of a free-running cocotb job over a C++ loop"),
    Target(key="sim.structure_gain", at_least=4, noisy=True,
           what="speed over a module-a-PE version of the 64x64 unit"),
    Target(key="sim.view_gain", at_least=3, noisy=True,
           what="speed of the fast view of the arrays over their RTL, 64x64: least of decode and prefill"),
    Target(key="sim.pe_updates_per_s.32x32", noisy=True, what="PE updates a second, 32x32"),
    Target(key="sim.pe_updates_per_s.64x64", noisy=True, what="PE updates a second, 64x64"),
    Target(key="sim.pe_updates_per_s.full", noisy=True, what="PE updates a second, full engine"),
]

PLANTED = [
    Target(key="planted.matrix.total", at_least=10, what="bugs planted in the matrix engine"),
    Target(key="planted.matrix.caught", equals="=planted.matrix.total",
           what="of which the suite catches, naming the first wrong element"),
    Target(key="planted.hbm.total", at_least=30, what="rules of the HBM device, a bug planted for each"),
    Target(key="planted.hbm.caught", equals="=planted.hbm.total",
           what="of which the device and the trace checker both name the rule"),
    Target(key="planted.core.bugs", at_least=14, what="bugs planted in the core"),
    Target(key="planted.core.caught", equals="=planted.core.bugs",
           what="of which random programs in lockstep with the sequential model find"),
]

DEMO = [
    Target(key="demo.products", at_least=1, what="products of the language model computed by the RTL"),
    Target(key="demo.mismatches", equals=0, what="elements of them that differ from golden"),
    Target(key="demo.cycles_per_token", what="engine cycles a token"),
    Target(key="demo.utilisation", what="utilisation of the matrix engine"),
    *_by_mode("demo.<mode>.perplexity_ratio", "perplexity over float32"),
    *_by_mode("demo.<mode>.same_token_rate", "tokens equal to float32"),
    *_by_mode("demo.<mode>.logit_sqnr_db", "logit SQNR in dB"),
]

BEYOND = "docs/decisions/0010-what-refresh-leaves.md"

HBM = [
    Target(key="hbm.stream", at_least=0.95, what="one bulk read: share of the pins, refreshes served"),
    *[Target(key=f"hbm.stream.{ccd}_{groups}", at_least=0.95,
             what=f"the same with tCCD_L {ccd} CK and {groups} bank groups",
             beyond=BEYOND if (ccd, groups) == (7, 2) else "")
      for ccd in (4, 7) for groups in (2, 4)],
    Target(key="hbm.four_streams", at_least=0.93, what="four bulk reads at a time: share of the pins"),
    Target(key="hbm.random32_over_faw", at_least=0.95, beyond=BEYOND,
           what="random reads of 32 bytes: share of four activates in tFAW"),
    Target(key="hbm.random256", at_least=0.85, what="random reads of 256 bytes: share of the pins"),
    Target(key="hbm.mixed4k", at_least=0.75, what="runs of 4 KiB, read and written in turn: share of pins"),
    Target(key="hbm.mixed64", what="random lines read or written: share of the pins"),
    Target(key="hbm.idle_extra_cycles", at_most=8,
           what="demand read of an idle channel: most tile cycles over the device's own minimum"),
    Target(key="hbm.loaded_stream", at_least=0.90, what="bulk read beside demand reads: share of the pins"),
    Target(key="hbm.loaded_p99_ns", at_most=250, beyond=BEYOND, what="latency of these demand reads, 99 %"),
    Target(key="hbm.random.requests", at_least=1_000_000,
           what="random requests of all profiles, answers against the dictionary model"),
    Target(key="hbm.random.errors", equals=0, what="of which wrong, lost, or with a broken timing rule"),
    Target(key="hbm.faults.injected", at_least=10_000, what="faults put into the memory during traffic"),
    Target(key="hbm.faults.silent", equals=0, what="answers that were wrong without saying so"),
]

CORE_PROGRAMS = {
    "crc": "CRC-32 by table and by bits", "dhry": "mix of Dhrystone",
    "interpreter": "byte code of a stack machine", "mark": "list, matrix, state machine",
    "matrix": "24x24 product", "sort": "quicksort and heapsort", "strings": "words turned round and counted",
}

CORE = [
    Target(key="core.ipc.geomean", at_least=1.2, quick=True,
           what="core small, warm caches: instructions a cycle, geometric mean of the programs below"),
    *[Target(key=f"core.ipc.{name}", quick=True, what=f"IPC: {what}")
      for name, what in CORE_PROGRAMS.items()],
    *[Target(key=f"core.cycles.{name}", quick=True, what=f"cycles: {name}") for name in CORE_PROGRAMS],
    *[Target(key=f"core.mispredict.{name}", quick=True, what=f"mispredictions a branch: {name}")
      for name in CORE_PROGRAMS],
    Target(key="core.load_to_use", at_most=3, quick=True,
           what="cycles of a load in a chain that hits the L1"),
    Target(key="core.mlp", at_least=7, quick=True,
           what="eight independent loads that miss: most in flight at once at the memory"),
    Target(key="core.mlp.dependent", equals=1, quick=True, what="the same of a chain of loads"),
    Target(key="core.copy_over_fill", at_least=0.8, pending="docs/decisions/0012-copies.md",
           what="copy of 128 KiB through HBM: bytes a cycle over those of a loop that only reads"),
    Target(key="core.stream.copy", what="bytes a cycle of this copy"),
    Target(key="core.stream.read", what="bytes a cycle of reading"),
    Target(key="core.stream.fill", what="bytes a cycle of filling"),
    Target(key="core.chase_hbm", what="cycles of a load in a chain through HBM"),
    Target(key="core.lockstep.instructions", at_least=10_000_000,
           what="random instructions on a tiny, a small and a wide core, compared with the sequential model"),
    Target(key="core.lockstep.mismatches", equals=0, what="programs of them that differ anywhere"),
    Target(key="core.lockstep.date", what="day of that run"),
    Target(key="core.area.cells", what="core small without its memories: cells of logic of two inputs"),
    Target(key="core.area.flip_flops", what="its flip-flops"),
    Target(key="core.area.memory_bits", what="its memories: bits"),
    Target(key="core.area.levels", what="its longest path: levels of such cells"),
    Target(key="sim.core_cycles_per_second.small", noisy=True, what="simulated cycles a second, core small"),
    Target(key="sim.core_cocotb_over_cpp", noisy=True, what="the same over a plain C++ loop"),
]

SUITE = [
    Target(key="tests.minutes", at_most=20, noisy=True, what="make test on 2 cores, wall clock"),
]

TARGETS = [*CONFIG, *NUMBERS, *MATRIX, *QUAD, *SIMULATION, *PLANTED, *HBM, *CORE, *DEMO, *SUITE]
"""All targets, in the order of the table."""
