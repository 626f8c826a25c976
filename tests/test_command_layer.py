"""`jalapeno layer`: tensors of every kind of file through the tiny engine."""

import json

import pytest

from scripts import cli
from tests.model_files import llama2c_bytes, write_gguf, write_safetensors

TINY = ["layer", "--preset", "tiny"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_gguf(folder / "a.gguf")
    write_safetensors(folder / "a.safetensors")
    (folder / "a.bin").write_bytes(llama2c_bytes())
    whole = (folder / "a.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-5])
    (folder / "cut.bin").write_bytes(llama2c_bytes()[:-4])
    (folder / "what.dat").write_bytes(b"neither one nor the other")
    (folder / "model.pt").write_bytes(b"\x80\x02}q\x00.")
    return folder


@pytest.mark.parametrize("file,tensor,n,k,mode,stored", [
    ("a.safetensors", "w32", 3, 4, "mxfp8_mxfp4", False),
    ("a.safetensors", "wb[1]", 3, 2, "mxfp8_mxfp4", False),
    ("a.safetensors", "gate_up_proj[1]", 3, 64, "mxfp8_mxfp4", True),
    ("a.safetensors", "gate_up_proj_blocks[0]", 3, 64, "mxfp8_mxfp4", True),
    ("a.gguf", "half", 3, 5, "mxfp8_mxfp4", False),
    ("a.gguf", "quarter", 3, 64, "mxfp8_mxfp4", False),
    ("a.gguf", "mx", 3, 64, "mxfp8_mxfp4", True),
    ("a.bin", "w1[1]", 12, 8, "mxfp8_mxfp4", False),
])
def test_tensors(files, file, tensor, n, k, mode, stored, capsys):
    assert cli.run([*TINY, str(files / file), "--tensor", tensor, "--m", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["n"], document["k"], document["mode"]) == (n, k, mode)
    assert document["compared"] == 2 * n and document["mismatches"] == 0
    assert document["weights_as_stored"] == stored
    # Random bytes in the pair of the file may hold NaN scales; elsewhere the figure has to be there.
    if "gate_up" not in tensor:
        assert document["sqnr_db"] > 5


@pytest.mark.parametrize("mode", ["mxfp4_mxfp4", "mxfp8_mxfp8"])
def test_other_modes_for_floating_point(files, mode, capsys):
    command = [*TINY, str(files / "a.gguf"), "--tensor", "quarter", "--mode", mode, "--c", "--json"]
    assert cli.run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mode"] == mode and document["compared"] == 3


def test_blocks_of_the_file_are_not_converted(files, capsys):
    assert cli.run([*TINY, str(files / "a.gguf"), "--tensor", "mx", "--mode", "mxfp8_mxfp8"]) == 2
    err = capsys.readouterr().err
    assert "'mx' is stored as MXFP4 and is not converted" in err and err.count("\n") == 1


@pytest.mark.parametrize("file,lines", [
    ("a.gguf", ["6 tensors", "quarter", "3 x 64", "Q4_1", "up to byte[1]"]),
    ("a.safetensors", ["7 tensors", "gate_up_proj", "2 x 3 x 64", "MXFP4", "scalar", "none"]),
    ("a.bin", ["13 tensors", "w1", "up to w1[1]"]),
])
def test_list(files, file, lines, capsys):
    assert cli.run([*TINY, str(files / file), "--list"]) == 0
    out = capsys.readouterr().out
    for line in lines:
        assert line in out
    assert cli.run([*TINY, str(files / file), "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["tensors"]) == int(lines[0].split()[0])


@pytest.mark.parametrize("file,arguments,words", [
    ("a.gguf", [], ["--tensor", "--list"]),
    ("a.gguf", ["--tensor", "nothing"], ["no tensor 'nothing'", "it has"]),
    ("a.gguf", ["--tensor", "norm"], ["'norm' has shape [7], not a matrix"]),
    ("a.bin", ["--tensor", "w1"], ["[2, 12, 8]", "w1[0]"]),
    ("a.bin", ["--tensor", "w1[2]"], ["outside the shape [2, 12, 8]"]),
    ("a.safetensors", ["--tensor", "index"], ["index"]),
    ("missing.gguf", ["--list"], ["no such file"]),
    ("cut.safetensors", ["--list"], ["truncated"]),
    ("cut.bin", ["--list"], ["truncated"]),
    ("what.dat", ["--list"], ["unknown file format"]),
    ("model.pt", ["--list"], ["pickle", "never loaded"]),
    (".", ["--list"], ["directory"]),
    ("a.gguf", ["--tensor", "half", "--m", "-1"], ["--m", "-1"]),
    ("a.gguf", ["--tensor", "half", "--m", str(1 << 28)], ["m x k", "at most"]),
])
def test_wrong_files_and_tensors_are_one_sentence(files, file, arguments, words, capsys):
    assert cli.run([*TINY, str(files / file), *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("jalapeno: ") and err.count("\n") == 1
    for word in words:
        assert word in err
