"""The front end hands over exactly the predicted path, predicts what it should, and is as fast as it says."""

import dataclasses
import random

import pytest

from hw.core.address import RAM
from hw.core.config import CoreConfig, PredictorConfig, core_preset
from hw.core.frontend.frontend import FrontEnd
from hw.core.types import ControlKind
from tests.core_frontend_bench import (
    INDIRECT,
    MASK,
    RET,
    Bench,
    addi,
    branch,
    jal,
    jalr,
    offset_b,
)

NOP = addi(0)
TINY, SMALL = core_preset("tiny"), core_preset("small")
#: As wide as `full`, with small tables.
WIDE = CoreConfig(width=4, alus=4, reorder_buffer=64, physical=96, predictor=PredictorConfig(
    counters=128, history=6, targets=16, returns=2, sets=4, ways=2, fetch_bytes=32, buffer=16))
#: Lines of one fetch, four ways, history longer than the rows' index.
LINEWISE = CoreConfig(width=2, predictor=PredictorConfig(
    counters=32, history=9, targets=32, returns=4, sets=2, ways=4, fetch_bytes=64, buffer=32))
CONFIGS = {"tiny": TINY, "small": SMALL, "wide": WIDE, "linewise": LINEWISE}


def random_word(rng, place, words):
    """One of a program of jumps to everywhere, with some to addresses not on 4 bytes and random bits."""
    choice = rng.random()
    if choice < 0.20:
        return branch(4 * rng.randint(-12, 12) + 2 * (rng.random() < 0.05), rng.choice((0, 1, 4, 5, 6, 7)))
    if choice < 0.30:
        to = min(max(place + rng.randint(-60, 60), 0), words - 1)
        return jal(4 * (to - place) + 2 * (rng.random() < 0.03), rng.choice((0, 0, 1, 5, 7)))
    if choice < 0.36:
        return jalr(rng.choice((0, 0, 0, 1, 5, 3)), rng.choice((1, 1, 5, 9)))
    if choice < 0.41:
        return rng.getrandbits(32) & (-1 if choice < 0.39 else ~0x7F) | rng.choice((0, 0x63, 0x67, 0x6F))
    return addi(rng.randrange(32), rng.randrange(4096))


