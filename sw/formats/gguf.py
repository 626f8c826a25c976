"""GGUF files, versions 2 and 3, little-endian.

The header is walked here rather than by `gguf.GGUFReader`, which trusts its counts: a damaged one makes it
loop for ever or return short arrays. Block formats are decoded by PyPI `gguf` (`sw.formats.storage`).
Source: the GGUF specification in the ggml repository (docs/gguf.md).
"""

import struct
from math import prod

import numpy as np
from gguf.constants import GGMLQuantizationType, GGUFValueType

from sw.formats import storage
from sw.formats.model_file import Bytes, ModelFile, ModelFileError, TensorInfo, quoted

_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "|b1",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
_MAX_DIMENSIONS = 4
_SMALLEST_ENTRY = 13  # a key of no letters, a type and one byte of value
_SMALLEST_TENSOR = 24  # a name of no letters, no dimensions, a type and an offset


class GgufFile(ModelFile):
    """A GGUF file: `metadata` holds its key-value pairs, tokenizer included."""

    format = "gguf"

    def __init__(self, file: Bytes):
        super().__init__(file.path)
        self._file = file
        self._stored: dict[str, storage.Stored] = {}
        walk = _Walk(file)
        walk.bytes(4, "the magic")
        version = walk.uint32("the version")
        if version not in (2, 3):
            if version & 0xFFFF == 0:
                raise ModelFileError(f"{file.path}: a big-endian GGUF file; only little-endian is accepted.")
            raise ModelFileError(f"{file.path}: GGUF version {version}; versions 2 and 3 are accepted.")
        tensors = walk.count("the tensor count", _SMALLEST_TENSOR)
        entries = walk.count("the metadata count", _SMALLEST_ENTRY)
        for number in range(entries):
            key = walk.string(f"the key of metadata entry {number}")
            value = walk.value(walk.value_type(f"the type of {quoted(key)}"), quoted(key))
            if key in self.metadata:
                raise ModelFileError(f"{file.path}: metadata key {quoted(key)} appears twice.")
            self.metadata[key] = value
        listed = [self._tensor_entry(walk, number) for number in range(tensors)]
        self._place(walk.offset, listed)

    def _tensor_entry(self, walk: "_Walk", number: int) -> tuple[TensorInfo, int]:
        name = walk.string(f"the name of tensor {number}")
        what = f"tensor {quoted(name)}"
        dimensions = walk.uint32(f"the dimension count of {what}")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise ModelFileError(f"{self.path}: {what} has {dimensions} dimensions; 1 to 4 are allowed.")
        # GGUF lists the contiguous dimension first.
        shape = tuple(walk.uint64(f"the shape of {what}") for _ in range(dimensions))[::-1]
        if 0 in shape:
            raise ModelFileError(f"{self.path}: {what} has shape {list(shape)}; a dimension is 0.")
        code = walk.uint32(f"the type of {what}")
        try:
            kind = GGMLQuantizationType(code).name
        except ValueError:
            raise ModelFileError(f"{self.path}: {what} has the unknown type {code}.") from None
        offset = walk.uint64(f"the offset of {what}")
        if name in self.tensors:
            raise ModelFileError(f"{self.path}: {what} appears twice.")
        info = TensorInfo(name=name, shape=shape, kind=kind)
        self.tensors[name] = info
        return info, offset

    def _place(self, header_end: int, listed: list[tuple[TensorInfo, int]]) -> None:
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 8 or alignment & (alignment - 1):
            raise ModelFileError(
                f"{self.path}: general.alignment is {quoted(alignment)}; a power of two from 8 is allowed."
            )
        start = -(-header_end // alignment) * alignment
        end, last = 0, None
        for info, offset in sorted(listed, key=lambda item: item[1]):
            size = storage.nbytes(self.path, info)
            if offset % alignment:
                raise ModelFileError(
                    f"{self.path}: tensor {quoted(info.name)} is at offset {offset}, "
                    f"not a multiple of the alignment {alignment}."
                )
            if offset < end:
                raise ModelFileError(f"{self.path}: tensors {quoted(last)} and {quoted(info.name)} overlap.")
            end, last = offset + size, info.name
            self._file.take(start + offset, size, f"tensor {quoted(info.name)}")
            self._stored[info.name] = storage.Stored(info=info, offset=start + offset, nbytes=size)

    def _read(self, info, index):
        return storage.read(self._file, self._stored[info.name], index)


class _Walk:
    """A cursor over the header in which every length is checked before it is used."""

    def __init__(self, file: Bytes):
        self.file, self.offset = file, 0

    def bytes(self, count: int, what: str) -> bytes:
        taken = self.file.take(self.offset, count, what).tobytes()
        self.offset += count
        return taken

    def uint32(self, what: str) -> int:
        return struct.unpack("<I", self.bytes(4, what))[0]

    def uint64(self, what: str) -> int:
        return struct.unpack("<Q", self.bytes(8, what))[0]

    def count(self, what: str, smallest: int) -> int:
        """A count of things of at least `smallest` bytes: refused where the file cannot hold them."""
        count = self.uint64(what)
        if count * smallest > len(self.file) - self.offset:
            raise ModelFileError(
                f"{self.file.path}: {what} is {count}, more than the {len(self.file)} bytes of the file hold."
            )
        return count

    def string(self, what: str) -> str:
        text = self.bytes(self.uint64(f"the length of {what}"), what)
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ModelFileError(f"{self.file.path}: {what} is not UTF-8 text.") from None

    def value_type(self, what: str) -> GGUFValueType:
        code = self.uint32(what)
        try:
            return GGUFValueType(code)
        except ValueError:
            raise ModelFileError(f"{self.file.path}: {what} is the unknown code {code}.") from None

    def value(self, kind: GGUFValueType, what: str) -> object:
        if kind == GGUFValueType.STRING:
            return self.string(what)
        if kind != GGUFValueType.ARRAY:
            dtype = np.dtype(_SCALARS[kind])
            return np.frombuffer(self.bytes(dtype.itemsize, what), dtype)[0].item()
        inner = self.value_type(f"the element type of {what}")
        if inner == GGUFValueType.ARRAY:
            raise ModelFileError(f"{self.file.path}: {what} is an array of arrays, which no model uses.")
        if inner == GGUFValueType.STRING:
            return [self.string(what) for _ in range(self.count(f"the length of {what}", 8))]
        dtype = np.dtype(_SCALARS[inner])
        count = self.count(f"the length of {what}", dtype.itemsize)
        return np.frombuffer(self.bytes(prod((count, dtype.itemsize)), what), dtype).tolist()
