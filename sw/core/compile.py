"""Compiles programs for the core: the clang in PyPI's ziglang, with picolibc compiled from its sources.

Everything comes from Python packages (docs/decisions/0011-compiler.md). What is built is kept below
``.build/programs`` under a hash of what went into it.

    python -m sw.core.compile hello.c -o hello.elf
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import filelock

__all__ = ["CompileError", "PROGRAMS", "compile_program", "programs"]

RUNTIME = Path(__file__).parent / "runtime"
PROGRAMS = Path(__file__).parent.parent / "programs"

TARGET = ("-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m", "-mabi=lp64", "-mcmodel=medany")
FLAGS = (*TARGET, "-O2", "-std=gnu17", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector",
         "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections",
         "-nostdinc", "-g0")
LINK = ("-nostdlib", "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,--no-dynamic-linker")

# The part of picolibc that programs may use; integers only.
LIBRARY = {
    "newlib/libc/string": (
        "memccpy memchr memcmp memcpy memmove memset strcat strchr strcmp strcpy strcspn strdup strlcat "
        "strlcpy strlen strncat strncmp strncpy strnlen strpbrk strrchr strspn strstr strtok strtok_r"),
    "newlib/libc/ctype": (
        "isalnum isalpha isdigit islower isprint ispunct isspace isupper isxdigit tolower toupper "
        "ctype_"),
    "newlib/libc/stdlib": (
        "abs labs llabs atoi atol div ldiv rand srand nano-malloc-malloc nano-malloc-free nano-malloc-calloc "
        "nano-malloc-realloc"),
    "newlib/libc/search": "bsearch qsort",
    "newlib/libc/errno": "errno",
    "newlib/libc/tinystdio": (
        "filestrput fprintf fputc fputs printf putchar puts snprintf sprintf strtol strtoul vfiprintf "
        "vprintf vsnprintf vsprintf"),
    "newlib/libc/picolib": "picosbrk",
}


class CompileError(RuntimeError):
    """The compiler refused a program, or is not there; the message says why."""


def programs():
    """Names of the programs of this project: dict of name to source file."""
    return {path.stem: path for path in sorted(PROGRAMS.glob("*.c"))}


def _package(name):
    try:
        return version(name)
    except PackageNotFoundError:
        raise CompileError(f"the package {name} is not installed; `make setup` installs it") from None


def _picolibc():
    _package("pythondata-software-picolibc")
    import pythondata_software_picolibc
    return Path(pythondata_software_picolibc.data_location)


def _cache():
    from tb.build import build_root
    root = build_root() / "programs"
    root.mkdir(parents=True, exist_ok=True)
    return root


def _zig(arguments, *, what):
    _package("ziglang")
    cache = _cache()
    env = {**os.environ, **{f"ZIG_{kind}_CACHE_DIR": str(cache / "zig") for kind in ("GLOBAL", "LOCAL")}}
    done = subprocess.run([sys.executable, "-m", "ziglang", *map(str, arguments)], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "rror" in line] or done.stderr.splitlines()[-5:]
        raise CompileError(f"{what} could not be compiled: " + "\n".join(lines[:10]))


def _includes():
    root = _picolibc() / "newlib/libc"
    import ziglang
    compiler = Path(ziglang.__file__).parent / "lib/include"  # stddef.h, stdarg.h and the like
    return [f"-I{RUNTIME}", f"-I{root / 'tinystdio'}", f"-I{root / 'include'}", f"-isystem{compiler}"]


def _sources():
    root = _picolibc()
    return [root / folder / f"{name}.c" for folder, names in LIBRARY.items() for name in names.split()]


def _hash(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _key(*parts):
    runtime = b"".join(path.read_bytes() for path in sorted(RUNTIME.iterdir()))
    return _hash(_package("ziglang"), _package("pythondata-software-picolibc"), runtime, FLAGS, LINK,
                 sorted(LIBRARY.items()), *parts)


def _library():
    """The archive of picolibc and of the run-time code."""
    directory = _cache() / f"library-{_key()}"
    archive = directory / "libcore.a"
    with filelock.FileLock(f"{directory}.lock"):
        if not archive.exists():
            directory.mkdir(exist_ok=True)
            objects = []
            with tempfile.TemporaryDirectory(dir=directory) as work:
                for source in [*_sources(), RUNTIME / "console.c", RUNTIME / "measure.c"]:
                    objects.append(Path(work) / f"{source.stem}.o")
                    _zig(["cc", *FLAGS, "-fno-builtin", "-w", "-D_COMPILING_NEWLIB", "-DNO_FLOATING_POINT",
                          *_includes(), f"-I{source.parent}", "-c", source, "-o", objects[-1]],
                         what=f"{source.name} of the C library")
                _zig(["cc", *FLAGS, *_includes(), "-c", RUNTIME / "crt0.S", "-o", directory / "crt0.o"],
                     what="the start-up code")
                _zig(["ar", "rcsD", directory / "part.a", *objects], what="the C library")
                (directory / "part.a").replace(archive)
    return archive


def compile_program(source, output=None, *, defines=None, flags=()):
    """Compile and link a program.

    Parameters
    ----------
    source : path of a C or assembler file, or the name of a program of this project
    output : path, optional
        Where to put the ELF file; by default it stays in the cache.
    defines : dict[str, int | str], optional
        Macros.
    flags : further flags of the compiler

    Returns
    -------
    Path

    Raises
    ------
    CompileError
        The compiler's words, or what is missing.
    ValueError
        There is no such program.
    """
    source = programs().get(str(source), Path(source))
    if not source.is_file():
        raise ValueError(f"program = {str(source)!r}: must be a file, or one of {', '.join(programs())}")
    macros = [f"-D{name}={value}" for name, value in sorted((defines or {}).items())]
    key = _key(source.read_bytes(), macros, flags)
    found = _cache() / f"{source.stem}-{key}.elf"
    with filelock.FileLock(f"{found}.lock"):
        if not found.exists():
            library = _library()
            part = found.with_suffix(f".part{os.getpid()}")
            _zig(["cc", *FLAGS, *LINK, *_includes(), f"-I{source.parent}", *macros, *flags, "-Wall",
                  f"-T{RUNTIME / 'core.ld'}", library.parent / "crt0.o", source, library, "-o", part],
                 what=source.name)
            part.replace(found)
    if output is None:
        return found
    shutil.copyfile(found, output)
    return Path(output)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sw.core.compile",
                                     description="Compile a program for the core.")
    parser.add_argument("source", help=f"a C or assembler file, or one of {', '.join(programs())}")
    parser.add_argument("-o", "--output", help="ELF file to write")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    defines = dict(part.partition("=")[::2] for part in options.define)
    try:
        print(compile_program(options.source, options.output, defines=defines))
    except (CompileError, ValueError, OSError) as error:
        sys.exit(f"compile: {error}")


if __name__ == "__main__":
    main()
