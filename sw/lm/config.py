"""Shape of a LLaMA-type model, read from the metadata of a GGUF file."""

from dataclasses import dataclass, replace

from sw.formats import ModelFile, ModelFileError


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """Shape of the model; `ValueError` on construction where the numbers do not fit each other.

    Parameters
    ----------
    layers : transformer layers.
    width : elements of the residual stream.
    hidden : inner width of the feed-forward layers.
    heads, kv_heads : query heads, and key/value heads shared by `heads / kv_heads` of them each.
    vocabulary : tokens.
    positions : longest sequence.
    rope_base : base of the rotary embedding's frequencies.
    norm_epsilon : added to the mean square in RMSNorm.
    """

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    positions: int
    rope_base: float
    norm_epsilon: float

    def __post_init__(self):
        for field in ("layers", "width", "hidden", "heads", "kv_heads", "vocabulary", "positions"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be at least 1.")
        if self.width % (2 * self.heads):
            raise ValueError(f"width is {self.width}; an even multiple of heads = {self.heads} is allowed.")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads is {self.heads}; a multiple of kv_heads = {self.kv_heads} is allowed.")
        if not (self.rope_base > 0 and self.norm_epsilon > 0):
            raise ValueError(
                f"rope_base is {self.rope_base}, norm_epsilon {self.norm_epsilon}; both must be positive."
            )

    @property
    def head(self) -> int:
        """Elements of one head."""
        return self.width // self.heads

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @property
    def kv_width(self) -> int:
        """Elements of all keys (or values) of one token."""
        return self.kv_heads * self.head

    def with_layers(self, layers: int) -> "LlamaConfig":
        """The same model cut to its first `layers` layers; `ValueError` beyond what it has."""
        if not 1 <= layers <= self.layers:
            raise ValueError(f"layers is {layers}; 1 to {self.layers} are allowed for this model.")
        return replace(self, layers=layers)

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """Name of every linear product -> (N, K), in order of execution; one name is one fused weight.

        "blk.i.qkv", "blk.i.o", "blk.i.gate_up", "blk.i.down", and "lm_head".
        """
        shapes = {}
        for layer in range(self.layers):
            shapes[f"blk.{layer}.qkv"] = (self.width + 2 * self.kv_width, self.width)
            shapes[f"blk.{layer}.o"] = (self.width, self.width)
            shapes[f"blk.{layer}.gate_up"] = (2 * self.hidden, self.width)
            shapes[f"blk.{layer}.down"] = (self.width, self.hidden)
        shapes["lm_head"] = (self.vocabulary, self.width)
        return shapes


_KEYS = {
    "layers": ("llama.block_count", int),
    "width": ("llama.embedding_length", int),
    "hidden": ("llama.feed_forward_length", int),
    "heads": ("llama.attention.head_count", int),
    "kv_heads": ("llama.attention.head_count_kv", int),
    "positions": ("llama.context_length", int),
    "rope_base": ("llama.rope.freq_base", float),
    "norm_epsilon": ("llama.attention.layer_norm_rms_epsilon", float),
}


def config_of(model: ModelFile) -> LlamaConfig:
    """The shape of the model in a GGUF file.

    Errors: `ModelFileError` for another architecture, a missing key, or numbers that do not fit.
    """
    architecture = model.metadata.get("general.architecture")
    if architecture != "llama":
        raise ModelFileError(
            f"{model.path}: general.architecture is {architecture!r}; a GGUF file of a 'llama' is required."
        )
    values = {}
    for field, (key, kind) in _KEYS.items():
        value = model.metadata.get(key)
        if type(value) is not kind:
            raise ModelFileError(f"{model.path}: {key} is {value!r}; a number ({kind.__name__}) is required.")
        values[field] = value
    embedding = model.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelFileError(f"{model.path}: there is no matrix 'token_embd.weight'.")
    try:
        config = LlamaConfig(vocabulary=embedding.shape[0], **values)
    except ValueError as error:
        raise ModelFileError(f"{model.path}: {error}") from None
    rotary = model.metadata.get("llama.rope.dimension_count", config.head)
    if rotary != config.head:
        raise ModelFileError(
            f"{model.path}: llama.rope.dimension_count is {rotary!r}; only the whole head "
            f"({config.head}) is allowed."
        )
    return config
