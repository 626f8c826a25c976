"""llama2.c reader: names, order and shapes of run.c, the shared classifier, truncations, headers."""

import struct

import numpy as np
import pytest

from sw.formats import ModelFileError, open_model
from tests.model_files import LLAMA2C_HEADER, llama2c_bytes

ORDER = [
    "token_embedding_table", "rms_att_weight", "wq", "wk", "wv", "wo", "rms_ffn_weight", "w1", "w2", "w3",
    "rms_final_weight", "freq_cis_real", "freq_cis_imag",
]  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_order_shapes_and_values(tmp_path, shared):
    header = list(LLAMA2C_HEADER)
    header[5] *= 1 if shared else -1
    path = tmp_path / "stories.bin"
    data = llama2c_bytes(tuple(header))
    path.write_bytes(data)
    model = open_model(path)
    assert model.format == "llama2.c" and list(model.tensors) == ORDER + ([] if shared else ["wcls"])
    assert model.metadata["vocab_size"] == header[5] and model.metadata["hidden_dim"] == 12
    # dim 8, hidden 12, 2 layers, 2 heads of 4, 1 kv head.
    assert model.tensors["wk"].shape == (2, 4, 8) and model.tensors["w2"].shape == (2, 8, 12)
    read = np.concatenate([model.load(name).ravel() for name in model.tensors])
    np.testing.assert_array_equal(read, np.frombuffer(data[28:], "<f4"))
    np.testing.assert_array_equal(model.load_matrix("w1[1]"), model.load("w1")[1])


def test_every_truncation_is_one_error(tmp_path):
    path = tmp_path / "stories.bin"
    data = llama2c_bytes((4, 4, 1, 2, 1, 3, 2))
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="stories.bin: .*[.]$"):
            open_model(path)
    path.write_bytes(data)
    assert open_model(path).tensors
    path.write_bytes(data + b"\0")
    with pytest.raises(ModelFileError, match="its header asks for"):
        open_model(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (0, 0, "dim is 0"),
        (0, 9, "dim 9 is not an even multiple of n_heads 2"),
        (1, -1, "hidden_dim is -1"),
        (2, 0, "n_layers is 0"),
        (3, -2, "n_heads is -2"),
        (4, 0, "n_kv_heads is 0"),
        (5, 0, "vocab_size is 0"),
        (6, -4, "seq_len is -4"),
        (1, 2**31 - 1, "truncated"),
    ],
)
def test_damaged_header(tmp_path, field, value, message):
    data = bytearray(llama2c_bytes())
    data[4 * field : 4 * field + 4] = struct.pack("<i", value)
    path = tmp_path / "stories.bin"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=message):
        open_model(path)


def test_a_newer_version_is_named(tmp_path):
    path = tmp_path / "stories.bin"
    path.write_bytes(struct.pack("<I", 0x616B3432) + bytes(256))
    with pytest.raises(ModelFileError, match="version 1 or 2"):
        open_model(path)
