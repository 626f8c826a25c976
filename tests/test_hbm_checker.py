"""The checker of traces: the same rules as the device, found independently; both agree on random commands."""

import numpy as np
import pytest

from tb.hbm.checker import check_trace
from tb.hbm.player import Command, Player, player_bench
from tb.hbm.table import RULES, Organisation, table
from tb.hbm.trace import Mark, read_trace, records
from tb.simulator import Simulator
from tests.hbm_cases import FIRST, START, TABLE, cases, start_up

CASES = cases()


@pytest.fixture(scope="module")
def player():
    with Simulator(player_bench(), watchdog=100_000) as simulator:
        yield Player(simulator)


def judged(player, commands, path, *, until=None):
    """What the device notes and what the checker finds: sets of (device, ck, rule)."""
    player.devices.trace(path)
    player.devices.collect(True)
    try:
        player.play(commands, until=until)
    finally:
        noted = player.devices.violations()
        player.devices.collect(False)
        player.devices.trace(None)
    found = check_trace(read_trace(path), TABLE)
    return set(noted), {(violation.device, violation.ck, violation.rule) for violation in found}


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.rule}" for n, case in enumerate(CASES)])
def test_rule(player, case, tmp_path):
    noted, found = judged(player, case.legal, tmp_path / "trace")
    assert noted == found == set()
    noted, found = judged(player, case.illegal, tmp_path / "trace", until=case.until)
    assert noted == found
    assert {rule for _, _, rule in found} == case.broken


def soup(rng, count, *, gap, banks):
    """Random commands, few of them legal, that favour a few banks; both devices, sometimes a hot one."""
    row_ops = ["ACT"] * 6 + ["PRE"] * 4 + ["PREA", "REFPB", "REFPB", "REFAB", "MRS", "UNKNOWN ROW"]
    column_ops = ["RD", "RDA", "WR", "WRA"] * 4 + ["UNKNOWN COLUMN"]
    commands, slot = [*START, *start_up(TABLE, 1)[0]], FIRST - 300
    for _ in range(count):
        slot += int(rng.integers(0, gap))
        device = int(rng.integers(0, 2))
        if any(c.slot == slot for c in commands[-4:]):
            slot += 1
        ops = row_ops if rng.random() < 0.5 else column_ops
        stack, bank, value = (int(rng.integers(0, limit)) for limit in (4, banks, 32))
        commands.append(Command(slot=slot, device=device, op=str(rng.choice(ops)), stack=stack, bank=bank,
                                value=value))
        if rng.random() < 0.02:
            commands.append(Command(slot=slot, op="TEMPERATURE", value=int(rng.integers(0, 4))))
    return commands


@pytest.mark.parametrize("seed, gap, banks, rules", [
    (0, 4, 2, 20), (1, 12, 4, 20), (2, 40, 3, 12), (3, 100, 16, 10), (4, 900, 8, 5)])
def test_device_and_checker_agree_on_random_commands(player, seed, gap, banks, rules, tmp_path):
    commands = soup(np.random.default_rng(seed), 1500, gap=gap, banks=banks)
    noted, found = judged(player, commands, tmp_path / "t")
    assert noted == found
    assert len(found) > 500
    assert len({rule for _, _, rule in found}) >= rules


def test_temperature_brings_refreshes_nearer(player, tmp_path):
    for level, share in ((0, 1), (1, 2), (2, 4)):
        commands = [Command(slot=0, op="TEMPERATURE", value=level), *START]
        ninth = START[3].slot + -(-(8 * 48 + 1) * TABLE.ck("tREFI") // (2 * 48 * share))
        for until, late in ((ninth - 1, False), (ninth, True)):
            noted, found = judged(player, commands, tmp_path / "t", until=until)
            assert noted == found
            assert ((0, 2 * ninth, "refresh_late") in found) is late
            assert len(found) == late


def test_table_in_ck():
    """The column of hbm timings in CK at 0.4 ns, as in docs/hbm.md."""
    ck = {"tRCDRD": 49, "tRCDWR": 24, "tRP": 42, "tRAS": 72, "tRC": 113, "CL": 25, "CWL": 13, "tCCD_S": 2,
          "tCCD_L": 7, "tCCD_R": 3, "tRRD_S": 7, "tRRD_L": 9, "tFAW": 38, "tRTP": 15, "tWR": 53, "tWTR_S": 12,
          "tWTR_L": 17, "tRTW": 32, "tREFI": 9750, "tRFCab": 1325, "tRFCpb": 700, "tRREFD": 20}
    assert {name: TABLE.ck(name) for name in ck} == ck
    assert table(tCCD_L=4).ck("tCCD_L") == 4
    assert table(Organisation(gbit_s_pin=8.0)).ck("tREFI") == 7800
    assert len(set(RULES)) == len(RULES)


def test_bad_traces_are_refused(tmp_path):
    reset = (-2, 0, Mark.RESET, 0, 0, 0)
    with pytest.raises(ValueError, match="no command"):
        check_trace(records([reset]), TABLE)
    with pytest.raises(ValueError, match="begin with a reset"):
        check_trace(records([(0, 0, "ACT", 0, 0, 0)]), TABLE)
    with pytest.raises(ValueError, match="back in time"):
        check_trace(records([reset, (8, 0, "ACT", 0, 0, 0), (6, 0, "ACT", 0, 1, 0)]), TABLE)
    (tmp_path / "cut").write_bytes(b"x" * 17)
    with pytest.raises(ValueError, match="whole number of records"):
        read_trace(tmp_path / "cut")


def test_each_pseudo_channel_has_its_own_clock_of_a_slot():
    trace = records([(-2, 0, Mark.RESET, 0, 0, 0), (6001, 0, "PRE", 0, 0, 0)])
    assert "bus" in {violation.rule for violation in check_trace(trace, TABLE)}
