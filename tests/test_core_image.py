"""Executable files for the core: what is read, and a sentence for each kind that is refused."""

import struct

import pytest

from sw.core.image import RAM, Image, ImageError, read_elf

RAM_BYTES = 1 << 20
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")


def elf(*segments, entry=RAM, machine=243, kind=2, elf_class=2, order=1, flags=0):
    """An ELF file of segments (address, data, size in memory)."""
    identity = b"\x7fELF" + bytes([elf_class, order, 1]) + bytes(9)
    offset = HEADER.size + SEGMENT.size * len(segments)
    table, contents = b"", b""
    for address, data, size in segments:
        table += SEGMENT.pack(1, 7, offset + len(contents), address, address, len(data), size, 64)
        contents += data
    header = HEADER.pack(identity, kind, machine, 1, entry, HEADER.size, 0, flags, HEADER.size, SEGMENT.size,
                         len(segments), 0, 0, 0)
    return header + table + contents


@pytest.fixture
def read(tmp_path):
    def reader(contents, **options):
        path = tmp_path / "prog.elf"
        path.write_bytes(contents)
        return read_elf(path, **({"ram_bytes": RAM_BYTES} | options))
    return reader


def test_segments(read):
    image = read(elf((RAM + 128, b"data", 100), (RAM, b"code", 4)))
    assert [(part.address, part.data, part.size) for part in image.segments] == [
        (RAM, b"code", 4), (RAM + 128, b"data", 100)]
    assert image.name == "prog.elf" and image.size == 228
    assert Image.of([0x13, 0x6F]).segments[0].data == bytes.fromhex("130000006f000000")


@pytest.mark.parametrize("contents, told", [
    (b"#!/bin/sh\n", "is not an ELF file: it begins with 23 21 2f 62"),
    (b"", "is not an ELF file: it begins with nothing"),
    (elf((RAM, b"code", 4), elf_class=1), "is an ELF file of class ELF32; the core runs ELF64"),
    (elf((RAM, b"code", 4), order=2), r"is not little-endian \(EI_DATA = 2\)"),
    (elf((RAM, b"code", 4), machine=62), "is for machine EM_X86_64; the core runs EM_RISCV"),
    (elf((RAM, b"code", 4), kind=1), "is of type ET_REL; the core runs linked executables"),
    (elf((RAM, b"code", 4), flags=1), "uses compressed instructions"),
    (elf((RAM, b"code", 4), flags=4), "uses a floating-point ABI"),
    (elf((RAM, b"code", 4), entry=RAM + 4), "begins at 0x80000004; the core begins at 0x80000000"),
    (elf((RAM, b"code", 4), (0x1000, b"low", 3)), "segment 1 takes 0x1000 to 0x1002; RAM is 0x80000000 to"),
    (elf((RAM, b"code", RAM_BYTES + 1)), "segment 0 takes 0x80000000 to 0x80100000; RAM is"),
    (elf((RAM, b"code", 64), (RAM + 32, b"", 64)), "segments 0 and 1 overlap at 0x80000020"),
    (elf((RAM, b"code", 2)), "segment 0 has 4 bytes in the file, but takes 2"),
    (elf((RAM + 64, b"code", 4)), "has nothing at 0x80000000, where the core begins"),
    (elf(), "has no segment to load"),
    (elf((RAM, b"code", 4))[:-2], "ends in the middle of segment 0"),
    (elf((RAM, b"code", 4))[:40], "is a damaged ELF file"),
    (elf((RAM, b"code", 4))[:70], "is a damaged ELF file"),
    (b"\x7fELF\x02\x01", "is a damaged ELF file"),
])
def test_refused_with_a_sentence(read, contents, told):
    with pytest.raises(ImageError, match=told) as caught:
        read(contents)
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_file_is_refused_or_read(read):
    whole = elf((RAM, bytes(range(32)), 32), (RAM + 64, b"more", 8))
    outcomes = set()
    for length in range(len(whole)):
        try:
            read(whole[:length])
            outcomes.add("read")
        except ImageError:
            outcomes.add("refused")
    assert outcomes == {"refused"}
