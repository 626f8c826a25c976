"""A generated program: its parts, its frame (prologue, trap handler, epilogue) and the writer of its blocks.

A program is a prologue (registers, trap handler, interrupts), a chain of blocks, and an epilogue that writes
out the registers and stores the exit code. A block is self-contained and position-independent: control enters
at its first word and leaves after its last, so any subset of the blocks is a program (shrink_program.py).
Loops count down in registers that nothing else writes; everything else branches forward; the handler returns
past the instruction, or repairs it and returns to it, or returns to the link of a jump that went astray.
"""

from dataclasses import dataclass, field

from sw.core.image import Image, Segment

from .encode import FORMATS, NOP, encode, load_immediate

__all__ = ["Block", "Builder", "DATA_BYTES", "Frame", "Program", "RAM_BYTES"]

RAM, HOST, CLINT = 0x8000_0000, 0x1000_0000, 0x0200_0000
DATA_AT = 0x4_0000
"""Offset of the data in RAM; all code lies below."""

DATA_BYTES = 0x1_0000
CELLS_AT = DATA_AT + DATA_BYTES
"""Offset of the handler's cells (+0 timer budget, +8 external interrupts taken) and the final registers."""

RAM_BYTES = CELLS_AT + 0x1000
"""RAM that a program needs at least."""

POOL = tuple(n for n in range(1, 26) if n != 24)
"""Registers that random instructions write. The others: x24 and x30 count loops, x26 and x31 are the
handler's, x27 is the link of jumps that go astray, x28 points to the handler's cells, x29 to the middle of
the data."""

OUTER, INNER, TEMP, TEMP2, STRAY, CELLS, DATA = 30, 24, 31, 26, 27, 28, 29
EDGES = (0, 1, 2, -1, -2, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63), 0x55 << 56)

REGISTER_OPS = tuple(name for name, form in FORMATS.items() if form[0] == "r")
COMMON_OPS = tuple(name for name in REGISTER_OPS if not name.startswith(("mul", "div", "rem")))
IMMEDIATE_OPS = tuple(name for name, form in FORMATS.items()
                      if form[0] in ("i", "shift", "shiftw") and form[1] in (0x13, 0x1B))
LOAD_OPS = {"lb": 1, "lh": 2, "lw": 4, "ld": 8, "lbu": 1, "lhu": 2, "lwu": 4}
STORE_OPS = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}


@dataclass(frozen=True)
class Block:
    """Words that are entered at the first and left after the last.

    ``free``: for each word, whether a NOP may stand in its place without endangering the program's end.
    """

    kind: str
    words: tuple
    free: tuple


@dataclass(frozen=True)
class Program:
    """A program and what it takes to place it.

    Parameters
    ----------
    seed, profile : what it was made from.
    prologue, epilogue : words before and after the blocks.
    blocks : Blocks in order.
    segments : (address, bytes) of the initial data.
    """

    seed: int
    profile: str
    prologue: tuple
    blocks: tuple
    epilogue: tuple
    segments: tuple = field(repr=False)

    @property
    def words(self):
        """All words, from RAM on; the first is the first to be executed."""
        return (*self.prologue, *(word for block in self.blocks for word in block.words), *self.epilogue)

    def image(self):
        """(address, bytes) of everything to be put into RAM, which is zero elsewhere."""
        code = b"".join(word.to_bytes(4, "little") for word in self.words)
        return ((RAM, code), *self.segments)

    def loadable(self):
        """The same as an Image, as the core's bench takes it."""
        segments = tuple(Segment(address, data, len(data)) for address, data in self.image())
        return Image(name=f"random {self.profile} {self.seed}", segments=segments)


