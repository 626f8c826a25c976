"""Bugs planted in the controller, one for each rule of the device, behind a switch that is set at run time.

A bug is a change of text in modules of ``hw.hbm``. All of them are in one private copy of the modules, each
behind its own value of the switch (:mod:`tb.hbm.switch`), so that one build serves all. Two rules cannot be
broken by the controller alone, because a burst is as long as a slot and because tRAS and tRP together are
longer than tRC: there the devices are given a larger value than the controller was built for.
"""

import importlib
from dataclasses import dataclass

import numpy as np

from golden.hbm import Geometry
from hw.config import HbmConfig, HbmQueues
from hw.hbm import port
from hw.hbm.csr import Index
from tb.build import Options, build
from tb.protocol import Outcome
from tb.simulator import SimulationError
from tb.switched import SwitchedBench, changed_text, private_copies

from .backdoor import Devices
from .beats import pack
from .bench import table_of
from .checker import check_trace
from .device import DeviceConfig
from .switch import SWITCH, number_of
from .table import RULES
from .trace import read_trace
from .traffic import place, random_ranges, random_requests

__all__ = ["CONFIG", "LARGER", "PLANTED", "Verdict", "planted_bench", "planted_source", "verdict"]

COPIED = ("hw.hbm", "tb.hbm.bench")

CONFIG = HbmConfig(pseudo_channels=2, stack_ids=2, queues=HbmQueues(
    read_entries=12, reserved_entries=4, write_entries=8, demand_reads=16, return_lines=32, write_high=12,
    write_low=4, ranges=2))
"""A small slice with a whole channel."""

LINGER = 70_000
"""Cycles after the traffic, in which refreshes can come too late."""

OFTEN = (Index.TEMPERATURE, 0b110)
CONTROLS = {"tRFCab": (Index.ALL_BANK, 1), "tRRD_S_REF": OFTEN, "tRRD_L_REF": OFTEN, "tRREFD": OFTEN}
"""Registers that are written first: refresh of all banks at once, or four times as often."""

LARGER = {"tCCD_S": {"tCCD_S": 4}, "tRC": {"tRC": 50}}
"""Rule to what the devices ask for where the controller was built for less: CK, ns."""

