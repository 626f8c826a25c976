"""A continuation on the simulated engine: text, costs of each token, totals, closeness and quality."""

import numpy as np
import pytest

from golden.matmul import MODES
from hw.config import preset
from sw.engine.engine import SimulatedEngine
from sw.lm.engine_products import EngineProducts
from sw.lm.evaluate import evaluate, shipped_text, shipped_tokens
from sw.lm.generate import Sampler, generate
from sw.lm.llama import Llama, products_of_pass
from sw.lm.parameters import Parameters
from sw.lm.products import GoldenProducts, QuantisedWeights, formats_of
from sw.lm.session import KINDS, Session
from sw.lm.tokenizer import ByteLevelTokenizer
from tests import small_model

CONFIG = preset("tiny").tile.matrix
PROMPT = "in the hat"


@pytest.fixture(scope="module")
def engine():
    with SimulatedEngine(CONFIG) as engine:
        yield engine


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    return Parameters(small_model.write(tmp_path_factory.mktemp("model") / "small.gguf"))


def new_session(engine, parameters, mode="mxfp8_mxfp8"):
    weights = QuantisedWeights(parameters, formats_of(mode)[1])
    return Session(parameters, [engine], EngineProducts([engine], weights, mode))


@pytest.fixture(scope="module")
def session(engine, parameters):
    """Three tokens in the default mode."""
    session = new_session(engine, parameters)
    for _ in session.run(PROMPT, tokens=3, sampler=Sampler()):
        pass
    return session


@pytest.mark.parametrize("mode", MODES)
def test_the_engine_writes_what_golden_writes(engine, parameters, mode):
    session = new_session(engine, parameters, mode)
    ours = list(session.run(PROMPT, tokens=3, sampler=Sampler(temperature=1.5, seed=4)))
    model = Llama(parameters, GoldenProducts(parameters, mode))
    golden = generate(model, ByteLevelTokenizer(parameters.file), PROMPT, tokens=3,
                      sampler=Sampler(temperature=1.5, seed=4))
    for step, right in zip(ours, golden, strict=True):
        assert (step.token, step.text) == (right.token, right.text)
        assert step.logits.tobytes() == right.logits.tobytes()


def test_a_cost_for_each_token(session, parameters):
    prompt = ByteLevelTokenizer(parameters.file).encode(PROMPT)
    assert session.prompt_tokens == list(prompt) and len(session.steps) == 3
    assert [cost.rows for cost in session.costs] == [len(prompt), 1, 1]
    assert session.products_of_pass() == products_of_pass(parameters.config) == 17
    assert [cost.products for cost in session.costs] == [17] * 3 and session.count == 51
    assert sum(cost.cycles for cost in session.costs) == session.cycles
    assert session.costs[0].cycles > session.costs[1].cycles > 0
    assert all(cost.seconds > 0 for cost in session.costs)


def test_totals_by_kind(session, parameters):
    rows = session.by_kind()
    assert [row["kind"] for row in rows] == list(KINDS)
    shapes = parameters.config.linear_shapes().items()
    shapes = {name.rpartition(".")[2]: f"{n}x{k}" for name, (n, k) in shapes}
    assert {row["kind"]: row["weights"] for row in rows} == {**shapes, "scores": "cache", "values": "cache"}
    assert {row["kind"]: row["products"] for row in rows} == {
        "qkv": 6, "scores": 12, "values": 12, "o": 6, "gate_up": 6, "down": 6, "lm_head": 3}
    assert sum(row["products"] for row in rows) == session.count
    assert sum(row["cycles"] for row in rows) == session.cycles
    tallies = session.products.tallies.values()
    for name in ("macs", "compared"):
        assert sum(row[name] for row in rows) == sum(getattr(tally, name) for tally in tallies) > 0
    assert not any(row["mismatches"] for row in rows)
    peak = CONFIG.macs_per_cycle("mxfp8_mxfp8")
    assert all(row["utilisation"] == row["macs"] / row["cycles"] / peak for row in rows)
    head = rows[-1]
    assert head["macs"] == 3 * len(small_model.VOCABULARY) * 64 and head["compared"] == head["macs"] // 64


def test_closeness_is_of_the_logits_of_the_run(session, parameters):
    found = session.closeness()
    assert found.tokens == 3 and 0 <= found.same_token_rate <= 1 and 5 < found.logit_sqnr_db < 40
    reference = Llama(parameters, session.reference)
    ids = session.prompt_tokens + [step.token for step in session.steps[:-1]]
    expected = reference.forward(ids, reference.new_cache(len(ids)), all_rows=True)[-3:]
    same = [int(row.argmax() == step.logits.argmax()) for row, step in zip(expected, session.steps)]
    assert found.same_token_rate == sum(same) / 3
    # A constant added to all logits of a step changes nothing; another logit does.
    exact = Session(parameters, session.engines, session.products, session.costs, [], session.prompt_tokens)
    for row, step in zip(expected, session.steps, strict=True):
        exact.steps.append(type(step)(token=step.token, text="", logits=row + np.float32(8)))
    assert exact.closeness().same_token_rate == 1 and exact.closeness().logit_sqnr_db > 100
    exact.steps[1].logits[7] += 1
    assert exact.closeness().logit_sqnr_db < 60


@pytest.mark.parametrize("mode", MODES)
def test_quality_is_that_of_the_evaluation(engine, parameters, mode):
    """On the shipped text, cut to the positions of this model; the weights are those of the run."""
    session = new_session(engine, parameters, mode)
    before = engine.cycles
    quality = session.quality()
    assert engine.cycles == before, "by golden"
    assert quality == evaluate(parameters, [mode])[mode]
    assert quality.tokens == len(shipped_tokens(parameters)) == small_model.POSITIONS
    text = ByteLevelTokenizer(parameters.file).encode(shipped_text())
    assert shipped_tokens(parameters) == list(text)[:small_model.POSITIONS]
    assert quality.perplexity > 1 and quality.perplexity_ratio > 0.5 and 0 < quality.same_token_rate < 1


def test_a_run_that_is_left_keeps_what_was_done(engine, parameters):
    session = new_session(engine, parameters)
    steps = session.run(PROMPT, tokens=5, sampler=Sampler())
    next(steps)
    steps.close()
    assert len(session.steps) == len(session.costs) == 1 and session.count == 17
    assert session.cycles == session.costs[0].cycles and session.by_kind()
