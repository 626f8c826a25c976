"""Cells, area and longest path of a block by Yosys and ABC, with an open standard-cell library."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "qflow-tech-osu018"
LIBRARY = "osu018_stdcells.lib"

#: What ABC does. Mapping by ``&nf`` without restructuring first, then buffers and sizes for the load.
SCRIPT = ("strash;ifraig;scorr;strash;&get,-n;&dch,-f;&nf;&put;topo;buffer,-c;upsize,{D};dnsize,{D};stime,-p")
#: Picoseconds that ABC aims at: slower than every block here needs, so that area counts.
PERIOD = 2400
CONSTRAINTS = "set_driving_cell INVX4\nset_load 0.05\n"


class SynthesisError(ValueError):
    """No library, or Yosys failed; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """Result for one block: area in the library's unit, longest path in picoseconds, numbers of cells."""

    block: str
    area: float
    path_ps: float
    cells: int
    flip_flops: int
    flip_flop_area: float

    def as_dict(self):
        return asdict(self)


def liberty(path: str | None = None) -> Path:
    """The cell library: ``path``, $JALAPENO_LIBERTY, or OSU018 out of Debian's package, kept in .cache/."""
    named = path or os.environ.get("JALAPENO_LIBERTY")
    if named:
        if not Path(named).is_file():
            raise SynthesisError(f"liberty is {named!r}: there is no such file")
        return Path(named)
    kept = ROOT / ".cache" / LIBRARY
    if kept.exists():
        return kept
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SynthesisError(f"no cell library: give --liberty FILE, such as {LIBRARY} out of Debian's "
                             f"{PACKAGE}")
    with tempfile.TemporaryDirectory() as folder:
        # The package is only unpacked: installed, it would bring an old Yosys with it.
        got = subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, capture_output=True, text=True)
        packages = list(Path(folder).glob("*.deb"))
        if got.returncode or not packages:
            raise SynthesisError(f"no cell library: apt-get download {PACKAGE} failed; give --liberty FILE")
        subprocess.run(["dpkg-deb", "-x", packages[0], folder], check=True, capture_output=True)
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_suffix(".part")
        shutil.copy(next(Path(folder).rglob(LIBRARY)), part)
        part.replace(kept)
    return kept


def synthesise(component, block: str, library: Path, *, period: int = PERIOD) -> Synthesis:
    """Synthesise a component, flattened, without its reset and enable merged into flip-flops."""
    from amaranth.back import rtlil
    from pyosys import libyosys

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "block.il").write_text(rtlil.convert(component, name="block", emit_src=False))
        (folder / "constraints").write_text(CONSTRAINTS)
        design = libyosys.Design()
        passes = [f"read_rtlil {folder}/block.il", "hierarchy -top block", "proc", "flatten", "opt_expr",
                  "opt_clean", "opt -nodffe -nosdff", "wreduce", "peepopt", "opt_clean", "alumacc", "opt",
                  "techmap", "opt", "opt_clean", f"dfflibmap -liberty {library}", "opt", "simplemap",
                  f"abc -liberty {library} -constr {folder}/constraints -D {period} -script +{SCRIPT}",
                  "opt_clean -purge", f"tee -o {folder}/stat stat -liberty {library}"]
        with output_to(folder / "log"):
            for line in passes:
                libyosys.run_pass(line, design)
        log, stat = (folder / "log").read_text(), (folder / "stat").read_text()
    area = re.search(r"Chip area for.*: ([\d.]+)", stat)
    delays = re.findall(r"Delay = *([\d.]+) ps", log)
    if not area or not delays:
        raise SynthesisError(f"{block}: Yosys gave no area or no delay")
    cells = re.findall(r"^\s+(\d+)\s+([\d.e+]+)\s+(\w+)$", stat, re.M)
    cells = [(int(count), float(size), name) for count, size, name in cells if name.isupper() or "X" in name]
    registers = [(count, size) for count, size, name in cells if name.startswith("DFF")]
    return Synthesis(block=block, area=float(area.group(1)), path_ps=float(delays[-1]),
                     cells=sum(count for count, _, _ in cells),
                     flip_flops=sum(count for count, _ in registers),
                     flip_flop_area=round(sum(size for _, size in registers), 1))


@contextmanager
def output_to(path):
    """Yosys writes to the process's own output: send it to a file meanwhile."""
    kept = os.dup(1), os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def blocks():
    """What can be synthesised: name to a function that makes it."""
    from hw.baseline.plain_pe import PlainPE, PlainRow
    from hw.matrix.quad import Quad

    return {"quad": lambda: Quad(product_latency=1), "quad_unpipelined": lambda: Quad(product_latency=0),
            "plain_pe": PlainPE, "plain_row": PlainRow}
