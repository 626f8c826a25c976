"""Objects that do not depend on the design, compiled once and linked into every bench.

They are Verilator's run-time library and the bench's own streams; compiling them takes longer than a small
design does. Verilator's own makefile compiles them, so the flags are those of every other object.
"""

import hashlib
import json
import shutil
import subprocess

import filelock

from tb.verilator import environment, tool_versions

__all__ = ["provide"]

BENCH = ("bench", "streams")
OBJECTS = ("verilated", "verilated_dpi", "verilated_vpi", "verilated_threads")
FLAG = "-O2"  # -O3 gains nothing here and takes longer to compile

MAKEFILE = """\
VM_PREFIX = Vtop
VM_PARALLEL_BUILDS = 0
VM_SC = 0
VM_TIMING = 0
VM_COVERAGE = 0
VM_VPI = 1
VM_TRACE = {trace}
VM_TRACE_FST = {trace}
VM_TRACE_VCD = 0
VM_TRACE_SAIF = 0
VM_GLOBAL_FAST = {objects}
default: {bench_objects} $(addsuffix .o, $(VM_GLOBAL_FAST))
include $(VERILATOR_ROOT)/include/verilated.mk
{bench_objects}: %.o: %.cc
\t$(CXX) -O3 $(CXXFLAGS) $(CPPFLAGS) -c -o $@ $<
"""


def provide(root, work, *, sources, waves, jobs):
    """Put the objects into ``work``, where a make that follows finds them up to date.

    Parameters
    ----------
    root : Path
        Directory of all builds.
    work : Path
        Directory of this one, after Verilator has written its makefile there.
    sources : dict[str, str]
        The bench's own C++ files: name to text.
    waves : bool
    jobs : int
        Compilers at a time.

    Raises
    ------
    subprocess.CalledProcessError
        The compiler failed; its ``stderr`` has what it said.
    """
    objects = (*OBJECTS, "verilated_fst_c") if waves else OBJECTS
    makefile = MAKEFILE.format(trace=int(waves), objects=" ".join(objects),
                               bench_objects=" ".join(f"{name}.o" for name in BENCH))
    content = json.dumps([makefile, FLAG, tool_versions(), sources], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    directory = root / f"runtime-{key}"
    if not directory.exists():
        with filelock.FileLock(root / f"runtime-{key}.lock"):
            if not directory.exists():
                _compile(directory, makefile, sources, jobs)
    for name in (*objects, *BENCH):
        shutil.copyfile(directory / f"{name}.o", work / f"{name}.o")


def _compile(directory, makefile, sources, jobs):
    part = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, text in sources.items():
        (part / name).write_text(text)
    (part / "Vtop.mk").write_text(makefile)
    command = ["make", "-j", str(jobs), "-f", "Vtop.mk", f"OPT_GLOBAL={FLAG}"]
    subprocess.run(command, cwd=part, env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                   text=True, check=True)
    for leftover in part.glob("*.d"):
        leftover.unlink()
    part.rename(directory)
