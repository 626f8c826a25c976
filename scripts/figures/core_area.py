"""Size of the core by Yosys: generic cells, bits of memories, and the longest path in levels."""

import json
import re
import tempfile
from pathlib import Path

from scripts.synthesis import output_to

KEYS = ("core.area.",)

RAM_BYTES = 64 << 20

FLIP_FLOP = re.compile(r"\$_\w*DFF\w*_")
READ = ("hierarchy -top block", "proc", "opt_expr", "opt_clean")
#: An adder becomes a tree of carries (techmap's own), so that levels are those of a fast one.
MAP = ("memory_collect", "opt -nodffe -nosdff", "wreduce", "peepopt", "opt_clean", "alumacc",
       "opt -nodffe -nosdff", "techmap", "opt_expr", "opt_merge", "opt_clean -purge")


def synthesise(component) -> tuple[dict, int]:
    """(modules as of Yosys's ``stat -json``, levels) of a component in generic cells of two inputs.

    The hierarchy stays; for the levels it is dissolved, and memories are cut out: a path begins and ends at
    flip-flops, ports and memories.
    """
    from amaranth.back import rtlil
    from pyosys import libyosys

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "block.il").write_text(rtlil.convert(component, name="block", emit_src=False))
        design = libyosys.Design()
        passes = [f"read_rtlil {folder}/block.il", *READ, f"tee -o {folder}/memories stat -json", *MAP,
                  f"tee -o {folder}/cells stat -json", "flatten", "opt_clean", "delete t:$mem_v2",
                  f"tee -o {folder}/levels ltp -noff"]
        with output_to(folder / "log"):
            for line in passes:
                libyosys.run_pass(line, design)
        modules, memories = (_modules(folder / name) for name in ("cells", "memories"))
        levels = re.search(r"Longest topological path in .* \(length=(\d+)\)",
                           (folder / "levels").read_text())
    for name, module in modules.items():
        module["num_memory_bits"] = memories[name]["num_memory_bits"]
    return modules, int(levels.group(1))


def _modules(path: Path) -> dict:
    """The modules that ``stat -json`` has written, by name."""
    text = path.read_text()
    found = json.loads(text[text.index("{"):text.rindex("}") + 1])["modules"]
    return {name.lstrip("\\"): module for name, module in found.items()}


def cells_of(module: dict) -> tuple[int, int]:
    """(cells of logic, flip-flops) of one module, without what is below it."""
    types = module["num_cells_by_type"]
    flip_flops = sum(count for kind, count in types.items() if FLIP_FLOP.match(kind))
    logic = sum(count for kind, count in types.items() if kind.startswith("$_")) - flip_flops
    return logic, flip_flops


def measure(*, quick: bool) -> dict[str, object]:
    """Cells of `small` without its trace port, also of each part, and the longest path."""
    if quick:
        return {}  # Yosys takes minutes
    from hw.core.config import core_preset
    from hw.core.core import Core

    modules, levels = synthesise(Core(core_preset("small"), ram_bytes=RAM_BYTES))
    figures: dict[str, object] = {
        "core.area.cells": 0, "core.area.flip_flops": 0, "core.area.levels": levels,
        "core.area.memory_bits": sum(module["num_memory_bits"] for module in modules.values())}
    for name, module in modules.items():
        logic, flip_flops = cells_of(module)
        figures["core.area.cells"] += logic
        figures["core.area.flip_flops"] += flip_flops
        part = re.sub(r"\$.*", "", name.split(".")[1]) if "." in name else "wiring"
        key = f"core.area.cells.{part}"
        figures[key] = figures.get(key, 0) + logic
    return figures
