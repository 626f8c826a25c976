"""Runs the measuring modules and keeps figures.json: flat, sorted, written in one step."""

import importlib
import json
import math
import os
import pkgutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from scripts import figures as package

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "figures.json"


class FigureError(ValueError):
    """A measuring module or figures.json breaks the contract of this package."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A key whose fresh value is not the committed one; `None` stands for a key that is not there."""

    key: str
    committed: object
    fresh: object

    def __str__(self) -> str:
        return f"{self.key}: figures.json has {self.committed!r}, a fresh run gave {self.fresh!r}"


def modules() -> dict[str, ModuleType]:
    """The measuring modules by name: those of this package that have `measure` and `KEYS`."""
    found = {}
    for item in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{item.name}")
        if hasattr(module, "measure") and hasattr(module, "KEYS"):
            found[item.name] = module
    return found


def load(path: Path = FIGURES) -> dict[str, object]:
    """The committed figures; none where there is no file yet."""
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def save(figures: dict[str, object], path: Path = FIGURES) -> None:
    """Writes all figures; a reader sees the old file or the new one, never half of one."""
    text = json.dumps(figures, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def measure(name: str, module: ModuleType, *, quick: bool) -> dict[str, object]:
    """The figures of one module, checked against the contract of the package."""
    figures = module.measure(quick=quick)
    for key, value in figures.items():
        if not key.startswith(tuple(module.KEYS)):
            raise FigureError(f"figures module {name} measured {key!r}: must start with one of {module.KEYS}")
        if hasattr(value, "item"):  # a NumPy scalar
            value = figures[key] = value.item()
        if not isinstance(value, (bool, int, float, str)):
            raise FigureError(f"figures module {name} gave {key} = {value!r}: must be a number, bool or text")
        if isinstance(value, float) and not math.isfinite(value):
            raise FigureError(f"figures module {name} gave {key} = {value!r}: must be finite")
    return figures


def selected(only: str) -> dict[str, ModuleType]:
    """The modules which measure keys that begin with `only`."""
    chosen = {name: module for name, module in modules().items()
              if any(key.startswith(only) or only.startswith(key) for key in module.KEYS)}
    if not chosen:
        keys = ", ".join(sorted(key for module in modules().values() for key in module.KEYS))
        raise FigureError(f"--only = {only!r}: must begin like one of {keys}")
    return chosen


def collect(*, only: str = "", quick: bool = False, path: Path | None = FIGURES,
            started: Callable[[str], None] = lambda name: None) -> Iterator[tuple[str, dict, float]]:
    """Measures and yields (module, its figures, seconds), each merged into the file at `path` first.

    A long run of a whole module also removes the keys which that module no longer measures. `path` None
    writes nothing.
    """
    for name, module in selected(only).items():
        started(name)
        begin = time.monotonic()
        measured = measure(name, module, quick=quick)
        fresh = {key: value for key, value in measured.items() if key.startswith(only)}
        if path is not None:
            kept = load(path)
            if not quick:
                kept = {key: value for key, value in kept.items()
                        if not (key.startswith(tuple(module.KEYS)) and key.startswith(only))}
            save(kept | fresh, path)
        yield name, fresh, time.monotonic() - begin


def differences(fresh: dict[str, object], committed: dict[str, object], noisy: set[str]) -> list[Difference]:
    """Keys of a fresh run whose committed value is another one; noisy keys are left out."""
    return [Difference(key=key, committed=committed.get(key), fresh=value)
            for key, value in sorted(fresh.items())
            if key not in noisy and (key not in committed or committed[key] != value)]
