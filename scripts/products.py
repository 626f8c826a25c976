"""Products that a user asks for: the options, the run on the simulated engine, the check, and its report."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import click
import numpy as np

from golden.formats import MXTensor
from hw.config import ChipConfig, config_hash
from scripts.cli import CheckFailed
from scripts.options import OutputFile, chosen_config, config_options
from scripts.report import json_option, print_json, print_table, progress

OUTPUTS = ("binary32", "mxfp4", "mxfp8")

MOST_ELEMENTS = 1 << 28
"""Of an operand or a result."""

STALLS = {"probability": 0.3, "long_probability": 0.02, "long_cycles": 50}
"""Stalls of every stream under `--stalls`, as of tb.stalls.Stalls."""


class UnitRun(click.ParamType):
    """`FIRST:COUNT`, or `FIRST` for one unit."""

    name = "first:count"

    def convert(self, value, param, ctx):
        first, _, count = str(value).partition(":")
        try:
            run = int(first), int(count or 1)
        except ValueError:
            run = (-1, 0)
        if run[0] < 0 or run[1] < 1:
            self.fail(f"{value!r} is not FIRST:COUNT, such as 0:4, with FIRST from 0 and COUNT from 1",
                      param, ctx)
        return run


def _name_bugs(context, parameter, value):
    """`--plant list`: the bugs and what they are, whatever else is on the command line."""
    if value == "list":
        from tb.planted import PLANTED

        for name, bug in PLANTED.items():
            click.echo(f"{name:12} {bug.what}")
        context.exit()
    return value


def product_options(default_preset: str = "small") -> Callable:
    """Decorator: the options of every command that multiplies; they arrive as `Settings.of(**options)`."""
    options = [
        click.option("--view", type=click.Choice(("rtl", "fast")), default="rtl", show_default=True,
                     help="What is simulated: the RTL, or the second description of its arrays."),
        click.option("--units", type=UnitRun(), metavar="FIRST:COUNT",
                     help="Units that work on the product; all by default."),
        click.option("--output", type=click.Choice(OUTPUTS), default="binary32", show_default=True,
                     help="Form of the result rows; MX formats are quantised by the engine, along N."),
        click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
                     help="Of the random operands and stalls."),
        click.option("--c", "has_c", is_flag=True, help="Start from a random C instead of from nothing."),
        click.option("--stalls", is_flag=True, help="Random stalls on every stream."),
        click.option("--wave", type=OutputFile(".fst"), metavar="FILE.fst",
                     help="Keep the waveform (another, slower build of the simulation)."),
        click.option("--plant", metavar="BUG", callback=_name_bugs, is_eager=True,
                     help="Simulate an engine with this bug, to see how it shows (docs/debugging.md); "
                          "`--plant list` names all."),
        json_option,
    ]

    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return config_options(default=default_preset)(function)

    return decorate


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a product is run; the fields are the options of `product_options`."""

    chip: ChipConfig
    view: str
    units: tuple[int, int] | None
    output: str
    seed: int
    has_c: bool
    stalls: bool
    wave: str | None
    plant: str | None
    as_json: bool

    @classmethod
    def of(cls, *, preset_name: str, overrides: tuple[str, ...], **options) -> "Settings":
        """From the options as click gives them; `ConfigError` for a configuration that is none."""
        return cls(chip=chosen_config(preset_name, overrides), **options)


