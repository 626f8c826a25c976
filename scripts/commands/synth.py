"""`jalapeno synth`: cells, area and longest path of a block."""

import click

from scripts.report import json_option, print_json, print_table

BLOCKS = ("quad", "quad_unpipelined", "plain_pe", "plain_row")


@click.command()
@click.option("--block", type=click.Choice(BLOCKS), multiple=True, default=("quad", "plain_pe"),
              show_default=True, help="What to synthesise; may be repeated.")
@click.option("--liberty", "library", default=None, metavar="FILE",
              help="Cell library; by default OSU018 out of Debian's qflow-tech-osu018.")
@json_option
def command(block: tuple[str, ...], library: str | None, as_json: bool):
    """Synthesise blocks with Yosys and an open cell library.

    `plain_pe` is one MXFP4 processing element, `plain_row` four of them that share their hop registers: the
    yardsticks of the quad, which does the work of four.
    """
    from scripts.synthesis import blocks, liberty, synthesise

    cells = liberty(library)
    results = [synthesise(blocks()[name](), name, cells) for name in block]
    if as_json:
        print_json({"liberty": cells.name, "blocks": [result.as_dict() for result in results]})
        return
    print_table(f"Synthesis with {cells.name}",
                ("block", "area", "longest path, ps", "cells", "flip-flops", "their area"),
                [[r.block, r.area, r.path_ps, r.cells, r.flip_flops, r.flip_flop_area] for r in results])