PLANTED = {
    # rule: (module, text that is in it exactly once, what stands there instead)
    "tRCDRD": ("bank", "(age >= t.rcd_read)", "(age >= t.rcd_read - bug('tRCDRD'))"),
    "tRCDWR": ("bank", "(age >= t.rcd_write)", "(age >= t.rcd_write - bug('tRCDWR'))"),
    "tRP": ("bank", "dead.eq(t.rp - 1)", "dead.eq(t.rp - 1 - (bug('tRP') & self.precharge))"),
    "tRAS": ("bank", "self.precharge_ok.eq(self.open & may_close)",
             "self.precharge_ok.eq(self.open & (age >= t.ras - bug('tRAS')) & (hold == 0))"),
    "tRP_RAS": ("bank", "(closing & may_close)",
                "(closing & (age >= t.ras - bug('tRP_RAS')) & (hold == 0))"),
    "tRC": ("bank", "(age >= t.rc)", "(age >= t.rc - bug('tRP_RAS'))"),
    "tRTP": ("bank", "Mux(hold > t.read_to_precharge, hold - 1, t.read_to_precharge - 1)",
             "Mux(hold > t.read_to_precharge, hold - 1, t.read_to_precharge - 1 - Mux("
             "self.auto, bug('tRP_RDA'), bug('tRTP')))"),
    "tWR": ("bank", "hold.eq(t.write_to_precharge - 1)",
            "hold.eq(t.write_to_precharge - 1 - Mux(self.auto, bug('tRP_WRA'), bug('tWR')))"),
    "tRFCpb": ("bank", "dead.eq(t.rfc_bank - 1)", "dead.eq(t.rfc_bank - 1 - bug('tRFCpb'))"),
    "tRFCab": ("bank", "dead.eq(t.rfc_all - 1)", "dead.eq(t.rfc_all - 1 - bug('tRFCab'))"),
    "activate_open": ("bank", "self.activate_ok.eq(~is_open &",
                      "self.activate_ok.eq((~is_open | (bug('activate_open') & ~closing)) &"),
    "column_closed": ("bank", "closing.eq(self.auto)", "closing.eq(self.auto & ~bug('column_closed'))"),
    "tRRD_S": ("spacing", "(_any(activates[:t.rrd_s - 1], groups) != 0) | (_any(refreshes) != 0)",
               "(_any(short(activates[:t.rrd_s - 1], 'tRRD_S'), groups) != 0)"
               " | (_any(short(refreshes, 'tRREFD')) != 0)"),
    "tRRD_L": ("spacing", "same.eq(_any(activates[:t.rrd_l - 1], groups))",
               "same.eq(_any(short(activates[:t.rrd_l - 1], 'tRRD_L'), groups))"),
    "tRRD_S_REF": ("spacing", "self.refresh_ok.eq(Mux(row_bound, 0, ~same))",
                   "self.refresh_ok.eq(Mux("
                   "(_any(short(activates[:t.rrd_s - 1], 'tRRD_S_REF'), groups) != 0)"
                   " | (_any(short(refreshes, 'tRREFD')) != 0), 0,"
                   " ~_any(short(activates[:t.rrd_l - 1], 'tRRD_L_REF'), groups)))"),
    "tFAW": ("spacing", "(in_window >= 4)", "(in_window >= 4 + bug('tFAW'))"),
    "tCCD_R": ("spacing", "lately.eq(_any(columns[:t.ccd_r - 1], groups))",
               "lately.eq(_any(short(columns[:t.ccd_r - 1], 'tCCD_R'), groups))"),
    "tCCD_L": ("spacing", "column_near.eq(~_any(columns[:t.ccd_l - 1], groups))",
               "column_near.eq(~_any(short(columns[:t.ccd_l - 1], 'tCCD_L'), groups))"),
    "tWTR_S": ("spacing", "written = _any(writes[:t.write_to_read_s - 1], groups)",
               "written = _any(short(writes[:t.write_to_read_s - 1], 'tWTR_S'), groups)"),
    "tWTR_L": ("spacing", "_any(writes[t.write_to_read_s - 1:], groups)",
               "_any([*short(writes[t.write_to_read_s - 1:], 'tWTR_L'),"
               " Mux(bug('tWTR_S'), writes[t.write_to_read_s - 2], 0)], groups)"),
    "tRTW": ("spacing", "Mux(read_any != 0, 0, ~column_bound)",
             "Mux(Mux(bug('tRTW'), read_any[:-1], read_any) != 0, 0, ~column_bound)"),
    "tMRD": ("startup", "left.eq(t.mrd - 1)", "left.eq(t.mrd - 1 - bug('tMRD'))"),
    "init": ("startup", "with m.If(left != 0):",
             "with m.If((left != 0) & ~(bug('init') & (left == 4) & (step == _Step.RESET))):"),
    "mode_registers": ("startup", "self.row.row.eq(value)",
                       "self.row.row.eq(value + bug('mode_registers'))"),
    "first_refresh": ("startup", "self.row.op.eq(RowOp.REFAB)",
                      "self.row.op.eq(Mux(bug('first_refresh'), RowOp.NOP, RowOp.REFAB))"),
    "refresh_late": ("refresh", "grown.eq(Mux(self.due, bank, 0))",
                     "grown.eq(Mux(self.due, bank & Mux(bug('refresh_late'), ~(1 << 5), -1), 0))"),
    "refresh_open": ("pseudo_channel", "refresh.refreshable.eq(banks.activate_ok &",
                     "refresh.refreshable.eq("
                     "((banks.activate_ok & banks.closed) | Mux(bug('refresh_open'), ~banks.closed, 0)) &"),
    "tRP_WRA": ("scheduler", "closes = chosen.close & last",
                "closes = (chosen.close | (bug('tRP_WRA') & writing)) & last"),
    "command": ("scheduler", "row.sid.eq(wish.grain.bank[4:])",
                "row.sid.eq(wish.grain.bank[4:] | Mux(bug('command'), 3, 0))"),
    "bus": ("tb.hbm.bench", "index=c,", "index=Mux(bug('bus'), 0, c),"),
}
"""Changes of text by the rule they serve; those for tRREFD, tRP_RDA and tRRD_L_REF are in the places of other
rules. tRAS and tRP together are tRC in slots, so that the bug of tRP_RAS has to be in both."""


