"""Random programs that always end (program.py has their form): a generator with a seed and a profile.

An external interrupt has to be lowered by the bench, at the latest when the handler's store to the host
device asks for it; a program itself causes software interrupts and, if asked for, timer interrupts.
"""

import random

from .encode import CSR_FORMS, encode
from .program import (
    CLINT,
    DATA,
    DATA_AT,
    DATA_BYTES,
    EDGES,
    HOST,
    INNER,
    LOAD_OPS,
    OUTER,
    POOL,
    RAM,
    REGISTER_OPS,
    STRAY,
    Builder,
    Frame,
    Program,
)

__all__ = ["ILLEGAL", "ILLEGAL_LENGTHS", "PROFILES", "random_program"]

PROFILES = {
    "mixed": {"alu": 8, "memory": 6, "alias": 4, "branch": 5, "storm": 2, "call": 3, "jump_table": 2,
              "divide": 2, "trap": 3, "csr": 3, "system": 2, "self_modify": 1, "loop": 3,
              "return": 1, "software": 1, "device": 2},
    "alu": {"alu": 12, "divide": 2, "branch": 2, "loop": 2},
    "memory": {"memory": 6, "alias": 8, "alu": 2, "branch": 2, "loop": 3, "trap": 1},
    "branch": {"branch": 6, "storm": 6, "call": 5, "jump_table": 4, "alu": 2, "loop": 4},
    "trap": {"trap": 10, "alu": 4, "memory": 3, "branch": 3, "csr": 3, "return": 3, "loop": 2, "divide": 1},
    "interrupt": {"software": 5, "alu": 4, "memory": 4, "branch": 3, "csr": 4, "system": 3, "loop": 3,
                  "alias": 2, "divide": 1, "trap": 2, "device": 2},
    "divide": {"divide": 8, "alu": 4, "branch": 2, "memory": 2, "loop": 2},
    "self_modify": {"self_modify": 6, "alu": 3, "branch": 2, "trap": 3, "loop": 3, "memory": 1},
    # Branches that are known long after younger ones.
    "late": {"divide": 4, "branch": 8, "memory": 3, "storm": 2, "loop": 1},
}
"""Name -> weight of each kind of block."""

DIVIDE_OPS = tuple(name for name in REGISTER_OPS if name.startswith(("div", "rem")))
BRANCH_OPS = ("beq", "bne", "blt", "bge", "bltu", "bgeu")

WRITABLE = (0x340, 0x341, 0x342, 0x343)  # mscratch mepc mcause mtval: any value, at any time
READABLE = (0x300, 0x301, 0x304, 0x305, 0x344, 0xB00, 0xB02, 0xC00, 0xC01, 0xC02, 0xF11, 0xF12, 0xF13, 0xF14,
            0xF15, 0xB03, 0xB04, 0xB1F)
ABSENT = (0x000, 0x100, 0x180, 0x5C0, 0x8FF, 0x9C0, 0xC03, 0xC80, 0xDC0, 0xFFF)
NOWHERE = (0x4000_0000, 0x7FFF_FFF0, (1 << 40) + RAM, 1 << 40, -16, 1 << 63)
READ_ONLY = (0xC00, 0xC01, 0xC02, 0xF11, 0xF14, 0xF15)
ILLEGAL = (
    0x40001013, 0x08001013, 0x82000033, 0x0000203B, 0x4000101B, 0x0200501B, 0x0000A067, 0x00007003,
    0x00007023, 0x00002063, 0x0000200F, 0x0000202F, 0x00002007, 0x00002027, 0x00000053, 0x00000057,
    0x0000000B, 0x0000007B, 0x30004073, 0x00200073, 0x10200073, 0x12000073, 0x7B200073, 0x30200F73,
    0x000000F3)
"""Words of 32 bits that are no instruction of the core."""

ILLEGAL_LENGTHS = (0x00000000, 0xFFFFFFFF, 0x00004501, 0x0000001F, 0x0000003F, 0x12345670)
"""Words that would be instructions of other lengths: a core of 32-bit ones takes each as one word."""


def _alu(b):
    if b.rng.random() < 0.2:
        b.immediate(b.register(zero=0), b.rng.choice((*EDGES, b.rng.getrandbits(64), b.rng.getrandbits(32))))
    for _ in range(b.rng.randint(2, 10)):
        b.plain()


