"""A sequential model of the RV64IM_Zicsr core: what every retired instruction must have done."""

from .hart import Hart
from .memory import DEVICES, RAM, Memory
from .record import COMPARED, HISTORY, RECORD, Mismatch, Record

__all__ = ["COMPARED", "DEVICES", "HISTORY", "Hart", "Memory", "Mismatch", "RAM", "RECORD", "Record"]
