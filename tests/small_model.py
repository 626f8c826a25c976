"""A small random model as a GGUF file: two layers, byte-level vocabulary, every kind of tensor."""

from pathlib import Path

import gguf
import numpy as np

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, POSITIONS = 2, 64, 96, 4, 2, 128
MERGES = ["t h", "th e", "\u0120 the", "i n", "\u0120 a"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def alphabet() -> list[str]:
    """Characters that stand for the bytes 0 to 255 in a byte-level vocabulary, in the order of the bytes."""
    kept = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    others = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(others)) for byte in range(256)]


VOCABULARY = [*CONTROL, *alphabet(), *(merge.replace(" ", "") for merge in MERGES)]


def shapes() -> dict[str, tuple[int, ...]]:
    kv = WIDTH // HEADS * KV_HEADS
    found = {"token_embd.weight": (len(VOCABULARY), WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        found |= {
            f"blk.{layer}.{name}.weight": shape
            for name, shape in {
                "attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH),
                "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,), "ffn_gate": (HIDDEN, WIDTH),
                "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN),
            }.items()
        }  # fmt: skip
    return found


def write(path: Path, *, seed: int = 0, drop: str = "", metadata: dict | None = None) -> Path:
    """Writes the file.

    Parameters: `drop`, a tensor to leave out; `metadata`, entries that replace the right ones (None removes).
    """
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    entries = {
        "llama.block_count": LAYERS, "llama.embedding_length": WIDTH, "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS,
        "llama.context_length": POSITIONS, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": VOCABULARY,
        "tokenizer.ggml.token_type": [3] * len(CONTROL) + [1] * (len(VOCABULARY) - len(CONTROL)),
        "tokenizer.ggml.merges": MERGES, "tokenizer.ggml.eos_token_id": 2,
        **(metadata or {}),
    }  # fmt: skip
    for key, value in entries.items():
        if value is None:
            continue
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
            add(key, value)
    for name, shape in shapes().items():
        if name == drop:
            continue
        x = rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, 1 + x / 10)
            continue
        kind = gguf.GGMLQuantizationType.Q8_0 if "embd" in name else gguf.GGMLQuantizationType.Q4_1
        writer.add_tensor(name, gguf.quantize(x / np.sqrt(shape[-1]) * 1.5, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
