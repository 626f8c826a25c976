"""The response ring: answers in any order go in, and come out in order within each class of tags."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .port import CLASSES, Response, Status

__all__ = ["Completion", "Opening", "ResponseRing"]


class Opening(data.Struct):
    """What is kept of a request until its answer leaves."""

    tag: unsigned(8)
    write: unsigned(1)


class Completion(data.StructLayout):
    """The answer to the request in ``slot``."""

    def __init__(self, data_bits=512):
        super().__init__({"slot": unsigned(8), "status": Status, "data": unsigned(data_bits)})


class ResponseRing(wiring.Component):
    """One ring of ``depth`` places a class; a request has its place from its entry to its response.

    A place is opened with each request (``opening``, which waits while its class is full), completed once,
    and given as a response when all older ones of its class are given. Classes take turns where several
    could. A completion whose turn it is leaves in the same cycle.

    Parameters
    ----------
    depth : int
        Places a class, a power of two up to 64.
    data_bits : int
        Width of the data; 512 in the slice, less in proofs.
    classes : int
        Rings used, a power of two up to 4; 4 in the slice, less in proofs.

    Members
    -------
    opening : In(stream of Opening); ``slot`` : Out(8): the place it gets, with the transfer
    complete_valid, complete : In: one completion a cycle, always taken
    response : Out(stream of Response)
    """

    def __init__(self, *, depth=64, data_bits=512, classes=CLASSES):
        if depth not in (1, 2, 4, 8, 16, 32, 64):
            raise ValueError(f"depth = {depth!r}: must be a power of two from 1 to 64")
        self.depth, self.data_bits, self.classes = depth, data_bits, classes
        response = Response if data_bits == 512 else data.StructLayout(
            {"tag": 8, "write": 1, "status": Status, "data": data_bits})
        super().__init__({
            "opening": In(stream.Signature(Opening)), "slot": Out(8),
            "complete_valid": In(1), "complete": In(Completion(data_bits)),
            "response": Out(stream.Signature(response)),
        })

    def elaborate(self, platform):
        m = Module()
        depth, bits = self.depth, (self.depth - 1).bit_length()
        class_bits = (self.classes - 1).bit_length()
        # The class stands above the index, where slot has it: slot[6:8].
        places = 1 << (class_bits + bits)
        m.submodules.opened = opened = memory.Memory(shape=Opening, depth=places, init=[])
        kept = data.StructLayout({"status": Status, "data": self.data_bits})
        m.submodules.answers = answers = memory.Memory(shape=kept, depth=places, init=[])
        open_write, open_read = opened.write_port(), opened.read_port()
        open_now = opened.read_port(domain="comb")
        answer_write = answers.write_port()
        # Transparent: what is completed in this cycle can be read in this cycle.
        answer_read = answers.read_port(transparent_for=(answer_write,))

        tails = [Signal(bits, name=f"tail{c}") for c in range(self.classes)]
        heads = [Signal(bits, name=f"head{c}") for c in range(self.classes)]
        counts = [Signal(range(depth + 1), name=f"open{c}") for c in range(self.classes)]
        done = [Signal(depth, name=f"done{c}") for c in range(self.classes)]

        # Opening.
        tag_class = self.opening.payload.tag[6:6 + class_bits] if class_bits else 0
        tail, room = Signal(bits), Signal()
        opens = Signal()
        with m.Switch(tag_class):
            for c in range(self.classes):
                with m.Case(c):
                    m.d.comb += [tail.eq(tails[c]), room.eq(counts[c] != depth)]
                    with m.If(opens):
                        m.d.sync += tails[c].eq(tails[c] + 1)
        m.d.comb += [
            self.opening.ready.eq(room), opens.eq(self.opening.valid & room),
            self.slot[:bits].eq(tail), self.slot[6:6 + class_bits].eq(tag_class),
            open_write.en.eq(opens), open_write.addr.eq(Cat(tail, tag_class)[:class_bits + bits]),
            open_write.data.eq(self.opening.payload),
        ]

        # Completion.
        index, owner = self.complete.slot[:bits], self.complete.slot[6:6 + class_bits]
        m.d.comb += [
            answer_write.en.eq(self.complete_valid), answer_write.addr.eq(Cat(index, owner)),
            answer_write.data.status.eq(self.complete.status), answer_write.data.data.eq(self.complete.data),
        ]

        # Response: a class whose oldest answer is there, the next one in turn first.
        turn = Signal(class_bits)
        ready = Signal(self.classes)
        valid = Signal()
        chosen = Signal(class_bits)
        takes = Signal()
        for c in range(self.classes):
            arrives = self.complete_valid & (owner == c if class_bits else 1)
            now = Signal(depth, name=f"done_now{c}")
            m.d.comb += [now.eq(done[c] | Mux(arrives, 1 << index, 0)),
                         ready[c].eq(now.bit_select(heads[c], 1))]
            gone = takes & (chosen == c)
            m.d.sync += [done[c].eq(Mux(gone, now & ~(1 << heads[c])[:depth], now)),
                         heads[c].eq(heads[c] + gone),
                         counts[c].eq(counts[c] + (opens & (tag_class == c)) - gone)]
        with m.Switch(turn):
            for first in range(self.classes):
                with m.Case(first):
                    order = [(first + step) % self.classes for step in range(self.classes)]
                    for c in reversed(order):
                        with m.If(ready[c]):
                            m.d.comb += chosen.eq(c)
        head = Signal(bits)
        with m.Switch(chosen):
            for c in range(self.classes):
                with m.Case(c):
                    m.d.comb += head.eq(heads[c])
        # What has waited for nothing and finds the output free goes past the memory.
        direct, given = Signal(), self.response.payload
        m.d.comb += [
            takes.eq((ready != 0) & (~valid | self.response.ready)),
            open_read.en.eq(takes), answer_read.en.eq(takes),
            open_read.addr.eq(Cat(head, chosen)), answer_read.addr.eq(Cat(head, chosen)),
            open_now.addr.eq(Cat(index, owner)),
            direct.eq(~valid & self.complete_valid & (index == head) & (owner == chosen)),
            self.response.valid.eq(valid | direct),
            Cat(given.tag, given.write).eq(open_read.data), given.status.eq(answer_read.data.status),
            given.data.eq(answer_read.data.data),
        ]
        with m.If(direct):
            m.d.comb += [Cat(given.tag, given.write).eq(open_now.data),
                         given.status.eq(self.complete.status), given.data.eq(self.complete.data)]
        with m.If(takes):
            m.d.sync += [valid.eq(~(direct & self.response.ready)), turn.eq(chosen + 1)]
        with m.Elif(self.response.ready):
            m.d.sync += valid.eq(0)
        return m
