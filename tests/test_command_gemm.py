"""`jalapeno gemm`: products of any size on the tiny engine, and what is said when one is wrong."""

import json

import pytest

from golden.matmul import MODES
from scripts import cli
from sw.engine import product

TINY = ["gemm", "--preset", "tiny"]


def sizes(m, n, k):
    return ["--m", str(m), "--n", str(n), "--k", str(k)]


@pytest.fixture(autouse=True)
def own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("m,n,k,options", [
    (1, 1, 1, []),
    (19, 13, 70, ["--c", "--stalls", "--operands", "special"]),
])
def test_products(m, n, k, options, mode, capsys):
    assert cli.run([*TINY, *sizes(m, n, k), "--mode", mode, *options, "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["compared"] == m * n and document["mismatches"] == 0 and not err
    assert (document["m"], document["n"], document["k"], document["mode"]) == (m, n, k, mode)
    assert 0 < document["bound"]["cycles"] <= document["cycles"]
    assert document["jobs"] == -(-m // 16) and document["utilisation"] > 0


@pytest.mark.parametrize("m,n,k,compared", [(0, 5, 7, 0), (5, 0, 7, 0), (3, 5, 0, 15), (0, 0, 0, 0)])
def test_sizes_of_nothing(m, n, k, compared, capsys):
    assert cli.run([*TINY, *sizes(m, n, k), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["compared"] == compared and document["cycles"] > 0


def test_table(capsys):
    assert cli.run([*TINY, *sizes(3, 5, 40)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("gemm 3x5x40 mxfp8_mxfp4\n") and not err, "no progress where there is no terminal"
    for words in ("15 elements equal golden bit for bit", "utilisation", "bound", "set by the", "cycles/s"):
        assert words in out


def test_the_seed_chooses_the_operands(capsys):
    rows = []
    for seed in (1, 1, 2):
        assert cli.run([*TINY, *sizes(4, 4, 33), "--stalls", "--seed", str(seed), "--json"]) == 0
        rows.append(json.loads(capsys.readouterr().out)["cycles"])
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize("arguments,words", [
    ([*sizes(3, 5, 9), "--output", "mxfp8"], ["mxfp8", "units of 8 columns"]),
    ([*sizes(3, 5, 9), "--units", "1:1"], ["units", "(1, 1)", "0 to 0"]),
    ([*sizes(3, 5, 9), "--units", "a:b"], ["FIRST:COUNT", "a:b"]),
    ([*sizes(3, 5, 9), "--units", "0:0"], ["FIRST:COUNT", "0:0", "COUNT from 1"]),
    ([*sizes(3, 5, 9), "--wave", "/nowhere/x.fst"], ["--wave", "/nowhere/x.fst", "directory that exists"]),
    ([*sizes(3, 5, 9), "--wave", "x.vcd"], ["--wave", "x.vcd", "must end in .fst"]),
    ([*sizes(3, 5, 9), "--set", "matrx.rows=64"], ["--set = 'matrx.rows'", "matrix.rows"]),
    ([*sizes(3, -5, 9)], ["--n", "-5"]),
    ([*sizes(3, "x", 9)], ["--n", "x"]),
    (["--m", "3"], ["--n"]),
    ([*sizes(1 << 20, 1 << 20, 9)], ["m x n", "at most"]),
    ([*sizes(3, 1 << 24, 1)], ["N is 16777216", "at most 16777215"]),
    ([*sizes(3, 5, 9), "--mode", "mxfp4_mxfp8"], ["mxfp4_mxfp8", "mxfp8_mxfp4"]),
    ([*sizes(3, 5, 9), "--plant", "nothing"], ["nothing", "sign", "mask"]),
    ([*sizes(3, 5, 9), "--plant", "mask", "--view", "fast"], ["--view rtl"]),
])
def test_bad_input_is_one_sentence(arguments, words, capsys):
    assert cli.run([*TINY, *arguments]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.fixture
def golden_is_wrong(monkeypatch):
    """The golden model says something else of Y[2,3]."""
    def reference(*arguments, **options):
        y = right(*arguments, **options)
        y[2, 3] += 1
        return y

    right = product.reference
    monkeypatch.setattr(product, "reference", reference)


def test_a_difference(golden_is_wrong, capsys, tmp_path):
    assert cli.run([*TINY, *sizes(4, 5, 40), "--seed", "3"]) == 1
    out, err = capsys.readouterr()
    assert not out
    for words in ("golden.matmul, gemm 4x5x40 mxfp8_mxfp4 (seed 3", "Y[2,3] is 0x", "1 of 20 elements differ",
                  "one element", "JALAPENO_WAVES=1", "jalapeno wave", str(tmp_path / "runs")):
        assert words in err
    assert cli.run(["wave"]) == 0
    assert "Y[2,3] is 0x" in capsys.readouterr().out


def test_a_difference_as_json(golden_is_wrong, capsys):
    assert cli.run([*TINY, *sizes(4, 5, 40), "--json"]) == 1
    out, err = capsys.readouterr()
    report = json.loads(out)["failed"]
    assert report["index"] == [2, 3] and report["differ"] == 1 and report["cycle"] > 0
    assert err.count("\n") == 1 and "jalapeno wave" in err


def test_a_planted_bug_shows(capsys):
    """The walk of docs/debugging.md: K of whole blocks is right, a ragged K is NaN everywhere."""
    assert cli.run([*TINY, *sizes(5, 7, 64), "--plant", "mask"]) == 0
    assert cli.run([*TINY, *sizes(5, 7, 70), "--plant", "mask"]) == 1
    err = capsys.readouterr().err
    assert "Y[0,0] is 0x7fc00000 (nan)" in err and "35 of 35 elements differ: all elements" in err
