"""The words for where differing elements lie."""

import numpy as np
import pytest

from tb.pattern import describe


def mask(shape, *places):
    array = np.zeros(shape, dtype=bool)
    for place in places:
        array[place] = True
    return array


@pytest.mark.parametrize("differs, words", [
    (mask((4, 64)), ""),
    (mask((4, 64), np.s_[:, :]), "all elements"),
    (mask((4, 64), (2, 7)), "one element"),
    (mask((1,), 0), "all elements"),
    (mask((4, 64), np.s_[:, 7]), "one column (7), all rows"),
    (mask((4, 64), np.s_[1:3, 7]), "one column (7), rows 1..2"),
    (mask((4, 64), np.s_[2, :]), "one row (2), all of it"),
    (mask((4, 64), np.s_[2, 32:64]), "one row (2), one block of 32 (columns 32..63)"),
    (mask((4, 64), np.s_[2, 3:50]), "one row (2), columns 3..49"),
    (mask((4, 64), np.s_[:, 32:64]), "one block of 32 columns (32..63), all rows"),
    (mask((8, 64), np.s_[1:3, :]), "whole rows 1..2"),
    (mask((8, 64), np.s_[:, 2::4]), "whole columns every 4th from 2 to 62"),
    (mask((8, 64), np.s_[:, 0::2]), "whole columns every 2nd from 0 to 62"),
    (mask((8, 64), (1, 3), (4, 60)), "rows 1 and 4, columns 3 and 60 (2 of the 4 elements where they cross)"),
    (mask((2, 3, 64), np.s_[1, :, 5]), "one column (5), rows 3..5"),
    (mask(64, np.s_[[1, 2, 4, 8, 16, 32, 33]]), "one row (0), columns 1, 2, 4, 8 and 3 more"),
])
def test_words(differs, words):
    assert describe(differs) == words


def test_block_size():
    differs = mask((2, 64), np.s_[1, 16:32])
    assert describe(differs, block=16) == "one row (1), one block of 16 (columns 16..31)"
