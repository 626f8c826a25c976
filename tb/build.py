"""Builds of test benches, kept under a hash of everything that went into them.

A build is a directory ``<cache>/<name>-<hash>``: the hash covers Verilog, test bench sources, flags and tool
versions. It is made under a temporary name by one process at a time and renamed when it is complete, so a
build that exists is always whole.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import filelock

from hw import emit
from tb import runtime, top
from tb.netlist import Netlist
from tb.runs import waves_wanted
from tb.verilator import Runner, environment, support_sources, tool_versions

__all__ = ["Bench", "BuildError", "Options", "build", "build_root", "config_hash"]


JOBS = min(os.cpu_count() or 1, 4)
SINGLE_FILE_BYTES = 1_000_000  # of generated C++
SHARED_STATEMENTS = 300  # of a function, roughly, where instances share code
KEPT = 60  # builds


class BuildError(RuntimeError):
    """Verilator or the C++ compiler failed; the message has their last lines and the whole log's path."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a bench is compiled.

    Attributes
    ----------
    waves : bool
        Compile FST tracing in: 2.4 to 3.7 times the compile time; the same run with and without waves.
    optimise : str
        Optimisation flag of the C++ compiler for the code that runs every cycle.
    output_split : int
        Statements a C++ file; 0 writes one file, which compiles to the fastest code for designs up to a unit.
    threads : int
        Threads of the model; more than 1 loses on small designs and on busy machines.
    view : str
        "rtl", or "fast" for the simulation-only descriptions of the components that have one
        (hw.emit.verilog).
    hierarchical : tuple[str, ...]
        Verilog modules that Verilator compiles by themselves, once however often they occur. Quicker to build
        where there are many; signals inside them can be neither probed nor traced.
    shared : tuple[str, ...]
        Verilog modules that occur often. Verilator merges functions of their instances that are equal to the
        letter, so functions are kept short: what differs then spoils little.
    probes : tuple[str, ...]
        Signals below the design that are kept visible and read when a run fails: ``"dispatcher.state"``.
    verilator_args : tuple[str, ...]
        Further flags.
    """

    waves: bool = False
    optimise: str = "-O3"
    output_split: int = 0
    threads: int = 1
    view: str = "rtl"
    hierarchical: tuple = ()
    shared: tuple = ()
    probes: tuple = ()
    verilator_args: tuple = ()

    def __post_init__(self):
        if self.optimise not in ("-O0", "-O1", "-O2", "-O3", "-Os"):
            raise ValueError(f"optimise is {self.optimise!r}; allowed are -O0, -O1, -O2, -O3, -Os")
        if self.view not in ("rtl", "fast"):
            raise ValueError(f"view is {self.view!r}; allowed are rtl and fast")
        if self.output_split < 0:
            raise ValueError(f"output_split is {self.output_split}; it must be 0 or more")
        if self.threads < 1:
            raise ValueError(f"threads is {self.threads}; it must be 1 or more")

    def arguments(self):
        """Flags for Verilator."""
        args = ["--quiet", "-Wno-fatal", "-Wno-lint", "-Wno-style", "--timescale", "1ps/1ps",
                "--output-split", str(self.output_split), "-LDFLAGS", "-rdynamic"]
        if self.waves:
            args += ["--trace-fst", "--trace-structs"]
        if self.hierarchical:
            args.append("--hierarchical")
        if self.shared:
            args += ["--output-split-cfuncs", str(SHARED_STATEMENTS)]
        if self.threads > 1:
            args += ["--threads", str(self.threads)]
        return args + list(self.verilator_args)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A finished build.

    Attributes
    ----------
    directory : Path
    name : str
    hash : str
        Of everything that went into the build.
    config : dict or None
        The configuration the design was made from, as a tree.
    config_hash : str
        Its hash; empty where none was given. Two configurations that give one design share its build.
    streams : list[tb.top.StreamPort]
    options : Options
    seconds : float
        What the build took; 0 when it was in the cache.
    """

    directory: Path
    name: str
    hash: str
    config: dict | None
    config_hash: str
    streams: list
    options: Options
    seconds: float = 0.0

    def stream(self, name):
        """Number and port of the stream ``name``.

        Raises
        ------
        ValueError
            There is none of that name.
        """
        for number, port in enumerate(self.streams):
            if port.name == name:
                return number, port
        raise ValueError(f"{self.name} has no stream {name!r}; it has "
                         f"{', '.join(port.name for port in self.streams)}")


def build_root():
    """Directory of all builds: ``JALAPENO_BUILD_DIR``, or ``.build`` in the project."""
    return Path(os.environ.get("JALAPENO_BUILD_DIR") or Path(__file__).parent.parent / ".build").absolute()


def config_hash(config):
    """Hash of a configuration (a dataclass tree, or None) that is equal for equal configurations."""
    return "" if config is None else _hash(_tree(config))


def _tree(config):
    return None if config is None else dataclasses.asdict(config)


