"""Control of one unit: what happens at its west edge in each cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ..numbers.formats import Mode
from .foot import accumulator_distance, foot_latency
from .job import Output, UnitCommand
from .passes import PassWalker

__all__ = ["Sequencer", "Waiting", "edge_to_foot", "drain_cycles", "row_info"]


class Waiting(enum.Enum, shape=4):
    """Why no row of activations enters the array in this cycle (a signal to look at in a waveform)."""

    NOTHING = 0  #: a row enters
    JOB = 1
    MODE = 2  #: the array empties before the mode changes
    C = 3
    WEIGHTS = 4
    ACTIVATIONS = 5
    OUTPUT = 6  #: no free output row
    ACCUMULATOR = 7  #: the row would meet itself in the adders


def edge_to_foot(config):
    """Cycles from the acceptance of a row at the west edge to its sums at foot 0."""
    return 35 + config.product_latency


def drain_cycles(config):
    """Cycles after which a row that was accepted has left its unit's arithmetic."""
    return edge_to_foot(config) + config.cols // 4 + foot_latency(config) + 2


def row_info(config):
    """What is kept beside an output row: valid columns, form, last row of the job (a layout)."""
    return data.StructLayout({"columns": 9, "output": Output, "last": 1})


class Sequencer(wiring.Component):
    """Turns jobs into weight beats and rows of activations that enter the array.

    The loader runs one pass ahead of the issuer: while rows stream past the active weights, the next ones go
    to the shadow registers. A row is issued only if everything after the edge is sure to take it, because
    nothing can stop it there: weights loaded, an output row free, its accumulator not in the adders.
    A change of mode waits until the array is empty; so does the entry of C.

    Members
    -------
    command : In(stream of UnitCommand)
    mode : Out(Mode)
    weights_valid, weights_ready : handshake of weight beats; ``load`` describes the accepted one
        (low, high, quad), ``weight_lanes`` its rows in use
    activations_valid, activations_ready : handshake of rows. A row of a product with k = 0 needs none.
    issue, swap : Out(1): a row enters; it is the first of its pass
    lanes, fresh, emit, subtile, row, output_row : Out, of the row that enters. ``listening``: without columns
    completed : Out(1): the row, when it arrives, completes an output row
    info_valid, info : Out: description of the newly taken output row ``output_row``
    freed : In(1): an output row was read
    c_valid, c_ready, preset_row : rows of C into the accumulators
    waiting : Out(Waiting)
    """

    def __init__(self, config):
        self.config = config
        row = unsigned(max(1, (config.accumulator_rows - 1).bit_length()))
        output_row = unsigned(max(1, (config.output_rows - 1).bit_length()))
        super().__init__({
            "command": In(stream.Signature(UnitCommand)), "mode": Out(Mode),
            "weights_valid": In(1), "weights_ready": Out(1),
            "low": Out(1), "high": Out(1), "quad": Out(6), "weight_lanes": Out(9),
            "activations_valid": In(1), "activations_ready": Out(1),
            "issue": Out(1), "swap": Out(1), "lanes": Out(9), "fresh": Out(1), "emit": Out(1),
            "listening": Out(1), "subtile": Out(2), "row": Out(row), "output_row": Out(output_row),
            "completed": Out(1), "info_valid": Out(1), "info": Out(row_info(config)), "freed": In(1),
            "c_valid": In(1), "c_ready": Out(1), "preset_row": Out(row),
            "waiting": Out(Waiting),
        })

    def elaborate(self, platform):
        m = Module()
        walkers = []
        for name in ("loader", "issuer"):
            m.submodules[f"{name}_queue"] = queue = fifo.SyncFIFO(width=UnitCommand.as_shape().size, depth=2)
            m.submodules[name] = walker = PassWalker(rows=self.config.rows)
            m.d.comb += [queue.w_data.eq(self.command.payload), walker.i.payload.eq(queue.r_data),
                         walker.i.valid.eq(queue.r_rdy), queue.r_en.eq(walker.i.ready)]
            walkers.append((queue, walker.o))
        (load_queue, loading), (issue_queue, issuing) = walkers
        m.d.comb += self.command.ready.eq(load_queue.w_rdy & issue_queue.w_rdy)
        for queue, _ in walkers:
            m.d.comb += queue.w_en.eq(self.command.valid & self.command.ready)

        shadow_full = Signal()
        quiet = Signal(range(drain_cycles(self.config) + 1))
        empty = quiet == drain_cycles(self.config)
        with m.If(self.issue | (self.weights_valid & self.weights_ready)):
            m.d.sync += quiet.eq(0)
        with m.Elif(~empty):
            m.d.sync += quiet.eq(quiet + 1)

        self._load(m, loading, issuing, shadow_full, empty)
        preset = self._enter_c(m, issuing, empty)
        self._issue(m, issuing, shadow_full, preset)
        return m

    def _load(self, m, loading, issuing, shadow_full, empty):
        """Weight beats of the loader's pass into the shadow registers."""
        now = loading.payload
        wide = now.mode != Mode.MXFP4_MXFP4
        half = Signal()
        same_mode = now.mode == self.mode
        free = loading.valid & same_mode & (~shadow_full | self.swap)
        needed = (now.columns != 0) & (now.lanes != 0)
        beat = self.weights_valid & self.weights_ready
        last = (self.quad == now.quads - 1) & (half | wide)
        loaded = Mux(needed, beat & last, free)
        m.d.comb += [
            self.weights_ready.eq(free & needed), self.weight_lanes.eq(now.lanes),
            self.low.eq(beat & (wide | ~half)), self.high.eq(beat & (wide | half)),
            loading.ready.eq(loaded),
        ]
        with m.If(beat):
            m.d.sync += half.eq(~half & ~wide)
            with m.If(half | wide):
                m.d.sync += self.quad.eq(Mux(last, 0, self.quad + 1))
        with m.If(loaded):
            m.d.sync += shadow_full.eq(1)
        with m.Elif(self.swap):
            m.d.sync += shadow_full.eq(0)
        behind = issuing.valid & (issuing.payload.mode != now.mode)
        with m.If(loading.valid & ~same_mode & ~shadow_full & ~behind & empty):
            m.d.sync += self.mode.eq(now.mode)

    def _enter_c(self, m, issuing, empty):
        """Rows of C into the accumulators, before the first pass of a superstep. Returns 'still to do'."""
        now = issuing.payload
        done = Signal(name="c_done")
        pending = Signal(name="c_pending")
        m.d.comb += [
            pending.eq(issuing.valid & now.opening & now.has_c & (now.columns != 0) & ~done),
            self.c_ready.eq(pending & empty),
        ]
        with m.If(self.c_valid & self.c_ready):
            m.d.sync += self.preset_row.eq(self.preset_row + 1)
            with m.If(self.preset_row == now.m - 1):
                m.d.sync += [self.preset_row.eq(0), done.eq(1)]
        with m.If(issuing.valid & issuing.ready):
            m.d.sync += done.eq(0)
        return pending

    def _issue(self, m, issuing, shadow_full, preset):
        """Rows of the issuer's pass into the array."""
        config = self.config
        now = issuing.payload
        row = Signal.like(self.row)
        newest = Signal.like(self.output_row)  # next output row to take
        base = Signal.like(self.output_row)  # output row of row 0
        used = Signal(range(config.output_rows + 1))
        takes = now.last & (now.subtile == 0) & (now.columns != 0)
        fed = (now.lanes == 0) | self.activations_valid
        loaded = (row != 0) | shadow_full

        # A row meets itself if as many rows as lie between two uses of an accumulator fit in the adders.
        distance = accumulator_distance(config)
        recent = Signal(distance - 1)
        m.d.sync += recent.eq(Cat(self.issue, recent))
        few = Mux(now.m < distance, now.m, distance)
        clear = sum(recent) < few[:distance.bit_length()] * now.subtiles

        with m.If(~issuing.valid):
            m.d.comb += self.waiting.eq(Waiting.JOB)
        with m.Elif(preset):
            m.d.comb += self.waiting.eq(Waiting.C)
        with m.Elif(~loaded):
            m.d.comb += self.waiting.eq(Mux(now.mode == self.mode, Waiting.WEIGHTS, Waiting.MODE))
        with m.Elif(~fed):
            m.d.comb += self.waiting.eq(Waiting.ACTIVATIONS)
        with m.Elif(takes & (used == config.output_rows)):
            m.d.comb += self.waiting.eq(Waiting.OUTPUT)
        with m.Elif(~clear):
            m.d.comb += self.waiting.eq(Waiting.ACCUMULATOR)
        last_row = row == now.m - 1
        taken = self.issue & takes
        m.d.comb += [
            self.issue.eq(self.waiting == Waiting.NOTHING),
            self.activations_ready.eq(self.issue & (now.lanes != 0)),
            self.swap.eq(self.issue & (row == 0)),
            issuing.ready.eq(self.issue & last_row),
            self.lanes.eq(now.lanes), self.fresh.eq(now.first & ~now.has_c), self.emit.eq(now.last),
            self.listening.eq(now.columns == 0), self.subtile.eq(now.subtile), self.row.eq(row),
            self.output_row.eq(Mux(now.subtile == 0, newest, base + row)),
            self.completed.eq(self.issue & now.closing & (now.columns != 0)),
            self.info_valid.eq(taken), self.info.columns.eq(now.columns), self.info.output.eq(now.output),
            self.info.last.eq(now.final & last_row),
        ]
        with m.If(self.issue):
            m.d.sync += row.eq(Mux(last_row, 0, row + 1))
        with m.If(taken):
            m.d.sync += newest.eq(newest + 1)
            with m.If(row == 0):
                m.d.sync += base.eq(newest)
        m.d.sync += used.eq(used + taken - self.freed)
