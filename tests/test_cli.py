"""The command: help on every level, exit codes, one-sentence errors, plain and JSON output."""

import json
import os
import pty
import subprocess
import sys

import click
import pytest

from scripts import cli, report
from scripts.commands import config as config_command


def listed() -> list[str]:
    return cli.jalapeno.list_commands(None)


def test_there_are_commands():
    assert {"config", "figures"} <= set(listed())


@pytest.mark.parametrize("arguments", [[], *([name] for name in listed())], ids=" ".join)
def test_help_on_every_level(arguments, capsys):
    assert cli.run([*arguments, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: {' '.join(['jalapeno', *arguments])}") and "--help" in out and not err
    # Help says what a command does, not only how it is called.
    assert len(out.splitlines()[2].strip()) > 20


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.split() == ["jalapeno", "0.1.0"]


def test_no_arguments_shows_the_help_and_fails(capsys):
    assert cli.run([]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("Usage: jalapeno") and "config" in err


@pytest.mark.parametrize("arguments,words", [
    (["foo"], ["No such command", "foo", "jalapeno --help"]),
    (["config", "--foo"], ["--foo", "jalapeno config --help"]),
    (["config", "extra"], ["extra"]),
    (["config", "--preset", "huge"], ["preset", "huge", "tiny, small, full"]),
    (["config", "--set", "cols"], ["cols", "FIELD=VALUE"]),
    (["config", "--set", "=3"], ["=3", "FIELD=VALUE"]),
    (["config", "--set", "cols=3"], ["matrix.cols", "3", "multiple of 4"]),
    (["config", "--set", "cols=8", "--set", "cols=8"], ["cols", "only once"]),
    (["config", "--set", "rows=64"], ["rows", "tile.matrix.rows, tile.hbm.rows"]),
    (["config", "--set", "clock_ghz=nan"], ["clock_ghz", "nan"]),
])
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words, capsys):
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("jalapeno: ") and err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("error,code,message", [
    (KeyboardInterrupt(), 130, "jalapeno: interrupted\n"),
    (click.Abort(), 130, "jalapeno: interrupted\n"),
    (cli.CheckFailed("3 of 9 elements differ"), 1, "jalapeno: 3 of 9 elements differ\n"),
    (ValueError("k = -1: must be\n0 or more"), 2, "jalapeno: k = -1: must be 0 or more\n"),
    (FileNotFoundError(2, "No such file", "x.gguf"), 2, "jalapeno: [Errno 2] No such file: 'x.gguf'\n"),
    (BrokenPipeError(32, "Broken pipe"), 0, ""),
])
def test_outcomes(error, code, message, monkeypatch, capfd):
    def fail(*_):
        raise error
    monkeypatch.setattr(config_command, "chosen_config", fail)
    saved = os.dup(1)
    try:
        assert cli.run(["config"]) == code
    finally:
        os.dup2(saved, 1)
    assert capfd.readouterr().err == message


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("JALAPENO_DEBUG", "1")
    with pytest.raises(ValueError, match="huge"):
        cli.run(["config", "--preset", "huge"])


def test_installed_command_and_its_json():
    command = os.path.join(os.path.dirname(sys.executable), "jalapeno")
    done = subprocess.run([command, "config", "--preset", "full", "--json"], capture_output=True, check=True)
    document = json.loads(done.stdout)
    assert document["config"]["tile"]["matrix"]["units"] == 16 and len(document["hash"]) == 64
    assert document["derived"]["chip"]["modes"]["mxfp4_mxfp4"]["peak_flops"] == 64 * 16 * 4096 * 2 * 1.6e9
    assert max(abs(row["error"]) for row in document["published"]) < 0.01 and len(document["published"]) == 5
    failed = subprocess.run([command, "config", "--preset", "huge"], capture_output=True)
    assert failed.returncode == 2 and not failed.stdout and failed.stderr


def test_plain_table(capsys):
    report.print_table("title", ("name", "count", "share"), [("a", 12345, 0.5), ("long name", 1, 1234567.0)])
    assert capsys.readouterr().out.splitlines() == [
        "title",
        "  name        count      share",
        "  a          12,345        0.5",
        "  long name       1  1,234,567",
    ]


def run_on_terminal(program: str) -> str:
    master, slave = pty.openpty()
    # A terminal's width is not known to the pty; rich reads it from COLUMNS.
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", program], stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 4096):
            text += chunk
    except OSError:
        pass  # Linux reports the end of a pty as an error
    os.close(master)
    assert process.wait() == 0
    return text.decode()


def test_decoration_only_on_a_terminal(capsys):
    program = ("from scripts.report import progress\n"
               "with progress('measuring', 2) as advance:\n    advance(1, 'half')\n    advance()\n")
    assert "measuring" in run_on_terminal(program)
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert plain.stdout == plain.stderr == b""
    table = "from scripts.report import print_table\nprint_table('title', ('a', 'b'), [('x', 1)])\n"
    assert "│" in run_on_terminal(table)
    report.print_table("title", ("a", "b"), [("x", 1)])
    assert "│" not in capsys.readouterr().out
