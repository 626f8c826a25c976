"""A core with everything that it needs around it, as a bench that runs programs.

The memory is a double with any latency, or an HBM slice with its devices. What is asked of the parts between
runs: memory.py, host.py, trace.py; to run a program: run.py.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from hw import emit
from hw.core.address import CLINT, HOST
from hw.core.memory.router import MmioRouter
from hw.core.privileged.clint import Clint
from hw.hbm.slice import HbmSlice
from tb.build import Options, build
from tb.hbm.bench import connect_device, table_of
from tb.hbm.device import DeviceConfig, HbmDevice

from .host import HostDevice
from .memory import MemoryDouble
from .pipe import PipeSink
from .trace import TraceSink

__all__ = ["CoreBench", "CoreBuild", "RAM_BYTES", "core_bench"]

RAM_BYTES = 64 << 20
"""Memory of a bench where nothing else is asked for."""


class CoreBench(wiring.Component):
    """A core, its memory, a CLINT, a host device, and sinks for its trace.

    Parameters
    ----------
    config : CoreConfig
    ram_bytes : int
        Memory from RAM on. With ``hbm`` it is that of the slice.
    core : wiring.Component, optional
        In place of Core(config, ram_bytes=ram_bytes, trace=True), with the same signature; ``pipe`` may be
        missing.
    hbm : HbmConfig, optional
        An HBM slice with its devices in place of the memory double.
    clock_ghz : float
        Of the tile, for the slice.

    Members
    -------
    event : Out(stream of 32 bits)
        One beat ends a run (tb.core.trace.Event).
    """

    def __init__(self, config, *, ram_bytes=RAM_BYTES, core=None, hbm=None, clock_ghz=1.6):
        self.config, self.ram_bytes = config, hbm.capacity_bytes if hbm else ram_bytes
        self.hbm, self.clock_ghz = hbm, clock_ghz
        if core is None:
            from hw.core.core import Core
            core = Core(config, ram_bytes=self.ram_bytes, trace=True)
        self.core = core
        super().__init__({"event": Out(stream.Signature(32))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        m.submodules.router = router = MmioRouter([CLINT, HOST])
        m.submodules.clint = clint = Clint()
        host = emit.place(m, "host", HostDevice())
        members = core.signature.members
        head = members["head"].shape
        trace = members["trace"]
        record, slots = (trace.shape, trace.dimensions[0]) if trace.dimensions else \
            (trace.shape.elem_shape, trace.shape.length)
        sink = emit.place(m, "trace_sink", TraceSink(record, head, slots))
        self._memory(m, core)
        _join(m, core.mmio_request, router.request)
        _join(m, router.response, core.mmio_response)
        for device, port in zip((clint, host), router.devices):
            _join(m, port.request, device.request)
            _join(m, device.response, port.response)
        m.d.comb += [
            core.external.eq(host.external), core.software.eq(host.software | clint.software),
            core.timer.eq(host.timer | clint.timer), core.time.eq(clint.time),
            Value.cast(sink.trace).eq(Cat(Value.cast(core.trace[slot]) for slot in range(slots))),
            Value.cast(sink.head).eq(Value.cast(core.head)), sink.exited.eq(host.exited),
        ]
        if "pipe" in members:
            pipe = emit.place(m, "pipe_sink", PipeSink(members["pipe"].shape))
            m.d.comb += Value.cast(pipe.pipe).eq(Value.cast(core.pipe))
        wiring.connect(m, sink.event, wiring.flipped(self.event))
        return m

    def _memory(self, m, core):
        if self.hbm is None:
            memory = emit.place(m, "memory", MemoryDouble(self.ram_bytes))
        else:
            config = self.hbm
            m.submodules.memory = memory = HbmSlice(config, clock_ghz=self.clock_ghz)
            device_config = DeviceConfig(table=table_of(config), clock_ghz=self.clock_ghz)
            for c in range(config.pseudo_channels):
                device = emit.place(m, f"device{c}", HbmDevice(device_config))
                connect_device(m, device, memory.dfi[c], index=c, temperature=0)
                m.d.comb += memory.bulk[c].ready.eq(1)
            m.d.comb += [memory.range_answer.ready.eq(1), memory.csr_answer.ready.eq(1)]
        _join(m, core.request, memory.request)
        _join(m, memory.response, core.response)


def _join(m, source, target):
    """As wiring.connect, of streams whose payloads have one layout under two names."""
    m.d.comb += [Value.cast(target.payload).eq(Value.cast(source.payload)), target.valid.eq(source.valid),
                 source.ready.eq(target.ready)]


@dataclass(frozen=True, kw_only=True)
class CoreBuild:
    """A built :class:`CoreBench`: ``bench`` (tb.build.Bench), and what it was built from."""

    bench: object
    config: object
    ram_bytes: int
    hbm: object = None


def core_bench(config, *, name="core_bench", options=None, log=None, **parts):
    """Build a :class:`CoreBench`; ``parts`` as of its constructor. A :class:`CoreBuild`."""
    design = CoreBench(config, **parts)
    built = build(design, name=name, config=config, options=options or Options(optimise="-O2"), log=log)
    return CoreBuild(bench=built, config=config, ram_bytes=design.ram_bytes, hbm=design.hbm)
