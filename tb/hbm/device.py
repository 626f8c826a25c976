"""The device model as a component: a pseudo-channel of HBM at the controller's edge, for simulation only.

The module calls C++ (``hbm_device.cc``) once a slot. It has its own storage, checks every rule of the table,
and stops the run with a sentence when one is broken; :mod:`tb.hbm.backdoor` reaches it between runs.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .table import Table, table

__all__ = ["COLUMN_BITS", "DeviceConfig", "HbmDevice", "ROW_BITS"]

HERE = Path(__file__).parent
SOURCES = ("hbm_device.cc", "hbm_rules.h", "hbm_memory.h")

ROW_BITS = 3 + 2 + 4 + 16
"""Of a row command, from the lowest: op, sid, bank, row."""

COLUMN_BITS = 3 + 2 + 4 + 5
"""Of a column command, from the lowest: op, sid, bank, column."""

TEMPLATE = """\
// Simulation only: a pseudo-channel of HBM; tb/hbm/hbm_device.cc has its storage and its rules.
module {module} (
    input  logic clk,
    input  logic rst,
    input  logic [7:0] index,
    input  logic slot,
    input  logic [{row}:0] row,
    input  logic [{column}:0] column,
    input  logic [255:0] wdata,
    input  logic [31:0] wcheck,
    input  logic [1:0] temperature,
    output logic [255:0] rdata,
    output logic [31:0] rcheck,
    output logic rvalid
);
  import "DPI-C" function void hbm_device_configure(input string text);
  import "DPI-C" function void hbm_device_reset(input int index);
  import "DPI-C" function int hbm_device_step(input int index, input longint cycle, input int unsigned row,
                                              input int unsigned column, input int temperature);
  import "DPI-C" function void hbm_device_write(input int index, input bit [255:0] data,
                                                input bit [31:0] check);
  import "DPI-C" function void hbm_device_read(input int index, output bit [255:0] data,
                                               output bit [31:0] check);

  longint cycle;
  initial begin
    hbm_device_configure("{settings}");
    cycle = 0;
    rvalid = 0;
    rdata = 0;
    rcheck = 0;
  end

  always @(posedge clk) begin : step
    int flags;
    bit [255:0] data;
    bit [31:0] check;
    cycle <= cycle + 1;
    if (rst) begin
      hbm_device_reset(int'(index));
      rvalid <= 0;
    end else if (slot) begin
      flags = hbm_device_step(int'(index), cycle, 32'(row), 32'(column), int'(temperature));
      if (flags[1]) hbm_device_write(int'(index), wdata, wcheck);
      rvalid <= flags[0];
      if (flags[0]) begin
        hbm_device_read(int'(index), data, check);
        rdata <= data;
        rcheck <= check;
      end else if (rvalid) begin
        // What is read too late or too early must not look right.
        rdata <= {{32{{8'ha5}}}};
        rcheck <= {{4{{8'h5a}}}};
      end
    end
  end
endmodule
"""


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """All devices of a bench.

    Parameters
    ----------
    table : tb.hbm.table.Table
    clock_ghz : float
        Of the clock that drives the device: slots of two CK have to come at their own rate. 0: not checked.
    """

    table: Table = field(default_factory=table)
    clock_ghz: float = 0.0

    def settings(self):
        """The text that the C++ takes: organisation, and timings in fs or in CK, which it rounds itself."""
        organisation = self.table.organisation
        pairs = {
            "ck_fs": round(4e6 / organisation.gbit_s_pin),
            "tile_fs": round(1e6 / self.clock_ghz) if self.clock_ghz else 0,
            "stack_ids": organisation.stack_ids, "bank_groups": organisation.bank_groups,
            "banks": organisation.banks, "rows": organisation.rows, "ecc": int(organisation.ecc),
            "postponed": self.table.postponed,
        }
        for name, value in self.table.values.items():
            pairs[name] = f"{value['ck']}ck" if "ck" in value else round(value["ns"] * 1e6)
        return " ".join(f"{name}={value}" for name, value in pairs.items())


class HbmDevice(wiring.Component):
    """One pseudo-channel of HBM.

    Parameters
    ----------
    config : DeviceConfig
        The same for all devices of a bench.

    Members
    -------
    index : In(8), constant
        Number of the pseudo-channel. Two of them, 2n and 2n + 1, are a channel: in each slot its row and
        column buses belong to the even one for the first CK, to the odd one for the second.
    slot : In(1)
        This cycle is a slot; the inputs below are looked at only then.
    row : In(ROW_BITS), column : In(COLUMN_BITS)
        Commands, as in hw/hbm/command.py.
    wdata : In(256), wcheck : In(32)
        Go with a write command, in the same slot.
    temperature : In(2)
        Refreshes fall due at the plain rate (0), twice (1) or four times (2) as often.
    rdata : Out(256), rcheck : Out(32), rvalid : Out(1)
        In order, valid in slot c + ceil((CL + 2) / 2) for a read command in slot c.

    Reset makes it a device after power-up, except that its storage stays.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "index": In(8), "slot": In(1), "row": In(ROW_BITS), "column": In(COLUMN_BITS),
            "wdata": In(256), "wcheck": In(32), "temperature": In(2),
            "rdata": Out(256), "rcheck": Out(32), "rvalid": Out(1),
        })

    @property
    def module_name(self):
        """Name of its module: one for equal settings."""
        return f"hbm_device_{hashlib.sha256(self.config.settings().encode()).hexdigest()[:8]}"

    def simulation_files(self):
        """SystemVerilog and C++ of the model, for :func:`hw.emit.verilog`."""
        text = TEMPLATE.format(module=self.module_name, row=ROW_BITS - 1, column=COLUMN_BITS - 1,
                               settings=self.config.settings())
        return {f"{self.module_name}.sv": text} | {
            name: (HERE / name).read_text(encoding="utf-8") for name in SOURCES}

    def elaborate(self, platform):
        raise TypeError("the HBM device exists in Verilator only; Amaranth's simulator cannot run it")
