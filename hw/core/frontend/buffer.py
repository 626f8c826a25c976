"""Buffer between fetch and rename: blocks of words go in, groups of instructions come out."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..types import HISTORY_BITS, RETURN_BITS

__all__ = ["Block", "Fetched", "FetchBuffer"]


class Block(data.StructLayout):
    """Words ``first`` .. ``last`` of a block at ``pc`` (that of its first word, used or not).

    ``taken``: fetch goes on at ``target`` after the last one. ``fault``: the bytes could not be read.
    """

    def __init__(self, words):
        super().__init__({
            "pc": 64, "words": data.ArrayLayout(unsigned(32), words), "first": range(words),
            "last": range(words), "taken": 1, "fault": 1, "target": 64, "history": HISTORY_BITS,
            "returns": RETURN_BITS})


class Fetched(data.Struct):
    """An instruction before it is decoded."""

    word: unsigned(32)
    pc: unsigned(64)
    taken: unsigned(1)
    fault: unsigned(1)
    target: unsigned(64)
    history: unsigned(HISTORY_BITS)
    returns: unsigned(RETURN_BITS)


def rotate(m, name, items, amount, count):
    """``items`` (``count`` equal fields) turned up by ``amount``: field k goes to k + amount modulo count."""
    for stage in range((count - 1).bit_length()):
        turned = Signal(len(items), name=f"{name}_{stage}")
        step = (len(items) // count) << stage
        m.d.comb += turned.eq(Mux(amount[stage], Cat(items[-step:], items[:-step]), items))
        items = turned
    return items


class FetchBuffer(wiring.Component):
    """First in, first out. Instruction n of a stream is in bank n modulo the banks, so that every bank is
    written once and read once a cycle.

    A group that is offered and not taken stays as it is, although more may have come.

    Parameters
    ----------
    depth : instructions. words : of a block. width : instructions offered at once.

    Members
    -------
    push : In(1), block : In(Block(words)): takes effect if there is ``room`` : Out(1) for any block
    slots : Out(ArrayLayout(Fetched, width)), count : Out: 0 .. width; take : In(1)
    clear : In(1): empties it; push and take are void
    """

    def __init__(self, *, depth, words, width):
        self.banks = max(words, width)
        if depth < 2 * self.banks:
            raise ValueError(f"predictor.buffer = {depth}: must be at least {2 * self.banks}, twice the "
                             f"larger of the words of a fetch ({words}) and the core's width ({width})")
        self.depth, self.words, self.width = depth, words, width
        super().__init__({
            "push": In(1), "block": In(Block(words)), "room": Out(1),
            "slots": Out(data.ArrayLayout(Fetched, width)), "count": Out(range(width + 1)), "take": In(1),
            "clear": In(1)})

    def elaborate(self, platform):
        m = Module()
        banks, block = self.banks, self.block
        bank_bits, bits = (banks - 1).bit_length(), (self.depth - 1).bit_length()
        head, tail = Signal(bits), Signal(bits)
        level = Signal(range(self.depth + 1))
        pushes, pushed = Signal(), Signal(range(self.words + 1))
        taken = Signal(range(self.width + 1))

        # In: word k of the block is instruction k - first after the tail.
        item = data.StructLayout({"used": 1, "last": 1, "offset": max(1, bank_bits), "word": 32})
        items = Signal(data.ArrayLayout(item, banks))
        for k in range(self.words):
            m.d.comb += [items[k].used.eq((block.first <= k) & (block.last >= k)),
                         items[k].last.eq(block.last == k), items[k].offset.eq(k),
                         items[k].word.eq(block.words[k])]
        turned = rotate(m, "placed", items.as_value(), (tail - block.first)[:bits], banks)
        placed = data.View(items.shape(), turned)
        head_low, tail_low = head[:bank_bits], tail[:bank_bits]
        stored = []
        for b in range(banks):
            m.submodules[f"bank{b}"] = bank = memory.Memory(shape=Fetched, depth=self.depth // banks, init=[])
            write, read = bank.write_port(), bank.read_port(domain="comb")
            entry = write.data
            m.d.comb += [
                write.en.eq(pushes & placed[b].used),
                write.addr.eq(tail[bank_bits:] + (b < tail_low)),
                entry.word.eq(placed[b].word),
                entry.pc.eq(block.pc + (placed[b].offset << 2 if self.words > 1 else 0)),
                entry.taken.eq(block.taken & placed[b].last),
                entry.fault.eq(block.fault), entry.target.eq(block.target),
                entry.history.eq(block.history), entry.returns.eq(block.returns),
                read.addr.eq(head[bank_bits:] + (b < head_low)),
            ]
            stored.append(read.data.as_value())
        m.d.comb += [
            self.room.eq(level <= self.depth - self.words),
            pushes.eq(self.push & self.room),
            pushed.eq(Mux(pushes, block.last - block.first + 1, 0)),
        ]

        # Out.
        ordered = rotate(m, "ordered", Cat(stored), (-head)[:bits], banks)
        m.d.comb += self.slots.as_value().eq(ordered)
        held, held_count = Signal(), Signal(range(self.width + 1))
        m.d.comb += [
            self.count.eq(Mux(held, held_count, Mux(level > self.width, self.width, level))),
            taken.eq(Mux(self.take, self.count, 0)),
        ]
        m.d.sync += [head.eq(head + taken), tail.eq(tail + pushed), level.eq(level + pushed - taken),
                     held.eq((self.count != 0) & ~self.take), held_count.eq(self.count)]
        with m.If(self.clear):
            m.d.sync += [head.eq(0), tail.eq(0), level.eq(0), held.eq(0)]
        return m
