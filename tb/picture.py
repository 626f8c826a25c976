"""Pictures (PNG) of a few signals of a wave file around one cycle."""

from tb.wave import PERIOD, Wave

__all__ = ["draw"]


def draw(path, wave, signals, *, cycle, before=12, after=8, title=None):
    """Draw ``signals`` as a waveform picture.

    Parameters
    ----------
    path : path
        PNG file to write.
    wave : path
    signals : list[tb.views.Signal]
    cycle : int
        Marked by a line; ``before`` and ``after`` say how many cycles are shown around it.
    title : str, optional

    Raises
    ------
    ValueError
        There is no signal, or one is not in the wave.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not signals:
        raise ValueError("a picture needs at least one signal")
    source = Wave(wave)
    start, end = max(cycle - before, 0), cycle + after + 1
    figure = Figure(figsize=(12, 0.42 * len(signals) + 1.0), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for row, signal in enumerate(signals):
        pieces = _pieces(source.changes(signal.name), start * PERIOD, end * PERIOD)
        y = len(signals) - row
        if signal.width == 1:
            _draw_bit(axes, pieces, y)
        else:
            _draw_word(axes, pieces, y, signal, end - start)
    axes.axvline(cycle, color="tab:red", linewidth=1.2)
    axes.set_yticks([len(signals) - row + 0.3 for row in range(len(signals))],
                    [_short(signal.name) for signal in signals], family="monospace", fontsize=8)
    axes.set_xlim(start, end)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0.8, len(signals) + 1)
    axes.set_xlabel("cycle", fontsize=8)
    axes.tick_params(labelsize=8, length=2)
    axes.grid(axis="x", color="0.9")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if title:
        axes.set_title(title, fontsize=9, loc="left")
    figure.tight_layout()
    figure.savefig(path)
    return path


def _pieces(changes, start, end):
    """(from, to, value) in cycles of the part between two times; value None where nothing is known."""
    pieces, begin, value = [], start, None
    for time, new in changes:
        if time <= start:
            value = new
            continue
        if time >= end:
            break
        pieces.append((begin / PERIOD, time / PERIOD, value))
        begin, value = time, new
    pieces.append((begin / PERIOD, end / PERIOD, value))
    return pieces


def _draw_bit(axes, pieces, y):
    xs, ys = [], []
    for begin, end, value in pieces:
        level = y + (0.6 if _as_int(value) else 0.0)
        xs += [begin, end]
        ys += [level, level]
    axes.plot(xs, ys, color="tab:blue", linewidth=1)


def _draw_word(axes, pieces, y, signal, span):
    for begin, end, value in pieces:
        slope = min(0.08, (end - begin) / 3)
        axes.fill([begin, begin + slope, end - slope, end, end - slope, begin + slope],
                  [y + 0.3, y + 0.6, y + 0.6, y + 0.3, y, y], facecolor="0.97", edgecolor="tab:blue",
                  linewidth=0.8)
        text = _format(value, signal)
        room = int((end - begin) / span * 110)
        if room >= 2:
            shown = text if len(text) <= room else text[:max(room - 1, 1)] + "…"
            axes.text((begin + end) / 2, y + 0.28, shown, ha="center", va="center", fontsize=7,
                      family="monospace", clip_on=True)


def _as_int(value):
    if isinstance(value, str):
        return int(value, 2) if set(value) <= {"0", "1"} else 0
    return int(value or 0)


def _format(value, signal):
    if value is None:
        return "?"
    number = _as_int(value)
    if signal.radix == "dec":
        return str(number)
    if signal.radix == "sdec":
        return str(number - (1 << signal.width) if number >> (signal.width - 1) else number)
    if signal.radix == "bin":
        return f"{number:0{signal.width}b}"
    return f"{number:0{-(-signal.width // 4)}x}"


def _short(name):
    return name.removeprefix("bench.").removeprefix("dut.")
