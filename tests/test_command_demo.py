"""`jalapeno demo` with a small random model on the tiny engine: text, tables, report, and what goes wrong."""

import json
import subprocess
import sys

import pytest

from golden.matmul import MODES, matmul
from hw.config import preset
from scripts import cli
from scripts.commands import demo
from sw.engine.engine import SimulatedEngine
from sw.lm import engine_products
from tests import small_model

KEYS = {
    "state", "prompt", "mode", "view", "layers", "preset", "simulators", "command", "text", "tokens",
    "prompt_tokens", "products", "cycles", "products_of_a_pass", "compared", "mismatches", "utilisation",
    "cycles_of_the_prompt", "seconds_to_the_first_token", "simulated_cycles_per_second", "kinds",
    "cycles_per_token", "clock_ghz", "tokens_per_second_of_one_tile",
}
QUALITY = {"same_token_rate", "logit_sqnr_db", "shipped_text"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model.write(tmp_path_factory.mktemp("model") / "small.gguf")


@pytest.fixture(scope="module")
def bench():
    """Of the tiny engine: to make its Verilog again for every run, only to find the build, takes seconds."""
    return SimulatedEngine(preset("tiny").tile.matrix).bench


@pytest.fixture
def small(model, bench, tmp_path, monkeypatch):
    """Arguments of a run that takes a second, its report in `tmp_path / "report"`."""
    def built(engine, design, options, log):
        return bench if engine.view == "rtl" and not options else right(engine, design, options, log)

    right = SimulatedEngine._built
    monkeypatch.setattr(SimulatedEngine, "_built", built)
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))
    return ["demo", "--model", str(model), "--preset", "tiny", "--prompt", "the thing", "--no-wave",
            "--simulators", "1", "--report", str(tmp_path / "report")]


def report_of(tmp_path):
    return json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("mode", ["mxfp4_mxfp4", "mxfp8_mxfp4"])  # the other is the default of the rest
def test_json_is_the_report(small, tmp_path, mode, capsys):
    assert cli.run([*small, "--tokens", "3", "--mode", mode, "--simulators", "2", "--json"]) == 0
    out, _ = capsys.readouterr()
    document = json.loads(out)
    assert document == report_of(tmp_path)
    assert document.keys() == KEYS | QUALITY
    assert (document["state"], document["mode"], document["preset"], document["tokens"]) == \
        ("done", mode, "tiny", 3)
    assert document["products"] == 3 * document["products_of_a_pass"] == 3 * 17
    assert document["compared"] > 0 and document["mismatches"] == 0
    assert sum(kind["cycles"] for kind in document["kinds"]) == document["cycles"]
    assert document["tokens_per_second_of_one_tile"] == pytest.approx(1.6e9 / document["cycles_per_token"])
    shipped = document["shipped_text"]
    assert shipped["tokens"] == small_model.POSITIONS and shipped["figures_json"] == {}
    assert shipped["this_run"].keys() == {mode}
    found = shipped["this_run"][mode]
    assert found.keys() == {"perplexity", "perplexity_ratio", "same_token_rate", "logit_sqnr_db"}
    ratio = found["perplexity"] / shipped["float32_perplexity"]
    assert found["perplexity_ratio"] == pytest.approx(ratio)


def test_text_and_tables(small, tmp_path, capsys):
    assert cli.run([*small, "--tokens", "2", "--quick"]) == 0
    out, err = capsys.readouterr()
    report = report_of(tmp_path)
    assert out.startswith(f"the thing{report['text']}\n") and report["tokens"] == 2
    for words in ("Products on the tiny engine, mxfp8_mxfp8, rtl view", "qkv", "scores", "lm_head",
                  "mismatches", f"{report['compared']:,} / 0",
                  "tokens/s at 1.6 GHz, one tile, matrix engine only",
                  "2 layers against float32 on the shipped text of 128 tokens, by golden", "perplexity",
                  "over float32", "this run", str(tmp_path / "report" / "report.json")):
        assert words in out
    assert "comparing with float32" in err and "figures.json" not in out


