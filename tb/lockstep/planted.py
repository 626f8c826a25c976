"""Fast views that were edited: one for any processor, and one for each planted bug."""

from hw.matrix import fast
from hw.matrix.array import QuadArray

__all__ = ["PLANTED", "PORTABLE", "Edited"]

#: The text of quad_array.cc that chooses the instruction set at run time, and what makes it plain code.
PORTABLE = ('__attribute__((target_clones("avx2", "default")))', "")

#: What is wrong, and the text of quad_array.cc that makes it so.
PLANTED = {
    "a swap a cycle late":
        ("state_.swaps << 1 | in.swap", "state_.swaps << 1 | (t > 0 && at(t - 1).swap)"),
    "rows skewed by one too many":
        ("state.sums[((t - r) & wave_mask)", "state.sums[((t - r - 1) & wave_mask)"),
    "the sign of an activation lost":
        ("negate(word >> 8 & 1 ? ALL : 0)", "negate(0)"),
    "negation without its carry":
        ("psum | (term & guards)", "psum"),
    "the upper bits of a significand lost":
        ("significand(word & 15)", "significand(word & 7)"),
    "the second column a bit low":
        ("second << (shift + 31)", "second << (shift + 30)"),
    "a significand of 4 bits in the odd lanes":
        ("times(weight & SLOT << 16, significand & 3)", "times(weight & SLOT << 16, significand)"),
    "a guard bit that stays set":
        ("& (ALL & ~guards)", "& ALL"),
    "own shifts of weights overlooked":
        ("any(all >> SHIFT_AT) << State::SHIFTED", "0"),
    "a skipped row that was not idle":
        ("rows |= state_.rows_with[State::SPLIT_ALL];", ";"),
    "a sum at the foot left out":
        ("state_.touched |= rows;", "state_.touched |= rows & ~1u;"),
    "a mode that changes for all columns at once":
        ("at(now_ - 1).mode)) rewind();", "at(now_ - 1).mode)) {}"),
    "zeros skipped where the mode changes":
        ("sums[q] = added<Kind::ANY>", "if (activation.significand) sums[q] = added<Kind::ANY>"),
    "guards of the mode before a change":
        ("mode(t + 1 + q + latency_).guards()", "in.mode.guards()"),
    "a reset that comes too late":
        ("< ROWS + COLUMNS_MAX) rewind();", "< 0) rewind();"),
    "a column more cut off by a reset":
        ("if (alive < quads_) alive++;", ""),
    "the high slots written into the low ones":
        ("(state_.highs >> r & 1) << 10;", "(state_.highs >> r & 1);"),
}


class Edited(QuadArray):
    """A QuadArray whose fast view has some of its text replaced.

    Parameters
    ----------
    prefix : str
        Of the names of its module and functions, in place of ``quad``.
    edit : tuple[str, str]
        Text of quad_array.cc that stands there once, and what stands there instead.
    quads, product_latency : int
        As in :class:`QuadArray`.
    """

    def __init__(self, *, prefix, edit, **parameters):
        super().__init__(**parameters)
        self.prefix = prefix
        self.edit = edit

    @property
    def module_name(self):
        return super().module_name.replace("quad_", f"{self.prefix}_", 1)

    def fast_view(self):
        module, text, (source,) = fast.sources(self)
        program = source.read_text(encoding="utf-8")
        old, new = self.edit
        if program.count(old) != 1:
            raise ValueError(f"{source.name} has {old!r} {program.count(old)} times; an edit needs it once")
        # None of these has to be quick, but there are many to compile.
        program = program.replace(old, new).replace(*PORTABLE).replace('optimize("O3")', 'optimize("O1")')
        return {f"{module}.sv": text.replace("quad_array_", f"{self.prefix}_array_"),
                f"{self.prefix}_array.cc": program.replace("quad_array_", f"{self.prefix}_array_")}
