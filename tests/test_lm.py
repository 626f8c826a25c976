"""The language model on a small random file: forward pass against a plain one, cache, products, sampling."""

import numpy as np
import pytest

from golden.formats import quantise
from golden.matmul import MODES, matmul
from sw.formats import ModelFileError
from sw.lm.config import LlamaConfig
from sw.lm.evaluate import compare, evaluate, negative_log_likelihood
from sw.lm.generate import Sampler, generate
from sw.lm.llama import Llama, ProductShape, products_of_pass, softmax
from sw.lm.parameters import Parameters
from sw.lm.products import Float32Products, GoldenProducts, QuantisedWeights, formats_of
from sw.lm.tokenizer import ByteLevelTokenizer
from tests import small_model

TOKENS = [5, 70, 260, 3, 99, 5, 5, 200, 31, 77, 12, 150]


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    return Parameters(small_model.write(tmp_path_factory.mktemp("model") / "small.gguf"))


def plain_forward(parameters, tokens):
    """The same model written once more, in float64, token by token and head by head, rotary as complex."""
    config, load = parameters.config, lambda name: parameters.file.load(name + ".weight").astype(np.float64)

    def norm(x, gain):
        return x / np.sqrt((x * x).mean() + config.norm_epsilon) * gain

    def turn(x, position):
        pairs = x.reshape(-1, 2) @ np.array([1, 1j])
        pairs *= np.exp(1j * position * config.rope_base ** (-np.arange(len(pairs)) / len(pairs)))
        return np.stack([pairs.real, pairs.imag], axis=-1).ravel()

    states = [load("token_embd")[token] for token in tokens]
    head = config.head
    for layer in range(config.layers):
        w = {n: load(f"blk.{layer}.{n}") for n in ("attn_q", "attn_k", "attn_v", "attn_output",
                                                   "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm")}
        keys, values, after = [], [], []
        for position, x in enumerate(states):
            y = norm(x, w["attn_norm"])
            keys.append([turn(part, position) for part in np.split(w["attn_k"] @ y, config.kv_heads)])
            values.append(np.split(w["attn_v"] @ y, config.kv_heads))
            mixed = []
            for number, q in enumerate(np.split(w["attn_q"] @ y, config.heads)):
                shared = number * config.kv_heads // config.heads
                scores = np.array([turn(q, position) @ k[shared] for k in keys]) / np.sqrt(head)
                p = np.exp(scores - scores.max())
                mixed.append(sum(a * v[shared] for a, v in zip(p / p.sum(), values)))
            x = x + w["attn_output"] @ np.concatenate(mixed)
            y = norm(x, w["ffn_norm"])
            gate = w["ffn_gate"] @ y
            after.append(x + w["ffn_down"] @ (gate / (1 + np.exp(-gate)) * (w["ffn_up"] @ y)))
        states = after
    return np.stack([load("token_embd") @ norm(x, load("output_norm")) for x in states])


def test_forward_equals_a_plain_one(parameters):
    model = Llama(parameters, Float32Products(parameters))
    logits = model.forward(TOKENS, model.new_cache(len(TOKENS)), all_rows=True)
    assert logits.dtype == np.float32 and logits.shape == (len(TOKENS), len(small_model.VOCABULARY))
    expected = plain_forward(parameters, TOKENS)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)


def test_the_cache_gives_the_same_logits_in_any_steps(parameters):
    model = Llama(parameters, Float32Products(parameters))
    whole = model.forward(TOKENS, model.new_cache(64), all_rows=True)
    for steps in ([1] * 12, [5, 1, 6], [11, 1]):
        cache, start = model.new_cache(len(TOKENS)), 0
        for step in steps:
            last = model.forward(TOKENS[start : start + step], cache)
            start += step
            assert cache.length == start and last.shape[0] == 1
            np.testing.assert_allclose(last[0], whole[start - 1], rtol=0, atol=1e-5)


def test_the_products_of_a_pass_are_counted(parameters):
    model, config = Llama(parameters, Float32Products(parameters)), parameters.config
    cache = model.new_cache(16)
    model.forward(TOKENS, cache)
    assert model.issued.total() == products_of_pass(config) == 2 * (4 + 2 * 2) + 1
    model.issued.clear()
    model.forward([1], cache)
    assert model.issued == {
        ProductShape(kind="qkv", m=1, n=128, k=64): 2,
        ProductShape(kind="scores", m=2, n=13, k=16): 4,
        ProductShape(kind="values", m=2, n=16, k=13): 4,
        ProductShape(kind="o", m=1, n=64, k=64): 2,
        ProductShape(kind="gate_up", m=1, n=192, k=64): 2,
        ProductShape(kind="down", m=1, n=64, k=96): 2,
        ProductShape(kind="lm_head", m=1, n=len(small_model.VOCABULARY), k=64): 1,
    }
    names = {name.rpartition(".")[2]: shape for name, shape in config.linear_shapes().items()}
    assert names == {"qkv": (128, 64), "o": (64, 64), "gate_up": (192, 64), "down": (64, 96),
                     "lm_head": (len(small_model.VOCABULARY), 64)}
    assert all(parameters.linear(n).shape == s for n, s in config.linear_shapes().items())


