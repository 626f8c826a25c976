"""Commands at the edge between controller and device."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ColumnCommand", "ColumnOp", "DfiSignature", "ModeRegister", "RowCommand", "RowOp"]


class RowOp(enum.Enum, shape=3):
    """Command on the row bus. REFPB refreshes one bank, REFAB and PREA mean all banks of all stack IDs."""

    NOP = 0
    ACT = 1
    PRE = 2
    PREA = 3
    REFPB = 4
    REFAB = 5
    MRS = 6


class ColumnOp(enum.Enum, shape=3):
    """Command on the column bus; RDA and WRA close the bank by themselves, as early as allowed."""

    NOP = 0
    RD = 1
    RDA = 2
    WR = 3
    WRA = 4


class ModeRegister(enum.Enum, shape=4):
    """Mode registers (``bank`` of an MRS): CL and CWL in CK, and whether check bits are stored."""

    CL = 0
    CWL = 1
    ECC = 2


class RowCommand(data.Struct):
    """Row bus. MRS: ``bank`` is the register, ``row`` its value. Bank group = bank % bank_groups."""

    op: RowOp
    sid: 2
    bank: 4
    row: 16


class ColumnCommand(data.Struct):
    """Column bus. ``column``: burst of 32 bytes in the page."""

    op: ColumnOp
    sid: 2
    bank: 4
    column: 5


class DfiSignature(wiring.Signature):
    """Edge to the device, seen from the controller, one a pseudo-channel.

    Members
    -------
    slot : Out(1): this tile cycle is a slot; everything else is looked at only then and stable otherwise
    row : Out(RowCommand), column : Out(ColumnCommand): at most one of each a slot
    wdata : Out(256), wcheck : Out(32): with WR and WRA, in the same slot
    rdata : In(256), rcheck : In(32), rvalid : In(1): for RD in slot c valid in slot c + ceil((CL + 2) / 2)
    """

    def __init__(self):
        super().__init__({
            "slot": Out(1), "row": Out(RowCommand), "column": Out(ColumnCommand),
            "wdata": Out(256), "wcheck": Out(32), "rdata": In(256), "rcheck": In(32), "rvalid": In(1),
        })

    def __eq__(self, other):
        return type(other) is DfiSignature
