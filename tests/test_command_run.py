"""`jalapeno run`: console, exit code, figures and logs of programs on the tiny core, and what is refused."""

import json

import pytest

from scripts import cli
from scripts.commands.run import chosen_core
from sw.core.compile import compile_program
from tests.test_core_image import RAM, elf

TINY = ["run", "--preset", "tiny"]


@pytest.fixture(autouse=True)
def own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_RUNS_DIR", str(tmp_path / "runs"))


def compiled(tmp_path, text):
    source = tmp_path / "prog.c"
    source.write_text(text)
    return str(compile_program(source, tmp_path / "prog.elf"))


def test_console_and_figures(capsys):
    assert cli.run([*TINY, "hello", "--check"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("hello from the slice core\n  42|0x2a|")
    assert "exit code 0, " in err and "instructions" in err and "every instruction compared" in err


def test_json_and_exit_code(tmp_path, capsys):
    path = compiled(tmp_path, '#include <stdio.h>\nint main(void) { puts("out"); return 37; }')
    assert cli.run([*TINY, path, "--json"]) == 37
    figures = json.loads(capsys.readouterr().out)
    assert figures["exit_code"] == 37 and figures["console"] == "out\n" and figures["program"] == "prog.elf"
    assert 0 < figures["instructions"] < figures["cycles"]


def test_latency_counts(tmp_path, capsys):
    path = compiled(tmp_path, "int main(void) { return 0; }")
    cycles = []
    for latency in ("10", "200"):
        assert cli.run([*TINY, path, "--json", "--latency", latency]) == 0
        cycles.append(json.loads(capsys.readouterr().out)["cycles"])
    assert cycles[0] < cycles[1]


def test_pipeline_log(tmp_path, capsys):
    log = tmp_path / "hello.log"
    assert cli.run([*TINY, "hello", "--trace", str(log)]) == 0
    lines = log.read_text().splitlines()
    assert lines[0] == "Kanata\t0004" and lines[1].startswith("C=\t")
    kinds = [line.rsplit("\t", 1)[1] for line in lines if line.startswith("R\t")]
    assert kinds.count("0") > 5000 and kinds.count("1") > 100
    assert "80000000 auipc gp" in lines[3]


def test_program_that_does_not_end(tmp_path, capsys):
    path = compiled(tmp_path, "#include <stdio.h>\nint main(void) { puts(\"begun\"); for (;;) ; }")
    assert cli.run([*TINY, path, "--max-cycles", "30000"]) == 1
    out, err = capsys.readouterr()
    assert out == "begun\n"
    assert err.startswith("jalapeno: prog.elf has not ended after 30,00") and err.count("\n") == 1


@pytest.mark.parametrize("contents, told", [
    (b"no program", "is not an ELF file"),
    (elf((RAM, b"code", 4), machine=62), "is for machine EM_X86_64; the core runs EM_RISCV"),
    (elf((RAM, b"code", 1 << 30)), "RAM is 0x80000000 to 0x83ffffff"),
])
def test_no_program_for_this_core(tmp_path, capsys, contents, told):
    path = tmp_path / "prog.elf"
    path.write_bytes(contents)
    assert cli.run([*TINY, str(path)]) == 2
    out, err = capsys.readouterr()
    assert not out and told in err and err.count("\n") == 1 and err.startswith("jalapeno: ")


@pytest.mark.parametrize("arguments, told", [
    (["nowhere"], "'nowhere' is neither a file nor one of chase, copy"),
    (["hello", "--preset", "huge"], "core preset = 'huge': must be one of tiny, small, full"),
    (["hello", "--set", "width"], "--set = 'width': must be FIELD=VALUE"),
    (["hello", "--set", "colour=1"], "--set = 'colour': must be a field of the core"),
    (["hello", "--set", "l1=1"], "--set = 'l1': must be a field of the core"),
    (["hello", "--set", "l1.mshrs=many"], "l1.mshrs = 'many': must be a whole number"),
    (["hello", "--set", "l1.mshrs=0"], "l1.mshrs = 0: must be a whole number from 2 to 64"),
    (["hello", "--set", "width=1", "--set", "width=2"], "field = 'width': must be given only once"),
    (["hello", "--set", "engine=1"], "engine = '1': must be true or false"),
    (["hello", "--set", "physical=100"], "core.physical = 100: must be 32 and a power of two"),
    (["hello", "--trace", "log.txt"], "must end in .log"),
])
def test_bad_arguments(capsys, arguments, told):
    assert cli.run(["run", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_fields_are_set():
    config = chosen_core("tiny", ("reorder_buffer=16", "l1.mshrs=4", "history=2", "engine=true"))
    assert (config.reorder_buffer, config.l1.mshrs, config.predictor.history, config.width) == (16, 4, 2, 1)
    assert config.engine is True