def test_the_command_in_the_report_repeats_the_run(small, tmp_path, capsys):
    assert cli.run([*small, "--tokens", "3", "--temperature", "2", "--seed", "5", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    words = first["command"].split(" demo ", 1)
    assert words[0] == "jalapeno" and "'the thing'" in words[1]
    again = demo.shlex.split(first["command"])[1:]
    assert cli.run([*again, "--no-wave", "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    for key in KEYS - {"seconds_to_the_first_token", "simulated_cycles_per_second"}:
        assert first[key] == second[key], key
    assert list((tmp_path / "runs").glob("demo-*/report.json"))


@pytest.mark.parametrize("options,words", [
    (["--tokens", "0"], ["--tokens", "0"]),
    (["--tokens", "127"], ["prompt has 5 tokens", "--tokens is 127", "at most 128"]),
    (["--prompt", ""], ["prompt is empty"]),
    (["--mode", "mxfp4_mxfp8"], ["mxfp4_mxfp8", "mxfp8_mxfp4"]),
    (["--view", "verilog"], ["verilog", "rtl", "fast"]),
    (["--preset", "huge"], ["huge", "tiny"]),
    (["--simulators", "0"], ["--simulators", "0"]),
    (["--temperature", "-1"], ["--temperature", "-1"]),
    (["--seed", "x"], ["--seed", "x"]),
    (["--model", "missing.gguf"], ["missing.gguf"]),
    (["--model", __file__], ["test_command_demo.py"]),
    (["--report", __file__], ["--report", "test_command_demo.py"]),
    (["--report", f"{__file__}/below"], ["Not a directory", "test_command_demo.py/below"]),
    (["--bits", "8"], ["--bits"]),
])
def test_bad_input_is_one_sentence(small, options, words, capsys, monkeypatch):
    monkeypatch.setattr(SimulatedEngine, "_built", None)  # nothing is built for it
    assert cli.run([*small, *options]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1
    for word in words:
        assert word in err


def test_a_difference_ends_the_run(small, tmp_path, monkeypatch, capsys):
    """Golden says something else of one element, in the second forward pass."""
    calls = []

    def wrong(x, w, c=None):
        y = matmul(x, w, c)
        calls.append(y.shape)
        if len(calls) == 17 + 6:
            y[0, 7] += 1
        return y

    monkeypatch.setattr(engine_products, "matmul", wrong)
    assert cli.run([*small, "--tokens", "4"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("the thing") and "Products on" not in out
    assert "golden.matmul, product blk.0.o 1x64x64 mxfp8_mxfp8" in err and "blk.0.o[0,7] is 0x" in err
    assert "jalapeno wave" in err.splitlines()[-1] and str(tmp_path / "runs") in err
    report = report_of(tmp_path)
    assert (report["state"], report["tokens"], report["mismatches"]) == ("failed", 1, 1)
    assert report["failure"]["index"] == [0, 7] and report["products"] == 17 + 6
    assert cli.run(["wave"]) == 0
    assert "blk.0.o[0,7] is 0x" in capsys.readouterr().out


CTRL_C = """
import os, signal, sys
from scripts.cli import main

class Terminal:
    \"\"\"The third piece of text that is shown has Ctrl-C pressed.\"\"\"
    shown = 0
    def __init__(self, under): self.under = under
    def __getattr__(self, name): return getattr(self.under, name)
    def write(self, text):
        self.shown += bool(text)
        if self.shown == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return self.under.write(text)

# As in a terminal; whoever runs in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.stdout = Terminal(sys.stdout)
main()
"""


def test_an_interrupt_leaves_a_report(small, tmp_path):
    """Ctrl-C after the first tokens of a long run."""
    process = subprocess.run([sys.executable, "-c", CTRL_C, *small, "--tokens", "120"], capture_output=True,
                             timeout=300)
    err = process.stderr
    assert process.stdout.startswith(b"the thing")
    assert process.returncode == 130, err.decode()
    lines = err.decode().splitlines()
    assert "report.json holds what was done up to here" in lines[-2] and lines[-1] == "jalapeno: interrupted"
    report = report_of(tmp_path)
    assert report["state"] == "interrupted" and 1 <= report["tokens"] < 120
    assert report["mismatches"] == 0 and report["products"] >= 17 * report["tokens"]
    assert report.keys() >= KEYS - {"cycles_per_token", "clock_ghz", "tokens_per_second_of_one_tile"}


def test_the_other_modes_are_those_of_the_committed_figures(monkeypatch):
    from scripts.figures import collect

    committed = {f"demo.{mode}.{name}": value for mode in MODES for name, value in (
        ("perplexity_ratio", 2.0), ("same_token_rate", 0.5), ("logit_sqnr_db", 9.0))}
    monkeypatch.setattr(collect, "load", lambda: committed | {"demo.float32.perplexity": 50.0})
    found = demo._other_modes("mxfp8_mxfp8")
    assert list(found) == ["mxfp4_mxfp4", "mxfp8_mxfp4"]
    assert found["mxfp8_mxfp4"] == {"perplexity_ratio": 2.0, "same_token_rate": 0.5, "logit_sqnr_db": 9.0,
                                    "perplexity": 100.0}
    monkeypatch.setattr(collect, "load", dict)
    assert demo._other_modes("mxfp8_mxfp8") == {}


@pytest.mark.nightly
def test_the_wave_of_the_first_product(small, tmp_path, capsys):
    """A traced build of the tiny unit: minutes."""
    small.remove("--no-wave")
    assert cli.run([*small, "--tokens", "1"]) == 0
    out, _ = capsys.readouterr()
    wave = report_of(tmp_path)["wave"]
    assert (wave["product"], wave["preset"], wave["view"]) == ("blk.0.qkv", "tiny", "rtl")
    assert (tmp_path / "report" / "first-product.fst").stat().st_size > 10_000 and wave["file"] in out
    assert "is not traced" in out
