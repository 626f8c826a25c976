"""What every model file looks like to the rest of the software: named tensors, read on demand."""

import mmap
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from golden.formats import MXTensor

_INDEX = re.compile(r"^(?P<name>.*?)(?P<index>(\[\d{1,9}\])+)$", re.DOTALL)
_SHOWN = 120


class ModelFileError(ValueError):
    """A model file, a tensor or a shape that cannot be used; the message is one sentence for the user."""


def quoted(text: object) -> str:
    """`text` in quotes for a message: escaped, and cut if a broken file gives a very long name."""
    shown = repr(str(text))
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "...'"


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """A tensor as listed in a file.

    Parameters
    ----------
    name : name in the file; for an MX pair, the part before `_blocks` / `_scales`.
    shape : outermost dimension first, so that a matrix is [N, K] with K contiguous.
    kind : storage: "F32", "F16", "BF16", "MXFP4", "MXFP8", or a GGUF block format such as "Q4_1".
    """

    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def elements(self) -> int:
        return prod(self.shape)


class Bytes:
    """Read-only view of a whole file; every access is checked against its size.

    Errors: `ModelFileError` for a path that cannot be read or is empty.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            if path.is_dir():
                raise ModelFileError(f"{path}: is a directory; name the model file itself.")
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise ModelFileError(f"{path}: no such file.") from None
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read ({error.strerror}).") from None
        except ValueError as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path}: the file is empty.") from None
        self.array = np.frombuffer(self._map, dtype=np.uint8)

    def __len__(self) -> int:
        return self.array.size

    def take(self, offset: int, count: int, what: str) -> np.ndarray:
        """`count` bytes at `offset`, uint8 without a copy; `what` names them in the error."""
        if offset + count > len(self):
            raise ModelFileError(
                f"{self.path}: truncated: {what} needs bytes {offset} to {offset + count}, "
                f"the file has {len(self)}."
            )
        return self.array[offset : offset + count]


class ModelFile(ABC):
    """An open model file.

    Members
    -------
    path : the file.
    format : "gguf", "safetensors" or "llama2.c".
    tensors : name -> `TensorInfo`, in file order.
    metadata : key -> value as the format gives it (strings, numbers, lists); empty where it has none.
    """

    format: str

    def __init__(self, path: Path):
        self.path = path
        self.tensors: dict[str, TensorInfo] = {}
        self.metadata: dict[str, object] = {}

    def find(self, name: str) -> tuple[TensorInfo, tuple[int, ...]]:
        """The tensor `name` and the leading indices in it: "w1[3]" is matrix 3 of the tensor "w1".

        A file's own name wins over the index notation. Errors: `ModelFileError` for an unknown name or an
        index that the shape does not have.
        """
        if name in self.tensors:
            return self.tensors[name], ()
        match = _INDEX.match(name)
        info = self.tensors.get(match["name"]) if match else None
        if info is None:
            raise ModelFileError(f"{self.path}: no tensor {quoted(name)}; {self._suggest(name)}.")
        index = tuple(int(i) for i in re.findall(r"\d+", match["index"]))
        if len(index) >= len(info.shape) or any(i >= n for i, n in zip(index, info.shape)):
            raise ModelFileError(
                f"{self.path}: {quoted(name)} is outside the shape {list(info.shape)} of {quoted(info.name)}."
            )
        return info, index

    def load(self, name: str) -> "np.ndarray | MXTensor":
        """A tensor, or with a leading index ("experts.gate_up_proj[5]") one part of it.

        Returns: float32 array of the tensor's shape, or an `MXTensor` where the file stores MX blocks.
        Errors: `ModelFileError` for an unknown name, index or storage kind.
        """
        info, index = self.find(name)
        value = self._read(info, index)
        shape = value.codes.shape if isinstance(value, MXTensor) else value.shape
        if tuple(shape) != info.shape[len(index) :]:
            raise AssertionError(f"{info.name}: read shape {shape}, listed {info.shape}, index {index}")
        return value

    def load_matrix(self, name: str) -> "np.ndarray | MXTensor":
        """Like `load`, for a weight matrix [N, K]; any other number of dimensions is an error."""
        info, index = self.find(name)
        shape = info.shape[len(index) :]
        if len(shape) > 2:
            raise ModelFileError(
                f"{self.path}: {quoted(name)} has shape {list(shape)}; choose one [N, K] matrix of it, "
                f"such as {quoted(name + '[0]' * (len(shape) - 2))}."
            )
        if len(shape) < 2:
            raise ModelFileError(f"{self.path}: {quoted(name)} has shape {list(shape)}, not a matrix [N, K].")
        return self.load(name)

    @abstractmethod
    def _read(self, info: TensorInfo, index: tuple[int, ...]) -> "np.ndarray | MXTensor":
        """The part `index` of the tensor; indices are already checked."""

    def _suggest(self, name: str) -> str:
        words = [w for w in re.split(r"[^A-Za-z]+", name.lower()) if len(w) > 1]
        near = [n for n in self.tensors if any(w in n.lower() for w in words)] or list(self.tensors)
        if not near:
            return "the file holds no tensors"
        more = f" and {len(near) - 4} more" if len(near) > 4 else ""
        return "it has " + ", ".join(quoted(n) for n in near[:4]) + more
