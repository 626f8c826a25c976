"""Payloads between the parts of the core.

Ages: an instruction in flight has an ``age``, its index in the reorder buffer with one more bit above, so
that two ages in flight compare by the sign of their difference (`younger`).
"""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from .address import ADDRESS_BITS

__all__ = [
    "AluOp", "BranchOp", "Cause", "ControlKind", "Decoded", "DeviceRequest", "DeviceResponse", "DivOp",
    "LineRequest", "LineResponse", "LineStatus", "Resolve", "Restart", "SourceA", "SystemOp", "Trap", "Unit",
    "age_bits", "bundle", "younger",
]

HISTORY_BITS = 16
RETURN_BITS = 6
OP_BITS = 4


class Unit(enum.Enum, shape=4):
    """Where an instruction is executed."""

    ALU = 0
    BRANCH = 1    # conditional branches and JALR, in lane 0
    MULTIPLY = 2  # op: funct3 of the M extension, multiplications (0..3), in the last lane
    DIVIDE = 3    # op: funct3 of the M extension, divisions and remainders (4..7), in the last lane
    LOAD = 4      # op: funct3 (size in its lower two bits, unsigned in the third)
    STORE = 5     # op: funct3
    SYSTEM = 6    # op: SystemOp; alone in the reorder buffer when it is executed
    NONE = 7      # nothing to do: an exception found before, or a hint
    ENGINE = 8    # the engine port's; op: funct3, immediate: funct7


class AluOp(enum.Enum, shape=OP_BITS):
    ADD = 0
    SUB = 1
    SLL = 2
    SLT = 3
    SLTU = 4
    XOR = 5
    SRL = 6
    SRA = 7
    OR = 8
    AND = 9


class BranchOp(enum.Enum, shape=OP_BITS):
    """funct3 of the conditional branches; JALR beside them."""

    BEQ = 0
    BNE = 1
    JALR = 2
    BLT = 4
    BGE = 5
    BLTU = 6
    BGEU = 7


class DivOp(enum.Enum, shape=OP_BITS):
    DIV = 4
    DIVU = 5
    REM = 6
    REMU = 7


class SystemOp(enum.Enum, shape=OP_BITS):
    CSR = 0       # funct3, CSR address and zimm are in the instruction word
    ECALL = 1
    EBREAK = 2
    MRET = 3
    WFI = 4
    FENCE = 5
    FENCE_I = 6


class SourceA(enum.Enum, shape=2):
    """First operand of an ALU operation."""

    RS1 = 0
    PC = 1
    ZERO = 2


class Cause(enum.Enum, shape=4):
    """mcause of exceptions (RISC-V privileged specification, table of mcause)."""

    MISALIGNED_FETCH = 0
    FETCH_FAULT = 1
    ILLEGAL = 2
    BREAKPOINT = 3
    MISALIGNED_LOAD = 4
    LOAD_FAULT = 5
    MISALIGNED_STORE = 6
    STORE_FAULT = 7
    ECALL_M = 11


class ControlKind(enum.Enum, shape=3):
    """What a control transfer is to the predictor (return-address hints: RISC-V unprivileged, 2.5.1)."""

    NONE = 0
    BRANCH = 1
    JUMP = 2
    CALL = 3
    RETURN = 4
    INDIRECT = 5       # JALR that is neither a call nor a return
    INDIRECT_CALL = 6


class Decoded(data.Struct):
    """An instruction as the front end hands it over.

    ``exception``: found before execution (``cause``, ``tval``); unit is then NONE. JAL is an ALU operation
    (pc + 4); the front end has already followed it. ``target``: the address that was fetched next; anything
    but pc + 4 or JAL's target only for Unit.BRANCH. ``history`` and ``returns``: state of the predictor
    before this instruction, given back with Resolve.
    """

    pc: unsigned(64)
    word: unsigned(32)
    unit: Unit
    op: unsigned(OP_BITS)
    narrow: unsigned(1)       # result of 32 bits, sign-extended (the W instructions)
    a: SourceA
    b_immediate: unsigned(1)  # second operand of an ALU operation is the immediate, not rs2
    immediate: signed(32)
    rd: unsigned(5)
    rs1: unsigned(5)
    rs2: unsigned(5)
    writes: unsigned(1)       # rd is written, and is not x0
    reads1: unsigned(1)       # rs1 is read, and is not x0 (an operand not read is 0)
    reads2: unsigned(1)
    exception: unsigned(1)
    cause: Cause
    tval: unsigned(64)
    kind: ControlKind
    target: unsigned(64)
    history: unsigned(HISTORY_BITS)
    returns: unsigned(RETURN_BITS)


def bundle(width):
    """Up to ``width`` instructions in program order: slots 0 .. count - 1."""
    return data.StructLayout({"count": range(width + 1), "slots": data.ArrayLayout(Decoded, width)})


class Resolve(data.Struct):
    """A conditional branch or JALR was executed. If mispredicted, fetch goes on at ``next_pc``, with the
    predictor's state as it was before this instruction (``history``, ``returns``), changed by it."""

    valid: unsigned(1)
    mispredicted: unsigned(1)
    taken: unsigned(1)
    kind: ControlKind
    pc: unsigned(64)
    next_pc: unsigned(64)
    history: unsigned(HISTORY_BITS)
    returns: unsigned(RETURN_BITS)


class Restart(data.Struct):
    """Fetch goes on at ``pc`` (trap, return from a trap, FENCE.I). Overrides a Resolve in the same cycle."""

    valid: unsigned(1)
    pc: unsigned(64)
    invalidate: unsigned(1)  # forget the instruction cache


class Trap(data.Struct):
    """A trap is taken in this cycle."""

    valid: unsigned(1)
    interrupt: unsigned(1)
    cause: unsigned(4)
    pc: unsigned(64)
    tval: unsigned(64)


class LineStatus(enum.Enum, shape=2):
    """Outcome of a line access through the L1."""

    OK = 0
    POISON = 1
    OUT_OF_RANGE = 2


class LineRequest(data.Struct):
    """Access to 64 bytes through a line port of the L1. ``line``: address / 64. ``mask``: bytes to write."""

    write: unsigned(1)
    tag: unsigned(4)
    line: unsigned(ADDRESS_BITS - 6)
    mask: unsigned(64)
    data: unsigned(512)


class LineResponse(data.Struct):
    """Answer to a LineRequest; one each, in order, within a port."""

    tag: unsigned(4)
    status: LineStatus
    data: unsigned(512)


class DeviceRequest(data.Struct):
    """Access to a device of the address map, of 2 ** size bytes. ``data`` and ``mask`` (bytes to write) are
    those of the aligned doubleword around ``address``."""

    write: unsigned(1)
    address: unsigned(ADDRESS_BITS)
    size: unsigned(2)
    data: unsigned(64)
    mask: unsigned(8)


class DeviceResponse(data.Struct):
    """Answer to a DeviceRequest, reads and writes, one each, in order. ``data``: the aligned doubleword."""

    data: unsigned(64)
    fault: unsigned(1)  # an access fault; nothing was done


def age_bits(config):
    """Width of an age: the index in the reorder buffer and one bit."""
    return (config.reorder_buffer - 1).bit_length() + 1


def younger(a, b):
    """1 if age ``a`` is younger than age ``b``, both in flight."""
    return (b - a)[len(a) - 1]
