"""Keeps a record of a whole run of the suite, from which `tests.minutes` is read."""

import json
import time
from pathlib import Path

RECORD = Path(__file__).parents[1] / ".build" / "test-suite.json"


def pytest_configure(config):
    config.started_at = time.monotonic()


def pytest_sessionfinish(session, exitstatus):
    options = session.config.option
    part = options.keyword or options.markexpr != "not nightly" or session.config.args != ["tests"]
    # Under xdist only the process that has no `workerinput` sees the whole run.
    if hasattr(session.config, "workerinput") or part or exitstatus != 0:
        return
    RECORD.parent.mkdir(exist_ok=True)
    seconds = time.monotonic() - session.config.started_at
    RECORD.write_text(json.dumps({"seconds": round(seconds, 1)}) + "\n", encoding="utf-8")
