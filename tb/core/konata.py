"""Pipeline log for the Konata viewer (format "Kanata 0004") from pipeline events.

Stages: Ds from dispatch on, Ex from the issue on, Cm from completion to commit. What a misprediction or a
trap makes void is in the log as flushed.
"""

from collections import deque

from golden.riscv.disassemble import disassemble

from .pipe import PIPE, Stage

__all__ = ["konata_log", "write_konata"]

RETIRED, FLUSHED = 0, 1
LANE = 0


class _Instruction:
    __slots__ = ("age", "number", "stage")

    def __init__(self, number, age):
        self.number, self.age, self.stage = number, age, "Ds"


class _Log:
    def __init__(self):
        self.lines = ["Kanata\t0004"]
        self.flying = deque()  # in program order
        self.count = 0
        self.retired = 0

    def dispatch(self, age, pc, word):
        instruction = _Instruction(self.count, age)
        self.count += 1
        self.flying.append(instruction)
        number = instruction.number
        text = disassemble(word).replace("\t", " ")
        self.lines += [f"I\t{number}\t{number}\t0", f"L\t{number}\t0\t{pc:08x} {text}",
                       f"L\t{number}\t1\tage {age}, word {word:08x}", f"S\t{number}\t{LANE}\tDs"]

    def enter(self, age, stage):
        """An instruction begins a stage; later ones of the same kind (a store's data) are not shown."""
        for instruction in self.flying:
            if instruction.age == age:
                if "Ds Ex Cm".index(stage) > "Ds Ex Cm".index(instruction.stage):
                    instruction.stage = stage
                    self.lines.append(f"S\t{instruction.number}\t{LANE}\t{stage}")
                return

    def leave(self, instruction, kind):
        self.lines += [f"E\t{instruction.number}\t{LANE}\t{instruction.stage}",
                       f"R\t{instruction.number}\t{self.retired}\t{kind}"]
        self.retired += kind == RETIRED

    def commit(self, count):
        for _ in range(min(count, len(self.flying))):
            self.leave(self.flying.popleft(), RETIRED)

    def kill(self, age):
        """What is younger than ``age`` is void; all, if that one has left."""
        void = []
        while self.flying and self.flying[-1].age != age:
            void.append(self.flying.pop())
        for instruction in reversed(void):
            self.leave(instruction, FLUSHED)

    def flush(self):
        while self.flying:
            self.leave(self.flying.popleft(), FLUSHED)


def konata_log(events):
    """Lines of the log of ``events`` (array of tb.core.pipe.PIPE, in order).

    Raises
    ------
    ValueError
        There are no events, or they are no PIPE.
    """
    if events.dtype != PIPE:
        raise ValueError(f"events: dtype is {events.dtype}, must be PIPE")
    if not len(events):
        raise ValueError("events: there are none, so there is nothing to show")
    log, now = _Log(), None
    for cycle, pc, word, age, stage in events.tolist():
        if cycle != now:
            log.lines.append(f"C=\t{cycle}" if now is None else f"C\t{cycle - now}")
            now = cycle
        if stage == Stage.DISPATCHED:
            log.dispatch(age, pc, word)
        elif stage == Stage.ISSUED:
            log.enter(age, "Ex")
        elif stage == Stage.DONE:
            log.enter(age, "Cm")
        elif stage == Stage.COMMITTED:
            log.commit(age)
        elif stage == Stage.KILL:
            log.kill(age)
        else:
            log.flush()
    return log.lines


def write_konata(path, events):
    """Write the log of ``events`` to the file ``path``."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(konata_log(events)) + "\n")
