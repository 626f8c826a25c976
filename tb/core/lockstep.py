"""A core against the sequential model, at every retired instruction.

The core runs free; its records are compared in chunks. The first that differs is a CheckFailure with the
commits before it, its cycle, and the command that repeats the run with a wave around it.
"""

from dataclasses import replace

from golden.riscv import Hart
from golden.riscv.disassemble import REGISTERS, disassemble
from tb.report import Context, Report, failure, simulation_failure
from tb.simulator import SimulationError

from .reference import load_memory
from .run import run_core

__all__ = ["Lockstep", "run_lockstep"]

CHECKER = "lockstep with golden.riscv"


class Lockstep:
    """Compares chunks of records; ``compared`` counts them.

    Parameters
    ----------
    image : sw.core.image.Image
    ram_bytes : int
    poison : iterable of addresses
    """

    def __init__(self, image, *, ram_bytes, poison=()):
        self.hart = Hart(load_memory(image, ram_bytes, poison))
        self.compared = 0

    def __call__(self, records):
        """Compare the next records; _Different at the first that is not as the model has it."""
        mismatch = self.hart.compare(records)
        if mismatch is not None:
            self.compared += mismatch.index
            raise _Different(mismatch)
        self.compared += len(records)


class _Different(Exception):
    def __init__(self, mismatch):
        super().__init__(mismatch.reason)
        self.mismatch = mismatch


def run_lockstep(simulator, image, *, seed=0, test=None, command=None, poison=(), must_compare=1, **options):
    """Run a program on the core and compare every record; options as of :func:`tb.core.run.run_core`.

    Parameters
    ----------
    test : str, optional
        What runs, for the report; the image's name by default.
    command : str, optional
        What repeats the run; the command of this process by default.
    must_compare : int
        Fewer records compared are a failure.

    Returns
    -------
    tuple[CoreRun, int]
        The run, and the records compared, which are all of it.

    Raises
    ------
    CheckFailure
        A difference, a core that is stuck, or too little compared.
    NotEnded
        The program did not end in time; what it did was right.
    """
    lockstep = Lockstep(image, ram_bytes=simulator.built.ram_bytes, poison=poison)
    context = Context(test=test or f"core {image.name}", seed=seed, command=command,
                      simulator=simulator.simulator)
    try:
        run = run_core(simulator, image, seed=seed, poison=poison, observe=lockstep, **options)
    except _Different as different:
        raise _failure(different.mismatch, context, lockstep.compared, simulator.last) from None
    except SimulationError as error:
        raise simulation_failure(error, context) from error
    if lockstep.compared < max(1, must_compare):
        report = Report(checker=CHECKER, test=context.test, compared=lockstep.compared,
                        problem=f"{lockstep.compared} instructions were compared, at least "
                                f"{max(1, must_compare)} have to be.")
        raise failure(report, context)
    return run, lockstep.compared


def _failure(mismatch, context, compared, result):
    got, expected = mismatch.got, mismatch.expected
    parts = [f"{name} is {getattr(got, name):#x}, expected {getattr(expected, name):#x}"
             for name in mismatch.fields]
    report = Report(
        checker=CHECKER, test=context.test, compared=compared, differ=1, cycle=got.cycle,
        problem=f"instruction {got.order} at {got.pc_rdata:#x} ({_text(got.insn)}), committed in cycle "
                f"{got.cycle}: {'; '.join(parts) or mismatch.reason}.\n{_history(mismatch)}",
        expected=_as_dict(expected), got=_as_dict(got))
    if parts and mismatch.reason and "differ" not in mismatch.reason:
        report.problem = report.problem.replace(".\n", f"; {mismatch.reason}.\n", 1)
    return failure(report, replace(context, result=result))


def _text(word):
    return disassemble(word).replace("\t", " ")


def _as_dict(record):
    return {name: f"0x{value:x}" for name, value in record._asdict().items()}


def _history(mismatch):
    lines = [f"The last {len(mismatch.history)} commits, equal in both, then that of each:"]
    lines += [f"  both   {_line(record)}" for record in mismatch.history]
    lines += [f"  core   {_line(mismatch.got)}", f"  model  {_line(mismatch.expected)}"]
    return "\n".join(lines)


def _line(record):
    notes = []
    if record.intr:
        notes.append(f"after interrupt {record.cause & 0xFF}")
    if record.trap:
        notes.append(f"trap {record.cause}")
    if record.rd_addr:
        notes.append(f"{REGISTERS[record.rd_addr]} = 0x{record.rd_wdata:x}")
    if record.mem_rmask:
        notes.append(f"[0x{record.mem_addr:x}] gives 0x{record.mem_rdata:x} (mask {record.mem_rmask:#04x})")
    if record.mem_wmask:
        notes.append(f"[0x{record.mem_addr:x}] takes 0x{record.mem_wdata:x} (mask {record.mem_wmask:#04x})")
    if record.pc_wdata != (record.pc_rdata + 4) % (1 << 64):
        notes.append(f"to 0x{record.pc_wdata:x}")
    return (f"{record.order:>8} cycle {record.cycle:>8}  {record.pc_rdata:016x}  {record.insn:08x}  "
            f"{_text(record.insn):<32} {', '.join(notes)}").rstrip()