def run_product(x: MXTensor, w: MXTensor, c: np.ndarray | None, *, title: str, settings: Settings,
                more: dict | None = None, measure: Callable[[object], dict] | None = None) -> None:
    """Multiply on the simulated engine, compare with golden bit for bit, and print the report.

    `more`: further entries of the report, by key of the JSON document (`notes`: lines of the table).
    `measure`: gives more of them from Y.
    Raises `CheckFailed` after the report of a failure is printed, `ValueError` for a product that the
    engine cannot do.
    """
    from sw.engine.engine import SimulatedEngine
    from sw.engine.job import Job
    from sw.engine.product import check, multiply, reference
    from tb.report import CheckFailure
    from tb.stalls import Stalls

    config = settings.chip.tile.matrix
    # What the engine cannot do is said before anything is built.
    job = Job(x=x[:0], w=w, units=settings.units, output=settings.output).placed(config)
    quiet = settings.as_json or not sys.stderr.isatty()
    say = (lambda text: None) if quiet else (lambda text: print(f"{text} ...", file=sys.stderr))
    options = {"waves": True} if settings.wave else {}
    if settings.plant:
        options["design"] = _planted(settings)
    bar = contextlib.nullcontext(lambda amount=1, note="": None) if settings.as_json else progress(title, 1)
    try:
        with SimulatedEngine(config, view=settings.view, log=say, **options) as engine, bar as advance:
            done = 0.0

            def report(share):
                nonlocal done
                advance(share - done, "")
                done = share

            product = multiply(
                engine, x, w, c, output=settings.output, units=settings.units, progress=report, test=title,
                seed=settings.seed, wave=settings.wave, wall_seconds=86_400.0,
                **({"stalls": Stalls(**STALLS)} if settings.stalls else {}))
            compared = check(product, reference(x, w, c, output=settings.output), test=title,
                             seed=settings.seed)
            bench = engine.bench
    except CheckFailure as failure:
        raise _told(failure, settings) from None
    document = {
        "product": title, "m": x.shape[0], "n": job.n, "k": job.k,
        "mode": job.mode, "output": settings.output, "units": list(job.units), "width": job.width,
        "preset": settings.chip.name, "config_hash": config_hash(settings.chip), "view": settings.view,
        "seed": settings.seed, "bench": bench.directory.name, **(more or {}),
        "compared": compared, "mismatches": 0, "jobs": product.jobs, "cycles": product.cycles,
        "bound": {"cycles": product.bound.cycles, "by": product.bound.by},
        "macs": product.macs, "utilisation": product.utilisation,
        "simulated_cycles_per_second": round(product.cycles_per_second), "wave": settings.wave,
    }
    document |= measure(product.y) if measure else {}
    if settings.as_json:
        document.pop("notes", None)
        print_json(document)
    else:
        _print(document, config, settings)


def _planted(settings: Settings):
    """The engine with the bug of `--plant`."""
    from tb.planted import PLANTED, planted_engine

    bug = PLANTED.get(settings.plant)
    if bug is None:
        raise ValueError(f"plant is {settings.plant!r}; must be one of {', '.join(PLANTED)}")
    if settings.view != "rtl":
        raise ValueError(f"view is {settings.view!r}; --plant needs --view rtl")
    return planted_engine(settings.plant, settings.chip.tile.matrix)


def _print(document: dict, config, settings: Settings) -> None:
    first, count = document["units"]
    units = f"unit {first}" if count == 1 else f"units {first} to {first + count - 1}"
    bound = document["bound"]
    rows = [
        ("checked", f"{document['compared']:,} elements equal golden bit for bit" if document["compared"] else
         "the engine answered; there is no element to compare"),
        ("engine", f"{settings.chip.name}: {config.units} x {config.rows}x{config.cols}, {units}, "
                   f"view {settings.view}"),
        ("jobs", f"{document['jobs']:,}"),
        ("cycles", f"{document['cycles']:,}"),
        ("bound", f"{bound['cycles']:,} cycles, set by the {bound['by']}"),
        ("utilisation", f"{document['utilisation']:.2%} of the engine's peak in {document['mode']}"),
        ("simulation", f"{document['simulated_cycles_per_second']:,} cycles/s"),
    ]
    rows += [(key.replace("_", " "), text) for key, text in document.get("notes", {}).items()]
    if settings.wave:
        rows.append(("wave", settings.wave))
    print_table(document["product"], ("what", "value"), rows)


def _told(failure, settings: Settings) -> CheckFailed:
    """Print the report of a failure; the exception that ends the command."""
    report = failure.report
    if settings.as_json:
        print_json({"product": report.test, "failed": report.as_json()})
    else:
        print(report.sentence(), file=sys.stderr)
        if report.directory:
            print(f"Report: {report.directory}", file=sys.stderr)
    hint = "" if report.wave else ", with its waveform after a run under JALAPENO_WAVES=1"
    return CheckFailed(f"{report.test} failed; `jalapeno wave` shows it{hint}.")


def check_sizes(m: int, n: int, k: int) -> None:
    """`ValueError` for a product whose operands or result would not fit into a computer's memory."""
    for name, size in (("m x k", m * k), ("n x k", n * k), ("m x n", m * n)):
        if size > MOST_ELEMENTS:
            raise ValueError(f"{name} = {size:,}: at most {MOST_ELEMENTS:,} elements are simulated")


def random_c(rng: np.random.Generator, m: int, n: int, *, scale: float) -> np.ndarray:
    """A normally distributed C: float32 [m, n]."""
    return (rng.standard_normal((m, n)) * scale).astype(np.float32)
