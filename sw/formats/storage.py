"""Storage kinds: how the bytes of a tensor become float32 or an `MXTensor`."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from golden.formats import Format, MXTensor
from sw.formats.model_file import Bytes, ModelFileError, TensorInfo, quoted


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Where the bytes of a tensor are: `offset` in the file, `nbytes` long, in rows of whole blocks."""

    info: TensorInfo
    offset: int
    nbytes: int


def _float32(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f4").astype(np.float32)


def _float16(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f2").astype(np.float32)


def _bfloat16(raw: np.ndarray) -> np.ndarray:
    """A bfloat16 is the upper half of a binary32, so the conversion is a shift and is exact."""
    return (raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _mxfp4_ggml(raw: np.ndarray) -> MXTensor:
    """GGUF MXFP4 blocks of 17 bytes: E8M0 scale, then element i (low) and i + 16 (high nibble) in byte i."""
    blocks = raw.reshape(*raw.shape[:-1], raw.shape[-1] // 17, 17)
    packed = blocks[..., 1:]
    codes = np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1)
    return MXTensor(
        format=Format.MXFP4,
        codes=codes.reshape(*raw.shape[:-1], -1),
        scales=np.ascontiguousarray(blocks[..., 0]),
    )


def _ggml(kind: GGMLQuantizationType) -> Callable[[np.ndarray], np.ndarray]:
    def decode(raw: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # broken files may hold infinite scales; the values say so
            return np.asarray(quants.dequantize(raw, kind), dtype=np.float32)

    return decode


_DECODERS: dict[str, Callable] = {
    "F32": _float32,
    "F16": _float16,
    "BF16": _bfloat16,
    "MXFP4": _mxfp4_ggml,
}
_NOT_WEIGHTS = {"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"}
for _kind in GGMLQuantizationType:
    if _kind.name not in _DECODERS and _kind.name not in _NOT_WEIGHTS:
        _DECODERS[_kind.name] = _ggml(_kind)

KINDS: dict[str, tuple[int, int]] = {kind.name: sizes for kind, sizes in GGML_QUANT_SIZES.items()}
"""Kind -> (elements in a block, bytes in a block)."""


def nbytes(path: Path, info: TensorInfo) -> int:
    """Bytes that the tensor takes; `ModelFileError` where a row is not a whole number of blocks."""
    per_block, block_bytes = KINDS[info.kind]
    if info.shape and info.shape[-1] % per_block:
        raise ModelFileError(
            f"{path}: tensor {quoted(info.name)} of kind {info.kind} has rows of {info.shape[-1]} elements, "
            f"not a multiple of {per_block}."
        )
    return prod(info.shape) // per_block * block_bytes if info.shape else block_bytes


def read(file: Bytes, stored: Stored, index: tuple[int, ...]) -> "np.ndarray | MXTensor":
    """The part `index` of a stored tensor, as float32 or as an `MXTensor`.

    Only the bytes of that part are touched. Errors: `ModelFileError` for a kind that holds no weights.
    """
    info = stored.info
    raw = part(file, stored, index)
    shape = info.shape[len(index) :]
    per_block, block_bytes = KINDS[info.kind]
    rows = raw.reshape(*shape[:-1], shape[-1] // per_block * block_bytes) if shape else raw
    decode = _DECODERS.get(info.kind)
    if decode is None:
        raise unreadable(file.path, info)
    try:
        value = decode(rows)
    except NotImplementedError:
        raise unreadable(file.path, info) from None
    return value if isinstance(value, MXTensor) else value.reshape(shape)


def part(file: Bytes, stored: Stored, index: tuple[int, ...]) -> np.ndarray:
    """The bytes of the part `index` of a stored tensor, one-dimensional, contiguous."""
    offset, size = stored.offset, stored.nbytes
    for position, length in zip(index, stored.info.shape):
        size //= length
        offset += position * size
    return file.take(offset, size, f"tensor {quoted(stored.info.name)}")


def unreadable(path: Path, info: TensorInfo) -> ModelFileError:
    return ModelFileError(
        f"{path}: tensor {quoted(info.name)} is stored as {info.kind}, which this reader does not take as "
        "weights; F32, F16, BF16, MXFP4 and the common GGUF block formats are."
    )
