"""Compiler, start-up code, C library and the programs, on the sequential model."""

import re
import subprocess
import sys

import pytest

from sw.core.compile import CompileError, compile_program, programs
from sw.core.image import RAM, read_elf
from tb.core.reference import run_reference

RAM_BYTES = 64 << 20
SMALLER = {"copy": {"BYTES": 8192}, "fill": {"BYTES": 8192}, "read": {"BYTES": 8192},
           "chase": {"LINES": 64, "STEPS": 64}}  # enough for the model, which has no caches


def run(path, **options):
    return run_reference(read_elf(path, ram_bytes=RAM_BYTES), ram_bytes=RAM_BYTES, **options)


def compiled(tmp_path, text, **options):
    source = tmp_path / "prog.c"
    source.write_text(text)
    return compile_program(source, **options)


def test_there_is_a_program_of_each_kind():
    assert set(programs()) >= {"hello", "sort", "matrix", "strings", "interpreter", "crc", "dhry", "mark",
                               "copy", "fill", "read", "chase"}


@pytest.mark.parametrize("name", [name for name in programs() if name != "hello"])
def test_program_checks_itself_and_measures(name):
    done = run(compile_program(name, defines=SMALLER.get(name)))
    assert done.exit_code == 0
    first, second = done.console.decode().splitlines()
    label, cycles, instructions = first.split()
    assert label == name and second.startswith(f"{name} events ") and len(second.split()) == 10
    # The model takes one cycle an instruction; reading the two counters is what lies between them.
    assert 0 < int(instructions) - int(cycles) <= 8 or 0 <= int(cycles) - int(instructions) <= 8
    assert int(cycles) < done.instructions


def test_hello_prints_every_conversion():
    done = run(compile_program("hello"))
    assert done.exit_code == 0
    assert done.console.splitlines() == [
        b"hello from the slice core",
        b"  42|0x2a|-7    |+5|00123|c|text|te|-9223372036854775808|18446744073709551615"]


def test_wrong_result_is_told(tmp_path):
    done = run(compiled(tmp_path, '#include "core.h"\nstatic uint64_t pass(void) { return 5; }\n'
                                  'int main(void) { return measure("five", 0, pass, 6); }\n'))
    assert done.exit_code == 1
    assert re.search(rb"five: pass 0 computed 0x5, expected 0x6", done.console)


def test_start_up_code(tmp_path):
    """Zeroed and initialised data, the stack below the heap's end, the heap, exit codes, traps."""
    assert run(compiled(tmp_path, """
        #include <stdlib.h>
        #include <string.h>
        static int zero[1000], initial[3] = {1, 2, 3};
        int main(void)
        {
            char *heap = malloc(100000), *more = malloc(8);
            for (int i = 0; i < 1000; ++i)
                if (zero[i]) return 1;
            if (initial[0] + initial[1] + initial[2] != 6 || !heap || !more || more == heap) return 2;
            memset(heap, 1, 100000);
            return (unsigned long)&heap % 16 < 16 ? 300 : 3;
        }
        """)).exit_code == 300 & 0xFF
    done = run(compiled(tmp_path, "int main(void) { __asm__ volatile(\".word 0\"); return 0; }"))
    assert done.exit_code == 128 + 2


def test_program_without_end(tmp_path):
    endless = compiled(tmp_path, "int main(void) { for (;;) __asm__ volatile(\"\"); }")
    done = run(endless, max_instructions=5000)
    assert done.exit_code is None and done.instructions == 5000


def test_same_source_same_bytes(tmp_path, monkeypatch):
    first = compile_program("crc").read_bytes()
    monkeypatch.setenv("JALAPENO_BUILD_DIR", str(tmp_path / "elsewhere"))
    assert compile_program("crc").read_bytes() == first
    image = read_elf(compile_program("crc"), ram_bytes=RAM_BYTES)
    assert image.segments[0].address == RAM and image.symbols["_start"] == RAM and "main" in image.symbols


def test_errors_of_the_compiler(tmp_path):
    with pytest.raises(CompileError, match=r"prog\.c could not be compiled: .*error: .*undeclared"):
        compiled(tmp_path, "int main(void) { return nothing; }")
    with pytest.raises(ValueError, match="program = 'nowhere': must be a file, or one of chase, copy"):
        compile_program("nowhere")


def test_command_line(tmp_path):
    output = tmp_path / "hello.elf"
    done = subprocess.run([sys.executable, "-m", "sw.core.compile", "hello", "-o", output], text=True,
                          capture_output=True)
    assert (done.returncode, done.stdout.strip()) == (0, str(output))
    assert output.read_bytes()[:4] == b"\x7fELF"
    done = subprocess.run([sys.executable, "-m", "sw.core.compile", "nowhere"], text=True,
                          capture_output=True)
    assert done.returncode == 1 and done.stderr.startswith("compile: program = 'nowhere': must be")
