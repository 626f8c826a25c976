"""Small model files of every kind for the tests, written by outside writers where there are any."""

import json
import struct
from pathlib import Path

import gguf
import numpy as np

LLAMA2C_HEADER = (8, 12, 2, 2, 1, 16, 4)


def write_gguf(path: Path, *, seed: int = 0) -> dict[str, np.ndarray]:
    """F32, F16, BF16, Q4_1, Q8_0 and MXFP4 tensors; returns the float32 values that a reader must give."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("a small file")
    writer.add_block_count(2)
    writer.add_rope_freq_base(1e5)
    writer.add_token_list([b"a", b"b", "\u0120c".encode()])
    writer.add_token_types([1, 1, 3])
    writer.add_add_bos_token(False)
    values = {}
    for name, kind, shape in (
        ("norm", "F32", (7,)),
        ("half", "F16", (3, 5)),
        ("brain", "BF16", (2, 6)),
        ("quarter", "Q4_1", (3, 64)),
        ("byte", "Q8_0", (2, 2, 32)),
        ("mx", "MXFP4", (3, 64)),
    ):
        x = rng.standard_normal(shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType[kind]
        raw = gguf.quantize(x, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        values[name] = gguf.dequantize(raw, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def safetensors_bytes(tensors: dict[str, tuple[str, list[int], bytes]], **extra: object) -> bytes:
    """A safetensors file from name -> (dtype, shape, data); `extra` entries go into the header."""
    header, data = dict(extra), b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def gpt_oss_pair(rng: np.random.Generator, *leading: int, k: int) -> dict[str, tuple[str, list[int], bytes]]:
    """`gate_up_proj_blocks` and `_scales` of random bytes, in the layout of gpt-oss."""
    blocks = rng.integers(0, 256, (*leading, k // 32, 16), dtype=np.uint8)
    scales = rng.integers(0, 256, (*leading, k // 32), dtype=np.uint8)
    return {
        "gate_up_proj_blocks": ("U8", list(blocks.shape), blocks.tobytes()),
        "gate_up_proj_scales": ("U8", list(scales.shape), scales.tobytes()),
    }


def write_safetensors(path: Path, *, seed: int = 0) -> None:
    """F32, F16, BF16 and I32 tensors, a scalar, an empty tensor and a gpt-oss pair."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(12).astype("<f4")
    tensors = {
        "w32": ("F32", [3, 4], values.tobytes()),
        "w16": ("F16", [2, 6], values.astype("<f2").tobytes()),
        "wb": ("BF16", [2, 3, 2], (values.view("<u4") >> 16).astype("<u2").tobytes()),
        "scalar": ("F32", [], values[:1].tobytes()),
        "empty": ("F32", [0, 4], b""),
        "index": ("I32", [3], values[:3].tobytes()),
        **gpt_oss_pair(rng, 2, 3, k=64),
    }
    path.write_bytes(safetensors_bytes(tensors, __metadata__={"format": "np"}))


def llama2c_bytes(header: tuple[int, ...] = LLAMA2C_HEADER, *, seed: int = 0) -> bytes:
    """A llama2.c file of random weights for (dim, hidden, layers, heads, kv_heads, vocabulary, positions)."""
    dim, hidden, layers, heads, kv_heads, vocabulary, positions = header
    kv = dim // heads * kv_heads
    count = abs(vocabulary) * dim + layers * (2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * hidden * dim) + dim
    count += positions * (dim // heads)
    count += abs(vocabulary) * dim if vocabulary < 0 else 0
    values = np.random.default_rng(seed).standard_normal(count).astype("<f4")
    return struct.pack("<7i", *header) + values.tobytes()
