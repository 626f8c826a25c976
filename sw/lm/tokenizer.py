"""The tokenizer inside a GGUF file: byte-level pair encoding, with text that streams as tokens come."""

import codecs

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sw.formats import ModelFile, ModelFileError

_CONTROL = 3  # token_type of control tokens in GGUF


class ByteLevelTokenizer:
    """Byte-level BPE with the vocabulary and merges of a GGUF file.

    Members
    -------
    size : tokens in the vocabulary.
    end : tokens that end a text.

    Errors: `ModelFileError` for another kind of tokenizer, or a vocabulary that is not consistent.
    """

    def __init__(self, model: ModelFile):
        metadata, path = model.metadata, model.path
        kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
        if kind != ("gpt2", "smollm"):
            raise ModelFileError(
                f"{path}: the tokenizer is {kind[0]!r} with pre-tokenizer {kind[1]!r}; "
                "'gpt2' with 'smollm' is required."
            )
        tokens = metadata.get("tokenizer.ggml.tokens")
        merges = metadata.get("tokenizer.ggml.merges")
        types = metadata.get("tokenizer.ggml.token_type")
        if not tokens or not isinstance(tokens[0], str) or len(set(tokens)) != len(tokens):
            raise ModelFileError(f"{path}: tokenizer.ggml.tokens is not a list of different texts.")
        if not isinstance(types, list) or len(types) != len(tokens):
            raise ModelFileError(f"{path}: tokenizer.ggml.token_type has not one entry a token.")
        try:
            pairs = [tuple(merge.split(" ")) for merge in merges]
            bpe = models.BPE({token: i for i, token in enumerate(tokens)}, pairs)
        except Exception as error:  # the library raises plain Exception for a merge of unknown tokens
            raise ModelFileError(f"{path}: tokenizer.ggml.merges cannot be used ({error}).") from None
        self._tokens = tokens
        self._tokenizer = Tokenizer(bpe)
        # As llama.cpp's "smollm": single digits, then the words of GPT-2.
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        self._control = {i for i, kind in enumerate(types) if kind == _CONTROL}
        self._tokenizer.add_special_tokens(
            [AddedToken(tokens[i], special=True, normalized=False) for i in sorted(self._control)]
        )
        self.size = len(tokens)
        named = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "padding"))
        self.end = {i for i in named if isinstance(i, int)}
        self.end |= {i for i in self._control if tokens[i] in ("<|endoftext|>", "<|im_end|>")}

    def encode(self, text: str) -> list[int]:
        """Tokens of a text; control tokens may be written out ("<|im_start|>")."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; none for a control token. `ValueError` for one outside the vocabulary."""
        if not 0 <= token < self.size:
            raise ValueError(f"token is {token}; 0 to {self.size - 1} are allowed.")
        if token in self._control:
            return b""
        text = self._tokens[token]
        # Tokens outside the byte alphabet (added words) are plain text.
        if all(character in _BYTE_OF for character in text):
            return bytes(_BYTE_OF[character] for character in text)
        return text.encode()

    def decode(self, tokens: "list[int]") -> str:
        """Text of tokens; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode(errors="replace")

    def stream(self) -> "TextStream":
        """A decoder for tokens that come one at a time."""
        return TextStream(self)

    def chat(self, message: str, *, system: str = "You are a helpful assistant.") -> str:
        """A question in the form that the instruction-tuned model was trained on (ChatML)."""
        return (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n"
        )


class TextStream:
    """Text of tokens as they come: never half a character, nothing lost."""

    def __init__(self, tokenizer: ByteLevelTokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The characters that this token completes, possibly none."""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def finish(self) -> str:
        """What is left of an incomplete character, as U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary, as GPT-2 defines it."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    for number, byte in enumerate(b for b in range(256) if b not in printable):
        table[chr(256 + number)] = byte
    return table


_BYTE_OF = _byte_alphabet()
