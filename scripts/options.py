"""Options which several commands share."""

import difflib
import math
import os
from collections.abc import Callable
from pathlib import Path

import click

from hw.config import MODES, PRESETS, ChipConfig, ConfigError, field_paths, preset, with_overrides


class OutputFile(click.Path):
    """A file to write, of one suffix, in a directory that takes it: said before a long run, not after."""

    def __init__(self, suffix: str):
        super().__init__(dir_okay=False, writable=True)
        self.suffix = suffix

    def convert(self, value, param, ctx):
        name = super().convert(value, param, ctx)
        path = Path(name)
        if path.suffix != self.suffix:
            self.fail(f"{name!r} must end in {self.suffix}", param, ctx)
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            self.fail(f"{name!r} must be in a directory that exists and can be written to", param, ctx)
        return name


class FiniteRange(click.FloatRange):
    """A range of numbers; NaN, which compares with nothing, is in none."""

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)
        return number


def config_options(default: str) -> Callable:
    """Decorator: `--preset` and `--set field=value`, for `chosen_config`."""

    def decorate(function):
        function = click.option(
            "--set", "overrides", multiple=True, metavar="FIELD=VALUE",
            help="Change a field of the preset, e.g. matrix.rows=64; may be repeated.")(function)
        return click.option("--preset", "preset_name", default=default, show_default=True,
                            help=f"Named configuration: {', '.join(PRESETS)}.")(function)

    return decorate


def chosen_config(preset_name: str, overrides: tuple[str, ...]) -> ChipConfig:
    """The configuration which `--preset` and `--set` describe; `ConfigError` if there is none."""
    return overridden(preset(preset_name), overrides, fields="a field that `jalapeno config` lists")


def overridden(config, overrides: tuple[str, ...], *, fields: str):
    """A tree of configurations with what `--set` changes; ``fields`` says in errors what may be changed."""
    changed = {}
    for text in overrides:
        field, equals, value = text.partition("=")
        if not equals or not field or not value:
            raise ConfigError("--set", text, "FIELD=VALUE")
        if field in changed:
            raise ConfigError("field", field, "given only once")
        changed[field] = value
    paths = field_paths(config)
    for field in changed:
        if not any(path == field or path.endswith(f".{field}") for path in paths):
            ends = [*paths, *(path.split(".", 1)[-1] for path in paths)]
            close = difflib.get_close_matches(field, ends, cutoff=0.5)
            such = f", such as {', '.join(close)}" if close else ""
            raise ConfigError("--set", field, f"{fields}{such}")
    return with_overrides(config, changed)


def mode_option(default: str = "mxfp8_mxfp4") -> Callable:
    """Decorator: `--mode`, formats of activations and weights."""
    return click.option("--mode", type=click.Choice(MODES), default=default, show_default=True,
                        help="Number formats as activations_weights.")
