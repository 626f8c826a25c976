"""An HBM slice with its devices as a bench: streams only."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.hbm import port
from hw.hbm.slice import HbmSlice
from tb.build import Options, build

from .device import DeviceConfig, HbmDevice
from .table import Organisation, table

__all__ = ["SliceBench", "connect_device", "slice_bench", "table_of"]


def table_of(config, **changes):
    """The rule table for the device that a HbmConfig describes.

    Organisation and data rate are the configuration's, and so are the latencies and tCCD, in which devices
    differ; everything else is as in ``rules.json``, whatever the controller believes. ``changes`` as of
    :func:`tb.hbm.table.table`.
    """
    organisation = Organisation(**{name: getattr(config, name) for name in (
        "stack_ids", "bank_groups", "banks", "rows", "gbit_s_pin")})
    timings = config.timings
    ours = {"CL": timings.cl, "CWL": timings.cwl, "tCCD_L": timings.ccd_l_ck, "tCCD_R": timings.ccd_r_ck}
    return table(organisation, **(ours | changes))


def connect_device(m, device, dfi, *, index, temperature):
    """Join a device with the controller's edge ``dfi`` (DfiSignature)."""
    m.d.comb += [
        device.index.eq(index), device.slot.eq(dfi.slot), device.row.eq(dfi.row),
        device.column.eq(dfi.column), device.wdata.eq(dfi.wdata), device.wcheck.eq(dfi.wcheck),
        device.temperature.eq(temperature),
        dfi.rdata.eq(device.rdata), dfi.rcheck.eq(device.rcheck), dfi.rvalid.eq(device.rvalid),
    ]


class SliceBench(wiring.Component):
    """An HbmSlice, and an HbmDevice at each of its edges.

    Parameters
    ----------
    config : HbmConfig
    clock_ghz : float
    rules : tb.hbm.table.Table, optional
        What the devices ask for; :func:`table_of` the configuration where not given.
    controller : wiring.Component, optional
        In place of HbmSlice(config), with the same signature.

    Members
    -------
    As of HbmSlice, without ``dfi`` and ``idle``.
    """

    def __init__(self, config, *, clock_ghz=1.6, rules=None, controller=None):
        self.config = config
        self.device_config = DeviceConfig(table=rules or table_of(config), clock_ghz=clock_ghz)
        self.controller = controller or HbmSlice(config, clock_ghz=clock_ghz)
        super().__init__({
            "request": In(stream.Signature(port.Request)), "response": Out(stream.Signature(port.Response)),
            "range": In(stream.Signature(port.Range)),
            "range_answer": Out(stream.Signature(port.RangeAnswer)),
            "bulk": Out(stream.Signature(port.BulkData)).array(config.pseudo_channels),
            "csr": In(stream.Signature(port.Register)),
            "csr_answer": Out(stream.Signature(port.RegisterAnswer)), "temperature": In(2),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.slice = controller = self.controller
        for name in ("request", "range", "csr"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(controller, name))
        for name in ("response", "range_answer", "csr_answer"):
            wiring.connect(m, getattr(controller, name), wiring.flipped(getattr(self, name)))
        m.d.comb += controller.temperature.eq(self.temperature)
        for c in range(self.config.pseudo_channels):
            wiring.connect(m, controller.bulk[c], wiring.flipped(self.bulk[c]))
            device = emit.place(m, f"device{c}", HbmDevice(self.device_config))
            connect_device(m, device, controller.dfi[c], index=c, temperature=self.temperature)
        return m


def slice_bench(config, *, clock_ghz=1.6, rules=None, controller=None, options=None, temperature=0, log=None):
    """The build of a :class:`SliceBench`."""
    design = SliceBench(config, clock_ghz=clock_ghz, rules=rules, controller=controller)
    return build(design, name="hbm_slice", config=config, options=options or Options(),
                 constants={"temperature": temperature}, log=log)
