"""Programs in words that show how many misses of the L1 a core has in flight.

Eight loads that follow each other, each of a line of its own that no cache has. They are executed twice, of
other lines the first time, so that all instructions are in the instruction cache. A FENCE is before them, so
that nothing else is in flight.
"""

from hw.core.address import HOST, LINE, RAM
from sw.core.image import Image, Segment

from .encode import encode, load_immediate

__all__ = ["LOADS", "PLACES", "in_flight", "miss_program"]

LOADS = 8
DATA = RAM + 0x10000
PLACES = (0, 5, 2, 11, 14, 9, 20, 7)
"""Lines of the loads, from DATA on: no stride leads from one to the next."""

BASE, TURN, EXIT, FIRST = 5, 6, 7, 10
"""Registers: where the loads read, whether this is the second turn, the host; the loaded values."""


def miss_program(*, dependent):
    """An :class:`Image`; ``dependent``: each load reads where the one before says, a chain.

    Its symbol ``loads`` is the address of the first load.
    """
    lines = [DATA + LINE * place for place in PLACES]
    warm = DATA + LINE * 256
    words = [*load_immediate(BASE, warm), encode("addi", rd=TURN)]
    turn = len(words)
    words.append(encode("fence"))
    loads = len(words)
    for n in range(LOADS):
        if dependent:
            words.append(encode("ld", rd=BASE, rs1=BASE))
        else:
            words.append(encode("ld", rd=FIRST + n, rs1=BASE, imm=LINE * PLACES[n]))
    words.append(encode("fence"))
    after = [encode("addi", rd=TURN, imm=1), *load_immediate(BASE, lines[0])]
    # Over the second turn's preparation and the jump back, if this was it.
    words.append(encode("bne", rs1=TURN, imm=4 * (len(after) + 2)))
    words += after
    words.append(encode("jal", imm=4 * (turn - len(words))))
    words += [*load_immediate(EXIT, HOST + 8), encode("sd", rs1=EXIT), encode("jal")]
    code = b"".join(word.to_bytes(4, "little") for word in words)
    pointers = bytearray(LINE * (256 + max(PLACES) + 1))
    pointers[LINE * 256:LINE * 256 + 8] = warm.to_bytes(8, "little")
    for at, next_line in zip(PLACES, [*lines[1:], lines[0]]):
        pointers[LINE * at:LINE * at + 8] = next_line.to_bytes(8, "little")
    return Image(name="chain of misses" if dependent else "independent misses",
                 segments=(Segment(RAM, code, len(code)), Segment(DATA, bytes(pointers), len(pointers))),
                 symbols={"_start": RAM, "loads": RAM + 4 * loads})


def in_flight(requests):
    """Reads of the eight lines (array of tb.core.memory.REQUEST), and the most in flight at once.

    Raises
    ------
    ValueError
        Not each of the lines has been read once.
    """
    lines = {(DATA - RAM) // LINE + place for place in PLACES}
    reads = requests[[line in lines for line in requests["line"]] & (requests["write"] == 0)]
    if sorted(reads["line"]) != sorted(lines):
        raise ValueError(f"lines {sorted(reads['line'])} were read, must be {sorted(lines)}, each once")
    return reads, max(int(((reads["taken"] <= now) & (now < reads["answered"])).sum())
                      for now in reads["taken"])
