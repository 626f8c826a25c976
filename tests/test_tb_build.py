"""Builds: kept by content, whole or absent, safe side by side, and wrong sources named."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Instance, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tb import build as build_module
from tb import runtime
from tb.build import BuildError, Options, build, config_hash
from tb.simulator import Simulator
from tb.stalls import Stalls
from tests.stream_relay import Relay, beats, relay_bench, sums

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Config:
    rows: int = 4


class Broken(wiring.Component):
    """Asks for a module that does not exist."""

    def __init__(self):
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        m.submodules.ghost = Instance("ghost", i_x=self.i.valid)
        return m


def test_second_build_is_found():
    bench = relay_bench()
    again = relay_bench()
    assert again.directory == bench.directory and again.seconds == 0
    manifest = json.loads((bench.directory / "manifest.json").read_text())
    assert manifest["hash"] == bench.hash
    assert manifest["versions"]["verilator"].startswith("Verilator 5")
    assert [port["name"] for port in manifest["streams"]] == ["i__0", "fault", "o"]


def test_only_ports_and_probes_are_public():
    bench = relay_bench()
    log = (bench.directory / "build.log").read_text()
    assert "--public-flat-rw" not in log and "--vpi" in log
    public = (bench.directory / "public.vlt").read_text().splitlines()[1:]
    assert [line.split()[-1] for line in public] == ['"clk"', '"rst"', '"cycle"', '"wakeup"', '"stopped"',
                                                        '"level"']


def keys(monkeypatch, *variants):
    """Directories that builds of the variants would have, without making them."""
    monkeypatch.setattr(build_module, "_make", lambda directory, *rest: None)
    return [build(Relay(), **{"name": "relay", **variant}).directory.name for variant in variants]


def test_everything_that_matters_is_in_the_key(monkeypatch, tmp_path):
    monkeypatch.setenv("JALAPENO_BUILD_DIR", str(tmp_path))
    first, again, *others = keys(
        monkeypatch, {}, {}, {"name": "relais"}, {"options": Options(waves=True)},
        {"options": Options(optimise="-O1")}, {"options": Options(output_split=5000)},
        {"options": Options(hierarchical=("relay",))},
        {"options": Options(probes=("stopped",))}, {"constants": {"offset": 3}})
    assert first == again
    assert len({first, *others}) == 1 + len(others)
    # The configuration is kept with a build, but two configurations that give one design share it.
    assert keys(monkeypatch, {"config": Config()}) == [first]
    for name, versions in [("versions", {"verilator": "Verilator 6"}), ("support", None)]:
        with monkeypatch.context() as patch:
            if name == "versions":
                patch.setattr(build_module, "tool_versions", lambda versions=versions: versions)
            else:
                patch.setattr(build_module, "support_sources", lambda: {"main.cc": "// other"})
            assert keys(patch, {}) != [first]
    monkeypatch.setenv("JALAPENO_WAVES", "1")
    assert keys(monkeypatch, {}) == [others[1]]


def test_verilog_does_not_depend_on_the_hash_seed():
    script = ("from hw import emit\nfrom tests.stream_relay import Relay\nimport sys\n"
              "sys.stdout.write(''.join(emit.verilog(Relay(), name='relay').values()))")
    texts = {subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}).stdout
             for seed in ("0", "1", "77")}
    assert len(texts) == 1 and len(texts.pop()) > 1000


def test_configurations():
    assert config_hash(None) == ""
    assert config_hash(Config()) == config_hash(Config(rows=4)) != config_hash(Config(rows=5))


def test_parallel_builds_make_it_once(monkeypatch, tmp_path):
    monkeypatch.setenv("JALAPENO_BUILD_DIR", str(tmp_path))
    made = []

    def make(directory, files, support, options, manifest, begun):
        made.append(directory)
        directory.mkdir()
        (directory / "manifest.json").write_text(json.dumps(manifest))

    monkeypatch.setattr(build_module, "_make", make)
    with ThreadPoolExecutor(6) as pool:
        benches = list(pool.map(lambda _: build(Relay(), name="relay"), range(6)))
    assert len(made) == 1 and len({bench.directory for bench in benches}) == 1


def test_a_failed_build_is_named_and_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("JALAPENO_BUILD_DIR", str(tmp_path))
    for _ in range(2):  # the second time as well: half a build is never taken for one
        with pytest.raises(BuildError, match="ghost") as caught:
            build(Broken(), name="broken")
        assert "build.log" in str(caught.value)
        assert not list(tmp_path.glob("broken-*/manifest.json"))


def test_half_a_build_is_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("JALAPENO_BUILD_DIR", str(tmp_path))
    (name,) = keys(monkeypatch, {})
    calls = []
    (tmp_path / name).mkdir()
    (tmp_path / name / "bench").write_text("not a program")
    monkeypatch.setattr(build_module, "_make", lambda directory, *rest: calls.append(directory))
    build(Relay(), name="relay")
    assert calls == [tmp_path / name]


@pytest.mark.parametrize("options, message", [
    ({"optimise": "-O9"}, "optimise is '-O9'"), ({"output_split": -1}, "output_split is -1"),
    ({"threads": 0}, "threads is 0")])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def test_runtime_key_has_its_sources(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(runtime, "_compile", lambda directory, *rest: made.append(directory))
    monkeypatch.setattr(runtime.shutil, "copyfile", lambda *paths: None)
    for sources, waves in [({"bench.cc": "a"}, False), ({"bench.cc": "b"}, False), ({"bench.cc": "a"}, True)]:
        runtime.provide(tmp_path, tmp_path, sources=sources, waves=waves, jobs=1)
    assert len(set(made)) == 3


def test_no_absolute_path_in_generated_sources():
    bench = relay_bench()
    for path in [*bench.directory.glob("*.v"), *bench.directory.glob("*.sv"), bench.directory / "public.vlt"]:
        assert str(ROOT) not in path.read_text()


def test_old_builds_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "KEPT", 2)
    for age in range(4):
        (tmp_path / f"b{age}").mkdir()
        (tmp_path / f"b{age}" / "manifest.json").write_text("{}")
        os.utime(tmp_path / f"b{age}" / "manifest.json", (1000 - age, 1000 - age))
    (tmp_path / "half.part").mkdir()
    build_module._prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b0", "b1", "half.part"]


@pytest.mark.nightly
def test_hierarchical_build_gives_the_same_bits():
    words, expected = beats(100)
    bench = build(Relay(), name="relay", options=Options(hierarchical=("relay",)))
    with Simulator(bench) as simulator:
        result = simulator.run({"i__0": words}, {"o": 100}, stalls=Stalls(probability=0.3))
    assert np.array_equal(sums(result)[0], expected)


def test_another_python_of_path_is_not_used(tmp_path, monkeypatch):
    # Verilator's makefile runs Python for a small model; the one it finds first need not be ours.
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho the wrong python\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(build_module, "build_root", lambda: tmp_path / "build")
    assert build(Relay(), name="relay", log=None).seconds > 0
