"""SECDED: every single error corrected, every double error seen, over all positions; poison."""

from itertools import combinations

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from hw.hbm.ecc import COLUMNS, POISON, EccCorrect, checks, syndromes

# The check matrix once more, from the columns, as plain integers.
MATRIX = [*COLUMNS, *(1 << bit for bit in range(8))]
WORDS = [0, (1 << 64) - 1, 0x0123456789ABCDEF]


def check_of(word):
    check = 0
    for bit, column in enumerate(COLUMNS):
        if word >> bit & 1:
            check ^= column
    return check


def test_columns_are_odd_and_different_and_rows_weigh_alike():
    assert len(set(MATRIX)) == 72
    assert all(column.bit_count() % 2 for column in MATRIX)
    assert {sum(column >> row & 1 for column in COLUMNS) for row in range(8)} == {26}


def test_double_errors_have_a_syndrome_that_names_nothing():
    pairs = 0
    for a, b in combinations(MATRIX, 2):
        assert a ^ b and (a ^ b) not in MATRIX
        pairs += 1
    assert pairs == 72 * 71 // 2
    # A poisoned word stays bad when one of its bits, check bits included, is flipped as well.
    assert POISON not in MATRIX and not {POISON ^ column for column in MATRIX} & {0, *MATRIX}


def run(cases):
    """(data, corrected, bad) of the hardware for bursts and check bits as received."""
    m = Module()
    m.submodules.correct = correct = EccCorrect()
    burst, check, encoded = Signal(256), Signal(32), Signal(8)
    m.d.comb += [correct.data.eq(burst), correct.syndrome.eq(syndromes(burst, check)),
                 encoded.eq(checks(burst[:64]))]
    results = []

    async def bench(ctx):
        for value, bits in cases:
            ctx.set(burst, value)
            ctx.set(check, bits)
            assert ctx.get(encoded) == check_of(value & (1 << 64) - 1)
            results.append((ctx.get(correct.o), ctx.get(correct.corrected), ctx.get(correct.bad)))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return results


def burst_of(flips):
    """A burst with word w = WORDS[w % 3] and the given bits flipped in each; 64 to 71 are check bits."""
    data = check = 0
    for place, bits in enumerate(flips):
        word = WORDS[place % 3]
        code = word | check_of(word) << 64
        for bit in bits:
            code ^= 1 << bit
        data |= (code & (1 << 64) - 1) << 64 * place
        check |= code >> 64 << 8 * place
    return data, check


CLEAN, _ = burst_of([()] * 4)


def test_all_single_errors():
    cases = [[() if word != place else (bit,) for word in range(4)]
             for place in range(4) for bit in range(72)]
    for flips, (value, corrected, bad) in zip(cases, run([burst_of(flips) for flips in cases]), strict=True):
        place = next(word for word in range(4) if flips[word])
        assert (value, corrected, bad) == (CLEAN, 1 << place, 0), flips


def test_all_double_errors():
    """Four pairs at a time, one in each word, in turn over all words."""
    pairs = list(combinations(range(72), 2))
    cases = [[pairs[(index + shift * 639) % len(pairs)] for shift in range(4)] for index in range(len(pairs))]
    results = run([burst_of(flips) for flips in cases])
    assert len(results) == 2556
    for _, corrected, bad in results:
        assert (corrected, bad) == (0, 15)
    # As received, so that a second code outside could still look at it.
    assert results[0][0] == burst_of(cases[0])[0]


def test_clean_and_poison():
    value, check = burst_of([()] * 4)
    (first, second) = run([(value, check), (value, check ^ POISON << 16)])
    assert first == (CLEAN, 0, 0) and second == (CLEAN, 0, 4)


def test_some_triples_are_seen():
    """A triple may look like a single error; those that name no bit are bad."""
    named = sum(a ^ b ^ c in MATRIX for a, b, c in combinations(MATRIX, 3))
    assert 0 < named < 59640
