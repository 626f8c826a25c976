"""Figures which follow from a configuration, and the published ones beside them.

`derive(chip)` is the one place that turns a configuration into peaks, bandwidths and balance points;
`compare(chip)` sets those of a chip beside the public record in `published.json`.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from hw.config import BLOCK, BLOCK_BYTES, MODES, ChipConfig

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
"""The public record: figures of the chip and shapes of the models it was measured on."""


@dataclass(frozen=True, kw_only=True)
class Roof:
    """What one mode can do. FLOP count a multiply-accumulate as two.

    `balance_flop_per_byte`: arithmetic intensity at which matrix peak and HBM bandwidth bind alike.
    `balance_rows`: rows of activations (M) at which a product whose weights come from HBM reaches the peak.
    `weights_per_second`: weights the HBM pins deliver, scales counted; what bounds decode.
    """

    peak_flops: float
    macs_per_cycle: int
    balance_flop_per_byte: float
    balance_rows: float
    weights_per_second: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of a tile or of the chip; bytes/cycle are of the tile's clock."""

    modes: dict[str, Roof]
    hbm_bytes_per_second: float
    hbm_bytes_per_cycle: float
    hbm_capacity_bytes: int
    hbm_channels: float
    weight_edge_bytes_per_cycle: dict[str, int]
    quads: int


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Figures of one tile and of the whole chip."""

    tile: Figures
    chip: Figures

    def as_dict(self) -> dict:
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One figure beside the public record; errors are relative, (ours - published) / published.

    `published` is as printed. `unrounded` is the same figure before it was rounded for print, where the
    record tells: the peaks are published as exactly 4:2:1, so that the printed 3.4 stands for 13.4 / 4.
    """

    figure: str
    unit: str
    ours: float
    published: float
    unrounded: float

    @property
    def error_as_printed(self) -> float:
        return self.ours / self.published - 1

    @property
    def error(self) -> float:
        return self.ours / self.unrounded - 1


def _figures(chip: ChipConfig, tiles: int) -> Figures:
    matrix, hbm, tile = chip.tile.matrix, chip.tile.hbm, chip.tile
    bandwidth = tiles * hbm.bytes_per_second
    modes = {}
    for mode in MODES:
        macs = tiles * matrix.macs_per_cycle(mode)
        peak = 2 * macs * tile.clock_ghz * 1e9
        weights = bandwidth * BLOCK / BLOCK_BYTES[mode.split("_")[1]]
        modes[mode] = Roof(peak_flops=peak, macs_per_cycle=macs, balance_flop_per_byte=peak / bandwidth,
                           balance_rows=peak / (2 * weights), weights_per_second=weights)
    return Figures(
        modes=modes,
        hbm_bytes_per_second=bandwidth,
        hbm_bytes_per_cycle=tiles * tile.hbm_bytes_per_cycle,
        hbm_capacity_bytes=tiles * hbm.capacity_bytes,
        hbm_channels=tiles * hbm.channels,
        weight_edge_bytes_per_cycle={name: tiles * matrix.weight_edge_bytes(name) for name in BLOCK_BYTES},
        quads=tiles * matrix.quads,
    )


def derive(chip: ChipConfig) -> Derived:
    """The figures of `chip`, for one tile and for all of them."""
    return Derived(tile=_figures(chip, 1), chip=_figures(chip, chip.tiles))


def compare(chip: ChipConfig) -> list[Comparison]:
    """The figures of the whole chip beside the published ones (Hot Chips 2026)."""
    ours = derive(chip).chip
    stated, ratio = PUBLISHED["chip"]["stated"], PUBLISHED["chip"]["derived"]["peak_pflops_by_ratio"]
    rows = [
        Comparison(figure=f"peak {mode}", unit="PFLOP/s", ours=ours.modes[mode].peak_flops / 1e15,
                   published=stated["peak_pflops"][mode], unrounded=ratio[mode])
        for mode in MODES
    ]
    for figure, unit, value, key in (
        ("HBM bandwidth", "TB/s", ours.hbm_bytes_per_second / 1e12, "hbm_bandwidth_tb_s"),
        ("HBM capacity", "GiB", ours.hbm_capacity_bytes / 2**30, "hbm_capacity_gib"),
    ):
        rows.append(Comparison(figure=figure, unit=unit, ours=value,
                               published=stated[key], unrounded=stated[key]))
    return rows