class Recorded:
    """Hands every product on, and keeps the operands of those of attention."""

    def __init__(self, inner):
        self.inner, self.seen = inner, []

    def linear(self, name, x):
        return self.inner.linear(name, x)

    def attention_scores(self, layer, kv_head, q, k):
        y = self.inner.attention_scores(layer, kv_head, q, k)
        self.seen.append(("scores", q.copy(), k.copy(), y))
        return y

    def attention_values(self, layer, kv_head, p, v_t):
        y = self.inner.attention_values(layer, kv_head, p, v_t)
        self.seen.append(("values", p.copy(), v_t.copy(), y))
        return y


@pytest.mark.parametrize("mode", MODES)
def test_golden_products_are_the_golden_matmul_of_quantised_operands(parameters, mode):
    x_format, w_format = formats_of(mode)
    recorded = Recorded(GoldenProducts(parameters, mode))
    model = Llama(parameters, recorded)
    model.forward(TOKENS, model.new_cache(16))
    compared = 0
    for kind, x, w, y in recorded.seen:
        np.testing.assert_array_equal(y, matmul(quantise(x, x_format), quantise(w, w_format)))
        compared += y.size
        if kind == "values":
            # Rows are token by token, two query heads each: beyond its own token a row is exactly zero.
            beyond = np.arange(len(TOKENS))[None, :] > np.arange(len(x))[:, None] // 2
            assert (x[beyond] == 0).all() and (x[~beyond] > 0).all()
    assert len(recorded.seen) == 8 and compared == 4 * 24 * (12 + 16)
    for name in ("blk.1.qkv", "blk.0.down", "lm_head"):
        weights = parameters.linear(name)
        x = np.random.default_rng(1).standard_normal((3, weights.shape[1])).astype(np.float32)
        expected = matmul(quantise(x, x_format), quantise(weights, w_format))
        np.testing.assert_array_equal(recorded.linear(name, x), expected)


def test_shared_weights_must_have_the_format_of_the_mode(parameters):
    done = []
    weights = QuantisedWeights(parameters, formats_of("mxfp4_mxfp4")[1], progress=done.append)
    assert done == list(parameters.config.linear_shapes()) == list(weights.tensors)
    assert GoldenProducts(parameters, "mxfp8_mxfp4", weights=weights).weights is weights
    with pytest.raises(ValueError, match="weights have the format MXFP4; mode mxfp8_mxfp8 takes MXFP8"):
        GoldenProducts(parameters, "mxfp8_mxfp8", weights=weights)
    with pytest.raises(ValueError, match="mode is 'mxfp4_mxfp8'"):
        formats_of("mxfp4_mxfp8")


def test_softmax_masks_exactly():
    scores = np.array([[1, 1e30, 2], [np.inf, 3, 3]], np.float32)
    hidden = np.array([[False, True, False], [True, False, False]])
    p = softmax(scores, hidden)
    assert p.dtype == np.float32 and (p[hidden] == 0).all()
    np.testing.assert_allclose(p, [[1 / (1 + np.e), 0, np.e / (1 + np.e)], [0, 0.5, 0.5]], rtol=1e-6)


def test_fewer_layers(parameters):
    one = Parameters(parameters.file.path, layers=1)
    model = Llama(one, Float32Products(one))
    model.forward([1], model.new_cache(1))
    assert model.issued.total() == products_of_pass(one.config) == 9
    with pytest.raises(ValueError, match="layers is 3; 1 to 2 are allowed"):
        Parameters(parameters.file.path, layers=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop": "blk.1.ffn_up.weight"}, "'blk.1.ffn_up.weight' is missing"),
        ({"drop": "token_embd.weight"}, "no matrix 'token_embd.weight'"),
        ({"metadata": {"llama.feed_forward_length": 64}}, r"has shape \[96, 64\]; \[64, 64\] is required"),
        ({"metadata": {"llama.block_count": None}}, "llama.block_count is None"),
        ({"metadata": {"llama.attention.head_count": 5}}, "width is 64; an even multiple of heads = 5"),
        ({"metadata": {"llama.attention.head_count_kv": 3}}, "heads is 4; a multiple of kv_heads = 3"),
        ({"metadata": {"llama.rope.freq_base": 0.0}}, "rope_base is 0.0"),
        ({"metadata": {"llama.rope.dimension_count": 8}}, "dimension_count is 8"),
        ({"metadata": {"llama.context_length": 0}}, "positions is 0"),
    ],
)
def test_a_file_that_is_no_such_model(tmp_path, changes, message):
    path = small_model.write(tmp_path / "wrong.gguf", **changes)
    with pytest.raises(ModelFileError, match=message):
        Parameters(path)