class Builder:
    """Words of a block while it is written, with forward branches. ``illegal``: words to choose from;
    ``host``: there is a host device."""

    def __init__(self, rng, illegal=(), host=False):
        self.rng = rng
        self.illegal = illegal
        self.host = host
        self.words, self.free = [], []

    def __len__(self):
        return len(self.words)

    def put(self, name, *, free=False, **operands):
        return self.word(encode(name, **operands), free=free)

    def word(self, word, *, free=False):
        self.words.append(word)
        self.free.append(free)
        return len(self.words) - 1

    def immediate(self, rd, value):
        for word in load_immediate(rd, value):
            self.word(word)

    def land(self, place, name, **operands):
        """Write the branch that was left open at ``place``: it goes to here."""
        self.words[place] = encode(name, imm=4 * (len(self.words) - place), **operands)

    def register(self, *excluded, zero=0.05):
        if self.rng.random() < zero:
            return 0
        return self.rng.choice([n for n in POOL if n not in excluded])

    def block(self, kind):
        return Block(kind, tuple(self.words), tuple(self.free))

    # One instruction that does no harm anywhere; ``keep``: registers it must not write.

    def plain(self, *keep):
        rng = self.rng
        rd = self.register(*keep)
        kind = rng.random()
        if kind < 0.55:
            self.put(rng.choice(COMMON_OPS if rng.random() < 0.8 else REGISTER_OPS),
                     free=True, rd=rd, rs1=self.register(), rs2=self.register())
        elif kind < 0.9:
            name = rng.choice(IMMEDIATE_OPS)
            limit = {"shift": 63, "shiftw": 31}.get(FORMATS[name][0])
            near = rng.choice((2047, 4))
            imm = rng.randint(0, limit) if limit else rng.randint(-near - 1, near)
            self.put(name, free=True, rd=rd, rs1=self.register(), imm=imm)
        elif kind < 0.95:
            self.put(rng.choice(("lui", "auipc")), free=True, rd=rd, imm=rng.randrange(1 << 20))
        else:
            self.access(*keep)

    def access(self, *keep, base=DATA, window=2048, misaligned=0.0):
        rng = self.rng
        load = rng.random() < 0.55
        name = rng.choice(tuple(LOAD_OPS if load else STORE_OPS))
        size = (LOAD_OPS | STORE_OPS)[name]
        imm = rng.randrange(-window, window)
        if rng.random() >= misaligned:
            imm -= imm % size
        if load:
            self.put(name, free=True, rd=self.register(*keep), rs1=base, imm=imm)
        else:
            self.put(name, free=True, rs1=base, rs2=self.register(zero=0.1), imm=imm)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What surrounds the blocks.

    Parameters
    ----------
    timer : period of the timer in ticks of mtime; 0: it is not started.
    interrupts : enable interrupts at the start, for a bench that causes them; with a timer they are anyway.
    timer_budget : timer interrupts before the handler stops it.
    exit_address, exit_value : the doubleword stored at the end.
    withdraw_address : register of the host device to which the handler stores the bit in mip of an interrupt
        it has taken; None if there is none.
    """

    timer: int = 0
    interrupts: bool = False
    timer_budget: int = 20
    exit_address: int = HOST + 8
    exit_value: int = 0
    withdraw_address: int | None = HOST + 24

    def __post_init__(self):
        for name, low in (("timer", 0), ("timer_budget", 1)):
            if not low <= getattr(self, name) <= 2047:
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be {low} to 2047")

    def _withdraw(self, b, cause):
        if self.withdraw_address is not None:
            b.immediate(TEMP, self.withdraw_address)
            b.immediate(TEMP2, 1 << cause)
            b.put("sd", rs1=TEMP, rs2=TEMP2)

    def prologue(self, rng):
        """Set up; then over the vector table and the handler to the first block."""
        b = Builder(rng)
        over = b.put("jal")
        table = len(b)
        for _ in range(16):
            b.put("addi")
        exception = len(b)
        b.put("csrrs", rd=TEMP, csr=0x342)
        to_interrupt = b.put("addi")
        b.put("addi", rd=TEMP2, imm=1)
        to_stray = b.put("addi")
        b.put("addi", rd=TEMP2, imm=2)
        to_illegal = b.put("addi")
        past = len(b)
        b.put("csrrs", rd=TEMP2, csr=0x343)
        b.put("csrrs", rd=TEMP, csr=0x341)
        b.put("addi", rd=TEMP, rs1=TEMP, imm=4)
        b.put("csrrw", rs1=TEMP, csr=0x341)
        b.put("mret")
        b.land(to_stray, "beq", rs1=TEMP, rs2=TEMP2)
        b.put("csrrw", rs1=STRAY, csr=0x341)
        b.put("mret")
        b.land(to_illegal, "beq", rs1=TEMP, rs2=TEMP2)
        # Every other illegal word, by its address, is overwritten by a NOP and tried again.
        b.put("csrrs", rd=TEMP, csr=0x341)
        b.put("andi", rd=TEMP2, rs1=TEMP, imm=8)
        b.put("beq", rs1=TEMP2, imm=4 * (past - len(b)))
        b.put("addi", rd=TEMP2, imm=NOP)
        b.put("sw", rs1=TEMP, rs2=TEMP2)
        b.put("fence.i")
        b.put("mret")
        b.land(to_interrupt, "blt", rs1=TEMP)
        # By mcause without its sign, doubled.
        b.put("slli", rd=TEMP, rs1=TEMP, imm=1)
        b.put("addi", rd=TEMP2, imm=6)
        to_software = b.put("addi")
        b.put("addi", rd=TEMP2, imm=14)
        to_timer = b.put("addi")
        external = len(b)
        b.put("lw", rd=TEMP, rs1=CELLS, imm=8)
        b.put("addi", rd=TEMP, rs1=TEMP, imm=1)
        b.put("sw", rs1=CELLS, rs2=TEMP, imm=8)
        self._withdraw(b, 11)
        b.put("mret")
        software = len(b)
        b.land(to_software, "beq", rs1=TEMP, rs2=TEMP2)
        b.put("lui", rd=TEMP, imm=CLINT >> 12)
        b.put("sw", rs1=TEMP)
        self._withdraw(b, 3)
        b.put("mret")
        timer_handler = len(b)
        b.land(to_timer, "beq", rs1=TEMP, rs2=TEMP2)
        self._withdraw(b, 7)
        b.put("lw", rd=TEMP2, rs1=CELLS)
        b.put("addi", rd=TEMP2, rs1=TEMP2, imm=-1)
        b.put("sw", rs1=CELLS, rs2=TEMP2)
        b.put("lui", rd=TEMP, imm=(CLINT >> 12) + 4)
        disarm = b.put("addi")
        b.put("lui", rd=TEMP2, imm=(CLINT >> 12) + 12)
        b.put("ld", rd=TEMP2, rs1=TEMP2, imm=-8)
        b.put("addi", rd=TEMP2, rs1=TEMP2, imm=max(1, self.timer))
        b.put("sd", rs1=TEMP, rs2=TEMP2)
        b.put("mret")
        b.land(disarm, "blt", rs1=TEMP2)
        b.put("addi", rd=TEMP2, imm=-1)
        b.put("sd", rs1=TEMP, rs2=TEMP2)
        b.put("mret")
        handlers = {3: software, 7: timer_handler, 11: external}
        for n in range(16):
            b.words[table + n] = encode("jal", imm=4 * (handlers.get(n, exception) - table - n))
        b.land(over, "jal")
        b.immediate(TEMP, RAM + 4 * table + rng.randrange(2))
        b.put("csrrw", rs1=TEMP, csr=0x305)
        b.immediate(CELLS, RAM + CELLS_AT)
        b.immediate(DATA, RAM + DATA_AT + DATA_BYTES // 2)
        for n in sorted({*range(1, 32)} - {*POOL, TEMP, CELLS, DATA}):
            b.put("addi", rd=n)  # what a core's registers hold at reset is not defined
        for n in POOL:
            b.immediate(n, rng.choice((*EDGES, rng.getrandbits(64), rng.getrandbits(32), rng.randrange(256))))
        if self.timer:
            b.put("addi", rd=TEMP2, imm=self.timer_budget)
            b.put("sw", rs1=CELLS, rs2=TEMP2)
            b.put("lui", rd=TEMP, imm=(CLINT >> 12) + 12)
            b.put("ld", rd=TEMP2, rs1=TEMP, imm=-8)
            b.put("addi", rd=TEMP2, rs1=TEMP2, imm=self.timer)
            b.put("lui", rd=TEMP, imm=(CLINT >> 12) + 4)
            b.put("sd", rs1=TEMP, rs2=TEMP2)
        if self.timer or self.interrupts:
            b.immediate(TEMP, 0x888)
            b.put("csrrw", rs1=TEMP, csr=0x304)
            b.put("csrrsi", rs1=8, csr=0x300)
        return tuple(b.words)

    def epilogue(self, rng):
        b = Builder(rng)
        b.put("csrrci", rs1=8, csr=0x300)
        for n in range(1, 32):
            b.put("sd", rs1=CELLS, rs2=n, imm=64 + 8 * n)
        b.immediate(TEMP, self.exit_address)
        b.immediate(TEMP2, self.exit_value)
        b.put("sd", rs1=TEMP, rs2=TEMP2)
        b.put("jal")
        return tuple(b.words)
