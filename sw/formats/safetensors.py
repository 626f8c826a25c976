"""safetensors files, and the MX pairs that gpt-oss stores in them.

Source: the safetensors format description (8-byte header length, JSON header, data without holes), and the
layout of gpt-oss in published.json: `NAME_blocks` uint8 [..., N, K/32, 16], element 2i in the low nibble of
byte i, with `NAME_scales` uint8 [..., N, K/32], E8M0. Blocks of 32 bytes are MXFP8 E4M3 in the same way.
"""

import json
import struct
from math import prod

import numpy as np

from golden.formats import Format, MXTensor
from sw.formats import storage
from sw.formats.model_file import Bytes, ModelFile, ModelFileError, TensorInfo, quoted

_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_READABLE = {"F32", "F16", "BF16"}
_MAX_HEADER = 100_000_000  # the limit of the reference implementation
_MAX_DIMENSIONS = 8
_PAIRS = (("_blocks", "_scales"), (".blocks", ".scales"))


class SafetensorsFile(ModelFile):
    """A safetensors file: a `*_blocks` / `*_scales` pair is listed as one tensor of kind MXFP4 or MXFP8."""

    format = "safetensors"

    def __init__(self, file: Bytes):
        super().__init__(file.path)
        self._file = file
        header, start = self._header()
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise ModelFileError(f"{self.path}: __metadata__ in the header is not a map of strings.")
        self.metadata.update(metadata)
        self._stored = {name: self._entry(name, entry, start) for name, entry in header.items()}
        self._check_layout(start)
        self._pairs: dict[str, tuple[storage.Stored, storage.Stored]] = {}
        self._aliases: dict[str, str] = {}
        self._join_pairs()

    def find(self, name):
        """As `ModelFile.find`; the name of either half of an MX pair finds the pair."""
        base, bracket, index = name.partition("[")
        if name not in self.tensors and base in self._aliases:
            name = self._aliases[base] + bracket + index
        return super().find(name)

    def _header(self) -> tuple[dict, int]:
        length = struct.unpack("<Q", self._file.take(0, 8, "the header length").tobytes())[0]
        if length > _MAX_HEADER:
            raise ModelFileError(
                f"{self.path}: not a safetensors file: header length {length}, at most {_MAX_HEADER}."
            )
        text = self._file.take(8, length, "the header").tobytes()
        try:
            header = json.loads(text.decode(), object_pairs_hook=self._unique)
        except ModelFileError:
            raise
        except (ValueError, RecursionError):
            raise ModelFileError(f"{self.path}: the safetensors header is not valid JSON.") from None
        if not isinstance(header, dict):
            raise ModelFileError(f"{self.path}: the safetensors header is not a JSON object.")
        return header, 8 + length

    def _unique(self, pairs: list[tuple[str, object]]) -> dict:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise ModelFileError(f"{self.path}: a name appears twice in the safetensors header.")
        return table

    def _entry(self, name: str, entry: object, start: int) -> storage.Stored:
        what = f"{self.path}: tensor {quoted(name)}"
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
            raise ModelFileError(f"{what} has no dtype, shape and data_offsets in the header.")
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(kind, str) or kind not in _BYTES:
            raise ModelFileError(f"{what} has the unknown dtype {quoted(kind)}.")
        if not _naturals(shape) or len(shape) > _MAX_DIMENSIONS:
            raise ModelFileError(f"{what} has the shape {quoted(shape)}; a list of sizes is required.")
        if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise ModelFileError(f"{what} has the data_offsets {quoted(offsets)}; [begin, end] is required.")
        size = prod(shape) * _BYTES[kind]
        if offsets[1] - offsets[0] != size:
            raise ModelFileError(
                f"{what} of kind {kind} and shape {quoted(shape)} takes {size} bytes, "
                f"but its data_offsets hold {offsets[1] - offsets[0]}."
            )
        self._file.take(start + offsets[0], size, f"tensor {quoted(name)}")
        info = TensorInfo(name=name, shape=tuple(shape), kind=kind)
        return storage.Stored(info=info, offset=start + offsets[0], nbytes=size)

    def _check_layout(self, start: int) -> None:
        """The format allows neither holes nor overlaps, so the bytes must be used exactly once."""
        end = start
        for stored in sorted(self._stored.values(), key=lambda s: (s.offset, s.nbytes)):
            if stored.offset != end:
                raise ModelFileError(
                    f"{self.path}: tensor {quoted(stored.info.name)} begins at byte {stored.offset - start} "
                    f"of the data, byte {end - start} is expected (a hole or an overlap)."
                )
            end = stored.offset + stored.nbytes
        if end != len(self._file):
            raise ModelFileError(f"{self.path}: {len(self._file) - end} bytes follow the last tensor.")

    def _join_pairs(self) -> None:
        halves = {}
        for name, stored in self._stored.items():
            for blocks_end, scales_end in _PAIRS:
                other = name.removesuffix(blocks_end) + scales_end
                if name.endswith(blocks_end) and stored.info.kind == "U8" and other in self._stored:
                    halves[name] = other
        scales_names = set(halves.values())
        for name, stored in self._stored.items():
            if name in scales_names:
                continue
            info = stored.info
            if name in halves:
                info = self._pair(stored, self._stored[halves[name]])
                self._aliases |= {name: info.name, halves[name]: info.name}
            if info.name in self.tensors or (info is not stored.info and info.name in self._stored):
                raise ModelFileError(
                    f"{self.path}: tensor {quoted(info.name)} appears both plain and as a pair."
                )
            self.tensors[info.name] = info

    def _pair(self, blocks: storage.Stored, scales: storage.Stored) -> TensorInfo:
        shape, kind = blocks.info.shape, scales.info.kind
        what = f"{self.path}: the pair {quoted(blocks.info.name)} / {quoted(scales.info.name)}"
        if kind not in ("U8", "F8_E8M0"):
            raise ModelFileError(f"{what} has scales of kind {kind}; U8 is required.")
        if len(shape) < 2 or shape[-1] not in (16, 32) or scales.info.shape != shape[:-1]:
            raise ModelFileError(
                f"{what} has the shapes {list(shape)} and {list(scales.info.shape)}; [..., N, K/32, 16] "
                "(or 32 for MXFP8) and [..., N, K/32] are required."
            )
        name = blocks.info.name[: -len("_blocks")]
        self._pairs[name] = (blocks, scales)
        kind = "MXFP4" if shape[-1] == 16 else "MXFP8"
        return TensorInfo(name=name, shape=(*shape[:-2], shape[-2] * 32), kind=kind)

    def _read(self, info, index):
        if info.name in self._pairs:
            return self._read_pair(info, index)
        if info.kind not in _READABLE:
            if info.name.endswith(("_blocks", ".blocks")):
                raise ModelFileError(
                    f"{self.path}: {quoted(info.name)} holds MX blocks, but its scales are not in the file."
                )
            raise storage.unreadable(self.path, info)
        return storage.read(self._file, self._stored[info.name], index)

    def _read_pair(self, info: TensorInfo, index: tuple[int, ...]) -> MXTensor:
        blocks, scales = (storage.part(self._file, half, index) for half in self._pairs[info.name])
        shape = info.shape[len(index) :]
        if info.kind == "MXFP4":
            codes = np.stack([blocks & np.uint8(15), blocks >> np.uint8(4)], axis=-1)
        else:
            codes = blocks.copy()
        return MXTensor(
            format=Format[info.kind],
            codes=codes.reshape(shape),
            scales=scales.reshape(*shape[:-1], shape[-1] // 32).copy(),
        )


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 63 for v in value)
