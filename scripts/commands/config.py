"""`jalapeno config`: a configuration and everything that follows from it."""

import dataclasses

import click

from hw.config import PRESETS, ChipConfig, config_hash, field_paths
from hw.derived import Figures, compare, derive
from scripts.options import chosen_config, config_options
from scripts.report import json_option, print_json, print_table


def _document(chip: ChipConfig) -> dict:
    document = {
        "config": dataclasses.asdict(chip),
        "hash": config_hash(chip),
        "derived": derive(chip).as_dict(),
    }
    if chip.name == "full":
        document["published"] = [
            dataclasses.asdict(row) | {"error": row.error, "error_as_printed": row.error_as_printed}
            for row in compare(chip)
        ]
    return document


def _figure_rows(tile: Figures, chip: Figures) -> list[tuple[str, str, object, object]]:
    rows = []
    for mode in tile.modes:
        rows.append((f"peak {mode}", "TFLOP/s", tile.modes[mode].peak_flops / 1e12,
                     chip.modes[mode].peak_flops / 1e12))
    for mode in tile.modes:
        rows.append((f"balance {mode}", "FLOP/byte", tile.modes[mode].balance_flop_per_byte,
                     chip.modes[mode].balance_flop_per_byte))
    for mode in tile.modes:
        rows.append((f"balance {mode}", "rows of activations", tile.modes[mode].balance_rows,
                     chip.modes[mode].balance_rows))
    rows += [
        ("HBM bandwidth", "GB/s", tile.hbm_bytes_per_second / 1e9, chip.hbm_bytes_per_second / 1e9),
        ("HBM bandwidth", "bytes/cycle", tile.hbm_bytes_per_cycle, chip.hbm_bytes_per_cycle),
        ("HBM capacity", "GiB", tile.hbm_capacity_bytes / 2**30, chip.hbm_capacity_bytes / 2**30),
        ("HBM channels", "64 bit", tile.hbm_channels, chip.hbm_channels),
    ]
    for name in tile.weight_edge_bytes_per_cycle:
        rows.append((f"weight edge {name}", "bytes/cycle", tile.weight_edge_bytes_per_cycle[name],
                     chip.weight_edge_bytes_per_cycle[name]))
    rows.append(("quads", "", tile.quads, chip.quads))
    return rows


@click.command()
@config_options(default="full")
@json_option
def command(preset_name: str, overrides: tuple[str, ...], as_json: bool):
    """Show a configuration and its derived figures, beside the published ones for `full`."""
    chip = chosen_config(preset_name, overrides)
    if as_json:
        print_json(_document(chip))
        return
    derived = derive(chip)
    changed = "" if chip == PRESETS[preset_name] else ", changed"
    print_table(f"Configuration {chip.name}{changed} (hash {config_hash(chip)[:16]})", ("field", "value"),
                [(path, str(value)) for path, value in field_paths(chip).items()])
    print()
    print_table("Derived figures (FLOP count a multiply-accumulate as two)",
                ("figure", "unit", "tile", "chip"), _figure_rows(derived.tile, derived.chip))
    if chip.name == "full":
        print()
        rows = [(row.figure, row.unit, row.ours, row.published, f"{row.error_as_printed:+.2%}",
                 row.unrounded, f"{row.error:+.2%}") for row in compare(chip)]
        print_table("Beside the published figures",
                    ("figure", "unit", "ours", "published", "error", "unrounded", "error"), rows)
        print("  unrounded: the peaks are published as exactly 4:2:1, so 3.4 is 13.4 / 4 = 3.35 as printed.")
