"""safetensors reader: values against PyPI safetensors, gpt-oss pairs, truncations, damaged headers."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from golden.formats import Format, MXTensor
from sw.formats import ModelFileError, open_model
from tests.model_files import gpt_oss_pair, safetensors_bytes, write_safetensors


def test_values_equal_what_the_reference_wrote(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 7)).astype(np.float32)
    tensors = {"a": x, "b": x.astype(np.float16), "c": x[0].astype(ml_dtypes.bfloat16), "e": x[:0]}
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path, metadata={"format": "np"})
    model = open_model(path)
    assert model.format == "safetensors" and model.metadata == {"format": "np"}
    assert model.tensors.keys() == tensors.keys()
    for name, value in tensors.items():
        read = model.load(name)
        assert read.dtype == np.float32 and read.shape == value.shape == model.tensors[name].shape
        np.testing.assert_array_equal(read, value.astype(np.float32))


def test_gpt_oss_pair_is_one_tensor(tmp_path):
    # The layout of gpt-oss-120b in small: [experts, N, K/32, 16] and [experts, N, K/32].
    path = tmp_path / "model.safetensors"
    pair = gpt_oss_pair(np.random.default_rng(2), 3, 5, k=96)
    path.write_bytes(safetensors_bytes(pair))
    model = open_model(path)
    info = model.tensors["gate_up_proj"]
    assert (info.shape, info.kind) == ((3, 5, 96), "MXFP4") and len(model.tensors) == 1
    blocks = np.frombuffer(pair["gate_up_proj_blocks"][2], np.uint8).reshape(3, 5, 3, 16)
    scales = np.frombuffer(pair["gate_up_proj_scales"][2], np.uint8).reshape(3, 5, 3)
    whole = model.load("gate_up_proj")
    assert isinstance(whole, MXTensor) and whole.format is Format.MXFP4
    for e, n, k in np.ndindex(3, 5, 96):
        byte = int(blocks[e, n, k // 32, k % 32 // 2])
        assert whole.codes[e, n, k] == (byte >> 4 if k % 2 else byte & 15)
    np.testing.assert_array_equal(whole.scales, scales)
    np.testing.assert_array_equal(whole.pack(), blocks)
    for name in ("gate_up_proj[2]", "gate_up_proj_blocks[2]", "gate_up_proj_scales[2]"):
        one = model.load_matrix(name)
        np.testing.assert_array_equal(one.codes, whole.codes[2])
        np.testing.assert_array_equal(one.scales, whole.scales[2])


def test_pairs_named_with_a_dot_and_mxfp8_blocks(tmp_path):
    path = tmp_path / "model.safetensors"
    codes, scales = np.arange(256, dtype=np.uint8), np.arange(8, dtype=np.uint8)
    path.write_bytes(
        safetensors_bytes(
            {
                "w.blocks": ("U8", [2, 4, 32], codes.tobytes()),
                "w.scales": ("U8", [2, 4], scales.tobytes()),
            }
        )
    )
    value = open_model(path).load_matrix("w")
    assert value.format is Format.MXFP8
    np.testing.assert_array_equal(value.codes.ravel(), codes)
    np.testing.assert_array_equal(value.scales.ravel(), scales)


def test_every_truncation_and_every_extension_is_one_error(tmp_path):
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    write_safetensors(whole)
    data = whole.read_bytes()
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="cut.safetensors: .*[.]$"):
            open_model(cut)
    cut.write_bytes(data + b"\0")
    with pytest.raises(ModelFileError, match="1 bytes follow the last tensor"):
        open_model(cut)


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"t": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


DAMAGED = {
    "length": (struct.pack("<Q", 1 << 40) + b"{}", "header length"),
    "json": (raw(b"{'t': 1}"), "not valid JSON"),
    "utf8": (raw(b'{"\xff": 1}'), "not valid JSON"),
    "deep": (raw(b'{"t":' + b"[" * 200000), "not valid JSON"),
    "list": (raw([1, 2]), "not a JSON object"),
    "metadata": (raw({"__metadata__": {"a": 1}}), "__metadata__"),
    "no entry": (raw({"t": 3}), "no dtype, shape and data_offsets"),
    "dtype": (raw(one(dtype="F7"), bytes(8)), "unknown dtype 'F7'"),
    "dtype list": (raw(one(dtype=["F32"]), bytes(8)), "unknown dtype"),
    "negative": (raw(one(shape=(-2,)), bytes(8)), "shape"),
    "float": (raw(one(shape=(2.0,)), bytes(8)), "shape"),
    "boolean": (raw(one(shape=(True, 2)), bytes(8)), "shape"),
    "rank": (raw(one(shape=(1,) * 9, offsets=(0, 4)), bytes(4)), "shape"),
    "offsets": (raw(one(offsets=(8, 0)), bytes(8)), "data_offsets"),
    "size": (raw(one(offsets=(0, 4)), bytes(8)), "takes 8 bytes, but its data_offsets hold 4"),
    "short": (raw(one(), bytes(7)), "truncated"),
    "hole": (raw(one(offsets=(4, 12)), bytes(12)), "a hole or an overlap"),
    "twice": (raw(b'{"t": 1, "t": 2}'), "a name appears twice"),
    "overlap": (raw(one() | {"u": one()["t"]}, bytes(8)), "a hole or an overlap"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_header(tmp_path, case):
    data, message = DAMAGED[case]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=message) as caught:
        open_model(path)
    assert "\n" not in str(caught.value)


PAIRS = {
    "scales shape": ({"t_blocks": ("U8", [2, 1, 16]), "t_scales": ("U8", [2])}, "are required"),
    "block size": ({"t_blocks": ("U8", [2, 1, 15]), "t_scales": ("U8", [2, 1])}, "are required"),
    "scales kind": ({"t_blocks": ("U8", [2, 1, 16]), "t_scales": ("F32", [2, 1])}, "scales of kind F32"),
    "both": (
        {"t_blocks": ("U8", [2, 1, 16]), "t_scales": ("U8", [2, 1]), "t": ("F32", [1])},
        "both plain and as a pair",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_wrong_pair(tmp_path, case):
    shapes, message = PAIRS[case]
    path = tmp_path / "pair.safetensors"
    size = {"U8": 1, "F32": 4}
    data = {n: (k, s, bytes(size[k] * int(np.prod(s)))) for n, (k, s) in shapes.items()}
    path.write_bytes(safetensors_bytes(data))
    with pytest.raises(ModelFileError, match=message):
        open_model(path)


def test_kinds_that_are_no_weights(tmp_path):
    path = tmp_path / "kinds.safetensors"
    path.write_bytes(
        safetensors_bytes({"i": ("I32", [1], bytes(4)), "t_blocks": ("U8", [1, 1, 16], bytes(16))})
    )
    model = open_model(path)
    with pytest.raises(ModelFileError, match="'i' is stored as I32"):
        model.load("i")
    with pytest.raises(ModelFileError, match="'t_blocks' holds MX blocks, but its scales are not in"):
        model.load("t_blocks")