def _memory(b):
    """Accesses near the middle of the data, through a pointer to elsewhere, or by a computed value."""
    rng = b.rng
    pointer = b.register(zero=0)
    kind = rng.random()
    if kind < 0.4:
        b.immediate(pointer, rng.randrange(-DATA_BYTES // 2 + 2048, DATA_BYTES // 2 - 2048, 8))
        b.put("add", rd=pointer, rs1=pointer, rs2=DATA)
    elif kind < 0.7:
        b.put("andi", rd=pointer, rs1=b.register(), imm=0x7F8)
        b.put("add", rd=pointer, rs1=pointer, rs2=DATA)
    else:
        pointer = DATA
    for _ in range(rng.randint(2, 8)):
        if rng.random() < 0.7:
            b.access(pointer, base=pointer, window=512, misaligned=0.02)
        else:
            b.plain(pointer)


def _alias(b):
    """Stores and loads of every size over the same few bytes."""
    window = b.rng.choice((8, 16, 32, 64))
    for _ in range(b.rng.randint(4, 12)):
        b.access(window=window)


def _branch(b):
    rng = b.rng
    name, one, two = rng.choice(BRANCH_OPS), b.register(), b.register()
    place = b.put(name, free=True)
    for _ in range(rng.randint(0, 6)):
        b.plain()
    b.land(place, name, rs1=one, rs2=two)


def _storm(b):
    """Branches on the bits of a value that changes, in a short loop: no predictor gets them all."""
    rng = b.rng
    state, bit = rng.sample(POOL, 2)
    b.immediate(state, rng.getrandbits(31))
    b.put("addi", rd=INNER, imm=rng.randint(3, 12))
    start = len(b)
    for _ in range(rng.randint(2, 6)):
        b.put("andi", rd=bit, rs1=state, imm=1 << rng.randrange(10), free=True)
        place = b.put("addi", free=True)
        for _ in range(rng.randint(1, 3)):
            b.plain(state, bit)
        b.land(place, rng.choice(("beq", "bne")), rs1=bit)
    b.immediate(bit, 1103515245)
    b.put("mulw", rd=state, rs1=state, rs2=bit, free=True)
    b.put("srli", rd=bit, rs1=state, imm=16, free=True)
    b.put("xor", rd=state, rs1=state, rs2=bit, free=True)
    _close(b, INNER, start)


def _close(b, counter, start):
    b.put("addi", rd=counter, rs1=counter, imm=-1)
    if 4 * (len(b) - start) <= 4000:
        b.put("bne", rs1=counter, imm=4 * (start - len(b)))
    else:
        b.put("beq", rs1=counter, imm=8)
        b.put("jal", imm=4 * (start - len(b)))


def _call(b):
    """A function, called once or more, directly or through a register; one more below it, or not."""
    rng = b.rng
    over = b.put("jal")
    inner = len(b)
    for _ in range(rng.randint(1, 4)):
        b.plain(1, 5)
    b.put("jalr", rs1=5)
    function = len(b)
    for _ in range(rng.randint(1, 4)):
        b.plain(1, 5)
    if rng.random() < 0.5:
        b.put("jal", rd=5, imm=4 * (inner - len(b)))
    b.put("jalr", rs1=1)
    b.land(over, "jal")
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            b.put("jal", rd=1, imm=4 * (function - len(b)))
        else:
            pointer = rng.choice([n for n in POOL if n not in (1, 5)])
            b.put("auipc", rd=pointer)
            b.put("jalr", rd=1, rs1=pointer, imm=4 * (function - len(b) + 1))
        b.plain()


def _jump_table(b):
    """An indirect jump to one of four places."""
    rng = b.rng
    index, pointer = rng.sample(POOL, 2)
    length = rng.randint(1, 3)
    shift = 3 if length == 1 else 4  # a place is its plain words and a jump, padded to 8 or 16 bytes
    b.put("andi", rd=index, rs1=b.register(), imm=3)
    b.put("slli", rd=index, rs1=index, imm=shift)
    b.put("auipc", rd=pointer)
    b.put("add", rd=pointer, rs1=pointer, rs2=index)
    b.put("jalr", rd=rng.choice((0, 0, 1)), rs1=pointer, imm=12)
    end = len(b) + 4 * (1 << shift - 2)
    for _ in range(4):
        for _ in range((1 << shift - 2) - 1):
            b.plain()
        b.put("jal", imm=4 * (end - len(b)))


def _divide(b):
    """Dependent divisions, of edge values too."""
    rng = b.rng
    value, other = rng.sample(POOL, 2)
    b.immediate(value, rng.choice((*EDGES, rng.getrandbits(64))))
    b.immediate(other, rng.choice((*EDGES, rng.getrandbits(rng.randint(1, 64)))))
    for _ in range(rng.randint(1, 5)):
        one, two = rng.choice(((value, other), (other, value), (value, value), (value, b.register())))
        b.put(rng.choice(DIVIDE_OPS), free=True, rd=rng.choice((value, value, other)), rs1=one, rs2=two)


def _trap(b):
    """Exceptions of every cause, among other instructions."""
    rng = b.rng
    for _ in range(rng.randint(0, 4)):
        b.plain()
    pointer = b.register(zero=0)
    match rng.randrange(9):
        case 0:
            b.put("ecall", free=True)
        case 1:
            b.put("ebreak", free=True)
        case 2 | 3:
            b.word(rng.choice(b.illegal), free=True)
        case 4:
            b.access(misaligned=1.0)
        case 5:  # nothing is there
            b.immediate(pointer, rng.choice(NOWHERE))
            b.access(pointer, base=pointer, window=8, misaligned=0.1)
        case 6:  # jump astray
            b.immediate(pointer, rng.choice(NOWHERE))
            b.put("jalr", free=True, rd=STRAY, rs1=pointer, imm=4 * rng.randrange(2))
        case 7:  # misaligned targets
            name = rng.choice(("jal", "jalr", "beq"))
            if name == "jalr":
                b.put("auipc", rd=pointer)
                b.put("jalr", free=True, rd=b.register(), rs1=pointer, imm=rng.choice((2, 3, 6, 10)))
            elif name == "jal":
                b.put("jal", free=True, rd=b.register(), imm=rng.choice((2, 6, 10)))
            else:
                b.put("beq", free=True, rs1=pointer, rs2=pointer, imm=rng.choice((2, 6, 10)))
        case 8:
            name, csr = rng.choice(((rng.choice(CSR_FORMS), rng.choice(ABSENT)),
                                    ("csrrw", rng.choice(READ_ONLY))))
            b.put(name, free=True, rd=b.register(), rs1=b.register(), csr=csr)
    for _ in range(rng.randint(0, 3)):
        b.plain()


def _csr(b):
    rng = b.rng
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.4:
            b.put(rng.choice(CSR_FORMS), free=True, rd=b.register(zero=0.2), rs1=b.register(zero=0.2),
                  csr=rng.choice(WRITABLE))
        elif kind < 0.7:
            b.put(rng.choice(("csrrs", "csrrc", "csrrsi", "csrrci")), free=True, rd=b.register(),
                  csr=rng.choice(READABLE))
        elif kind < 0.75:
            b.put("csrrw", free=True, rd=b.register(), rs1=b.register(), csr=0xB02)
            b.put("csrrs", free=True, rd=b.register(), csr=0xB02)
        elif kind < 0.8:  # direct or vectored; bit 1 stays 0
            b.put(rng.choice(("csrrsi", "csrrci")), free=True, rd=b.register(), rs1=rng.randint(1, 3),
                  csr=0x305)
        elif kind < 0.9:
            b.put(rng.choice(("csrrw", "csrrs", "csrrc")), free=True, rd=b.register(), rs1=b.register(),
                  csr=rng.choice((0x300, 0x304)))
        else:
            b.put(rng.choice(("csrrsi", "csrrci")), free=True, rd=b.register(), rs1=8, csr=0x300)
        if rng.random() < 0.5:
            b.plain()


def _system(b):
    """Fences, and a WFI that finds its interrupt pending."""
    rng = b.rng
    if rng.random() < 0.7:
        b.put(rng.choice(("fence", "fence.i")), free=True)
        b.plain()
        return
    pointer, one = rng.sample(POOL, 2)
    b.put("csrrci", rs1=8, csr=0x300)
    b.put("csrrsi", rs1=8, csr=0x304)
    b.immediate(pointer, CLINT)
    b.put("addi", rd=one, imm=1)
    b.put("sw", rs1=pointer, rs2=one)
    b.put("wfi")
    b.plain()
    b.put("csrrsi", rs1=8, csr=0x300)
    b.plain()


def _software(b):
    """A software interrupt somewhere in what follows."""
    rng = b.rng
    pointer, one = rng.sample(POOL, 2)
    b.immediate(pointer, CLINT)
    b.put("addi", rd=one, imm=1)
    b.put("csrrsi", free=True, rs1=8, csr=0x304)
    b.put("csrrsi", free=True, rs1=8, csr=0x300)
    b.put("sw", free=True, rs1=pointer, rs2=one)
    for _ in range(rng.randint(1, 10)):
        b.plain()


def _device(b):
    """Loads from devices, and characters for the console; the branch before them is taken or not."""
    rng = b.rng
    pointer = b.register(zero=0)
    name, one, two = rng.choice(BRANCH_OPS), b.register(), b.register()
    skip = b.put(name, free=True)
    if b.host and rng.random() < 0.6:
        b.immediate(pointer, HOST)
        b.put("sb", free=True, rs1=pointer, rs2=b.register())
        for offset in rng.choices((16, 16, 32, 256), k=rng.randint(1, 3)):  # all but +16 are refused
            name_of_load = rng.choice(tuple(LOAD_OPS))
            b.put(name_of_load, free=True, rd=b.register(pointer), rs1=pointer, imm=offset)
            b.plain(pointer)
    else:
        offset, loads = rng.choice(((0, ("lw", "lwu")), (0x4000, ("lw", "lwu", "ld")), (0xBFF8, ("ld",))))
        b.immediate(pointer, CLINT + offset)
        for _ in range(rng.randint(1, 3)):
            b.put(rng.choice(loads), free=True, rd=b.register(pointer), rs1=pointer)
            b.plain(pointer)
    b.land(skip, name, rs1=one, rs2=two)


def _self_modify(b):
    """A loop whose second pass finds another instruction than the first."""
    rng = b.rng
    pointer, value = rng.sample(POOL, 2)
    other = b.register(pointer, value)
    new = encode(rng.choice(REGISTER_OPS), rd=other, rs1=b.register(), rs2=b.register())
    if rng.random() < 0.15:
        new = rng.choice(b.illegal)
    b.put("addi", rd=INNER, imm=2)
    start = len(b)
    for _ in range(rng.randint(0, 3)):
        b.plain()
    b.plain()
    target = len(b) - 1
    b.immediate(value, new)
    b.put("auipc", rd=pointer)
    b.put("sw", rs1=pointer, rs2=value, imm=4 * (target - len(b) + 1))
    b.put("fence.i")
    _close(b, INNER, start)


def _return(b):
    """MRET to a place ahead; no interrupt may come between the write of mepc and it."""
    rng = b.rng
    pointer = b.register(zero=0)
    skip = rng.randint(0, 3)
    b.put("csrrci", rs1=8, csr=0x300)
    b.put("auipc", rd=pointer)
    b.put("addi", rd=pointer, rs1=pointer, imm=4 * (4 + skip) + rng.randrange(4))
    b.put("csrrw", rs1=pointer, csr=0x341)
    b.put("mret")
    for _ in range(skip):
        b.plain()


_KINDS = {"alu": _alu, "memory": _memory, "alias": _alias, "branch": _branch, "storm": _storm, "call": _call,
          "jump_table": _jump_table, "divide": _divide, "trap": _trap, "csr": _csr, "system": _system,
          "self_modify": _self_modify, "return": _return, "software": _software,
          "device": _device}
_USES_INNER = ("storm", "self_modify")


def _loop(b, weights):
    """Blocks of other kinds, a few times."""
    rng = b.rng
    counter = rng.choice((OUTER, INNER))
    kinds = [kind for kind in weights if kind != "loop" and (counter == OUTER or kind not in _USES_INNER)]
    b.put("addi", rd=counter, imm=rng.randint(2, 8))
    start = len(b)
    for kind in rng.choices(kinds, [weights[kind] for kind in kinds], k=rng.randint(1, 4)):
        _KINDS[kind](b)
    _close(b, counter, start)


def random_program(seed, *, size=1000, profile="mixed", other_lengths=True, **frame):
    """A Program; the same for the same arguments.

    Parameters
    ----------
    seed : whole number.
    size : words in blocks, at least (two to six times as many are executed), 0 to 40000.
    profile : name in PROFILES, or a dictionary of weights.
    other_lengths : use the words of ILLEGAL_LENGTHS too.
    frame : fields of Frame.
    """
    weights = PROFILES.get(profile) if isinstance(profile, str) else profile
    if weights is None or not set(weights) <= {*_KINDS, "loop"}:
        raise ValueError(f"profile = {profile!r}: must be one of {', '.join(PROFILES)}, or weights of "
                         f"{', '.join((*_KINDS, 'loop'))}")
    if not 0 <= size <= 40000:
        raise ValueError(f"size = {size!r}: must be 0 to 40000")
    rng = random.Random(seed)
    illegal = ILLEGAL + ILLEGAL_LENGTHS if other_lengths else ILLEGAL
    frame = Frame(**frame)
    prologue = frame.prologue(rng)
    blocks, count = [], 0
    while count < size:
        kind = rng.choices(tuple(weights), tuple(weights.values()))[0]
        b = Builder(rng, illegal, frame.withdraw_address is not None)
        if kind == "loop":
            _loop(b, weights)
        else:
            _KINDS[kind](b)
        blocks.append(b.block(kind))
        count += len(b)
    middle = RAM + DATA_AT + DATA_BYTES // 2
    return Program(seed=seed, profile=profile if isinstance(profile, str) else "own", prologue=prologue,
                   blocks=tuple(blocks), epilogue=frame.epilogue(rng),
                   segments=((middle - 2048, rng.randbytes(4096)),))