def planted_source(module):
    """Text of a module of ``hw.hbm`` (by its short name) or of the bench, with all its bugs.

    Raises
    ------
    ValueError
        The place of a bug is not there exactly once: the module has changed since.
    """
    name = module if "." in module else f"hw.hbm.{module}"
    text = changed_text(name, [(f"of rule {rule}", right, wrong)
                               for rule, (where, right, wrong) in PLANTED.items() if where == module])
    if name.startswith("hw."):
        text = text.replace("from .. import emit\n", "from tb.hbm.switch import plain as emit\n")
    return f"{text}\n\nfrom amaranth.hdl import Mux  # noqa\nfrom tb.hbm.switch import bug, short  # noqa\n"


def _is_copied(name):
    return name in COPIED or name.startswith("hw.hbm.")


def planted_bench(*, log=None):
    """The build of a bench of ``CONFIG`` with all bugs."""
    with private_copies(_is_copied, lambda name: planted_source(name.removeprefix("hw.hbm."))):
        design = SwitchedBench(importlib.import_module("tb.hbm.bench").SliceBench(CONFIG), SWITCH)
        return build(design, name="hbm_planted", options=Options(optimise="-O1"), log=log)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was said of a run with a bug: the device's sentence, and the rules that the checker found."""

    rule: str | None
    sentence: str
    checker: frozenset

    @property
    def by_device(self):
        """Rules that the sentence names."""
        if "rule " not in self.sentence:
            return frozenset()
        first = self.sentence.split("rule ")[1].split(" ")[0]
        others = self.sentence.rstrip(".").split("so is ")[1:]
        return frozenset((first, *", ".join(others).split(", "))) - {""}

    @property
    def caught(self):
        """Both name the rule that was broken on purpose."""
        return self.rule in self.by_device and self.rule in self.checker


def _traffic(seed):
    """Demand requests of several profiles and, elsewhere, ranges."""
    rng = np.random.default_rng(seed)
    geometry = Geometry.of(CONFIG)
    parts = [random_requests(rng, geometry, profile, 250, partial=0.1)
             for profile in ("runs", "two banks", "one group", "anywhere", "new rows", "same row", "runs")]
    fields = {name: np.concatenate([getattr(part, name) for part in parts])
              for name in ("write", "tags", "lines", "masks", "data")}
    ranges = random_ranges(rng, 0, 1 << 20, 60)
    # Bursts of one bank and another row each time: rows that close as early as they may, and open again.
    for n in range(40):
        page = place(geometry, 0, 0, 5, n % 4, 15)
        ranges.asked.append({"address": 64 * page + 32, "rows": 1, "size": 32, "stride": 0})
        ranges.tags.append(60 + n)
    return {
        "request": pack(port.Request, len(fields["lines"]), write=fields["write"], tag=fields["tags"],
                        line=fields["lines"], mask=fields["masks"], data=fields["data"]),
        "range": pack(port.Range, len(ranges.asked), tag=np.array(ranges.tags),
                      **{name: np.array([asked[name.replace("bytes", "size")] for asked in ranges.asked])
                         for name in ("address", "rows", "bytes", "stride")}),
    }


def verdict(simulator, rule, path, *, seed=1):
    """Run traffic with the bug of a rule (None: without) in a simulation of :func:`planted_bench`.

    Parameters
    ----------
    path : Path
        Where the command trace goes.

    A controller with a bug may hang; any other end of a run than by the device is raised.
    """
    devices = Devices(simulator)
    rules = table_of(CONFIG, **LARGER.get(rule, {}))
    devices.configure(DeviceConfig(table=rules, clock_ghz=1.6))
    inputs = _traffic(seed)
    inputs["planted"] = np.array([0 if rule is None else number_of(rule)], dtype=np.uint32)
    if rule in CONTROLS:
        index, value = CONTROLS[rule]
        inputs["csr"] = pack(port.Register, 1, write=1, index=index.value, data=value)
    devices.trace(path)
    sentence = ""
    try:
        simulator.run(inputs, {"response": len(inputs["request"])}, reset=True, seed=seed, drain=False,
                      allow_surplus=True, settle_cycles=LINGER)
    except SimulationError as error:
        if error.result is None or error.result.outcome not in (Outcome.DEVICE, Outcome.HUNG):
            raise
        if error.result.outcome == Outcome.DEVICE:
            sentence = str(error)
    finally:
        devices.trace(None)
    found = check_trace(read_trace(path), rules)
    return Verdict(rule=rule, sentence=sentence, checker=frozenset(violation.rule for violation in found))


assert set(LARGER) < set(RULES)
