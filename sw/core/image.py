"""Executable files for the core: ELF, 64 bits, little-endian, RISC-V, loaded where RAM is."""

from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

__all__ = ["RAM", "Image", "ImageError", "Segment", "read_elf"]

RAM = 0x8000_0000
"""First byte of the RAM, where the core begins (docs/core.md)."""

_MAGIC = b"\x7fELF"


class ImageError(ValueError):
    """The file is no program for this core; the message is a sentence."""


@dataclass(frozen=True)
class Segment:
    """``data`` at ``address``, followed by zeros up to ``size`` bytes."""

    address: int
    data: bytes
    size: int

    @property
    def end(self):
        """First address after it."""
        return self.address + self.size


@dataclass(frozen=True, kw_only=True)
class Image:
    """A program as it is loaded.

    Attributes
    ----------
    name : for messages.
    segments : tuple of Segment, by address, apart from each other.
    symbols : dict of name to address.
    """

    name: str
    segments: tuple
    symbols: dict = field(default_factory=dict)

    @classmethod
    def of(cls, code, *, name="program", address=RAM):
        """Bytes or a list of instruction words, at ``address``."""
        if not isinstance(code, (bytes, bytearray)):
            code = b"".join(int(word).to_bytes(4, "little") for word in code)
        return cls(name=name, segments=(Segment(address, bytes(code), len(code)),))

    @property
    def size(self):
        """Bytes from RAM to the end of the last segment."""
        return max(segment.end for segment in self.segments) - RAM


def read_elf(path, *, ram_bytes):
    """The program in the file ``path``.

    Raises
    ------
    ImageError
        It is not for this core, or does not fit ``ram_bytes`` of RAM.
    OSError
        It cannot be read.
    """
    path = Path(path)
    with open(path, "rb") as file:
        magic = file.read(6)
        if magic[:4] != _MAGIC:
            raise ImageError(f"{path} is not an ELF file: it begins with {magic[:4].hex(' ') or 'nothing'}")
        if magic[4:5] != b"\x02":
            raise ImageError(f"{path} is an ELF file of class {_class(magic[4:5])}; the core runs ELF64")
        if magic[5:6] != b"\x01":
            order = magic[5] if magic[5:] else "missing"
            raise ImageError(f"{path} is not little-endian (EI_DATA = {order})")
        file.seek(0)
        try:
            elf = ELFFile(file)
            return _read(path, elf, ram_bytes)
        except ImageError:
            raise
        except (ELFError, ValueError, KeyError, IndexError, UnicodeDecodeError, OverflowError) as error:
            raise ImageError(f"{path} is a damaged ELF file: {error or type(error).__name__}") from None


def _class(byte):
    return {b"\x01": "ELF32"}.get(byte, byte.hex() or "missing")


def _read(path, elf, ram_bytes):
    header = elf.header
    if header["e_machine"] != "EM_RISCV":
        raise ImageError(f"{path} is for machine {header['e_machine']}; the core runs EM_RISCV")
    if header["e_type"] != "ET_EXEC":
        raise ImageError(f"{path} is of type {header['e_type']}; the core runs linked executables (ET_EXEC)")
    if header["e_flags"] & 1:
        raise ImageError(f"{path} uses compressed instructions (e_flags = {header['e_flags']:#x}); "
                         "the core runs RV64IM")
    if header["e_flags"] & 6:
        raise ImageError(f"{path} uses a floating-point ABI (e_flags = {header['e_flags']:#x}); "
                         "the core runs RV64IM, ABI lp64")
    if header["e_entry"] != RAM:
        raise ImageError(f"{path} begins at {header['e_entry']:#x}; the core begins at {RAM:#x}")
    return Image(name=path.name, segments=_segments(path, elf, ram_bytes), symbols=_symbols(elf))


def _segments(path, elf, ram_bytes):
    segments = []
    for number, part in enumerate(elf.iter_segments()):
        header = part.header
        if header["p_type"] != "PT_LOAD" or not header["p_memsz"]:
            continue
        address, size, stored = header["p_paddr"], header["p_memsz"], header["p_filesz"]
        if address < RAM or address + size > RAM + ram_bytes:
            raise ImageError(f"{path}: segment {number} takes {address:#x} to {address + size - 1:#x}; "
                             f"RAM is {RAM:#x} to {RAM + ram_bytes - 1:#x}")
        if stored > size:
            raise ImageError(f"{path}: segment {number} has {stored} bytes in the file, but takes {size}")
        data = part.data()
        if len(data) != stored:
            raise ImageError(f"{path} ends in the middle of segment {number}")
        segments.append((number, Segment(address, data, size)))
    if not segments:
        raise ImageError(f"{path} has no segment to load")
    segments.sort(key=lambda pair: pair[1].address)
    for (first, one), (second, other) in zip(segments, segments[1:]):
        if one.end > other.address:
            raise ImageError(f"{path}: segments {first} and {second} overlap at {other.address:#x}")
    if not any(segment.address <= RAM < segment.end for _, segment in segments):
        raise ImageError(f"{path} has nothing at {RAM:#x}, where the core begins")
    return tuple(segment for _, segment in segments)


def _symbols(elf):
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return {}
    return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()
            if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
