"""The fast view of the array against its RTL, in lock step, at every clock edge."""

import re

import numpy as np
import pytest

from hw import emit
from hw.matrix import fast
from hw.matrix.array import QuadArray
from tb.build import Options
from tb.lockstep.bench import LockStep
from tb.lockstep.compare import CYCLES, SIZES, compare
from tb.lockstep.planted import PLANTED, Edited
from tb.lockstep.stimulus import changes_of_mode
from tb.stalls import Stalls

WITH_EDITS = (2, 1)
STALLS = Stalls(probability=0.1, long_probability=0.01, long_cycles=60)


def _unused(component):
    """``component``, which Amaranth shall not miss in a design."""
    component._MustUse__silence = True
    return component


def check(outcome):
    """No difference, over enough cycles in which there was something to see."""
    assert outcome.first == "" and outcome.mismatches == 0
    assert outcome.compared >= CYCLES and outcome.busy >= CYCLES // 2


@pytest.mark.parametrize("quads, product_latency", [size for size in SIZES if size != WITH_EDITS])
def test_equal_at_every_edge(quads, product_latency):
    (outcome,) = compare(quads=quads, product_latency=product_latency)
    check(outcome)


def test_equal_with_stalls_and_planted_bugs_are_caught():
    quads, product_latency = WITH_EDITS
    exact, portable, *planted = compare(quads=quads, product_latency=product_latency, edited=True,
                                        stalls={"i": STALLS})
    check(exact)
    check(portable)
    assert exact.compared > CYCLES * 1.05  # stalls came on top
    assert [outcome.view for outcome in planted] == list(PLANTED)
    assert [outcome.view for outcome in planted if not outcome.mismatches] == []
    for outcome in planted:
        seen = re.fullmatch(rf"{outcome.view}, cycle \d+: psum\[\d\] is ([0-9a-f]{{15}}), "
                            "([0-9a-f]{15}) in the RTL", outcome.first)
        assert seen and seen[1] != seen[2]


@pytest.mark.parametrize("quads, product_latency", [(2, 1), (8, 0)])
def test_sums_that_live_through_a_change_of_mode(quads, product_latency):
    """Zeros that follow clear guard bits in the RTL; the fast view has done so before it skips them."""
    edited = (quads, product_latency) == WITH_EDITS
    exact, *others = compare(quads=quads, product_latency=product_latency, edited=edited,
                             stimulus=changes_of_mode(np.random.default_rng(5), quads=quads, changes=150))
    assert exact.first == "" and exact.mismatches == 0 and exact.compared > 10_000 and exact.busy > 3_000
    if edited:
        found = {outcome.view: outcome.mismatches for outcome in others}
        assert not found["portable"]
        for bug in ("zeros skipped where the mode changes", "guards of the mode before a change",
                    "a mode that changes for all columns at once"):
            assert found[bug], bug


def test_files():
    array = _unused(QuadArray(quads=2))
    module, text, paths = fast.sources(array)
    assert module == "quad_array_2_p1" and paths == [fast.CXX] and fast.CXX.is_file()
    assert array.fast_view() == {"quad_array_2_p1.sv": text, "quad_array.cc": fast.CXX.read_text()}


@pytest.mark.parametrize("view, array, others", [("rtl", "quad_array_2_p1.v", []),
                                                 ("fast", "quad_array_2_p1.sv", ["quad_array.cc"])])
def test_emitted(view, array, others):
    """A placed array is replaced if that is asked for; one that is a plain submodule stays RTL."""
    files = emit.verilog(LockStep(quads=2, product_latency=1), name="top", view=view)
    assert sorted(files) == sorted([array, *others, "quad_column_p1.v", "top.v"])


def test_ports_are_those_of_the_rtl():
    array = QuadArray(quads=3, product_latency=0)
    _, text, _ = fast.sources(array)
    header = emit.verilog(array, name="top")["top.v"]
    for direction in ("input", "output"):
        rtl = set(re.findall(rf"^  {direction} (\[\d+:0\])? ?(\w+);", header, re.M))
        ours = set(re.findall(rf"^    {direction} +logic (\[\d+:0\])? ?(\w+),?$", text, re.M))
        assert rtl == ours and len(rtl) == (8 if direction == "input" else 1)


def test_unknown_views_are_refused():
    with pytest.raises(ValueError, match="view is 'quick'; allowed are rtl and fast"):
        Options(view="quick")
    with pytest.raises(ValueError, match="view is 'quick'"):
        emit.verilog(_unused(QuadArray(quads=1)), name="top", view="quick")


def test_an_edit_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match="quad_array.cc has 'nowhere' 0 times; an edit needs it once"):
        _unused(Edited(prefix="edited", edit=("nowhere", ""), quads=2)).fast_view()
