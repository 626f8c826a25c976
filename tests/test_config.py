"""Configuration: every rule fires, the presets are what the documents say, overrides and hashes work."""

import dataclasses
import subprocess
import sys

import pytest

from hw.config import (
    BLOCK_BYTES,
    PRESETS,
    ChipConfig,
    ConfigError,
    HbmConfig,
    MatrixConfig,
    TileConfig,
    config_hash,
    field_paths,
    preset,
    with_overrides,
)
from hw.hbm.timing import RULES

ILLEGAL = {
    "tiles": [0, 257, 1.5, True, "x"],
    "tile.clock_ghz": [0.05, 5.0, float("nan"), float("inf"), "fast", True],
    "tile.matrix.units": [0, 65, 2.0, True],
    "tile.matrix.rows": [0, 16, 33, 48, 288, "x"],
    "tile.matrix.cols": [0, 2, 30, 260],
    "tile.matrix.accumulator_rows": [0, 3, 48, 8192],
    "tile.matrix.output_rows": [0, 3, 48, 128, 8192],
    "tile.matrix.product_latency": [-1, 2],
    "tile.matrix.sum_latency": [-1, 0, 5],
    "tile.matrix.add_latency": [-1, 5],
    "tile.matrix.quantise_latency": [-1, 5],
    "tile.hbm.pseudo_channels": [0, 65],
    "tile.hbm.pins": [16, 64],
    "tile.hbm.gbit_s_pin": [0.5, 17, float("nan")],
    "tile.hbm.stack_ids": [0, 5],
    "tile.hbm.bank_groups": [1, 3, 8],
    "tile.hbm.banks": [8, 32],
    "tile.hbm.rows": [0, 100, 65600],
    "tile.hbm.page_bytes": [512, 2048],
    "tile.hbm.queues.read_entries": [7, 65, 20.5],
    "tile.hbm.queues.write_entries": [3, 65],
    "tile.hbm.queues.reserved_entries": [0, 61],
    "tile.hbm.queues.demand_reads": [3, 257],
    "tile.hbm.queues.return_lines": [8, 100, 2048],
    "tile.hbm.queues.write_high": [1, 129],
    "tile.hbm.queues.write_low": [0, 80],
    "tile.hbm.queues.age_cap": [15, 5000],
    "tile.hbm.queues.ranges": [0, 17],
    "tile.hbm.queues.bulk_grain": [0, 65],
} | {
    f"tile.hbm.timings.{name}": [low - 1, high + 1, "x", True]
    for name, (low, high) in RULES.items()
}


def test_every_number_has_a_rule():
    assert set(ILLEGAL) == set(field_paths(preset("small"))) - {"name"}


@pytest.mark.parametrize(
    "path,value", [(path, value) for path, values in ILLEGAL.items() for value in values])
def test_illegal_value(path, value):
    with pytest.raises(ConfigError) as caught:
        with_overrides(preset("small"), {path: value})
    leaf = path.rsplit(".", 1)[-1]
    text = str(caught.value)
    assert caught.value.field.endswith(leaf) and repr(value) in text and "must be" in text
    assert caught.value.rule in text and len(caught.value.rule) > 5


@pytest.mark.parametrize("path,values", [
    ("matrix.rows", [32, 256]), ("cols", [4, 256]), ("units", [1, 64]), ("accumulator_rows", [1, 256]),
    ("output_rows", [256, 4096]), ("product_latency", [0, 1]), ("sum_latency", [1, 4]),
    ("add_latency", [0, 4]), ("quantise_latency", [0, 4]), ("bank_groups", [2, 4]),
    ("stack_ids", [1, 4]), ("hbm.rows", [64, 65536]), ("tiles", [1, 256]), ("gbit_s_pin", [1, 10]),
    ("clock_ghz", [1.6, 4]),
])
def test_edges_of_the_ranges_are_legal(path, values):
    for value in values:
        changed = with_overrides(preset("small"), {path: value})
        assert value in field_paths(changed).values()


def test_wrong_kinds_of_node():
    matrix = MatrixConfig(units=1, rows=32, cols=32, accumulator_rows=16)
    hbm = HbmConfig(pseudo_channels=1)
    with pytest.raises(ConfigError, match="tile.matrix"):
        TileConfig(matrix=hbm, hbm=hbm)
    with pytest.raises(ConfigError, match="tile.hbm"):
        TileConfig(matrix=matrix, hbm=matrix)
    with pytest.raises(ConfigError, match="chip.tile"):
        ChipConfig(name="x", tiles=1, tile=matrix)
    with pytest.raises(ConfigError, match="chip.name"):
        ChipConfig(name=3, tiles=1, tile=TileConfig(matrix=matrix, hbm=hbm))


