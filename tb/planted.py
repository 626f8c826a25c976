"""Bugs planted in the matrix engine, one line each, to show that the checks find them.

A bug is a change of one place in one source file of ``hw/``. The changed engine is built from a second,
private copy of the modules; neither the files nor the imported hardware are touched.
"""

import contextlib
import importlib
import importlib.machinery
import sys
from dataclasses import dataclass
from pathlib import Path

import hw

__all__ = ["PLANTED", "Bug", "planted_engine"]

#: Packages of which a planted engine has its own copy. ``hw.emit`` and ``hw.config`` stay shared.
COPIED = ("hw.matrix", "hw.numbers")


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug and the text that makes it.

    Attributes
    ----------
    what : in a person's words
    module : as ``hw.matrix.foot``
    right, wrong : text that is in the module exactly once, and what stands there instead
    """

    what: str
    module: str
    right: str
    wrong: str

    @property
    def path(self):
        """The source file."""
        return Path(hw.__file__).parent.joinpath(*self.module.split(".")[1:]).with_suffix(".py")

    @property
    def line(self):
        """Line of the source file in which the bug begins, counted from 1."""
        return self.path.read_text(encoding="utf-8").split(self.right, 1)[0].count("\n") + 1

    def source(self):
        """The module's text with the bug.

        Raises
        ------
        ValueError
            The right text is not there exactly once: the module has changed since.
        """
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            count = text.count(self.right)
            raise ValueError(f"{self.what}: {self.right!r} is in {self.module} {count} times, not once")
        return text.replace(self.right, self.wrong)


PLANTED = {
    "sign": Bug(
        what="the sign of the activations is lost", module="hw.matrix.quad",
        right="weights.sign ^ Mux(activation.negative, ONES, 0)",
        wrong="weights.sign"),
    "shift": Bug(
        what="shifts of products by eight and more lose their upper bits", module="hw.matrix.quad",
        right="even[:8] << shift)", wrong="even[:8] << shift[:3])"),
    "nibble": Bug(
        what="the nibbles of neighbouring MXFP4 weights are swapped", module="hw.matrix.edge",
        right="decode_e2m1(self.weight_codes[128 * i + 4 * r:128 * i + 4 * r + 4])",
        wrong="decode_e2m1(self.weight_codes.word_select(32 * i + (r ^ 1), 4))"),
    "stall": Bug(
        what="a result row does not wait for a free place among the output rows",
        module="hw.matrix.sequencer", right="with m.Elif(takes & (used == config.output_rows)):",
        wrong="with m.Elif(takes & (used == config.output_rows + 3)):"),
    "adders": Bug(
        what="a row does not wait until its accumulator has left the adders", module="hw.matrix.sequencer",
        right="with m.Elif(~clear):", wrong="with m.Elif(~issuing.valid):"),
    "skew": Bug(
        what="lane 5 of the west edge is a cycle early", module="hw.matrix.edge",
        right="lanes.append(stage[:self.width])",
        wrong="lanes.append(held[:self.width] if r == 5 else stage[:self.width])"),
    "rounding": Bug(
        what="sums of more than 25 bits are rounded twice", module="hw.numbers.sum_to_float",
        right="word = Cat(word[:low].any(), word[low:])",
        wrong="word = Cat(C(0, 1), (word[low:] + word[low - 1])[:width - low])"),
    "stale": Bug(
        what="the last row of the array keeps its old weights", module="hw.matrix.column",
        right='swaps = downward("swap", swap)',
        wrong='swaps = Cat(downward("swap", swap)[:31], Const(0, 1))'),
    "nan": Bug(
        what="a NaN scale of the activations is ignored", module="hw.matrix.edge",
        right="self.activation_nan.eq((self.activation_scale == SCALE_NAN)",
        wrong="self.activation_nan.eq(Const(0)"),
    "carry": Bug(
        what="the carry from the lower half of a sum to the upper is lost", module="hw.matrix.quad",
        right="guards = Mux(wide_weights, GUARD_OF_ONE,",
        wrong="guards = Mux(wide_weights, GUARDS_OF_TWO,"),
    "mask": Bug(
        what="the first lane beyond K is not masked", module="hw.matrix.edge",
        right="(lanes > r) & valid", wrong="(lanes >= r) & valid"),
    "row": Bug(
        what="later columns of a quad go to the newest output row, not to their own",
        module="hw.matrix.sequencer",
        right="Mux(now.subtile == 0, newest, base + row)",
        wrong="Mux(now.subtile == 0, newest, newest + row)"),
    "mode": Bug(
        what="the mode changes while rows of the job before are in the array", module="hw.matrix.sequencer",
        right="~same_mode & ~shadow_full & ~behind & empty", wrong="~same_mode & ~shadow_full & ~behind"),
    "absent": Bug(
        what="where K is 0, +0 is added and not -0, so that a C of -0 loses its sign",
        module="hw.matrix.foot", right="Mux(control.present[group], block, MINUS_ZERO)",
        wrong="Mux(control.present[group], block, 0)"),
    "scale": Bug(
        what="scales of the next weights are used while rows of the pass before are on their way",
        module="hw.matrix.foot", right="with m.If(swap):",
        wrong="with m.If(swap | ~swap):"),
    "fresh": Bug(
        what="later columns of a quad start from what the job before left in the accumulators",
        module="hw.matrix.sequencer", right="self.fresh.eq(now.first & ~now.has_c)",
        wrong="self.fresh.eq(now.opening & ~now.has_c)"),
    "pair": Bug(
        what="of two MXFP4 columns of one weight beat, the second gets the scale of the first",
        module="hw.matrix.foot", right="token.scale[group][slot % 2]", wrong="token.scale[group][0]"),
}


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from changed text, and neither reads nor writes its compiled form."""

    def __init__(self, name, bug):
        super().__init__(name, str(bug.path))
        self.bug = bug

    def get_code(self, fullname):
        return compile(self.bug.source(), str(self.bug.path), "exec", dont_inherit=True)


class _Finder:
    """Finds the module with the bug before the ordinary finders do."""

    def __init__(self, bug):
        self.bug = bug

    def find_spec(self, name, path=None, target=None):
        if name != self.bug.module:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(name, self.bug), origin=str(self.bug.path))


@contextlib.contextmanager
def _private_copies(finder):
    """Within, ``COPIED`` are imported anew; afterwards everything is as it was."""
    def ours():
        return [name for name in list(sys.modules) if f"{name}.".startswith(tuple(f"{p}." for p in COPIED))]

    saved = {name: sys.modules.pop(name) for name in ours()}
    attributes = {name: getattr(hw, name) for name in ("matrix", "numbers") if hasattr(hw, name)}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in ours():
            del sys.modules[name]
        sys.modules.update(saved)
        for name, module in attributes.items():
            setattr(hw, name, module)


def planted_engine(name, config):
    """The engine of ``config`` with the bug ``PLANTED[name]``, as a component.

    Raises
    ------
    ValueError
        There is no bug of that name, or its place in the source has changed.
    """
    if name not in PLANTED:
        raise ValueError(f"planted bug is {name!r}; there are {', '.join(PLANTED)}")
    with _private_copies(_Finder(PLANTED[name])):
        return importlib.import_module("hw.matrix.engine").Engine(config)
