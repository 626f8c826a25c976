"""Configuration of the chip: one tree of frozen dataclasses, validated on construction.

`ChipConfig` -> `TileConfig` -> `MatrixConfig` and `HbmConfig`. A value that breaks a rule raises
`ConfigError`, which names the field, the value and what is allowed. `PRESETS` holds the named sizes;
figures which follow from a configuration (peaks, bandwidths, balance) are in `hw.derived`.
"""

import dataclasses
import hashlib
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass

from .hbm.timing import RULES, HbmTimings

BLOCK = 32
"""Elements along K which share one scale (OCP MX v1.0)."""

BEAT_CODE_BYTES = 32
"""Element codes which one row group of the weight edge takes in a cycle, in bytes."""

BLOCK_BYTES = {"mxfp4": 17, "mxfp8": 33}
"""Bytes of a block in memory, its scale included, by weight format."""

BLOCKS_PER_BEAT = {"mxfp4": 2, "mxfp8": 1}
"""Blocks which fill the code bytes of one beat, by weight format."""

COLUMNS_PER_QUAD = {"mxfp4_mxfp4": 4, "mxfp8_mxfp4": 2, "mxfp8_mxfp8": 1}
"""Multiplications a quad does in a cycle, by mode (activations_weights)."""

MODES = tuple(COLUMNS_PER_QUAD)


class ConfigError(ValueError):
    """A value of the configuration breaks a rule; the message names field, value and rule."""

    def __init__(self, name: str, value: object, rule: str):
        super().__init__(f"{name} = {value!r}: must be {rule}")
        self.field, self.value, self.rule = name, value, rule


def whole(owner: str, config: object, name: str, low: int, high: int, *, multiple: int = 1,
          power_of_two: bool = False) -> None:
    """`ConfigError` unless a field is a whole number from low to high, and what else is asked of it."""
    value = getattr(config, name)
    rule = f"a whole number from {low} to {high}"
    if multiple > 1:
        rule = f"a multiple of {multiple} from {low} to {high}"
    if power_of_two:
        rule = f"a power of two from {low} to {high}"
    ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if not ok or value % multiple or (power_of_two and value & (value - 1)):
        raise ConfigError(f"{owner}.{name}", value, rule)


def _real(owner: str, config: object, name: str, low: float, high: float) -> None:
    value = getattr(config, name)
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or not low <= value <= high:
        raise ConfigError(f"{owner}.{name}", value, f"a number from {low} to {high}")
    # 2 and 2.0 are the same configuration and have to hash alike.
    object.__setattr__(config, name, float(value))


def kind_of(owner: str, config: object, name: str, kind: type) -> None:
    """`ConfigError` unless a field is of a class."""
    value = getattr(config, name)
    if not isinstance(value, kind):
        raise ConfigError(f"{owner}.{name}", value, f"a {kind.__name__}")


@dataclass(frozen=True, kw_only=True)
class MatrixConfig:
    """The matrix engine of one tile.

    Parameters
    ----------
    units : units side by side.
    rows : rows of a unit, along K; 32 rows are a row group.
    cols : columns of a unit, along N; a quad is one row by four columns.
    accumulator_rows : rows of activations (M) which a unit accumulates at once.
    output_rows : depth of a unit's output buffer, in rows. At least accumulator_rows: where several passes
        make up a row of results, all rows of a job are under way at once.
    product_latency, sum_latency, add_latency, quantise_latency : register stages in the quad's product,
        in the rounding of the block sum, in the binary32 adder and in the quantiser, in cycles.
    """

    units: int
    rows: int
    cols: int
    accumulator_rows: int
    output_rows: int = 64
    product_latency: int = 1
    sum_latency: int = 2
    add_latency: int = 2
    quantise_latency: int = 2

    def __post_init__(self):
        whole("matrix", self, "units", 1, 64)
        whole("matrix", self, "rows", BLOCK, 256, multiple=BLOCK)
        whole("matrix", self, "cols", 4, 256, multiple=4)
        whole("matrix", self, "accumulator_rows", 1, 4096, power_of_two=True)
        whole("matrix", self, "output_rows", 1, 4096, power_of_two=True)
        whole("matrix", self, "product_latency", 0, 1)
        if self.output_rows < self.accumulator_rows:
            raise ConfigError("matrix.output_rows", self.output_rows,
                              f"at least accumulator_rows, which is {self.accumulator_rows}")
        # The accumulator is read while the block sum is rounded, which takes a cycle at least.
        whole("matrix", self, "sum_latency", 1, 4)
        for name in ("add_latency", "quantise_latency"):
            whole("matrix", self, name, 0, 4)

    @property
    def row_groups(self) -> int:
        """Groups of 32 rows in a unit; each has its own column feet and its own weight edge."""
        return self.rows // BLOCK

    @property
    def quads(self) -> int:
        """Quads in the engine."""
        return self.units * self.rows * self.cols // 4

    def macs_per_cycle(self, mode: str) -> int:
        """Multiply-accumulates of the whole engine in a cycle, for a mode of `MODES`."""
        return self.quads * COLUMNS_PER_QUAD[mode]

    def weight_edge_bytes(self, weight_format: str) -> int:
        """Bytes of weight blocks, scales included, which the engine takes in a cycle."""
        beat = BLOCKS_PER_BEAT[weight_format] * BLOCK_BYTES[weight_format]
        return self.units * self.row_groups * beat


