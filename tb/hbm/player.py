"""Devices alone: a bench that plays lists of commands to the two pseudo-channels of a channel."""

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from tb.build import Options, build

from .backdoor import Devices
from .device import COLUMN_BITS, ROW_BITS, DeviceConfig, HbmDevice

__all__ = ["Command", "DevicePlayer", "Player", "player_bench", "start_up"]

ROW_OPS = ("NOP", "ACT", "PRE", "PREA", "REFPB", "REFAB", "MRS")
COLUMN_OPS = ("NOP", "RD", "RDA", "WR", "WRA")
FLUSH = 20  # idle slots at the end, in which the last data come


class Slot(data.Struct):
    """`wait` idle slots, then one with commands for both devices.

    With `twin` the second one's commands go to another module with the number of the first.
    """

    wait: 32
    row: data.ArrayLayout(ROW_BITS, 2)
    column: data.ArrayLayout(COLUMN_BITS, 2)
    temperature: 2
    twin: 1
    wdata: 256
    wcheck: 32


class Burst(data.Struct):
    """What a read gave."""

    rdata: 256
    rcheck: 32


class DevicePlayer(wiring.Component):
    """Two devices of a channel, and a third that is wired as the first by mistake.

    Members
    -------
    i : In(stream of Slot); a slot passes in every cycle with a valid beat
    o : Out(stream of Burst), array of 2
    """

    def __init__(self, config):
        self.config = config
        super().__init__({"i": In(stream.Signature(Slot)), "o": Out(stream.Signature(Burst)).array(2)})

    def elaborate(self, platform):
        m = Module()
        beat, count, fire = self.i.payload, Signal(32), Signal()
        m.d.comb += [fire.eq(self.i.valid & (count == beat.wait)), self.i.ready.eq(fire)]
        with m.If(self.i.valid):
            m.d.sync += count.eq(count + 1)
        with m.If(fire):
            m.d.sync += count.eq(0)
        temperature = Signal(2)
        with m.If(fire):
            m.d.sync += temperature.eq(beat.temperature)
        for number in range(3):
            twin = number == 2
            device = emit.place(m, f"device{number}", HbmDevice(self.config))
            source = min(number, 1)
            gate = Signal(name=f"gate{number}")
            m.d.comb += [
                gate.eq(fire & beat.twin if twin else fire & ~beat.twin if number == 1 else fire),
                device.index.eq(0 if twin else number),
                device.slot.eq(gate if twin else self.i.valid),
                device.temperature.eq(temperature), device.wdata.eq(beat.wdata),
                device.wcheck.eq(beat.wcheck),
            ]
            with m.If(gate):
                m.d.comb += [device.row.eq(beat.row[source]), device.column.eq(beat.column[source])]
            if twin:
                continue
            m.submodules[f"store{number}"] = store = fifo.SyncFIFOBuffered(width=288, depth=4)
            output = self.o[number]
            m.d.comb += [
                store.w_en.eq(device.rvalid & device.slot),
                store.w_data.eq(device.rdata | device.rcheck << 256),
                output.valid.eq(store.r_rdy), output.payload.eq(store.r_data), store.r_en.eq(output.ready),
            ]
        return m


def player_bench(config=None, *, log=None):
    """The build of a :class:`DevicePlayer`."""
    return build(DevicePlayer(config or DeviceConfig()), name="hbm_player", options=Options(optimise="-O1"),
                 log=log)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command in a slot counted from reset.

    Attributes
    ----------
    slot, device, op : int, int, str
        `op` as in the trace; "TEMPERATURE" sets the input to `value` from the next slot on; "UNKNOWN ROW" and
        "UNKNOWN COLUMN" are operations that do not exist.
    stack, bank, value : int
        `value` is the row, the column, or what MRS writes to register `bank`.
    data : bytes
        36 bytes of a write.
    twin : bool
        Given by another module that has the number of device 0.
    """

    slot: int
    op: str
    device: int = 0
    stack: int = 0
    bank: int = 0
    value: int = 0
    data: bytes = bytes(36)
    twin: bool = False


def start_up(table, device=0):
    """The shortest start-up of a device, and the first slot in which traffic is allowed."""
    slot, apart = (-(-table.ck(name) // 2) for name in ("tINIT", "tMRD"))
    registers = (table.ck("CL"), table.ck("CWL"), int(table.organisation.ecc))
    commands = [Command(slot=slot + n * apart, op="MRS", device=device, bank=n, value=value)
                for n, value in enumerate(registers)]
    commands.append(Command(slot=slot + 3 * apart, op="REFAB", device=device))
    return commands, slot + 3 * apart + -(-table.ck("tRFCab") // 2)


class Player:
    """Plays commands in a simulation of :func:`player_bench`.

    Parameters
    ----------
    simulator : tb.simulator.Simulator
    """

    def __init__(self, simulator):
        self.simulator = simulator
        self.devices = Devices(simulator)

    def play(self, commands, *, until=None, **options):
        """Reset, then give the commands; idle until slot ``until``.

        Returns
        -------
        list[numpy.ndarray]
            What reads of each device gave, uint8 [n, 36].
        """
        beats, reads = _beats(commands, until)
        outputs = {f"o__{n}": count for n, count in enumerate(reads)}
        result = self.simulator.run({"i": beats}, outputs, reset=True, **options)
        return [result.outputs[f"o__{n}"] for n in range(2)]


def _beats(commands, until):
    slots, reads, temperature = {}, [0, 0], 0
    for command in commands:
        slots.setdefault(command.slot, []).append(command)
    last = max([*slots, -1])
    slots.setdefault(max(last + FLUSH, until or 0), [])
    rows, now = [], 0
    for slot in sorted(slots):
        fields = {"wait": slot - now, "row": [0, 0], "column": [0, 0], "twin": 0, "wdata": 0, "wcheck": 0}
        now = slot + 1
        for c in slots[slot]:
            side = 1 if c.twin else c.device
            fields["twin"] |= c.twin
            if c.op == "TEMPERATURE":
                temperature = c.value
            elif c.op in ROW_OPS or c.op == "UNKNOWN ROW":
                op = ROW_OPS.index(c.op) if c.op in ROW_OPS else 7
                fields["row"][side] = op | c.stack << 3 | c.bank << 5 | c.value << 9
            else:
                op = COLUMN_OPS.index(c.op) if c.op in COLUMN_OPS else 7
                fields["column"][side] = op | c.stack << 3 | c.bank << 5 | c.value << 9
                reads[c.device] += c.op in ("RD", "RDA")
                if c.op in ("WR", "WRA"):
                    fields["wdata"] = int.from_bytes(c.data[:32], "little")
                    fields["wcheck"] = int.from_bytes(c.data[32:], "little")
        rows.append(Slot.const(fields | {"temperature": temperature}).as_bits())
    size = -(-Slot.as_shape().size // 8)
    beats = np.frombuffer(b"".join(row.to_bytes(size, "little") for row in rows), dtype=np.uint8)
    return beats.reshape(-1, size), reads
