"""Parts of the branch predictor: direction counters, branch target buffer, return stack.

They are looked up with asynchronous reads in the cycle in which a block's address is there, so that a
predicted jump costs nothing. Any of their contents may be wrong, at any time, reset included: a prediction
is either checked in the next stage or resolved when the instruction is executed.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..address import ADDRESS_BITS
from ..types import HISTORY_BITS, ControlKind

__all__ = ["TARGET_BITS", "Counters", "ReturnStack", "Target", "TargetBuffer", "next_history"]

TARGET_BITS = ADDRESS_BITS - 2
"""Of a stored target: an instruction's number. Addresses above them fault, they need no prediction."""

TAG_BITS = 12


def next_history(bits, history, pc, target):
    """Global history after a taken control transfer from ``pc`` to ``target``: HISTORY_BITS, ``bits`` used.

    It is a path: branches not taken leave it as it is. So all instructions up to the next taken transfer have
    one history, and one read of the counters serves all branches of a block.
    """
    if bits == 0:
        return history
    return ((history << 1) ^ pc[2:2 + bits] ^ target[4:4 + bits])[:bits]


class Counters(wiring.Component):
    """Two-bit saturating counters, one for each word of a block in each row.

    A row is chosen by the block's number, and by the global history if ``history`` > 0. A counter starts at
    1, weakly not taken.

    Parameters
    ----------
    counters : in all. words : instructions of a block. history : bits of history used.

    Members
    -------
    block, history : In: number of the block (address / its size), history before it
    taken : Out(words), in the same cycle
    update, update_taken, update_pc, update_history : In: outcome of a conditional branch
    """

    def __init__(self, *, counters, words, history):
        self.words, self.history_bits = words, history
        self.rows = max(2, counters // words)
        self.word_bits = (words - 1).bit_length()
        super().__init__({
            "block": In(64 - 2 - self.word_bits), "history": In(HISTORY_BITS), "taken": Out(words),
            "update": In(1), "update_taken": In(1), "update_pc": In(64), "update_history": In(HISTORY_BITS)})

    def row(self, block, history):
        """Index of a row."""
        bits = (self.rows - 1).bit_length()
        index = block[:bits]
        for low in range(0, self.history_bits, bits):
            index = index ^ history[low:min(low + bits, self.history_bits)]
        return index

    def elaborate(self, platform):
        m = Module()
        start = sum(1 << 2 * k for k in range(self.words))
        m.submodules.table = table = memory.Memory(
            shape=unsigned(2 * self.words), depth=self.rows, init=[start] * self.rows)
        ahead, old = table.read_port(domain="comb"), table.read_port(domain="comb")
        write = table.write_port(granularity=2)
        m.d.comb += [ahead.addr.eq(self.row(self.block, self.history)),
                     self.taken.eq(Cat(ahead.data[2 * k + 1] for k in range(self.words)))]

        row = self.row(self.update_pc[2 + self.word_bits:], self.update_history)
        counter, changed = Signal(2), Signal(2)
        word = self.update_pc[2:2 + self.word_bits]
        m.d.comb += [
            old.addr.eq(row), write.addr.eq(row),
            counter.eq(old.data.word_select(word, 2)),
            changed.eq(Mux(self.update_taken, Mux(counter == 3, 3, counter + 1),
                           Mux(counter == 0, 0, counter - 1))),
            write.data.eq(changed.replicate(self.words)),
            write.en.eq(self.update << word),
        ]
        return m


class Target(data.Struct):
    """What the branch target buffer knows of an instruction."""

    valid: unsigned(1)
    kind: ControlKind
    target: unsigned(TARGET_BITS)


class TargetBuffer(wiring.Component):
    """Branch target buffer: a direct-mapped table for each word of a block.

    Parameters
    ----------
    targets : entries in all. words : instructions of a block.

    Members
    -------
    block : In: number of the block
    hits : Out(ArrayLayout(Target, words)), in the same cycle; tags are partial
    write, write_pc, write_target : In: sets the entry of an instruction, or removes it (``valid`` 0)
    """

    def __init__(self, *, targets, words):
        self.words, self.rows = words, max(2, targets // words)
        self.word_bits = (words - 1).bit_length()
        super().__init__({
            "block": In(64 - 2 - self.word_bits), "hits": Out(data.ArrayLayout(Target, words)),
            "write": In(1), "write_pc": In(64), "write_target": In(Target)})

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"tag": TAG_BITS, "target": Target})
        row_bits = (self.rows - 1).bit_length()
        block = self.write_pc[2 + self.word_bits:]
        for k in range(self.words):
            m.submodules[f"word{k}"] = table = memory.Memory(shape=entry, depth=self.rows, init=[])
            read, write = table.read_port(domain="comb"), table.write_port()
            hit = read.data.target.valid & (read.data.tag == self.block[row_bits:row_bits + TAG_BITS])
            m.d.comb += [
                read.addr.eq(self.block), self.hits[k].eq(read.data.target), self.hits[k].valid.eq(hit),
                write.en.eq(self.write & (self.write_pc[2:2 + self.word_bits] == k if self.words > 1 else 1)),
                write.addr.eq(block), write.data.tag.eq(block[row_bits:]),
                write.data.target.eq(self.write_target),
            ]
        return m


class ReturnStack(wiring.Component):
    """Return addresses. Who uses it keeps the index of the top: one more after a call, one less after a
    return, modulo the entries. A misprediction goes back to an earlier index; what was overwritten since then
    stays so.

    Parameters
    ----------
    returns : entries.

    Members
    -------
    index, check_index : In; top, check_top : Out(64): the entries at these, in the same cycle
    push, push_index, push_pc : In: the address after the call at ``push_pc`` is written at an index
    """

    def __init__(self, *, returns):
        self.bits = (returns - 1).bit_length()
        super().__init__({
            "index": In(self.bits), "top": Out(64), "check_index": In(self.bits), "check_top": Out(64),
            "push": In(1), "push_index": In(self.bits), "push_pc": In(64)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.stack = stack = memory.Memory(shape=unsigned(TARGET_BITS), depth=1 << self.bits, init=[])
        read, check = stack.read_port(domain="comb"), stack.read_port(domain="comb")
        write = stack.write_port()
        m.d.comb += [
            read.addr.eq(self.index), self.top[2:].eq(read.data),
            check.addr.eq(self.check_index), self.check_top[2:].eq(check.data),
            write.en.eq(self.push), write.addr.eq(self.push_index),
            write.data.eq(self.push_pc[2:] + 1),
        ]
        return m