@dataclass(frozen=True, kw_only=True)
class HbmQueues:
    """Sizes and limits of the controller of one pseudo-channel.

    Parameters
    ----------
    read_entries, write_entries : entries of the queues; an entry is up to four lines of one 256 bytes.
    reserved_entries : read entries which bulk reads leave to demand reads.
    demand_reads : demand reads under way at most.
    return_lines : lines of bulk reads under way at most; they return in order. A refresh of a bank freezes
        the oldest for 350 bursts, so a stream goes on only with more than 175.
    write_high, write_low : lines waiting to be written at which writing starts and at which it ends.
    age_cap : slots after which the oldest read goes before everything else.
    ranges : bulk ranges active at once.
    bulk_grain : lines of one range before the next has its turn.
    """

    read_entries: int = 64
    write_entries: int = 32
    reserved_entries: int = 16
    demand_reads: int = 64
    return_lines: int = 256
    write_high: int = 80
    write_low: int = 16
    age_cap: int = 256
    ranges: int = 4
    bulk_grain: int = 16

    def __post_init__(self):
        whole("queues", self, "read_entries", 8, 64)
        whole("queues", self, "write_entries", 4, 64)
        whole("queues", self, "reserved_entries", 1, self.read_entries - 4)
        whole("queues", self, "demand_reads", 4, 256)
        whole("queues", self, "return_lines", 16, 1024, power_of_two=True)
        # An entry may hold one line only, and then all entries are taken before there are more lines.
        whole("queues", self, "write_high", 2, 4 * self.write_entries)
        whole("queues", self, "write_low", 1, self.write_high - 1)
        whole("queues", self, "age_cap", 16, 4096)
        whole("queues", self, "ranges", 1, 16)
        whole("queues", self, "bulk_grain", 1, 64)


@dataclass(frozen=True, kw_only=True)
class HbmConfig:
    """The HBM slice of one tile: HBM4, 12-high stacks of 24 Gb dies.

    Parameters
    ----------
    pseudo_channels : pseudo-channels of `pins` data pins; two make a channel of 64 bits.
    pins : data pins of a pseudo-channel.
    gbit_s_pin : data rate of a pin in Gb/s.
    stack_ids, bank_groups, banks, rows, page_bytes : organisation of a pseudo-channel: stack IDs, bank
        groups and banks a stack ID, rows a bank, bytes a row. Neither 3 stack IDs nor 12,288 rows are
        powers of two.
    timings : minimum times of the device in ns.
    queues : sizes and limits of the controllers.
    """

    pseudo_channels: int
    pins: int = 32
    gbit_s_pin: float = 10.0
    stack_ids: int = 3
    bank_groups: int = 4
    banks: int = 16
    rows: int = 12288
    page_bytes: int = 1024
    timings: HbmTimings = HbmTimings()
    queues: HbmQueues = HbmQueues()

    def __post_init__(self):
        whole("hbm", self, "pseudo_channels", 1, 64)
        whole("hbm", self, "pins", 32, 32)
        _real("hbm", self, "gbit_s_pin", 1.0, 16.0)
        whole("hbm", self, "stack_ids", 1, 4)
        whole("hbm", self, "bank_groups", 2, 4, power_of_two=True)
        whole("hbm", self, "banks", 16, 16)
        whole("hbm", self, "rows", 64, 65536, multiple=64)
        whole("hbm", self, "page_bytes", 1024, 1024)
        kind_of("hbm", self, "timings", HbmTimings)
        kind_of("hbm", self, "queues", HbmQueues)
        for name, (low, high) in RULES.items():
            (whole if name.endswith("_ck") else _real)("timings", self.timings, name, low, high)

    @property
    def channels(self) -> float:
        """Channels of 64 bits; a scaled-down slice may have half of one."""
        return self.pseudo_channels / 2

    @property
    def bytes_per_second(self) -> float:
        """Bandwidth of the data pins, refresh not taken off."""
        return self.pseudo_channels * self.pins * self.gbit_s_pin * 1e9 / 8

    @property
    def capacity_bytes(self) -> int:
        """Data bytes of the slice."""
        return self.pseudo_channels * self.stack_ids * self.banks * self.rows * self.page_bytes


