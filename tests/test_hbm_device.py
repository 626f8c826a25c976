"""The HBM device model alone: data and latency, each rule kept and broken, faults, the control path."""

import numpy as np
import pytest

from tb.hbm.device import DeviceConfig, HbmDevice
from tb.hbm.player import Command, Player, player_bench
from tb.hbm.table import RULES, table
from tb.protocol import Outcome
from tb.simulator import SimulationError, Simulator
from tests.hbm_cases import FIRST, START, TABLE, after, cases, slots

CASES = cases()


@pytest.fixture(scope="module")
def player():
    with Simulator(player_bench(), watchdog=100_000) as simulator:
        yield Player(simulator)


def test_there_is_a_case_for_every_rule():
    assert {case.rule for case in CASES} == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.rule}" for n, case in enumerate(CASES)])
def test_rule(player, case):
    """Legal at exactly the limit passes; broken by one slot, the run stops with the rule's name."""
    player.play(case.legal)
    with pytest.raises(SimulationError, match=r"HBM device 0: rule \w+ is broken: ") as caught:
        player.play(case.illegal, until=case.until)
    assert caught.value.result.outcome == Outcome.DEVICE
    sentence = str(caught.value)
    named = sentence.split("rule ")[1].split(" ")[0], *sentence.rstrip(".").split("so is ")[1:]
    assert set(", ".join(named).split(", ")) == case.broken


def test_sentence_has_both_commands_times_and_distances(player):
    with pytest.raises(SimulationError) as caught:
        player.play([*START, after("ACT", 0, 3, stack=2), after("RD", slots("tRCDRD") - 1, 3, stack=2)])
    ck = 2 * FIRST
    assert str(caught.value) == (
        f"HBM device 0: rule tRCDRD is broken: RD SID 2 bank 3 at CK {ck + 48} comes 48 CK (19.2 ns) after "
        f"ACT SID 2 bank 3 at CK {ck}; at least 49 CK (19.6 ns) are required.")


def test_commands_that_are_legal_without_effect(player):
    """A precharge of a closed bank does not begin tRP anew; PREA leaves a bank alone that closes itself."""
    player.play([*START, after("ACT", 0), after("PRE", 36), after("PRE", 50), after("ACT", 57)])
    player.play([*START, after("ACT", 0), after("RDA", 25), after("PREA", 30), after("ACT", 57)])


