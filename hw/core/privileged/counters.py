"""Hardware performance counters: mcycle, minstret, mhpmcounter3.. and the events they can count."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["COUNTERS", "Counters", "EVENTS", "Event", "Events"]

COUNTERS = 8
"""mhpmcounter3 to mhpmcounter(2 + COUNTERS) count; the others read 0."""


class Event(enum.Enum, shape=5):
    """Numbers for mhpmevent; 0 counts nothing. Cycles, or occurrences of which a cycle has one at most.

    A cycle which commits nothing is counted under one of the first four, by the reorder buffer's head.
    """

    NO_COMMIT_FRONTEND = 1      # nothing commits: no instruction has come from the front end
    NO_COMMIT_EXECUTE = 2       # nothing commits: the oldest instruction waits for operands or its result
    NO_COMMIT_LOAD = 3          # nothing commits: the oldest instruction is a load not yet answered
    NO_COMMIT_STORE = 4         # nothing commits: the oldest instruction is a store which cannot leave
    RENAME_FULL_FREE_LIST = 5   # rename waits: no physical register is free
    RENAME_FULL_REORDER_BUFFER = 6  # rename waits: the reorder buffer is full
    RENAME_FULL_QUEUE = 7       # rename waits: an issue queue is full
    RENAME_FULL_CHECKPOINTS = 8  # rename waits: a branch finds no checkpoint
    RENAME_FULL_MEMORY = 9      # rename waits: the load queue or the store queue is full
    SYSTEM_STALL = 10           # rename waits for a SYSTEM instruction, or for all before it
    BRANCHES = 11               # a conditional branch or JALR is executed, also on a wrong path
    MISPREDICTS = 12            # one of them went on elsewhere than fetch did
    FLUSH = 13                  # all that has not committed is dropped: trap, MRET, FENCE.I
    EXCEPTION = 14              # a trap which is no interrupt
    INTERRUPT = 15              # a trap which is an interrupt
    ICACHE_MISS = 16            # a fetch misses the instruction cache
    LOAD_MISS = 17              # a load misses the L1 (again, if it is tried again before the fill)
    STORE_MISS = 18             # a store misses the L1
    L1_WRITEBACK = 19           # a line leaves the L1 for the memory
    L1_PREFETCH = 20            # a line is fetched that nobody has asked for yet
    LOAD_REPLAY = 21            # a load is tried again out of the load queue
    LOAD_FORWARD = 22           # a load takes its value out of the store queue
    DIVIDER_BUSY = 23           # a division is in progress


EVENTS = len(Event)
"""Events there are; their numbers are 1 to EVENTS."""

Events = data.StructLayout({event.name.lower(): 1 for event in Event})
"""A bit for each event, in their order, 1 in a cycle in which it happens."""

MCOUNTINHIBIT, MHPMEVENT, MACHINE, USER = 0x320, 0x320, 0xB00, 0xC00
INHIBITED = 0xFFFF_FFFD


class Counters(wiring.Component):
    """The counters as CSRs.

    A write takes the place of the increment of its cycle. The instruction which writes minstret is not
    counted by it, so that the next one reads what was written (RISC-V unprivileged specification, Zicntr).
    An event is counted one cycle after it happened.

    Parameters
    ----------
    width : instructions retired a cycle, at most.
    counters : mhpmcounters that count.

    Members
    -------
    address : In(12): of a CSR; number and value of it:
    exists : Out(1): it is one of the counters' registers
    value : Out(64): what a read gives, in the same cycle
    write : In(1), data : In(64): the register is written
    time : In(64): what the CSR time reads
    retired : In(range(width + 1)): instructions retired in this cycle; one which writes minstret retires in
        a later cycle than it writes, before any other
    events : In(Events)
    """

    def __init__(self, *, width, counters=COUNTERS):
        if not isinstance(counters, int) or isinstance(counters, bool) or not 0 <= counters <= 29:
            raise ValueError(f"counters.counters = {counters!r}: must be a whole number from 0 to 29")
        self.counters = counters
        super().__init__({
            "address": In(12), "exists": Out(1), "value": Out(64), "write": In(1), "data": In(64),
            "time": In(64), "retired": In(range(width + 1)), "events": In(Events),
        })

    def elaborate(self, platform):
        m = Module()
        number, page = self.address[:5], self.address[5:]
        machine, user, control = (page == base >> 5 for base in (MACHINE, USER, MHPMEVENT))
        inhibit = Signal(32)
        with m.Switch(number):
            with m.Case(0):
                m.d.comb += self.exists.eq(machine | user | control)
            with m.Case(1):
                m.d.comb += self.exists.eq(user)
            with m.Case(2):
                m.d.comb += self.exists.eq(machine | user)
            with m.Default():
                m.d.comb += self.exists.eq(machine | control)

        pulses = Signal(EVENTS + 1)  # by number
        m.d.sync += pulses.eq(Cat(0, self.events))
        own = Signal()  # the next instruction to retire has written minstret
        retiring = Signal()
        m.d.comb += retiring.eq(self.retired != 0)
        with m.If(retiring):
            m.d.sync += own.eq(0)

        counter, control_value = Signal(64), Signal(64)
        with m.Switch(number):
            with m.Case(0):
                m.d.comb += control_value.eq(inhibit)
            with m.Case(1):
                m.d.comb += counter.eq(self.time)
        m.d.comb += self.value.eq(Mux(control, control_value, counter))

        mcycle, minstret = Signal(64), Signal(64)
        registers = [(0, mcycle, 1), (2, minstret, self.retired - (own & retiring))]
        for index in range(3, 3 + self.counters):
            event = Signal(Event.as_shape(), name=f"mhpmevent{index}")
            registers.append((index, Signal(64, name=f"mhpmcounter{index}"), pulses.bit_select(event, 1)))
            with m.Switch(number):
                with m.Case(index):
                    m.d.comb += control_value.eq(event)
                    with m.If(self.write & control):
                        m.d.sync += event.eq(Mux(self.data <= EVENTS, self.data, 0))
        for index, register, increment in registers:
            with m.If(~inhibit[index]):
                m.d.sync += register.eq(register + increment)
            with m.Switch(number):
                with m.Case(index):
                    m.d.comb += counter.eq(register)
                    with m.If(self.write & machine):
                        m.d.sync += register.eq(self.data)
        with m.If(self.write & machine & (number == 2)):
            m.d.sync += own.eq(1)
        with m.If(self.write & control & (number == 0)):
            m.d.sync += inhibit.eq(self.data & INHIBITED)
        return m
