"""The rename table: architectural register to physical register."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["RenameTable"]


class RenameTable(wiring.Component):
    """Two tables, of renamed and of committed instructions, and a checkpoint of the first for each branch.

    Parameters
    ----------
    width, physical, checkpoints : int

    Members
    -------
    sources : In(array of Struct(rs1, rs2)), tags : Out(array of Struct(rs1, rs2))
        Registers read by each slot, lower slots already renamed.
    targets : In(array of Struct(valid, rd, tag))
        What each slot writes, once ``advance``.
    advance : In(1)
    save : In(Struct(slots, id))
        At the same edge, keep the table as it is after the slot of the one set bit of ``slots`` (none if 0).
    restore : In(Struct(valid, id))
        Back to a checkpoint.
    flush : In(1)
        Back to the committed table. Before ``restore``.
    commits : In(array of Struct(valid, rd, tag)), replaced : Out(array of tag)
        Committing instructions in program order, and the register that rd had before each.
    """

    def __init__(self, *, width, physical, checkpoints):
        self.width = width
        self.checkpoints = checkpoints
        tag = self.tag = (physical - 1).bit_length()
        write = data.StructLayout({"valid": 1, "rd": 5, "tag": tag})
        index = range(checkpoints)
        super().__init__({
            "sources": In(data.StructLayout({"rs1": 5, "rs2": 5})).array(width),
            "tags": Out(data.StructLayout({"rs1": tag, "rs2": tag})).array(width),
            "targets": In(write).array(width), "advance": In(1),
            "save": In(data.StructLayout({"slots": width, "id": index})),
            "restore": In(data.StructLayout({"valid": 1, "id": index})), "flush": In(1),
            "commits": In(write).array(width), "replaced": Out(tag).array(width),
        })

    def elaborate(self, platform):
        m = Module()
        layout = data.ArrayLayout(self.tag, 32)
        table = Signal(layout, init=range(32))
        committed = Signal(layout, init=range(32))
        m.submodules.saved = saved = Memory(shape=layout, depth=self.checkpoints, init=[])
        write = saved.write_port()
        read = saved.read_port(domain="comb")

        def looked_up(base, register, writes):
            value = base[register]
            for change in writes:
                value = Mux(change.valid & (change.rd == register), change.tag, value)
            return value

        for i in range(self.width):
            for field in ("rs1", "rs2"):
                m.d.comb += self.tags[i][field].eq(
                    looked_up(table, self.sources[i][field], self.targets[:i]))
            m.d.comb += self.replaced[i].eq(looked_up(committed, self.commits[i].rd, self.commits[:i]))

        renamed = Signal(layout)
        kept = Signal(layout)
        retired = Signal(layout)
        m.d.comb += [renamed.eq(table), kept.eq(table), retired.eq(committed)]
        for i in range(self.width):
            change, commit = self.targets[i], self.commits[i]
            # A checkpoint holds what its own slot and lower ones write.
            before = (self.save.slots >> i) != 0
            for register in range(1, 32):
                with m.If(change.valid & (change.rd == register)):
                    m.d.comb += renamed[register].eq(change.tag)
                    with m.If(before):
                        m.d.comb += kept[register].eq(change.tag)
                with m.If(commit.valid & (commit.rd == register)):
                    m.d.comb += retired[register].eq(commit.tag)

        m.d.comb += [
            write.addr.eq(self.save.id), write.data.eq(kept),
            write.en.eq(self.advance & (self.save.slots != 0)),
            read.addr.eq(self.restore.id),
        ]
        m.d.sync += committed.eq(retired)
        with m.If(self.flush):
            m.d.sync += table.eq(committed)
        with m.Elif(self.restore.valid):
            m.d.sync += table.eq(read.data)
        with m.Elif(self.advance):
            m.d.sync += table.eq(renamed)
        return m
