"""Single error correction, double error detection on 64 bits: Hsiao's odd-weight-column code (72,64).

M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of Research and
Development 14(4), 1970. Every column of the check matrix is different and has an odd number of ones; so the
syndrome of a single error is odd and names its place, and that of a double error is even and not zero.
"""

from itertools import combinations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BURST_WORDS", "COLUMNS", "EccCorrect", "POISON", "checks", "syndromes"]

WORD = 64
CHECK = 8
BURST_WORDS = 4
"""Words of 64 bits in a burst of 32 bytes."""

POISON = 0b1111111
"""Flipped check bits of a word that is written although it is known to be bad. The syndrome is odd and no
column, so that one more error makes it even and not zero: the word stays bad. With two flipped bits, most
single errors more would make it look like one that can be corrected."""


def _columns():
    """64 columns: all 56 of weight three, and eight of weight five, chosen so that rows weigh alike."""
    columns = [sum(1 << bit for bit in bits) for bits in combinations(range(CHECK), 3)]
    # A cyclic orbit: each row has five of these eight ones, so all rows have 26.
    columns += [((0b00011111 << turn) | (0b00011111 >> (CHECK - turn))) & 0xFF for turn in range(CHECK)]
    return tuple(columns)


COLUMNS = _columns()
"""Column of the check matrix of each data bit; check bit j has column 1 << j."""


def _row_masks():
    return [sum(1 << bit for bit, column in enumerate(COLUMNS) if column >> row & 1) for row in range(CHECK)]


def checks(word):
    """The 8 check bits (Value) of a 64-bit Value."""
    return Cat((word & Const(mask, WORD)).xor() for mask in _row_masks())


def syndromes(burst, check):
    """Syndromes (Value, 32 bits) of a burst of 256 bits and its 32 check bits; byte i is that of word i."""
    return Cat(*(checks(burst.word_select(word, WORD)) for word in range(BURST_WORDS))) ^ check


class EccCorrect(wiring.Component):
    """Corrects a burst from its syndromes. Combinational.

    Members
    -------
    data : In(256), syndrome : In(32): as received, and ``syndromes`` of it
    o : Out(256): single errors corrected, the rest as received
    corrected : Out(4), bad : Out(4): per word of 64 bits: a single error (of a data or check bit), an error
        that cannot be corrected
    """

    module_name = "hbm_ecc_correct"

    def __init__(self):
        super().__init__({"data": In(256), "syndrome": In(32), "o": Out(256), "corrected": Out(BURST_WORDS),
                          "bad": Out(BURST_WORDS)})

    def elaborate(self, platform):
        m = Module()
        words, corrected, bad = [], [], []
        for index in range(BURST_WORDS):
            syndrome = self.syndrome.word_select(index, CHECK)
            # One word out of a table: which bit to flip. An odd syndrome that names no bit is an error of
            # three bits or more.
            flip = Signal(WORD, name=f"flip{index}")
            named = Signal(name=f"named{index}")
            with m.Switch(syndrome):
                for bit, column in enumerate(COLUMNS):
                    with m.Case(column):
                        m.d.comb += [flip.eq(1 << bit), named.eq(1)]
                with m.Case(*(1 << bit for bit in range(CHECK))):
                    m.d.comb += named.eq(1)
            words.append(self.data.word_select(index, WORD) ^ flip)
            corrected.append(named)
            bad.append(Mux(syndrome == 0, 0, ~named))
        m.d.comb += [self.o.eq(Cat(*words)), self.corrected.eq(Cat(*corrected)), self.bad.eq(Cat(*bad))]
        return m
