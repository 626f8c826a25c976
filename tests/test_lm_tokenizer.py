"""The tokenizer on a small vocabulary: merges, control tokens, streamed text, files that are wrong."""

import numpy as np
import pytest

from sw.formats import ModelFileError, open_model
from sw.lm.tokenizer import ByteLevelTokenizer
from tests import small_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return ByteLevelTokenizer(open_model(small_model.write(tmp_path_factory.mktemp("model") / "small.gguf")))


def names(tokenizer, text):
    return [small_model.VOCABULARY[token] for token in tokenizer.encode(text)]


def test_merges_and_words(tokenizer):
    assert names(tokenizer, "the in") == ["the", "\u0120", "in"]
    assert names(tokenizer, "in the") == ["in", "\u0120the"]
    # Digits stand alone, so that no merge joins them; a contraction is a word of its own.
    assert names(tokenizer, "12") == ["1", "2"]
    assert names(tokenizer, "the's") == ["the", "'", "s"]


def test_control_tokens(tokenizer):
    assert tokenizer.end == {0, 2}
    assert tokenizer.encode("<|im_start|>a<|im_end|>") == [1, small_model.VOCABULARY.index("a"), 2]
    assert tokenizer.decode([1, small_model.VOCABULARY.index("a"), 2]) == "a"
    chat = tokenizer.encode(tokenizer.chat("the"))
    assert chat.count(1) == 3 and chat.count(2) == 2


def test_every_byte_has_its_token(tokenizer):
    joined = b"".join(tokenizer.token_bytes(3 + byte) for byte in range(256))
    assert joined == bytes(range(256))


def test_streamed_text_is_the_text(tokenizer):
    rng = np.random.default_rng(3)
    characters = "the in a\n\t19'\u00e9\u20ac\u65e5\U0001f600\u0301\u00a0"
    for _ in range(200):
        text = "".join(rng.choice(list(characters), rng.integers(1, 30)))
        tokens = tokenizer.encode(text)
        stream = tokenizer.stream()
        pieces = [stream.push(token) for token in tokens]
        assert "".join(pieces) == text and stream.finish() == ""
        assert not any("\ufffd" in piece for piece in pieces)
        assert tokenizer.decode(tokens) == text


def test_broken_bytes_lose_nothing_else(tokenizer):
    stream = tokenizer.stream()
    pieces = [stream.push(3 + byte) for byte in b"a\xe2\x82b\xff"]
    assert pieces == ["a", "", "", "\ufffdb", "\ufffd"]
    stream.push(3 + 0xE2)
    assert stream.finish() == "\ufffd"


@pytest.mark.parametrize("token", [-1, len(small_model.VOCABULARY)])
def test_a_token_outside_the_vocabulary(tokenizer, token):
    with pytest.raises(ValueError, match=f"token is {token}"):
        tokenizer.token_bytes(token)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "the tokenizer is 'llama'"),
        ({"tokenizer.ggml.pre": "qwen2"}, "pre-tokenizer 'qwen2'"),
        ({"tokenizer.ggml.tokens": None}, "tokens is not a list"),
        ({"tokenizer.ggml.tokens": ["a"] * len(small_model.VOCABULARY)}, "tokens is not a list of different"),
        ({"tokenizer.ggml.token_type": [1]}, "token_type has not one entry"),
        ({"tokenizer.ggml.merges": ["x yz"]}, "merges cannot be used"),
        ({"tokenizer.ggml.merges": ["xyz"]}, "merges cannot be used"),
        ({"tokenizer.ggml.merges": None}, "merges cannot be used"),
    ],
)
def test_a_file_without_a_usable_tokenizer(tmp_path, metadata, message):
    model = open_model(small_model.write(tmp_path / "wrong.gguf", metadata=metadata))
    with pytest.raises(ModelFileError, match=message):
        ByteLevelTokenizer(model)
