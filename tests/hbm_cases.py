"""For each rule of the HBM device a sequence of commands that keeps it exactly, and one that breaks it by one
slot. Shared by the tests of the device and of the checker."""

from dataclasses import dataclass

from tb.hbm.player import Command, start_up
from tb.hbm.table import table

TABLE = table()
START, FIRST = start_up(TABLE)
INIT, APART = (-(-TABLE.ck(name) // 2) for name in ("tINIT", "tMRD"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """`legal` keeps the rule exactly; `illegal` breaks the rules `broken`, and no other."""

    rule: str
    legal: list
    illegal: list
    broken: frozenset
    until: int = 0


def slots(*names):
    """Slots in the sum of these timings."""
    return -(-sum(TABLE.ck(name) for name in names) // 2)


def after(op, slot, bank=0, **fields):
    """A command `slot` slots after start-up."""
    return Command(slot=FIRST + slot, op=op, bank=bank, **fields)


def late(rule, before, last, slot, *also, **fields):
    """`before`, then `last` in `slot`; a slot earlier it breaks `rule` and `also`."""
    op, bank = last
    legal, illegal = ([*START, *before, after(op, at, bank, **fields)] for at in (slot, slot - 1))
    return Case(rule=rule, legal=legal, illegal=illegal, broken=frozenset((rule, *also)))


def cases():
    """All of them."""
    open0 = [after("ACT", 0)]
    found = [
        late("tRCDRD", open0, ("RD", 0), slots("tRCDRD")),
        late("tRCDRD", open0, ("RDA", 0), slots("tRCDRD")),
        late("tRCDWR", open0, ("WR", 0), slots("tRCDWR")),
        late("tRP", [*open0, after("PRE", 40)], ("ACT", 0), 40 + slots("tRP")),
        late("tRP", [*open0, after("PREA", 40)], ("REFPB", 0), 40 + slots("tRP")),
        late("tRP", [*open0, after("PRE", 40)], ("REFAB", 0), 40 + slots("tRP")),
        late("tRP_RDA", [*open0, after("RDA", 30)], ("ACT", 0), 30 + slots("tRTP", "tRP")),
        late("tRP_RDA", [*open0, after("RDA", 30)], ("REFPB", 0), 30 + slots("tRTP", "tRP")),
        late("tRP_WRA", [*open0, after("WRA", 20)], ("ACT", 0), 20 + slots("CWL", "BL", "tWR", "tRP")),
        late("tRP_WRA", [*open0, after("WRA", 20)], ("REFAB", 0), 20 + slots("CWL", "BL", "tWR", "tRP")),
        late("tRP_RAS", [*open0, after("RDA", 25)], ("REFPB", 0), slots("tRAS", "tRP")),
        late("tRP_RAS", [*open0, after("RDA", 25)], ("ACT", 0), slots("tRAS", "tRP"), "tRC"),
        late("tRAS", open0, ("PRE", 0), slots("tRAS")),
        late("tRAS", open0, ("PREA", 0), slots("tRAS")),
        # tRAS and tRP together are a CK more than tRC.
        late("tRC", [*open0, after("PRE", 36)], ("ACT", 0), slots("tRC"), "tRP", "tRP_RAS"),
        late("tRTP", [*open0, after("RD", 40)], ("PRE", 0), 40 + slots("tRTP")),
        late("tWR", [*open0, after("WR", 15)], ("PRE", 0), 15 + slots("CWL", "BL", "tWR")),
        late("tCCD_L", [*open0, after("RD", 30)], ("RD", 0), 30 + slots("tCCD_L")),
        late("tCCD_L", [*open0, after("ACT", 5, 4), after("RD", 40)], ("RDA", 4), 40 + slots("tCCD_L")),
        late("tCCD_L", [*open0, after("WR", 30)], ("WR", 0), 30 + slots("tCCD_L")),
        late("tCCD_R", [*open0, after("ACT", 5, 0, stack=1), after("RD", 40)], ("RD", 0),
             40 + slots("tCCD_R"), stack=1),
        late("tWTR_S", [*open0, after("ACT", 5, 1), after("WR", 40)], ("RD", 1),
             40 + slots("CWL", "BL", "tWTR_S")),
        late("tWTR_S", [*open0, after("ACT", 5, 0, stack=2), after("WRA", 40)], ("RD", 0),
             40 + slots("CWL", "BL", "tWTR_S"), stack=2),
        late("tWTR_L", [*open0, after("ACT", 5, 4), after("WR", 40)], ("RD", 4),
             40 + slots("CWL", "BL", "tWTR_L")),
        late("tRTW", [*open0, after("ACT", 5, 1), after("RD", 40)], ("WR", 1), 40 + slots("tRTW")),
        late("tRRD_S", open0, ("ACT", 1), slots("tRRD_S")),
        late("tRRD_S", open0, ("ACT", 0), slots("tRRD_S"), stack=1),
        late("tRRD_L", open0, ("ACT", 4), slots("tRRD_L")),
        late("tRRD_S_REF", open0, ("REFPB", 1), slots("tRRD_S")),
        late("tRRD_L_REF", open0, ("REFPB", 8), slots("tRRD_L")),
        late("tFAW", [after("ACT", 4 * n, n) for n in range(4)], ("ACT", 4), slots("tFAW")),
        late("tFAW", [after("ACT", 4 * n, 0, stack=n) for n in range(3)] + [after("ACT", 12, 1)], ("ACT", 2),
             slots("tFAW")),
        late("tRFCab", [], ("ACT", 0), 0),
        late("tRFCab", [], ("REFAB", 0), 0),
        late("tRFCpb", [after("REFPB", 0)], ("ACT", 0), slots("tRFCpb")),
        late("tRFCpb", [after("REFPB", 0)], ("REFPB", 0), slots("tRFCpb")),
        late("tRFCpb", [after("REFPB", 0)], ("REFAB", 0), slots("tRFCpb")),
        late("tRREFD", [after("REFPB", 0)], ("REFPB", 1), slots("tRREFD")),
        late("tRREFD", [after("REFPB", 0)], ("ACT", 4), slots("tRREFD")),
        late("tRREFD", [after("REFPB", 0, 1), after("REFPB", 400, 2), after("REFPB", 410, 1)], ("REFPB", 3),
             410 + slots("tRREFD")),
    ]
    # A burst of two CK is a slot, so only a second module on the same bus can come too early.
    pair = [*START, *open0, after("ACT", 5, 1), after("RD", 40)]
    found.append(Case(rule="tCCD_S", legal=[*pair, after("RD", 40 + slots("tCCD_S"), 1)],
                      illegal=[*pair, after("RD", 40, 1, twin=True)], broken=frozenset(("tCCD_S", "bus"))))
    early = [*START[:2], Command(slot=START[2].slot - 1, op="MRS", bank=2, value=START[2].value)]
    found.append(Case(rule="tMRD", legal=START, illegal=early, broken=frozenset(("tMRD",))))
    return found + protocol_cases(open0)


def protocol_cases(open0):
    """Of the rules that are no distances."""
    def case(rule, legal, illegal, *also, until=0):
        return Case(rule=rule, legal=legal, illegal=illegal, broken=frozenset((rule, *also)), until=until)

    def started(*commands):
        return [*START, *commands]

    organisation = TABLE.organisation
    last = after("ACT", 0, organisation.banks - 1, stack=organisation.stack_ids - 1,
                 value=organisation.rows - 1)
    other = start_up(TABLE, 1)[0]
    wrong = [Command(slot=c.slot, op=c.op, bank=c.bank, value=c.value + 1) for c in START[:1]]
    again = [*START[:3], Command(slot=START[3].slot, op="MRS", bank=1, value=START[1].value)]
    missing = [*START[:2], Command(slot=START[3].slot, op="REFAB")]
    early = [Command(slot=INIT - 1, op="MRS", bank=0, value=START[0].value)]
    # Bank 0 is the first to owe a ninth refresh, 8 tREFI and a 48th after the first refresh of all banks.
    ninth = START[3].slot + -(-(8 * organisation.total_banks + 1) * TABLE.ck("tREFI")
                              // (2 * organisation.total_banks))
    return [
        case("command", started(last), started(after("ACT", 0, stack=organisation.stack_ids))),
        case("command", started(last), started(after("ACT", 0, value=organisation.rows))),
        case("command", started(last), started(after("UNKNOWN ROW", 0))),
        case("command", started(last), started(after("UNKNOWN COLUMN", 0))),
        case("bus", started(*other, after("PRE", 0), after("PRE", 0, device=1)),
             started(after("PRE", 0), after("PRE", 0, 1, twin=True))),
        case("init", START[:1], early),
        case("mode_registers", START, wrong),
        case("mode_registers", START, again),
        case("mode_registers", START, missing),
        case("first_refresh", START, [*START[:3], Command(slot=START[3].slot, op="ACT")]),
        case("activate_open", started(*open0, after("ACT", 60, 1)), started(*open0, after("ACT", 60))),
        case("column_closed", started(*open0, after("RD", 60)), started(*open0, after("RD", 60, 1))),
        case("column_closed", started(*open0, after("RD", 60), after("WR", 90)),
             started(*open0, after("RDA", 60), after("WR", 90))),
        case("refresh_open", started(*open0, after("REFPB", 60, 1)), started(*open0, after("REFPB", 60))),
        case("refresh_open", started(*open0, after("PRE", 36), after("REFAB", 60)),
             started(*open0, after("REFAB", 60))),
        case("refresh_late", started(after("REFPB", ninth - 1 - FIRST)), START, until=ninth),
    ]