def random_bench(config, seed, words=1024, **settings):
    rng = random.Random(seed)
    outcomes = random.Random(seed + 1)

    def outcome(given):
        if given.kind == ControlKind.BRANCH:
            target = (given.pc + offset_b(given.word)) & MASK
            often = (0.05, 0.95, 0.5)[(given.pc >> 2) % 3]
            return target if target % 4 == 0 and outcomes.random() < often else given.pc + 4
        choice = outcomes.random()
        if choice < 0.5:
            return given.target
        if choice < 0.53:
            return outcomes.getrandbits(62) << 2
        return RAM + 4 * outcomes.randrange(words if choice < 0.7 else words // 16)

    def restart_target(rng):
        return RAM + 4 * rng.randrange(words) if rng.random() < 0.7 else rng.getrandbits(62) << 2

    program = [random_word(rng, k, words) for k in range(words)]
    return Bench(config, program, outcome, seed=seed, restart_target=restart_target, **settings)


def modify(bench, rng):
    for _ in range(8):
        place = rng.randrange(len(bench.words))
        bench.words[place] = random_word(rng, place, len(bench.words)) if rng.random() < 0.5 else NOP


STORMS = {
    "slow": dict(ready=0.7, resolve=0.3, accept=0.6, latency=(1, 30), in_order=False, resolve_after=3,
                 restart=0.01, poisoned=frozenset({RAM // 64 + 5, RAM // 64 + 20}), modify=modify),
    "quick": dict(resolve_after=5, latency=(1, 2), restart=0.015, modify=modify),
    "held": dict(ready=0.3, resolve=0.5, accept=0.3, latency=(1, 8), restart=0.015),
}


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("name,cycles", [("tiny", 1500), ("small", 800), ("wide", 500), ("linewise", 500)])
def test_random_program(name, cycles, storm):
    bench = random_bench(CONFIGS[name], seed=sum(map(ord, name + storm)), **STORMS[storm])
    counts = bench.run(cycles)
    assert counts["given"] > cycles / 8 and counts["mispredicted"] >= 5 and counts["restarts"] >= 2, counts
    assert counts["branches"] > counts["given"] / 40 and bench.events["resteer"] >= 5, counts
    assert counts["faults"] + counts["misaligned"] >= 1, counts


def taken_if(choose):
    """Outcome of branches by a function of how often this branch was executed."""
    executed = {}

    def outcome(given):
        n = executed[given.pc] = executed.get(given.pc, 0) + 1
        return (given.pc + offset_b(given.word)) & MASK if choose(given.pc, n) else given.pc + 4
    return outcome


def program(*parts, size=256):
    words = [NOP] * size
    for place, part in parts:
        words[place:place + len(part)] = part
    return words


def warm_rate(bench, cycles, skip):
    """Instructions a cycle after the first ``skip`` cycles."""
    bench.run(cycles)
    return sum(at >= skip for at in bench.times) / (cycles - skip)


@pytest.mark.parametrize("name", [*CONFIGS, "full"])
def test_straight_code_is_width_a_cycle(name):
    """A loop of 64 instructions, warm (cold, the memory's latency shows)."""
    config = core_preset("full") if name == "full" else CONFIGS[name]
    bench = Bench(config, program((63, [jal(-4 * 63)]), size=64), None, latency=(3, 3))
    assert warm_rate(bench, 160, 100) == config.width
    assert bench.events["resteer"] == bench.events["btb_miss"] == 1


def test_loop_of_four_has_no_bubble_at_width_two():
    for start in range(4):  # aligned to a block of four, or not
        bench = Bench(SMALL, program((start, [NOP, NOP, NOP, branch(-12)])), taken_if(lambda pc, n: True),
                      resolve_after=3, architectural=True)
        assert warm_rate(bench, 160, 60) == 2, start
        assert bench.counts["mispredicted"] == 1 and bench.counts["resolved"] > 50


def test_jump_every_block_costs_no_cycle_when_the_target_buffer_knows():
    """A ring of jumps, each alone in its block: one instruction a cycle, one re-steer each."""
    ring = [(4 * k, [jal(16)]) for k in range(7)] + [(28, [jal(-112)])]
    bench = Bench(SMALL, program(*ring), None)
    assert warm_rate(bench, 200, 60) == 1
    assert bench.events["resteer"] == 8


def test_three_cycles_from_a_restart_to_the_first_instruction():
    bench = Bench(SMALL, program(size=64), None, restart=0.05, resolve_after=3, seed=5,
                  restart_target=lambda rng: RAM + 4 * rng.randrange(16))
    bench.run(400)
    warm = bench.latencies[3:]
    assert len(warm) > 8 and set(warm) == {3}


def test_three_cycles_from_a_misprediction():
    bench = Bench(SMALL, program((3, [branch(32)]), (11, [branch(-32), jal(-48)])),
                  taken_if(lambda pc, n: n % 2), resolve_after=4, architectural=True)
    bench.run(400)
    assert len(bench.latencies) > 20 and set(bench.latencies[3:]) == {3}


def test_a_biased_branch_is_mispredicted_once_a_turn():
    """An inner loop of five turns: its exit is mispredicted by two-bit counters, nothing else after the
    first time around."""
    bench = Bench(SMALL, program((0, [NOP, NOP, branch(-8), jal(-12)])), taken_if(lambda pc, n: n % 5),
                  resolve_after=2, architectural=True)
    counts = bench.run(400)
    assert counts["branches"] > 100
    # The first taken one, and each exit.
    assert counts["mispredicted"] == 1 + counts["branches"] // 5, counts


def test_history_learns_the_number_of_turns():
    config = dataclasses.replace(SMALL, predictor=PredictorConfig(history=8, counters=512))
    bench = Bench(config, program((0, [NOP, NOP, branch(-8), jal(-12)])), taken_if(lambda pc, n: n % 5),
                  resolve_after=2, architectural=True)
    bench.run(300)
    first = bench.counts["mispredicted"]
    late = sum(at > 150 for at in bench.mispredicted_at)
    assert first > 0 and late == 0, bench.mispredicted_at


def test_calls_return_by_the_stack():
    """Three levels of calls, each function called from two places: after the first time around nothing is
    mispredicted; an indirect call goes where it went last."""
    parts = [(0, [jal(4 * 32, 1), NOP, jal(4 * 30, 1), jalr(1, 9), jal(-16)]),
             (32, [NOP, jal(4 * 31, 5), jal(4 * 30, 1), RET]), (64, [NOP, RET])]
    stack = []

    def outcome(given):
        if given.kind == ControlKind.INDIRECT_CALL:
            return RAM + 4 * 32
        assert given.word == RET
        return stack.pop()

    def executed(pc, word):
        if word & 0x7F in (0x67, 0x6F) and word >> 7 & 31 in (1, 5):
            stack.append(pc + 4)

    bench = Bench(SMALL, program(*parts), outcome, resolve_after=3, architectural=True, executed=executed)
    bench.run(400)
    assert bench.counts["resolved"] > 60
    assert bench.counts["mispredicted"] == 1, "only the indirect call, the first time"


def test_return_stack_is_restored_after_a_misprediction():
    """A function whose branch alternates, which two-bit counters always mispredict, with calls on one path
    and a return on the other: all returns are predicted all the same."""
    parts = [(0, [jal(4 * 32, 1), jal(-4)]), (32, [branch(32), RET]),
             (40, [jal(4 * 24, 1), jal(4 * 23, 1), RET]), (64, [NOP, RET])]
    stack, returns, turns = [], [], []

    def executed(pc, word):
        if word & 0x7F == 0x6F and word >> 7 & 31 == 1:
            stack.append(pc + 4)

    def outcome(given):
        if given.kind == ControlKind.BRANCH:
            turns.append(given)
            return given.pc + (32 if len(turns) % 2 else 4)
        returns.append((given.target, stack.pop()))
        return returns[-1][1]

    bench = Bench(SMALL, program(*parts), outcome, resolve_after=8, architectural=True, executed=executed)
    bench.run(400)
    assert len(returns) > 20 and len(turns) > 10
    assert all(predicted == address for predicted, address in returns)
    assert len(turns) - 1 <= bench.counts["mispredicted"] <= len(turns)


def test_indirect_jump_goes_where_it_went_last():
    bench = Bench(SMALL, program((0, [NOP, INDIRECT]), (20, [jal(-80)]), (40, [jal(-160)])),
                  lambda given: RAM + (80 if bench.counts["resolved"] < 10 else 160), resolve_after=2)
    bench.run(300)
    assert bench.counts["resolved"] > 20 and bench.counts["mispredicted"] == 2


@pytest.mark.parametrize("other", [NOP, jal(8), branch(8)])
def test_another_instruction_with_the_same_entry_of_the_target_buffer(other):
    """A jump and what is not the same jump share index and tag: the path is right, at a cycle each."""
    far = 4 * 4 << 12  # bytes: rows, words of a row, tag
    parts = [(0, [jal(far)]), (4, [jal(-16)]), (far // 4, [other, jal(12 - far), jal(8 - far)])]
    bench = Bench(TINY, program(*parts, size=far // 4 + 64), lambda given: given.pc + 4, resolve_after=2)
    bench.run(300)
    turns = bench.log.count(RAM)
    assert turns > 20 and bench.log.count(RAM + far) >= turns - 1
    assert bench.events["resteer"] >= turns


def test_next_line_is_prefetched():
    """Straight through 16 lines of a slow memory: one demand miss, everything else by prefetch."""
    end = RAM + 4 * 256
    bench = Bench(TINY, program(size=256), None, latency=(10, 10), restart_target=lambda rng: end)
    bench.run(300)
    assert bench.events["icache_miss"] == 1 and bench.events["icache_prefetch"] == 15
    assert bench.counts["given"] - bench.counts["faults"] == 256 and bench.log[256] == end


def test_poison_faults_on_exactly_the_first_instruction_that_wants_it():
    bench = Bench(SMALL, program(size=64), None, poisoned=frozenset({RAM // 64 + 2}), latency=(2, 6),
                  restart_target=lambda rng: RAM + 4 * rng.choice((0, 30, 31, 32, 33, 47, 48)))
    bench.run(600)
    assert bench.counts["faults"] > 10 and {RAM + 128, RAM + 132, RAM + 188} <= set(bench.log)


@pytest.mark.parametrize("pc", [0, RAM - 4, RAM + 1024, 1 << 40 | RAM, (1 << 64) - 4])
def test_fetch_outside_the_memory_faults_without_a_request(pc):
    bench = Bench(SMALL, program(), None, reset_pc=pc, restart_target=lambda rng: pc)
    bench.run(60)
    assert bench.counts["faults"] == bench.counts["given"] >= 1 and bench.counts["requests"] == 0


def test_invalidate_is_heard_by_a_line_on_its_way():
    """The program changes with each restart, while lines come slowly."""
    bench = random_bench(TINY, 77, words=64, latency=(1, 20), restart=0.03, modify=modify)
    bench.run(1500)
    assert bench.counts["restarts"] > 20 and bench.counts["given"] > 100


def test_a_buffer_too_small_is_refused():
    config = dataclasses.replace(SMALL, predictor=PredictorConfig(fetch_bytes=64, buffer=16))
    with pytest.raises(ValueError, match="predictor.buffer = 16: must be at least 32"):
        FrontEnd(config, ram_bytes=1024)