def test_data_and_latency(player):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 256, size=(4, 36), dtype=np.uint8)
    at = slots("tRCDRD")
    reads, writes = [], []
    for n, row in enumerate(rows):
        writes.append(after("WR", at + 4 * n, 5, stack=1, value=8 + n, data=row.tobytes()))
        reads.append(after("RD", at + 40 + 4 * n, 5, stack=1, value=11 - n))
    commands = [*START, after("ACT", 0, 5, stack=1, value=12000), *writes, *reads]
    got, other = player.play(commands)
    assert np.array_equal(got, rows[::-1]) and len(other) == 0
    bursts = ((1 * 16 + 5) * 12288 + 12000) * 32 + 8 + np.arange(4)
    assert np.array_equal(player.devices.dump(0, bursts), rows)
    # The cycle of the player is the slot; a beat passes through the register of its FIFO in two cycles.
    beats = np.concatenate([[command.slot for command in reads]])
    result = player.simulator.run(*_request(commands), reset=True)
    seen = result.output_cycles["o__0"] - result.streams["i"].last
    assert np.array_equal(np.diff(seen), np.diff(beats))
    last_slot = max(command.slot for command in commands) + 20
    assert beats[0] - last_slot + -(-(TABLE.ck("CL") + 2) // 2) + 2 == seen[0]


def _request(commands):
    from tb.hbm import player as module

    beats, reads = module._beats(commands, None)
    return {"i": beats}, {f"o__{n}": count for n, count in enumerate(reads)}


def test_load_dump_and_flip(player):
    rng = np.random.default_rng(2)
    bursts = rng.choice(48 * 12288 * 32, size=500, replace=False)
    contents = rng.integers(0, 256, size=(500, 36), dtype=np.uint8)
    player.devices.load(1, bursts, contents)
    assert np.array_equal(player.devices.dump(1, bursts), contents)
    player.devices.flip(1, bursts[7], 2, 13)
    player.devices.flip(1, bursts[7], 3, 71)
    changed = player.devices.dump(1, bursts) ^ contents
    assert np.argwhere(changed).tolist() == [[7, 2 * 8 + 1], [7, 32 + 3]]
    assert changed[7, 17] == 1 << 5 and changed[7, 35] == 1 << 7
    for wrong in [(1, 48 * 12288 * 32, 0, 0), (1, 0, 4, 0), (1, 0, 0, 72)]:
        with pytest.raises(SimulationError, match="no bit"):
            player.devices.flip(*wrong)
    with pytest.raises(SimulationError, match="outside the HBM device"):
        player.devices.dump(1, [48 * 12288 * 32])
    with pytest.raises(ValueError, match=r"\[2, 36\]"):
        player.devices.load(1, [0, 1], contents[:3])


def test_faults_are_injected_and_counted(player):
    reads = [after("RD", 30 + 4 * n, value=n % 32) for n in range(200)]
    commands = [*START, after("ACT", 0, value=99), *reads]
    burst = 99 * 32 + np.arange(32)
    clean = np.zeros((32, 36), dtype=np.uint8)
    player.devices.load(0, burst, clean)
    before = player.devices.statistics()[0]
    player.devices.faults(0, rate=0.5, bits=1, seed=3)
    player.play(commands)
    player.devices.faults(0, rate=0)
    now = player.devices.statistics()[0]
    faults = player.devices.injected(0)
    assert now["faults"] - before["faults"] == len(faults) > 60
    assert set(faults["wrong"]) <= {0, 1, 2}  # a bit may be hit twice
    stored = np.unpackbits(player.devices.dump(0, burst).reshape(-1)).sum()
    assert 0 < stored <= len(faults) and now["wrong_words"] > 0
    assert now["read_single"] > before["read_single"] and now["read_double"] > before["read_double"]
    player.devices.load(0, burst, clean)
    assert player.devices.statistics()[0]["wrong_words"] == 0


def test_statistics(player):
    commands = [after("ACT", 0), after("RD", 30), after("RDA", 40), after("REFPB", 300, 5)]
    player.play([*START, *commands], until=8000)
    first = player.devices.statistics()[0]
    assert [first[op] for op in ("MRS", "REFAB", "ACT", "RD", "RDA", "WR", "REFPB")] == [3, 1, 1, 1, 1, 0, 1]
    assert first["slots"] == 8001 and first["refreshes_served"] == 1
    due = (8000 - START[3].slot) * 2 * 48 // TABLE.ck("tREFI")
    assert first["refreshes_due"] == due
    assert first["refreshes_owed"] == due - 1 and first["worst_debt"] == 2


def test_slots_at_a_wrong_rate_stop_the_run():
    # Every cycle of the player is a slot: 1.28 times too many.
    bench = player_bench(DeviceConfig(clock_ghz=1.6))
    with Simulator(bench) as simulator:
        with pytest.raises(SimulationError, match="before its time"):
            Player(simulator).play([Command(slot=20, op="NOP")])


def test_other_timings_at_run_time(player):
    at = slots("tRCDRD")
    player.play([*START, after("ACT", 0), after("RD", at)])
    player.devices.configure(DeviceConfig(table=table(tRCDRD=25)))
    with pytest.raises(SimulationError, match="at least 63 CK"):
        player.play([*START, after("ACT", 0), after("RD", at)])
    player.devices.configure(DeviceConfig())
    player.play([*START, after("ACT", 0), after("RD", at)])


def test_settings_and_module_name():
    fast, slow = DeviceConfig(), DeviceConfig(table=table(CL=18))
    names = []
    for config in (fast, DeviceConfig(), slow):
        device = HbmDevice(config)
        device._MustUse__silence = True
        names.append(device.module_name)
    assert names[0] == names[1] != names[2]
    with pytest.raises(ValueError, match="tXYZ"):
        table(tXYZ=1)


def test_a_device_that_is_not_there(player):
    with pytest.raises(SimulationError, match="no device of that name"):
        player.simulator.call("ddr")
    with pytest.raises(SimulationError, match="does not know how to sing"):
        player.simulator.call("hbm", b"sing 0")
