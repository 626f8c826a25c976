"""Which reader a file gets, what is refused, and how tensors are named in a request."""

import pickle
import struct
import zipfile

import numpy as np
import pytest

from sw.formats import ModelFileError, open_model
from tests.model_files import llama2c_bytes, write_gguf, write_safetensors


def test_the_content_decides_where_the_name_says_nothing(tmp_path):
    path = tmp_path / "weights"
    write_gguf(path)
    assert open_model(path).format == "gguf"
    write_safetensors(path)
    assert open_model(str(path)).format == "safetensors"
    path.write_bytes(llama2c_bytes())
    assert open_model(path).format == "llama2.c"
    # Two that look like other formats: 123 layers is "{" where safetensors has one, dim 640 is 0x80 0x02.
    for header in ((4, 4, 123, 2, 1, 3, 2), (640, 4, 1, 2, 1, 3, 2)):
        path.write_bytes(llama2c_bytes(header))
        assert open_model(path).format == "llama2.c"


@pytest.mark.parametrize(
    "name", ["m.pt", "m.pth", "m.CKPT", "m.pkl", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"]
)
def test_pickles_are_refused_by_name_before_they_are_opened(tmp_path, name):
    with pytest.raises(ModelFileError, match="is a pickle, which can run code, and is never loaded"):
        open_model(tmp_path / name)


class Trap:
    """Unpickling an instance raises, so that a test sees any attempt to do so."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.parametrize("name", ["model.bin", "model", "model.safetensors", "model.gguf"])
def test_pickles_are_refused_by_content(tmp_path, name):
    path = tmp_path / name
    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps(Trap(), protocol=protocol))
        with pytest.raises(ModelFileError, match="holds a pickle or a zip archive"):
            open_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    with pytest.raises(ModelFileError, match="holds a pickle or a zip archive"):
        open_model(path)
    for protocol in (0, 1):
        path.write_bytes(pickle.dumps(Trap(), protocol=protocol))
        with pytest.raises(ModelFileError):
            open_model(path)


def test_paths_that_are_no_model(tmp_path):
    with pytest.raises(ModelFileError, match="absent.gguf: no such file"):
        open_model(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match="is a directory"):
        open_model(tmp_path)
    empty = tmp_path / "empty.gguf"
    empty.touch()
    with pytest.raises(ModelFileError, match="the file is empty"):
        open_model(empty)
    other = tmp_path / "picture"
    other.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    with pytest.raises(ModelFileError, match="unknown file format .*GGUF, safetensors and llama2.c"):
        open_model(other)
    other = tmp_path / "name.gguf"
    other.write_bytes(struct.pack("<Q", 2) + b"{}")
    with pytest.raises(ModelFileError, match="does not begin with the GGUF magic"):
        open_model(other)


@pytest.fixture
def model(tmp_path):
    write_safetensors(tmp_path / "m.safetensors")
    return open_model(tmp_path / "m.safetensors")


def test_an_unknown_tensor_names_others(model):
    with pytest.raises(ModelFileError, match="no tensor 'down_proj'; it has 'gate_up_proj'"):
        model.load("down_proj")
    with pytest.raises(ModelFileError, match="no tensor 'x'; it has 'w32', 'w16', 'wb', 'scalar' and 3 more"):
        model.load("x")


@pytest.mark.parametrize("name", ["wb[2]", "wb[0][3]", "wb[0][0][0]", "scalar[0]", "empty[0]", "w32[0][0]"])
def test_an_index_outside_the_shape(model, name):
    with pytest.raises(ModelFileError, match="outside the shape"):
        model.load(name)


def test_indices_and_matrices(model):
    whole = model.load("wb")
    np.testing.assert_array_equal(model.load("wb[1]"), whole[1])
    np.testing.assert_array_equal(model.load("wb[1][2]"), whole[1, 2])
    assert model.load("empty").shape == (0, 4) and model.load("scalar").shape == ()
    assert model.load_matrix("w32").shape == (3, 4)
    with pytest.raises(ModelFileError, match=r"choose one \[N, K\] matrix of it, such as 'wb\[0\]'"):
        model.load_matrix("wb")
    with pytest.raises(ModelFileError, match="not a matrix"):
        model.load_matrix("wb[0][0]")
