"""Damaged files of every format: a valid load or one `ModelFileError`, nothing else, and never a hang."""

import numpy as np
import pytest

from golden.formats import MXTensor
from sw.formats import ModelFileError, open_model
from tests.model_files import llama2c_bytes, write_gguf, write_safetensors

CASES = 1500


def check(error: ModelFileError, path) -> None:
    text = str(error)
    assert text.startswith(f"{path}: ") and text.endswith(".") and "\n" not in text and len(text) < 900


def outcome(path) -> bool:
    """Whether the file opened; a tensor then loads as listed, or its kind is refused."""
    try:
        model = open_model(path)
    except ModelFileError as error:
        check(error, path)
        return False
    for name, info in model.tensors.items():
        try:
            value = model.load(name)
        except ModelFileError as error:
            check(error, path)
        else:
            assert (value.codes if isinstance(value, MXTensor) else value).shape == info.shape
    return True


def damage(data: bytes, rng: np.random.Generator, header: int) -> bytes:
    """One to four changes, mostly in the header, where they hurt."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if not data:
            break
        at = int(rng.integers(0, min(len(data), header) if rng.random() < 0.8 else len(data)))
        action = rng.integers(0, 5)
        if action == 0:
            del data[at:]
        elif action == 1:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif action == 2:
            data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))
        elif action == 3:
            data[at : at + 8] = b"\xff" * 8
        else:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(data)


@pytest.mark.parametrize("suffix", [".gguf", ".safetensors", ".bin", ""])
def test_damaged_files(tmp_path, suffix):
    path = tmp_path / f"fuzz{suffix}"
    sources = {}
    write_gguf(path)
    sources[".gguf"] = path.read_bytes()
    write_safetensors(path)
    sources[".safetensors"] = path.read_bytes()
    sources[".bin"] = llama2c_bytes((4, 4, 1, 2, 1, 3, 2))
    chosen = [sources[suffix]] if suffix else list(sources.values())
    rng = np.random.default_rng(len(suffix))
    results = []
    for number in range(CASES):
        data = damage(chosen[number % len(chosen)], rng, header=900 if suffix != ".bin" else 32)
        path.write_bytes(data)
        try:
            results.append(outcome(path))
        except Exception as error:
            keep = tmp_path / "failing"
            keep.write_bytes(data)
            raise AssertionError(f"case {number}, kept in {keep}: {type(error).__name__}: {error}") from error
    # Both outcomes must be met, else the changes are too harsh or too mild to show anything.
    assert results.count(False) > CASES // 10 and results.count(True) > CASES // 100
