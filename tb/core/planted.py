"""Bugs planted in the core, to show that lockstep with the sequential model finds them.

All are in one private copy of the modules of ``hw.core``, each behind its own value of a switch, so that one
build serves all (tb/switched.py). The core is two wide, with structures that are soon full.
"""

import importlib
import re
from dataclasses import dataclass

import numpy as np

from hw.core.config import CoreConfig, L1Config, PredictorConfig
from tb.build import Options, build
from tb.switched import SwitchedBench, changed_text, private_copies

from .bench import RAM_BYTES, CoreBench, CoreBuild
from .bugs import PLANTED
from .campaign import random_case, run_case
from .run import CoreSimulator
from .switch import SWITCH

__all__ = ["CONFIG", "PlantedSimulator", "Verdict", "planted_bench", "planted_source"]

CONFIG = CoreConfig(
    width=2, alus=2, reorder_buffer=16, physical=48, checkpoints=3, queue=4, loads=4, stores=4,
    predictor=PredictorConfig(counters=16, targets=4, returns=2, sets=8, ways=1, fetch_bytes=8, buffer=8),
    l1=L1Config(banks=2, sets=2, ways=2, mshrs=3, streams=2, prefetch_mshrs=1))

PROGRAMS = 40
"""A bug that so many programs do not find is not caught."""

SHARED = ("hw.core.config", "hw.core.address")


def planted_source(name):
    """Text of a module with all its bugs.

    Raises
    ------
    ValueError
        The place of a bug is not there exactly once: the module has changed since.
    """
    text = changed_text(name, [(key, bug.right, bug.wrong) for key, bug in PLANTED.items()
                               if name == f"hw.core.{bug.module}"])
    text = re.sub(r"^from \.+ import emit$", "from tb.core.switch import plain as emit", text, flags=re.M)
    return f"{text}\n\nfrom amaranth.hdl import Mux  # noqa\nfrom tb.core.switch import bug  # noqa\n"


def _is_copied(name):
    return (name == "hw.core" or name.startswith("hw.core.")) and name not in SHARED


def planted_bench(*, log=None):
    """The build (CoreBuild) of a core with all bugs."""
    with private_copies(_is_copied, planted_source):
        core = importlib.import_module("hw.core.core").Core(CONFIG, ram_bytes=RAM_BYTES, trace=True)
        design = SwitchedBench(CoreBench(CONFIG, core=core), SWITCH)
        bench = build(design, name="core_planted", config=CONFIG, options=Options(optimise="-O1"), log=log)
    return CoreBuild(bench=bench, config=CONFIG, ram_bytes=RAM_BYTES)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a bug was caught, by what sentence, and how many programs and instructions it took."""

    caught: bool
    sentence: str
    programs: int
    compared: int
    seed: int | None = None


class PlantedSimulator(CoreSimulator):
    """A simulation of :func:`planted_bench`."""

    def plant(self, name):
        """Turn the bug ``name`` on, and others off; None: all off."""
        value = 0 if name is None else SWITCH.number_of(name)
        self.simulator.run({"planted": np.array([value], dtype=np.uint32)}, {}, reset=True)

    def verdict(self, name, *, programs=PROGRAMS):
        """Run random programs with the bug ``name`` until one of them finds it."""
        self.plant(name)
        compared = 0
        for seed in range(programs):
            try:
                compared += run_case(self, self.case(name, seed), hang_cycles=5000)[1]
            except AssertionError as error:
                return Verdict(caught=True, sentence=str(error), programs=seed + 1, compared=compared,
                               seed=seed)
        return Verdict(caught=False, sentence="", programs=programs, compared=compared)

    def case(self, name, seed):
        """The random case of a seed that is to find the bug."""
        profile = PLANTED[name].profile
        poisoned = profile == "poison"
        return random_case(seed, profile="memory" if poisoned else profile, poisoned=poisoned or None)
