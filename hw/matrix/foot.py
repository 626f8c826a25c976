"""The foot of a quad column: scales, rounding, accumulators and output rows of its four columns."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .. import emit
from ..numbers.float_add import Float32Adder
from ..numbers.formats import CANONICAL_NAN, Mode
from ..numbers.sum_to_float import SumToFloat32
from .quad import LANES, PSUM_BITS, field

__all__ = ["Foot", "row_wave", "scale_wave", "accumulator_distance", "foot_latency"]

MINUS_ZERO = 0x80000000
#: Bits of the widest sum of slot 0, 1, 2, 3.
SUM_BITS = (42, 28, 14, 14)
#: Exponent of the last bit of a block sum.
LAST_BIT = {Mode.MXFP4_MXFP4: -2, Mode.MXFP8_MXFP4: -10, Mode.MXFP8_MXFP8: -18}


def row_wave(config):
    """Control that goes along the feet with the sums of one row of activations (a layout).

    ``present[g]``: row group g has lanes in use; ``fresh``: start from this block, not from the
    accumulators; ``emit``: the result goes to output row ``output_row`` (else to accumulator ``row``).
    """
    return data.StructLayout({
        "valid": 1, "fresh": 1, "emit": 1, "subtile": 2,
        "row": unsigned(max(1, (config.accumulator_rows - 1).bit_length())),
        "output_row": unsigned(max(1, (config.output_rows - 1).bit_length())),
        "present": config.row_groups, "nan": config.row_groups,
        "scale": data.ArrayLayout(8, config.row_groups),
    })


def scale_wave(config):
    """Scales of one weight beat, for the quad column which sees ``quad`` = 0 (a layout)."""
    return data.StructLayout({
        "low": 1, "high": 1, "quad": 6,
        "scale": data.ArrayLayout(data.ArrayLayout(8, 2), config.row_groups),
        "nan": data.ArrayLayout(2, config.row_groups),
    })


def accumulator_distance(config):
    """Least cycles from a row to the next row that uses the same accumulator."""
    return config.row_groups * config.add_latency + 2


def foot_latency(config):
    """Cycles from the sums at a foot to the write of its accumulator or output row."""
    return config.sum_latency + config.row_groups * config.add_latency


class FootMode:
    """What the feet need to know of the mode, as registers: it follows ``mode`` a cycle later."""

    def __init__(self, m, mode):
        self.wide_activations = Signal(name="mode_wide_activations", reset_less=True)
        self.wide_weights = Signal(name="mode_wide_weights", reset_less=True)
        self.last_bit = Signal(signed(6), name="mode_last_bit", reset_less=True)
        wide_activations, wide_weights = mode != Mode.MXFP4_MXFP4, mode == Mode.MXFP8_MXFP8
        m.d.sync += [
            self.wide_activations.eq(wide_activations), self.wide_weights.eq(wide_weights),
            self.last_bit.eq(Mux(wide_weights, LAST_BIT[Mode.MXFP8_MXFP8],
                                 Mux(wide_activations, LAST_BIT[Mode.MXFP8_MXFP4],
                                     LAST_BIT[Mode.MXFP4_MXFP4]))),
        ]


class Foot(wiring.Component):
    """Everything below one quad column, for four columns 4 q ... 4 q + 3 of the unit.

    For each row of activations: take the sums out of each row group's psum, apply both scales, round once,
    add to the accumulator in order of the row groups. Control and scales hop east from foot to foot. As in a
    quad column, what enters is registered before it is used, all but ``psum``, which is a register already.

    Parameters
    ----------
    config : MatrixConfig
        ``sum_latency`` must be at least 1: the accumulator is read during the rounding.

    Members
    -------
    mode : In(Mode)
        Constant while anything is in flight, and one cycle before.
    psum : In(60 * row_groups), row group 0 first
    row_i, row_o : In, Out of row_wave(config), one cycle apart; row_o goes with psum
    scale_i, scale_o : In, Out of scale_wave(config), one cycle apart; scale_o.quad is one less
    swap_i, swap_o : In, Out(1), one cycle apart; one cycle ahead of the first row with the new scales
    preset_valid, preset_row, preset_data : In(1), In, In(128)
        Write of accumulators with rows of C, while no row is on its way. NaN become canonical.
    read_enable, read_row : In; read_data : Out(128)
        Output rows: ``read_data`` one cycle after, kept until the next enable.
    """

    def __init__(self, config):
        if config.sum_latency < 1:
            raise ValueError(f"sum_latency is {config.sum_latency}; the column foot needs 1 or more")
        self.config = config
        row, scale = row_wave(config), scale_wave(config)
        super().__init__({
            "mode": In(2),
            "psum": In(PSUM_BITS * config.row_groups),
            "row_i": In(row.size), "row_o": Out(row.size),
            "scale_i": In(scale.size), "scale_o": Out(scale.size),
            "swap_i": In(1), "swap_o": Out(1),
            "preset_valid": In(1), "preset_row": In(row["row"].width), "preset_data": In(128),
            "read_enable": In(1), "read_row": In(row["output_row"].width), "read_data": Out(128),
        })

    simplified = True  # hw.emit

    @property
    def module_name(self):
        c = self.config
        return (f"foot_g{c.row_groups}_a{c.accumulator_rows}_o{c.output_rows}"
                f"_s{c.sum_latency}_f{c.add_latency}")

    def elaborate(self, platform):
        m = Module()
        config = self.config
        mode = FootMode(m, self.mode)
        scale, swap = Signal(scale_wave(config).size), Signal()
        m.d.sync += [scale.eq(self.scale_i), swap.eq(self.swap_i)]
        token = data.View(scale_wave(config), scale)

        # The row's control, by cycles since its sums stood at the foot.
        ages, younger = [], self.row_i
        for age in range(foot_latency(config) + 1):
            row = Signal(row_wave(config).size, name=f"row_age{age}", reset_less=age > 0)
            m.d.sync += row.eq(younger)
            ages.append(data.View(row_wave(config), row))
            younger = row
        m.d.comb += [self.row_o.eq(ages[0]), self.swap_o.eq(swap), self.scale_o.eq(scale),
                     data.View(scale_wave(config), self.scale_o).quad.eq(token.quad - 1)]

        rounded = [self._rounded(m, g, token, swap, ages[0], mode) for g in range(config.row_groups)]

        totals, outputs = self._memories(m, ages[-1])
        read = ages[config.sum_latency - 1]
        m.d.comb += totals.read.addr.eq(read.row)
        kept = [totals.read.data[32 * lane:32 * lane + 32] for lane in range(4)]

        sums = self._add(m, ages, kept, rounded, mode)
        self._write(m, ages[-1], sums, mode, totals, outputs)
        return m

    def _rounded(self, m, group, token, swap, row, mode):
        """Binary32 of the four slots' block sums, ``sum_latency`` cycles after ``row``."""
        mine = token.quad == 0
        psum = self.psum[PSUM_BITS * group:PSUM_BITS * (group + 1)]
        sums = {
            0: Mux(mode.wide_weights, field(psum, LANES[0], 42),
                   Mux(mode.wide_activations, field(psum, LANES[0], 28), field(psum, LANES[0], 14))),
            1: Mux(mode.wide_activations, field(psum, LANES[1], 28), field(psum, LANES[1], 14)),
            2: field(psum, LANES[2], 14),
            3: field(psum, LANES[3], 14),
        }
        offset = Signal(signed(10), name=f"g{group}_offset")
        m.d.comb += offset.eq(row.scale[group] + mode.last_bit - 254)
        results = []
        for slot in range(4):
            name = f"g{group}_slot{slot}"
            shadow = Signal(9, name=f"{name}_shadow_scale", reset_less=True)
            active = Signal(9, name=f"{name}_scale", reset_less=True)
            with m.If(mine & (token.low if slot < 2 else token.high)):
                m.d.sync += shadow.eq(Cat(token.scale[group][slot % 2], token.nan[group][slot % 2]))
            with m.If(swap):
                m.d.sync += active.eq(shadow)
            rounder = SumToFloat32(width=SUM_BITS[slot], latency=self.config.sum_latency)
            emit.place(m, f"{name}_round", rounder)
            m.d.comb += [rounder.i.sum.eq(sums[slot]),
                         rounder.i.exponent.eq(offset + active[:8]),
                         rounder.i.nan.eq(row.nan[group] | active[8])]
            results.append(rounder.o)
        return results

    def _add(self, m, ages, kept, rounded, mode):
        """Add the row groups' blocks to the accumulators, in order of k. Returns the four slots' results."""
        config = self.config
        at = config.sum_latency
        subtile = ages[at].subtile
        by_slot = [
            Mux(mode.wide_weights,
                Mux(subtile[1], Mux(subtile[0], kept[3], kept[2]), Mux(subtile[0], kept[1], kept[0])),
                Mux(mode.wide_activations & subtile[0], kept[2], kept[0])),
            Mux(mode.wide_activations & subtile[0], kept[3], kept[1]), kept[2], kept[3],
        ]
        results = []
        for slot in range(4):
            # x + (-0) is x for every x, so a missing operand is -0; a product with k = 0 is +0.
            nothing = Mux(ages[at].present[0], MINUS_ZERO, 0)
            total = Mux(ages[at].fresh, nothing, by_slot[slot])
            for group in range(config.row_groups):
                name = f"slot{slot}_g{group}"
                block = rounded[group][slot]
                for late in range(group * config.add_latency):
                    register = Signal(32, name=f"{name}_late{late}", reset_less=True)
                    m.d.sync += register.eq(block)
                    block = register
                control = ages[at + group * config.add_latency]
                adder = Float32Adder(latency=config.add_latency)
                emit.place(m, f"{name}_add", adder)
                m.d.comb += [adder.i.a.eq(total),
                             adder.i.b.eq(Mux(control.present[group], block, MINUS_ZERO))]
                total = adder.o
            results.append(total)
        return results

    def _memories(self, m, last):
        config = self.config
        ports = []
        for name, depth in (("accumulators", config.accumulator_rows), ("output_rows", config.output_rows)):
            m.submodules[name] = store = memory.Memory(shape=unsigned(128), depth=depth, init=[])
            port = type("Ports", (), {"write": store.write_port(granularity=32), "read": store.read_port()})
            ports.append(port)
        totals, outputs = ports
        m.d.comb += [outputs.read.addr.eq(self.read_row), outputs.read.en.eq(self.read_enable),
                     self.read_data.eq(outputs.read.data)]
        return totals, outputs

    def _write(self, m, row, sums, mode, totals, outputs):
        """Lane j holds column 4 q + j, whatever the mode."""
        # What is used twice has a name: Verilator would make up another one in each foot.
        results = [Signal(32, name=f"result{slot}") for slot in range(4)]
        odd, mask = Signal(32, name="result_odd"), Signal(4, name="result_mask")
        m.d.comb += [
            *(result.eq(value) for result, value in zip(results, sums, strict=True)),
            odd.eq(Mux(mode.wide_weights, results[0], results[1])),
            mask.eq(Mux(mode.wide_weights, 1 << row.subtile,
                        Mux(mode.wide_activations, Mux(row.subtile[0], 0xC, 0x3), 0xF))),
        ]
        word = Cat(results[0], odd, Mux(mode.wide_activations, results[0], results[2]),
                   Mux(mode.wide_activations, odd, results[3]))

        preset_valid = Signal(name="preset_write")
        preset_row = Signal.like(self.preset_row, name="preset_write_row", reset_less=True)
        given = Signal(128, name="preset_given", reset_less=True)
        m.d.sync += [preset_valid.eq(self.preset_valid), preset_row.eq(self.preset_row),
                     given.eq(self.preset_data)]
        preset = Signal(128)
        for lane in range(4):
            value = given[32 * lane:32 * lane + 32]
            is_nan = value[23:31].all() & value[:23].any()
            m.d.comb += preset[32 * lane:32 * lane + 32].eq(Mux(is_nan, CANONICAL_NAN, value))
        m.d.comb += [
            totals.write.addr.eq(Mux(preset_valid, preset_row, row.row)),
            totals.write.data.eq(Mux(preset_valid, preset, word)),
            totals.write.en.eq(Mux(preset_valid, 0xF, Mux(row.valid & ~row.emit, mask, 0))),
            outputs.write.addr.eq(row.output_row),
            outputs.write.data.eq(word),
            outputs.write.en.eq(Mux(row.valid & row.emit, mask, 0)),
        ]