@dataclass(frozen=True, kw_only=True)
class TileConfig:
    """A tile: core slice, matrix engine and HBM slice on one clock of `clock_ghz`."""

    clock_ghz: float = 1.6
    matrix: MatrixConfig
    hbm: HbmConfig

    def __post_init__(self):
        _real("tile", self, "clock_ghz", 0.1, 4.0)
        kind_of("tile", self, "matrix", MatrixConfig)
        kind_of("tile", self, "hbm", HbmConfig)
        # Decode is bound by memory and never by loading weights: the edge keeps up with the pins.
        for weight_format in BLOCK_BYTES:
            edge = self.matrix.weight_edge_bytes(weight_format)
            if edge < self.hbm_bytes_per_cycle:
                raise ConfigError(
                    "hbm.pseudo_channels", self.hbm.pseudo_channels,
                    f"so few that {weight_format} weights ({self.hbm_bytes_per_cycle:.4g} bytes/cycle) "
                    f"pass the weight edge of the matrix engine ({edge} bytes/cycle)")

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """Bytes which the HBM pins bring in one tile cycle."""
        return self.hbm.bytes_per_second / (self.clock_ghz * 1e9)


@dataclass(frozen=True, kw_only=True)
class ChipConfig:
    """A chip of `tiles` equal tiles; `name` is the preset it started from."""

    name: str
    tiles: int
    tile: TileConfig

    def __post_init__(self):
        kind_of("chip", self, "name", str)
        whole("chip", self, "tiles", 1, 256)
        kind_of("chip", self, "tile", TileConfig)


PRESETS = {
    config.name: config
    for config in (
        # One unit which a unit test elaborates in a moment.
        ChipConfig(name="tiny", tiles=1, tile=TileConfig(
            matrix=MatrixConfig(units=1, rows=32, cols=8, accumulator_rows=16),
            hbm=HbmConfig(pseudo_channels=1))),
        # The default of demos and benchmarks.
        ChipConfig(name="small", tiles=1, tile=TileConfig(
            matrix=MatrixConfig(units=1, rows=32, cols=32, accumulator_rows=256, output_rows=256),
            hbm=HbmConfig(pseudo_channels=1))),
        # The published chip; what is not published (clock, array shape) is chosen to give its peaks.
        ChipConfig(name="full", tiles=64, tile=TileConfig(
            matrix=MatrixConfig(units=16, rows=64, cols=64, accumulator_rows=128, output_rows=128),
            hbm=HbmConfig(pseudo_channels=6))),
    )
}


def preset(name: str) -> ChipConfig:
    """The preset `name`; `ConfigError` for a name which is none."""
    if name not in PRESETS:
        raise ConfigError("preset", name, "one of " + ", ".join(PRESETS))
    return PRESETS[name]


def field_paths(config: object, prefix: str = "") -> dict[str, object]:
    """Every leaf of a configuration as dotted path -> value, for instance `tile.matrix.rows`."""
    leaves: dict[str, object] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            leaves |= field_paths(value, f"{prefix}{item.name}.")
        else:
            leaves[prefix + item.name] = value
    return leaves


def _resolve(config: object, name: str) -> str:
    paths = field_paths(config)
    if name in paths:
        return name
    found = [path for path in paths if path.endswith("." + name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError("field", name, "unambiguous: one of " + ", ".join(found))
    raise ConfigError("field", name, "one of " + ", ".join(paths))


def _parse(path: str, kind: type, text: object) -> object:
    if not isinstance(text, str) or kind is str:
        return text
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        rules = {bool: "true or false", int: "a whole number", float: "a number"}
        raise ConfigError(path, text, rules[kind]) from None


def with_overrides(config, overrides: Mapping[str, object]):
    """A copy of `config` with some leaves replaced, validated once, as a whole.

    A key is a dotted path (`tile.matrix.rows`) or as much of its end as is unambiguous (`matrix.rows`,
    `cols`); a value is of the field's type, or its text. Errors are `ConfigError`.
    """
    changed: dict[str, object] = {}
    for name, value in overrides.items():
        path = _resolve(config, name)
        if path in changed:
            raise ConfigError("field", name, "given only once")
        changed[path] = value
    return _replace(config, "", changed)


def _replace(config, prefix: str, changed: Mapping[str, object]):
    kinds = typing.get_type_hints(type(config))
    values = {}
    for item in dataclasses.fields(config):
        path, old = prefix + item.name, getattr(config, item.name)
        if dataclasses.is_dataclass(old):
            values[item.name] = _replace(old, path + ".", changed)
        else:
            values[item.name] = _parse(path, kinds[item.name], changed[path]) if path in changed else old
    return type(config)(**values)


def config_hash(config: object) -> str:
    """SHA-256 of a configuration (any dataclass of the tree) as hexadecimal text, equal on every machine."""
    text = json.dumps(dataclasses.asdict(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{type(config).__name__}{text}".encode()).hexdigest()
