"""Random programs on the core in lockstep with the sequential model: instructions compared, and differences.

The run is long and goes on where it was left, as long as the cores are the same: one part of it is

    python -m scripts.figures.core_lockstep 500000          (instructions of each size)
"""

import datetime
import json
import sys
from pathlib import Path

from tb.core.campaign import campaign, campaign_bench
from tb.core.run import CoreSimulator

KEYS = ("core.lockstep.",)

SHARES = {"tiny": 4_000_000, "small": 4_000_000, "wide": 2_000_000}
"""Instructions of each size, 10 million in all."""

FIRST_SEED = 2_000_000
RECORD = Path(__file__).resolve().parents[2] / ".build" / "core-lockstep.json"


def measure(*, quick: bool) -> dict[str, object]:
    """Instructions compared in all sizes, programs that were not as the model has them, day of the last."""
    if quick:
        return {}  # tests/test_core_campaign.py runs 10^5 instructions
    parts = run(SHARES)
    return {"core.lockstep.instructions": sum(part["instructions"] for part in parts.values()),
            "core.lockstep.mismatches": sum(part["mismatches"] for part in parts.values()),
            "core.lockstep.date": max(part["date"] for part in parts.values())}


def run(shares, record=RECORD):
    """Go on until there are so many instructions of each size; what there is then, by size."""
    parts = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for size, share in shares.items():
        built = campaign_bench(size)
        part = parts.get(size)
        if part is None or part["build"] != built.bench.hash:  # of another core
            part = {"build": built.bench.hash, "seed": FIRST_SEED, "instructions": 0, "mismatches": 0}
        before = dict(part)

        def told(outcome, size=size, part=part, before=before):
            part.update(seed=before["seed"] + outcome.programs,
                        instructions=before["instructions"] + outcome.compared,
                        mismatches=before["mismatches"] + len(outcome.failures),
                        date=datetime.date.today().isoformat())
            parts[size] = part
            if outcome.programs % 100 == 0:
                save(parts, record)

        with CoreSimulator(built) as simulator:
            outcome = campaign(simulator, size, share - part["instructions"], first_seed=part["seed"],
                               keep_going=True, told=told)
        for sentence in outcome.failures.values():
            print(sentence)
        save(parts, record)
    return {size: parts[size] for size in shares}


def save(parts, record):
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for size, part in run({size: int(sys.argv[1]) for size in SHARES}).items():
        print(size, part)