def test_calls_that_do_not_fit(parameters):
    model = Llama(parameters, Float32Products(parameters))
    with pytest.raises(ValueError, match="positions is 129; 1 to 128"):
        model.new_cache(129)
    cache = model.new_cache(4)
    for tokens in ([], [1] * 5):
        with pytest.raises(ValueError, match="1 to 4 still fit the cache"):
            model.forward(tokens, cache)
    with pytest.raises(ValueError, match="token is 264; 0 to 263"):
        model.forward([len(small_model.VOCABULARY)], cache)
    assert cache.length == 0
    with pytest.raises(ValueError, match="hidden is 0"):
        LlamaConfig(layers=1, width=8, hidden=0, heads=1, kv_heads=1, vocabulary=2, positions=2,
                    rope_base=1.0, norm_epsilon=1.0)


def test_sampling():
    logits = np.array([0, 3, 2, 3, np.nan], np.float32)
    assert Sampler().choose(logits) == 1
    draws = [Sampler(temperature=1.0, seed=s).choose(logits) for s in range(400)]
    p = np.exp([0, 3, 2, 3])
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 400, p / p.sum(), atol=0.08)
    assert {Sampler(temperature=1.0, top_k=2, seed=s).choose(logits) for s in range(50)} == {1, 3}
    one, two = Sampler(temperature=2.0, seed=7), Sampler(temperature=2.0, seed=7)
    assert [one.choose(logits) for _ in range(20)] == [two.choose(logits) for _ in range(20)]
    with pytest.raises(ValueError, match="no finite maximum"):
        Sampler().choose(np.full(4, np.nan, np.float32))
    for wrong in ({"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": -1}, {"seed": -1}):
        with pytest.raises(ValueError):
            Sampler(**wrong)


class Scripted:
    """Stands in for a model: gives the tokens of a script one after the other."""

    def __init__(self, script, size):
        self.script, self.size, self.calls = list(script), size, []

    def new_cache(self, positions):
        return positions

    def forward(self, tokens, cache):
        self.calls.append(list(tokens))
        logits = np.zeros((1, self.size), np.float32)
        logits[0, self.script[len(self.calls) - 1]] = 1
        return logits


def test_generation_streams_whole_characters_and_stops_at_the_end(parameters):
    tokenizer = ByteLevelTokenizer(parameters.file)
    script = tokenizer.encode("a\u20ac\U0001f600") + [tokenizer.encode("\u00e9")[0], 2, 5]
    model = Scripted(script, tokenizer.size)
    steps = list(generate(model, tokenizer, "the", tokens=30))
    assert [step.text for step in steps] == ["a", "", "", "\u20ac", "", "", "", "\U0001f600", "", "\ufffd"]
    assert [step.token for step in steps] == script[:-1]
    assert model.calls == [tokenizer.encode("the"), *([t] for t in script[:-2])]
    short = list(generate(Scripted(script, tokenizer.size), tokenizer, "the", tokens=3))
    assert [step.text for step in short] == ["a", "", "\ufffd"]
    for prompt, tokens in (("", 3), ("a", 0)):
        with pytest.raises(ValueError, match="at least"):
            next(generate(model, tokenizer, prompt, tokens=tokens))


def test_greedy_generation_repeats(parameters):
    tokenizer = ByteLevelTokenizer(parameters.file)
    model = Llama(parameters, GoldenProducts(parameters, "mxfp8_mxfp8"))
    once, again = ([s.token for s in generate(model, tokenizer, "in the", tokens=6)] for _ in range(2))
    assert once == again and 1 <= len(once) <= 6


def test_evaluation_orders_the_modes(parameters):
    done = []
    found = evaluate(parameters, text="the thing in a hat, and then " * 3, progress=done.append)
    assert found.keys() == {"float32", *MODES} and len(done) == 1 + 2 + 3
    reference = found["float32"]
    assert reference.perplexity_ratio == 1 and reference.same_token_rate == 1
    assert reference.logit_sqnr_db == float("inf")
    sqnr = [found[mode].logit_sqnr_db for mode in ("mxfp4_mxfp4", "mxfp8_mxfp4", "mxfp8_mxfp8")]
    assert sqnr == sorted(sqnr) and sqnr[0] > 0 and sqnr[2] > 8
    for mode in MODES:
        ratio = found[mode].perplexity / reference.perplexity
        assert found[mode].perplexity_ratio == pytest.approx(ratio)
        assert 0 <= found[mode].same_token_rate <= 1


def test_quality_by_hand():
    tokens = [0, 1, 1]
    uniform = np.zeros((3, 4), np.float32)
    assert negative_log_likelihood(uniform, tokens) == pytest.approx(np.log(4))
    sure = np.array([[0, 9, 0, 0], [0, 9, 0, 0], [1, 0, 0, 0]], np.float32)
    # A constant added to a row changes no probability; half the logits leave a quarter of the energy.
    shifted = compare(sure, sure + np.array([[5], [0], [-2]], np.float32), tokens)
    assert shifted.perplexity_ratio == pytest.approx(1) and shifted.logit_sqnr_db > 100
    halved = compare(sure, sure / 2, tokens)
    assert halved.logit_sqnr_db == pytest.approx(10 * np.log10(4)) and halved.same_token_rate == 1
    with pytest.raises(ValueError, match="at least two tokens"):
        compare(sure[:1], sure[:1], [0])
