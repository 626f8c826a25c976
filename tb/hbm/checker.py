"""The checker of command traces, independent of the device: whole traces, rules as data (``rules.json``).

For each rule of two commands and each bank it takes the times of the earlier and of the later commands as
arrays and compares each later one with the last before it.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .trace import OPS, Bus, Mark

__all__ = ["Violation", "check_trace"]

NUMBER = {name: number for number, name in enumerate(OPS)}
COLUMNS = [NUMBER[name] for name in ("RD", "RDA", "WR", "WRA")]
ALL_BANKS = [NUMBER["PREA"], NUMBER["REFAB"]]


@dataclass(frozen=True, order=True)
class Violation:
    """A broken rule: device, CK, rule and a sentence about it."""

    device: int
    ck: int
    rule: str
    told: str = ""

    def __str__(self):
        return f"device {self.device}, CK {self.ck}: rule {self.rule} is broken: {self.told}"


def check_trace(trace, table):
    """All broken rules of a trace, in order of time.

    Parameters
    ----------
    trace : numpy.ndarray
        :data:`tb.hbm.trace.RECORD`; each device begins with a reset.
    table : tb.hbm.table.Table

    Returns
    -------
    list[Violation]

    Raises
    ------
    ValueError
        The trace holds no command, does not begin at a reset, or goes back in time.
    """
    if not np.any(trace["bus"] != Bus.MARK):
        raise ValueError("the trace holds no command")
    found = []
    runs = defaultdict(list)
    for device in np.unique(trace["device"]):
        mine = trace[trace["device"] == device]
        resets = np.flatnonzero((mine["bus"] == Bus.MARK) & (mine["op"] == Mark.RESET))
        if not len(resets) or resets[0] != 0:
            raise ValueError(f"the trace of device {device} does not begin with a reset")
        for number, run in enumerate(np.split(mine, resets)[1:]):
            if np.any(np.diff(run["ck"]) < 0):
                raise ValueError(f"the trace of device {device} goes back in time")
            runs[number].append(run)
            found += _Run(int(device), run, table).check()
    for run in runs.values():  # devices of a bench are reset together
        found += _buses(np.concatenate(run))
    return sorted(found)


def _buses(trace):
    """One command a CK on each bus of a channel, and each pseudo-channel in its own CK of a slot."""
    found = []
    for bus in (Bus.ROW, Bus.COLUMN):
        commands = trace[trace["bus"] == bus]
        commands = commands[np.lexsort((commands["ck"], commands["device"] // 2))]
        same = (commands["ck"][1:] == commands["ck"][:-1]) \
            & (commands["device"][1:] // 2 == commands["device"][:-1] // 2)
        stray = commands["ck"] % 2 != commands["device"] % 2
        for at in np.union1d(np.flatnonzero(same) + 1, np.flatnonzero(stray)):
            found.append(Violation(int(commands["device"][at]), int(commands["ck"][at]), "bus",
                                   f"{OPS[commands['op'][at]]} shares the {bus.name.lower()} bus"))
    return found


class _Run:
    """One device from a reset to the next."""

    def __init__(self, device, run, table):
        self.device, self.table, self.run = device, table, run
        self.organisation = organisation = table.organisation
        commands = run[run["bus"] != Bus.MARK]
        op = commands["op"]
        addressed = np.isin(op, [NUMBER[name] for name in ("ACT", "PRE", "REFPB")] + COLUMNS)
        unknown = (op == NUMBER["UNKNOWN"]) | (addressed & (commands["stack"] >= organisation.stack_ids)) \
            | ((op == NUMBER["ACT"]) & (commands["value"] >= organisation.rows))
        self.found = [self.violation(command, "command", "no such command or address")
                      for command in commands[unknown]]
        self.commands = commands = commands[~unknown]
        self.op, self.ck = commands["op"], commands["ck"]
        self.bank = commands["stack"].astype(int) * organisation.banks + commands["bank"]
        self.bank[np.isin(self.op, [*ALL_BANKS, NUMBER["MRS"]])] = -1

    def violation(self, command, rule, told):
        return Violation(self.device, int(command["ck"]), rule, f"{OPS[command['op']]} {told}")

    def tell(self, indices, rule, told):
        self.found += [self.violation(self.commands[at], rule, told) for at in indices]

    def check(self):
        """All violations of the run but those of shared buses."""
        self.start_up()
        states = [self.states(bank) for bank in range(self.organisation.total_banks)]
        self.open_before = [state for state, _ in states]
        self.closes = [closes for _, closes in states]
        self.bank_states()
        for rule in self.table.distances:
            self.distance(rule)
        self.refreshes()
        return self.found

    def start_up(self):
        op, table = self.op, self.table
        self.tell(np.flatnonzero(self.ck < table.ck("tINIT")), "init", "comes before tINIT is over")
        right = {0: table.ck("CL"), 1: table.ck("CWL"), 2: int(self.organisation.ecc)}
        written, last = set(), len(op)
        for at in np.flatnonzero(op == NUMBER["MRS"]):
            register, value = int(self.commands["bank"][at]), int(self.commands["value"][at])
            if register not in right or right[register] != value or register in written:
                self.tell([at], "mode_registers", f"of register {register} = {value}")
            if register in right:
                written.add(register)
                if len(written) == len(right):
                    last = min(last, at)
        others = op != NUMBER["MRS"]
        index = np.arange(len(op))
        self.tell(index[others & (index < last)], "mode_registers",
                  "comes before the mode registers are written")
        first = np.flatnonzero(op == NUMBER["REFAB"])[:1]
        self.first_refresh = int(first[0]) if len(first) else len(op)
        self.tell(index[others & (index < self.first_refresh)], "first_refresh",
                  "comes before the first refresh")

    def touching(self, bank):
        """Indices of the commands to ``bank``, those to all banks included."""
        return np.flatnonzero((self.bank == bank) | np.isin(self.op, ALL_BANKS))

    def states(self, bank):
        """Whether a bank is open before each command of the trace, and the indices that close it."""
        mine = self.touching(bank)
        ops = self.op[mine]
        change = np.isin(ops, [NUMBER[name] for name in ("ACT", "PRE", "PREA", "RDA", "WRA")])
        at, opens = mine[change], ops[change] == NUMBER["ACT"]
        after = np.concatenate([[False], opens])
        before = after[np.searchsorted(at, np.arange(len(self.op)), side="left")]
        return before, at[~opens & before[at]]

    def bank_states(self):
        for bank, opened in enumerate(self.open_before):
            mine = self.touching(bank)
            op, was = self.op[mine], opened[mine]
            self.tell(mine[was & (op == NUMBER["ACT"])], "activate_open", "to an open bank")
            self.tell(mine[~was & np.isin(op, COLUMNS)], "column_closed", "to a closed bank")
            self.tell(mine[was & np.isin(op, [NUMBER["REFPB"], NUMBER["REFAB"]])], "refresh_open",
                      f"while bank {bank} is open")

    def distance(self, rule):
        sources = [NUMBER[name] for name in rule["from"]]
        targets = [NUMBER[name] for name in rule["to"]]
        required, count = self.table.required(rule), rule.get("count", 1)
        from_all = np.isin(self.op, sources)
        to_all = np.isin(self.op, targets)
        if rule["scope"] == "all":
            self.compare(rule, np.flatnonzero(from_all), np.flatnonzero(to_all), required, count)
            return
        if not from_all.any():
            return
        organisation = self.organisation
        banks = np.arange(organisation.total_banks)
        stack, group = banks // organisation.banks, banks % organisation.banks % organisation.bank_groups
        for bank in banks:
            to = np.flatnonzero(to_all & ((self.bank == bank) | (self.bank == -1)))
            if rule.get("open"):
                to = to[self.open_before[bank][to]]
            if not len(to):
                continue
            same_group = (stack == stack[bank]) & (group == group[bank])
            inside = {"bank": banks == bank, "other bank": banks != bank, "group": same_group,
                      "outside group": ~same_group, "other group": (stack == stack[bank]) & ~same_group,
                      "other stack": stack != stack[bank]}[rule["scope"]]
            source = from_all & (self.bank >= 0) & inside[np.maximum(self.bank, 0)]
            if rule["scope"] == "bank":
                source |= from_all & (self.bank == -1)
            source = np.flatnonzero(source)
            if rule["from"] == ["PRE", "PREA"]:  # of a closed bank it does nothing
                source = np.intersect1d(source, self.closes[bank])
            self.compare(rule, source, to, required, count)

    def compare(self, rule, source, to, required, count):
        """Each of ``to`` against the ``count``-th last of ``source`` before it."""
        before = np.searchsorted(source, to, side="left") - count
        to, before = to[before >= 0], before[before >= 0]
        distance = self.ck[to] - self.ck[source[before]]
        for at in np.flatnonzero(distance < required):
            earlier = self.commands[source[before[at]]]
            self.tell([to[at]], rule["id"],
                      f"comes {distance[at]} CK after {OPS[earlier['op']]} to stack {earlier['stack']} bank "
                      f"{earlier['bank']} at CK {earlier['ck']}; at least {required} are required")

    def refreshes(self):
        """Refreshes that fall due and those that are served, bank by bank, in order of time."""
        if self.first_refresh == len(self.op):
            return
        total, interval = self.organisation.total_banks, self.table.ck("tREFI")
        start, end = int(self.ck[self.first_refresh]), int(self.run["ck"][-1])
        # CK since the first refresh, at the rate of the temperature, is a broken line through these points.
        marks = self.run[(self.run["bus"] == Bus.MARK) & (self.run["op"] == Mark.TEMPERATURE)]
        rate, at, progress, pieces = 1, start, 0, []
        for ck, value in [*((int(mark["ck"]), int(mark["value"])) for mark in marks), (end + 2, 0)]:
            if ck > start:
                # The new rate holds for the slot of the mark itself, which ends two CK later than the last.
                pieces.append((at, progress, rate))
                progress += (ck - 2 - at) * rate
                at = ck - 2
            rate = 1 << min(value, 2)
        dues = [[] for _ in range(total)]
        number, limit = 0, progress
        for (begin, base, speed), until in zip(pieces, [*(piece[1] for piece in pieces[1:]), limit]):
            while (number + 1) * interval // total <= until:
                left = (number + 1) * interval // total - base
                slots = -(-left // (2 * speed))
                dues[number % total].append(begin + 2 * slots)
                number += 1
        for bank, due in enumerate(dues):
            served = [int(self.ck[at]) for at in self.touching(bank)
                      if at > self.first_refresh and self.op[at] in (NUMBER["REFPB"], NUMBER["REFAB"])]
            debt = 0
            # A refresh that falls due in a slot comes before the command of this slot.
            for ck, change in sorted([*((ck, -1) for ck in due), *((ck, 1) for ck in served)]):
                debt = max(debt - change, -self.table.postponed)
                if change < 0 and debt > self.table.postponed:
                    self.found.append(Violation(self.device, ck, "refresh_late",
                                                f"{debt} refreshes of bank {bank} are due"))
