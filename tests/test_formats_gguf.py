"""GGUF reader: values against PyPI gguf, every truncation, every damaged field, every block format."""

import struct

import gguf
import numpy as np
import pytest

from golden.formats import Format, MXTensor
from sw.formats import ModelFileError, open_model
from tests.model_files import write_gguf


def minimal(*, version=3, tensors=1, entries=0, name=b"t", dims=(4,), kind=0, offset=0, body=b"", data=64):
    """The bytes of a file with one tensor, each field free to be wrong; `body` is the metadata."""
    header = b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + body
    header += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(dims))
    header += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
    return header + bytes(-len(header) % 32) + bytes(data)


def entry(key, kind, payload):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + payload


def test_values_and_metadata_equal_the_reference_reader(tmp_path):
    path = tmp_path / "small.gguf"
    expected = write_gguf(path)
    model, reference = open_model(path), gguf.GGUFReader(path)
    assert model.format == "gguf" and list(model.tensors) == [t.name for t in reference.tensors]
    for tensor in reference.tensors:
        info = model.tensors[tensor.name]
        assert info.kind == tensor.tensor_type.name
        assert info.shape == tuple(reversed(tensor.shape.tolist()))
        value = model.load(tensor.name)
        if info.kind == "MXFP4":
            assert isinstance(value, MXTensor) and value.format is Format.MXFP4
            value = value.dequantise()
        else:
            assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected[tensor.name])
    fields = {k: f.contents() for k, f in reference.fields.items() if not k.startswith("GGUF.")}
    assert model.metadata == fields and len(fields) >= 7
    assert model.metadata["tokenizer.ggml.tokens"] == ["a", "b", "\u0120c"]


def test_every_truncation_is_one_error(tmp_path):
    whole, cut = tmp_path / "small.gguf", tmp_path / "cut.gguf"
    write_gguf(whole)
    data = whole.read_bytes()
    reader = gguf.GGUFReader(whole)
    end = max(t.data_offset + t.n_bytes for t in reader.tensors)
    for length in range(end):
        cut.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="cut.gguf: .*[.]$"):
            open_model(cut)
    cut.write_bytes(data[:end])
    assert len(open_model(cut).tensors) == len(reader.tensors)


def test_the_minimal_file_is_valid(tmp_path):
    path = tmp_path / "minimal.gguf"
    path.write_bytes(minimal())
    np.testing.assert_array_equal(open_model(path).load("t"), np.zeros(4, np.float32))


U64, STRING, ARRAY, U32, U8 = 10, 8, 9, 4, 0
HUGE = struct.pack("<Q", 1 << 62)
DAMAGED = {
    "version 9": (dict(version=9), "GGUF version 9; versions 2 and 3"),
    "big-endian": (dict(version=0x03000000), "big-endian"),
    "tensor count": (dict(tensors=1 << 60), "tensor count is 1152921504606846976"),
    "metadata count": (dict(entries=1 << 60), "metadata count"),
    "no dimensions": (dict(dims=()), "0 dimensions; 1 to 4"),
    "five dimensions": (dict(dims=(1,) * 5), "5 dimensions; 1 to 4"),
    "dimension 0": (dict(dims=(4, 0)), "a dimension is 0"),
    "huge shape": (dict(dims=(1 << 63, 1 << 63, 1 << 63)), "truncated"),
    "unknown type": (dict(kind=77), "unknown type 77"),
    "ragged block": (dict(kind=3, dims=(33,)), "rows of 33 elements, not a multiple of 32"),
    "offset": (dict(offset=1 << 40), "truncated"),
    "odd offset": (dict(offset=8), "not a multiple of the alignment 32"),
    "name": (dict(name=b"\xff\xfe"), "not UTF-8"),
    "entry type": (dict(entries=1, body=entry(b"k", 99, b"\0")), "unknown code 99"),
    "string length": (dict(entries=1, body=entry(b"k", STRING, HUGE)), "'k'"),
    "array length": (dict(entries=1, body=entry(b"k", ARRAY, struct.pack("<I", U8) + HUGE)), "length of 'k'"),
    "string array": (dict(entries=1, body=entry(b"k", ARRAY, struct.pack("<I", STRING) + HUGE)), "length"),
    "nested array": (dict(entries=1, body=entry(b"k", ARRAY, struct.pack("<I", ARRAY) + HUGE)), "arrays"),
    "same key": (dict(entries=2, body=entry(b"k", U8, b"1") * 2), "appears twice"),
    "alignment": (
        dict(entries=1, body=entry(b"general.alignment", U32, struct.pack("<I", 33))),
        "general.alignment is '33'",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_field(tmp_path, case):
    fields, message = DAMAGED[case]
    path = tmp_path / "damaged.gguf"
    path.write_bytes(minimal(**fields))
    with pytest.raises(ModelFileError, match=message) as caught:
        open_model(path)
    assert "\n" not in str(caught.value)


def test_two_tensors_at_the_same_place_or_of_one_name(tmp_path):
    path = tmp_path / "two.gguf"
    one = minimal()[24 : 24 + 8 + 1 + 4 + 8 + 12]
    for second, message in ((one, "appears twice"), (one.replace(b"t", b"u"), "overlap")):
        head = minimal(tensors=2)[:24] + one + second
        path.write_bytes(head + bytes(-len(head) % 32) + bytes(64))
        with pytest.raises(ModelFileError, match=message):
            open_model(path)


@pytest.mark.parametrize("kind", gguf.GGMLQuantizationType)
def test_every_block_format_gives_values_or_an_error(tmp_path, kind):
    per_block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(kind).integers(0, 256, (3, 2 * size), dtype=np.uint8)
    path = tmp_path / "kind.gguf"
    path.write_bytes(minimal(kind=int(kind), dims=(2 * per_block, 3), data=0) + raw.tobytes())
    model = open_model(path)
    try:
        value = model.load("t")
    except ModelFileError as error:
        assert f"stored as {kind.name}" in str(error)
        assert kind.name in {"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K", "Q1_0"}
        return
    if kind.name == "MXFP4":
        # The reference decodes 0xFF as 2^128; OCP MX makes it NaN, which is what the engine does.
        keep = value.scales != 255
        ours = value.dequantise().reshape(3, 2, 32)[keep]
        theirs = gguf.dequantize(raw, kind).reshape(3, 2, 32)[keep]
    else:
        ours = value
        with np.errstate(all="ignore"):
            theirs = {"F32": lambda: raw.view("<f4"), "F16": lambda: raw.view("<f2").astype("f4")}.get(
                kind.name, lambda: gguf.dequantize(raw, kind)
            )()
    assert ours.size and np.array_equal(ours, theirs, equal_nan=True)
