"""Payloads inside the window, which depend on the configuration."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from ..types import HISTORY_BITS, OP_BITS, RETURN_BITS, ControlKind, Decoded, SourceA, Unit, age_bits

__all__ = ["Layouts"]


def _bits(count):
    return max(1, (count - 1).bit_length())


class Layouts:
    """Struct layouts of one core.

    Parameters
    ----------
    config : CoreConfig

    Attributes
    ----------
    tag, age, checkpoint, load, store : int
        Widths of a physical register, an age, and the indices of checkpoints and of the two queues.
    renamed : an instruction that leaves the rename stage; ``tag`` is written if ``decoded.writes``.
    operation : what an issue queue keeps for its lane.
    entry : operation with its sources, as written to an issue queue.
    issued : operation with the sources' registers, as taken out of a queue.
    result : a value to be written (``writes``), and an instruction done (``completes``).
    wake : a register whose value can be read two cycles later, or earlier where it was late.
    done : an instruction is done. kill : everything younger than ``age`` is void.
    instruction : what the reorder buffer keeps. head : one of the oldest, at its end.
    fault : an exception found while an instruction was executed.
    branch : what a checkpoint knows about its branch.
    """

    def __init__(self, config):
        self.tag = _bits(config.physical)
        self.age = age_bits(config)
        self.checkpoint = _bits(config.checkpoints)
        self.load = _bits(config.loads)
        self.store = _bits(config.stores)
        struct = data.StructLayout
        self.source = struct({"tag": self.tag, "ready": 1})
        self.renamed = struct({
            "valid": 1, "decoded": Decoded, "age": self.age, "tag": self.tag, "rs1": self.source,
            "rs2": self.source, "checkpoint": self.checkpoint, "lane": _bits(config.alus),
        })
        self.operation = struct({
            "unit": Unit, "op": OP_BITS, "narrow": 1, "a": SourceA, "b_immediate": 1,
            "reads1": 1, "reads2": 1, "immediate": signed(32), "writes": 1, "tag": self.tag, "age": self.age,
            "checkpoint": self.checkpoint, "index": max(self.load, self.store),
        })
        self.entry = struct({
            "valid": 1, "operation": self.operation, "rs1": self.source, "rs2": self.source, "gated": 1})
        self.issued = struct({
            "valid": 1, "operation": self.operation, "rs1": self.tag, "rs2": self.tag})
        self.result = struct({
            "valid": 1, "writes": 1, "completes": 1, "tag": self.tag, "age": self.age, "value": 64})
        self.wake = struct({"valid": 1, "tag": self.tag})
        self.done = struct({"valid": 1, "age": self.age})
        self.instruction = struct({
            "word": 32, "rd": 5, "writes": 1, "tag": self.tag, "load": 1, "store": 1, "system": 1})
        self.head = struct({
            "valid": 1, "done": 1, "age": self.age, "pc": 64, "instruction": self.instruction})
        self.kill = self.done
        self.fault = struct({"valid": 1, "age": self.age, "cause": 4, "tval": 64})
        self.restore = struct({"valid": 1, "id": self.checkpoint})
        self.branch = struct({
            "target": 64, "kind": ControlKind, "history": unsigned(HISTORY_BITS),
            "returns": unsigned(RETURN_BITS)})
