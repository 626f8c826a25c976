"""What became of the instructions of a run in each cycle, and a picture of it with the memory's requests."""

from dataclasses import dataclass

from golden.riscv.disassemble import disassemble

from .pipe import PIPE, Stage

__all__ = ["Flight", "draw_timelines", "flights"]

COLOURS = {"waits": "#c8d3e0", "runs": "#e8963c", "done": "#8bb38b", "memory": "#5b7fae"}
WORDS = {"waits": "in a queue", "runs": "issued, value not there yet", "done": "done, waits to commit",
         "memory": "line on its way from the memory"}


@dataclass(kw_only=True)
class Flight:
    """An instruction that committed: the cycles in which it was dispatched, issued, done and left."""

    pc: int
    word: int
    age: int
    dispatched: int
    issued: int | None = None
    done: int | None = None
    left: int | None = None

    def spans(self):
        """(name, first cycle, end) of each stage that it was in."""
        marks = [self.dispatched, self.issued, self.done, self.left]
        for name, start, *later in zip(("waits", "runs", "done"), marks, marks[1:], marks[2:] + [None]):
            ends = [mark for mark in later if mark is not None]
            if start is not None:
                yield name, start, ends[0] if ends else self.left


def flights(events):
    """The instructions that committed, in order, of ``events`` (array of tb.core.pipe.PIPE)."""
    if events.dtype != PIPE:
        raise ValueError(f"events: dtype is {events.dtype}, must be PIPE")
    flying, gone = [], []
    for cycle, pc, word, age, stage in events.tolist():
        if stage == Stage.DISPATCHED:
            flying.append(Flight(pc=pc, word=word, age=age, dispatched=cycle))
        elif stage in (Stage.ISSUED, Stage.DONE):
            for one in flying:
                if one.age == age:
                    name = "issued" if stage == Stage.ISSUED else "done"
                    if getattr(one, name) is None:
                        setattr(one, name, cycle)
        elif stage == Stage.COMMITTED:
            for one in flying[:age]:
                one.left = cycle
            gone += flying[:age]
            del flying[:age]
        elif stage == Stage.KILL:
            while flying and flying[-1].age != age:
                flying.pop()
        else:
            flying.clear()
    return gone


def draw_timelines(path, panels):
    """Draw a PNG file: under each other the ``panels``, (title, flights, requests of the memory) each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    counts = [len(shown) + len(requests) for _, shown, requests in panels]
    figure = Figure(figsize=(11, 0.2 * sum(counts) + 1.0 * len(panels) + 0.4), dpi=110)
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(panels), 1, squeeze=False, height_ratios=counts)
    for axes, (title, shown, requests) in zip(rows[:, 0], panels):
        _draw(axes, title, shown, requests)
    figure.legend(handles=[Patch(color=COLOURS[name], label=WORDS[name]) for name in COLOURS],
                  loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(path)
    return path


def _draw(axes, title, shown, requests):
    start = shown[0].dispatched
    names = []
    for row, one in enumerate(shown):
        names.append(disassemble(one.word).replace("\t", " "))
        for name, first, end in one.spans():
            axes.barh(row, max(end - first, 1), left=first - start, color=COLOURS[name], height=0.8)
    for row, request in enumerate(requests, len(shown)):
        names.append(f"line {request['line']:#x}")
        axes.barh(row, request["answered"] - request["taken"], left=request["taken"] - start,
                  color=COLOURS["memory"], height=0.8)
    axes.set_yticks(range(len(names)), names, family="monospace", fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("cycle", fontsize=8)
    axes.tick_params(labelsize=7, length=2)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left")