def test_memory_may_not_outrun_the_weight_edge():
    """34 bytes of MXFP4 and 33 of MXFP8 enter a row group in a cycle; two pseudo-channels bring 50."""
    with pytest.raises(ConfigError, match="hbm.pseudo_channels = 2.*weight edge"):
        with_overrides(preset("small"), {"pseudo_channels": 2})
    wider = with_overrides(preset("small"), {"pseudo_channels": 2, "matrix.rows": 64})
    assert wider.tile.matrix.row_groups == 2
    # 33 < 33.6 <= 34: only the MXFP8 edge is too narrow, and the message says which.
    with pytest.raises(ConfigError, match="mxfp8 weights"):
        with_overrides(preset("small"), {"gbit_s_pin": 13.44})
    assert with_overrides(preset("small"), {"gbit_s_pin": 13.2})


def test_presets():
    sizes = {}
    for name, config in PRESETS.items():
        m = config.tile.matrix
        sizes[name] = (config.tiles, m.units, m.rows, m.cols, m.accumulator_rows, m.output_rows)
    assert sizes == {
        "tiny": (1, 1, 32, 8, 16, 64), "small": (1, 1, 32, 32, 256, 256), "full": (64, 16, 64, 64, 128, 128)}
    for name, config in PRESETS.items():
        assert preset(name) is config and config.name == name
        for weight_format in BLOCK_BYTES:
            assert config.tile.matrix.weight_edge_bytes(weight_format) >= config.tile.hbm_bytes_per_cycle
    with pytest.raises(ConfigError, match="preset = 'huge': must be one of tiny, small, full"):
        preset("huge")


def test_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("tiny").tiles = 2
    with pytest.raises(TypeError):
        HbmConfig(1)


def test_overrides():
    base = preset("tiny")
    changed = with_overrides(base, {"tile.matrix.rows": "64", "cols": 16, "clock_ghz": "1.2"})
    assert (changed.tile.matrix.rows, changed.tile.matrix.cols, changed.tile.clock_ghz) == (64, 16, 1.2)
    assert with_overrides(base, {}) == base
    for overrides, message in (
        ({"rows": 64}, "field = 'rows': must be unambiguous: one of tile.matrix.rows, tile.hbm.rows"),
        ({"colums": 64}, "field = 'colums': must be one of name, tiles, tile.clock_ghz"),
        ({"cols": 64, "matrix.cols": 32}, "given only once"),
        ({"cols": "many"}, "tile.matrix.cols = 'many': must be a whole number"),
        ({"clock_ghz": "fast"}, "tile.clock_ghz = 'fast': must be a number"),
        ({"tile": 3}, "field = 'tile': must be one of"),
    ):
        with pytest.raises(ConfigError) as caught:
            with_overrides(base, overrides)
        assert message in str(caught.value)


def test_hash_tells_configurations_apart_and_is_stable():
    hashes = {config_hash(config) for config in PRESETS.values()}
    for path, value in field_paths(preset("full")).items():
        # pins, banks, page_bytes and ccd_s_ck have one legal value each.
        other = {"name": "x", "tile.hbm.bank_groups": 2, "tile.hbm.stack_ids": 2, "tile.clock_ghz": 1.5,
                 "tile.hbm.gbit_s_pin": 9.0, "tile.matrix.product_latency": 0, "tile.matrix.sum_latency": 1,
                 "tile.matrix.add_latency": 1, "tile.matrix.output_rows": 256,
                 "tile.matrix.quantise_latency": 1, "tile.hbm.timings.ccd_r_ck": 4,
                 "tile.hbm.queues.write_entries": 24}.get(path)
        if other is None and path not in ("tile.hbm.pins", "tile.hbm.banks", "tile.hbm.page_bytes",
                                       "tile.hbm.timings.ccd_s_ck"):
            other = value // 2 if value > 1 else 2
        if other is not None:
            hashes.add(config_hash(with_overrides(preset("full"), {path: other})))
    assert len(hashes) == len(PRESETS) + len(field_paths(preset("full"))) - 4
    assert config_hash(with_overrides(preset("full"), {"gbit_s_pin": 10})) == config_hash(preset("full"))
    assert config_hash(preset("tiny").tile.hbm) == config_hash(preset("small").tile.hbm)
    program = "from hw.config import *; print(config_hash(preset('full')))"
    fresh = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert fresh.stdout.strip() == config_hash(preset("full"))
