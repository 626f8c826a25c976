"""`jalapeno figures`: measures, keeps figures.json and the table in README.md."""

import sys

import click

from scripts.cli import CheckFailed
from scripts.report import json_option, print_json, print_table, progress


@click.command()
@click.option("--only", metavar="PREFIX", default="", help="Only figures whose key begins so.")
@click.option("--quick", is_flag=True, help="Only figures which take seconds and are equal in every run.")
@click.option("--check", is_flag=True, help="Write nothing; fail where a value differs from figures.json.")
@json_option
def command(only: str, quick: bool, check: bool, as_json: bool):
    """Measure the project's figures into figures.json and the table in README.md."""
    from scripts.figures import collect, table
    from scripts.figures.targets import TARGETS

    committed = collect.load()
    fresh: dict[str, object] = {}
    with progress("figures", len(collect.selected(only))) as advance:
        path = None if check else collect.FIGURES
        for name, figures, seconds in collect.collect(
                only=only, quick=quick, path=path, started=lambda name: advance(0, name)):
            fresh |= figures
            advance(1, name)
            if not sys.stderr.isatty():
                print(f"{name}: {len(figures)} figures in {seconds:.1f} s", file=sys.stderr)
    if not check:
        table.update(collect.load())
    noisy = {target.key for target in TARGETS if target.noisy}
    different = collect.differences(fresh, committed, noisy)
    if as_json:
        print_json({"figures": fresh, "different": [item.key for item in different]})
    else:
        targets = [target for target in TARGETS if target.key in fresh]
        print_table("Figures", ("figure", "what", "asked", "measured", "state"), table.rows(fresh, targets))
        others = sorted(set(fresh) - {target.key for target in targets})
        if others:
            print_table("Also measured", ("figure", "measured"), [(key, fresh[key]) for key in others])
    if not fresh:
        raise CheckFailed("nothing was measured")
    if check and different:
        raise CheckFailed(f"{len(different)} figures differ from figures.json, first {different[0]}")
