"""Area of the fracturable quad against plain MXFP4 processing elements."""

KEYS = ("quad.",)


def measure(*, quick: bool) -> dict[str, object]:
    """Ratio of areas and the longest paths, with OSU018 (0.18 um) cells."""
    if quick:
        return {}  # the cell library comes out of a Debian package
    from scripts.synthesis import blocks, liberty, synthesise

    library = liberty()
    found = {name: synthesise(make(), name, library) for name, make in blocks().items()}
    quad, plain, row = found["quad"], found["plain_pe"], found["plain_row"]
    return {
        "quad.area_ratio": round(quad.area / (4 * plain.area), 3),
        "quad.area_ratio.shared_hops": round(quad.area / row.area, 3),
        "quad.area": quad.area, "quad.path_ps": quad.path_ps, "quad.cells": quad.cells,
        "quad.flip_flops": quad.flip_flops,
        "quad.unpipelined.path_ps": found["quad_unpipelined"].path_ps,
        "quad.plain_pe.area": plain.area, "quad.plain_pe.path_ps": plain.path_ps,
        "quad.plain_pe.cells": plain.cells, "quad.plain_pe.flip_flops": plain.flip_flops,
        "quad.plain_row.path_ps": row.path_ps,
    }
