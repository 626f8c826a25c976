"""The rule table (``rules.json``): what it asks for in CK at a given clock and organisation."""

import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

__all__ = ["Organisation", "RULES", "Table", "table"]

PATH = Path(__file__).parent / "rules.json"


@cache
def _data():
    return json.loads(PATH.read_text(encoding="utf-8"))


RULES = (*(rule["id"] for rule in _data()["distances"]), *_data()["protocol"])
"""Names of all rules."""


@dataclass(frozen=True, kw_only=True)
class Organisation:
    """A pseudo-channel as the device has it.

    Parameters
    ----------
    stack_ids, bank_groups, banks, rows : int
        Stack IDs; bank groups and banks a stack ID; rows a bank. The group of a bank is its number modulo
        ``bank_groups``.
    gbit_s_pin : float
        Data rate of a pin; a CK is four bits long.
    ecc : bool
        What MR2 has to say.
    """

    stack_ids: int = 3
    bank_groups: int = 4
    banks: int = 16
    rows: int = 12288
    gbit_s_pin: float = 10.0
    ecc: bool = True

    @property
    def total_banks(self):
        """Banks of all stack IDs."""
        return self.stack_ids * self.banks


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rules for one organisation.

    Attributes
    ----------
    organisation : Organisation
    values : dict[str, dict]
        Timings: ``{"ns": ...}`` or ``{"ck": ...}``, and ``round``, as in the file.
    distances : list[dict]
    protocol : dict[str, str]
    postponed : int
    """

    organisation: Organisation
    values: dict
    distances: list = field(repr=False)
    protocol: dict = field(repr=False)
    postponed: int = 8

    @property
    def ck_ns(self):
        """One CK in ns."""
        return 4 / self.organisation.gbit_s_pin

    def ck(self, name):
        """The timing ``name`` in CK: rounded up, or down where the table says so."""
        value = self.values[name]
        if "ck" in value:
            return value["ck"]
        exact = round(value["ns"] * self.organisation.gbit_s_pin / 4, 6)  # 19.5 * 10 / 4 is 48.75 to the bit
        return math.floor(exact) if value.get("round") == "down" else math.ceil(exact)

    def required(self, rule):
        """CK that a rule of ``distances`` asks for."""
        return sum(self.ck(name) for name in rule["sum"])


def table(organisation=None, **changes):
    """The table of ``rules.json`` for an :class:`Organisation`.

    Parameters
    ----------
    changes : dict[str, float]
        Other values of timings, in the unit that the file gives them in: ``tCCD_L=4`` (CK), ``CL=18`` (ns).

    Raises
    ------
    ValueError
        There is no timing of that name.
    """
    data = _data()
    values = {name: {key: value for key, value in entry.items() if key != "what"}
              for name, entry in data["timings"].items()}
    for name, value in changes.items():
        if name not in values:
            raise ValueError(f"timing is {name!r}; the table has {', '.join(values)}")
        values[name]["ck" if "ck" in values[name] else "ns"] = value
    return Table(organisation=organisation or Organisation(), values=values, distances=data["distances"],
                 protocol=data["protocol"], postponed=data["postponed"])
