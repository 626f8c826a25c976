"""`jalapeno hbm`: a traffic pattern on the RTL of the HBM slice: bandwidth, latency, refreshes, a picture."""

import sys
from pathlib import Path

import click

from scripts.options import FiniteRange, OutputFile, chosen_config, config_options
from scripts.report import json_option, print_json, print_table, progress

PATTERNS = ("stream", "four_streams", "random32", "random256", "mixed4k", "mixed64", "idle", "loaded")


@click.command()
@click.option("--pattern", type=click.Choice(PATTERNS), required=True, help="What is read and written.")
@click.option("--microseconds", type=FiniteRange(20, 10_000), default=120.0, show_default=True,
              help="Time that the traffic would take at full bandwidth.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True,
              help="Of random addresses.")
@click.option("--picture", type=OutputFile(".png"),
              help="PNG of the command timeline; without it, in a directory of its own below runs/.")
@click.option("--picture-ns", type=FiniteRange(50, 20_000), default=1000.0, show_default=True,
              help="Time that the picture shows, from the middle of the run.")
@config_options(default="small")
@json_option
def command(pattern, microseconds, seed, picture, picture_ns, preset_name, overrides, as_json):
    """Send a traffic pattern to the HBM slice and measure at the pins of the memory.

    The slice is RTL; the devices beside it check every timing rule, and end the run with a sentence if one
    is broken. Bandwidth is the share of the pins that carry data, refreshes included, over a window
    in the middle of the run; refreshes served in it stand beside those that fell due, and differ by what was
    postponed or caught up (at most 8 a bank).

    \b
    stream        one long bulk read
    four_streams  four long bulk reads at a time
    random32      bulk reads of 32 bytes at random places
    random256     bulk reads of 256 bytes at random places
    mixed4k       runs of 4 KiB read and written in turn (demand)
    mixed64       lines of 64 bytes read or written at random (demand)
    idle          demand reads one at a time
    loaded        demand reads beside a long bulk read
    """
    from sw.hbm.measure import measure
    from sw.hbm.timeline import draw
    from tb.runs import new_run
    from tb.simulator import SimulationError

    chip = chosen_config(preset_name, overrides)
    config = chip.tile.hbm
    with progress(f"hbm {pattern}", 2) as advance:
        try:
            measured = measure(config, pattern, microseconds=microseconds, seed=seed,
                               clock_ghz=chip.tile.clock_ghz, log=lambda text: print(text, file=sys.stderr))
        except SimulationError as error:
            from scripts.cli import CheckFailed
            raise CheckFailed(str(error)) from error
        advance(1)
        if picture is None:
            directory = new_run(f"hbm {pattern}", {"pattern": pattern, "seed": seed,
                                                   "figures": measured.measurement.as_dict()})
            picture = Path(directory) / "timeline.png"
        advance(1)
    if as_json:
        print_json(measured.measurement.as_dict() | {"picture": str(picture)})
    else:
        _print(measured.measurement, picture)
    draw(Path(picture), measured, config, length_ns=picture_ns,
         title=f"{pattern}, pseudo-channel 0: {measured.measurement.share:.1%} of the pins")


def _print(found, picture):
    rows = [("bandwidth", f"{found.share:.2%} of the pins", f"{found.gb_s:.4g} GB/s"),
            ("row hits", f"{found.row_hits:.2%}", f"{found.activates:,} activates"),
            ("refreshes served / due", f"{found.refreshes_served:,} / {found.refreshes_due:,}", "")]
    if found.pattern == "random32":
        rows.insert(1, ("  of the bound by tFAW", f"{found.faw_share:.2%}", ""))
    if found.pattern == "loaded":
        rows.insert(1, ("  of the bulk read", f"{found.bulk_share:.2%}", ""))
    if found.latency_p50_ns is not None:
        rows.append(("latency of demand reads", f"{found.latency_p50_ns:.1f} ns (median)",
                     f"{found.latency_p99_ns:.1f} ns (99 %), {found.latency_max_ns:.1f} ns (most)"))
    if found.idle_extra_cycles is not None:
        cases = ", ".join(f"{case} {value:.1f}" for case, value in found.idle_extra_by_case.items())
        rows.append(("over the device's minimum", f"{found.idle_extra_cycles:.1f} tile cycles (most)",
                     f"{cases}; {found.idle_samples} of {found.demand_reads} reads met no refresh"))
    where = "1 pseudo-channel" if found.pseudo_channels == 1 else f"{found.pseudo_channels} pseudo-channels"
    print_table(f"{found.pattern} on {where}, a window of {found.window_ns / 1000:.1f} us",
                ("figure", "value", "and"), rows)
    print(f"  timeline: {picture}")
