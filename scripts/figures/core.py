"""Figures of the core: programs on `small` with warm caches, by cycles and by its own counters."""

from tb.core.run import CoreSimulator

from .core_programs import EVENTS, geomean, run_program, small_bench

KEYS = ("core.ipc.", "core.cycles.", "core.mispredict.", "core.load_miss.", "core.idle.")

PROGRAMS = ("crc", "dhry", "interpreter", "mark", "matrix", "sort", "strings")

#: Reasons for cycles that commit nothing.
REASONS = EVENTS[4:]


def measure(*, quick: bool) -> dict[str, object]:
    """Of each program: IPC, cycles, mispredictions a branch, misses in 1000 instructions, idle cycles."""
    with CoreSimulator(small_bench()) as simulator:
        found = {name: run_program(simulator, name) for name in PROGRAMS}
    figures: dict[str, object] = {"core.ipc.geomean": round(geomean(one.ipc for one in found.values()), 3)}
    for name, one in found.items():
        events = one.events
        figures |= {
            f"core.ipc.{name}": round(one.ipc, 3), f"core.cycles.{name}": one.cycles,
            f"core.cycles.{name}.instructions": one.instructions,
            f"core.mispredict.{name}": round(events["mispredicts"] / events["branches"], 4),
            f"core.load_miss.{name}": round(1000 * events["load_misses"] / one.instructions, 3),
        }
        figures |= {f"core.idle.{name}.{reason}": round(events[reason] / one.cycles, 3) for reason in REASONS}
    return figures
