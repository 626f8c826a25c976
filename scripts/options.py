"""Options which several commands share."""

from collections.abc import Callable

import click

from hw.config import MODES, PRESETS, ChipConfig, ConfigError, preset, with_overrides


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
    changed = {}
    for text in overrides:
        field, equals, value = text.partition("=")
        if not equals or not field or not value:
            raise ConfigError("--set", text, "FIELD=VALUE")
        if field in changed:
            raise ConfigError("field", field, "given only once")
        changed[field] = value
    return with_overrides(preset(preset_name), changed)


def mode_option(default: str = "mxfp8_mxfp4") -> Callable:
    """Decorator: `--mode`, formats of activations and weights."""
    return click.option("--mode", type=click.Choice(MODES), default=default, show_default=True,
                        help="Number formats as activations_weights.")