def build(component, *, name, options=None, config=None, constants=None, log=None):
    """Build the bench of ``component``, or find it in the cache.

    Parameters
    ----------
    component : wiring.Component
        Its signature consists of streams; other inputs are held at ``constants`` (0).
    name : str
        Verilog module name of the component, and first part of the build's name.
    options : Options, optional
        ``JALAPENO_WAVES=1`` in the environment adds waves.
    config : dataclass, optional
        The configuration that ``component`` was made from, for manifests and comparisons.
    constants : dict[str, int], optional
    log : callable, optional
        Called with a sentence before something slow begins.

    Returns
    -------
    Bench
    """
    options = options or Options()
    if waves_wanted():
        options = dataclasses.replace(options, waves=True)
    streams, others = top.streams_of(component)
    files = dict(emit.verilog(component, name=name, view=options.view))
    netlist = Netlist(files)
    ports = top.module_ports(files, name)
    files["bench.sv"] = top.top_verilog(module=name, streams=streams, others=others, ports=ports,
                                        constants=constants)
    files.update(top.end_modules(streams))
    files["public.vlt"] = top.public_file([netlist.resolve(name, path) for path in options.probes],
                                          options.hierarchical, options.shared, options.waves)
    support = support_sources()
    versions = tool_versions()
    key = _hash({"files": files, "support": support, "versions": versions,
                 "options": dataclasses.asdict(options), "arguments": options.arguments()})
    root = build_root()
    directory = root / f"{name}-{key}"
    seconds = 0.0
    if (directory / "manifest.json").exists():
        os.utime(directory / "manifest.json")  # for _prune
    else:
        root.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(root / f"{name}-{key}.lock"):
            if not (directory / "manifest.json").exists():
                if log:
                    log(f"building {name}{' with waves' if options.waves else ''}")
                begun = time.monotonic()
                manifest = {"name": name, "hash": key, "versions": versions,
                            "options": dataclasses.asdict(options),
                            "streams": [dataclasses.asdict(port) for port in streams]}
                _make(directory, files, support, options, manifest, begun)
                seconds = time.monotonic() - begun
    return Bench(directory=directory, name=name, hash=key, config=_tree(config),
                 config_hash=config_hash(config), streams=streams, options=options, seconds=seconds)


def _hash(tree):
    return hashlib.sha256(json.dumps(tree, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _make(directory, files, support, options, manifest, begun):
    work = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name, text in {**files, **support}.items():
        (work / name).write_text(text)
    runner = Runner(options, cxx=[name for name in files if name.endswith(".cc")])
    log = work / "build.log"
    # The top comes last: the runner takes its language from the last source.
    sources = ["public.vlt", *[n for n in files if n.endswith((".v", ".sv")) and n != "bench.sv"], "bench.sv"]
    runner_arguments = dict(sources=[work / name for name in sources], hdl_toplevel=top.TOP, build_dir=work,
                            build_args=options.arguments(), waves=options.waves)
    try:
        _compile(runner, runner_arguments, support, log)
    except subprocess.CalledProcessError as error:
        raise BuildError(_explain(directory, error, log)) from None
    for leftover in [path for path in work.rglob("*") if path.suffix in (".o", ".a", ".gch", ".d")]:
        if leftover.is_file():
            leftover.unlink()
    manifest["build_seconds"] = round(time.monotonic() - begun, 2)
    (work / "manifest.json").write_text(json.dumps(manifest, indent=1, default=str) + "\n")
    shutil.rmtree(directory, ignore_errors=True)
    work.rename(directory)
    _prune(directory.parent)


def _prune(root):
    """Remove all but the last used builds, so that a working directory does not grow without end."""
    used = sorted((path for path in root.glob("*/manifest.json")), key=lambda path: path.stat().st_mtime)
    for path in used[:-KEPT]:
        shutil.rmtree(path.parent, ignore_errors=True)
        Path(f"{path.parent}.lock").unlink(missing_ok=True)


def _make_variables(work):
    """Small models compile quickest as one file; in large ones code that runs once is not optimised."""
    size = sum(path.stat().st_size for path in work.glob("Vtop*.cpp"))
    return ["VM_PARALLEL_BUILDS=1"] if size > SINGLE_FILE_BYTES else []


def _explain(directory, error, log):
    if error.returncode < 0:
        return f"building {directory.name} was ended by {signal.Signals(-error.returncode).name}"
    lines = (log.read_text(errors="replace") + (error.output or "") + (error.stderr or "")).splitlines()
    told = [line[:300] for line in lines if "rror" in line or "***" in line][:12] or lines[-5:]
    return (f"building {directory.name} failed (exit code {error.returncode} of {error.cmd[0]}); "
            f"the log is {log}:\n" + "\n".join(told))


def _compile(runner, arguments, support, log):
    commands = []
    # The runner's own way to run commands keeps neither exit code nor log, so only its commands are taken.
    runner._execute = lambda cmds, cwd: commands.extend(cmds)
    runner.build(**arguments)
    env = {**runner.env, **environment()}
    work = arguments["build_dir"]
    with open(log, "w") as stream:
        for command in commands:
            if command[0] == "make":
                command = [*command, *_make_variables(work)]
                runtime.provide(build_root(), work, sources=support, waves=arguments["waves"], jobs=JOBS)
            stream.write(" ".join(command) + "\n")
            stream.flush()
            subprocess.run(command, cwd=work, env=env, stdout=stream, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, check=True)
