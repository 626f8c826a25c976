"""Named intermediate values, and where the register stages of a pipeline go."""

from amaranth.hdl import Signal, Value

__all__ = ["Stages", "check_latency", "named"]


def check_latency(latency):
    """Returns ``latency``, or raises ``ValueError`` unless it is an integer of 0 or more."""
    if not isinstance(latency, int) or isinstance(latency, bool) or latency < 0:
        raise ValueError(f"latency must be an integer of 0 or more, not {latency!r}")
    return latency


def named(m, name, value):
    """Signal ``name`` that carries ``value``.

    Amaranth writes an expression out again wherever it is used: what is used twice gets a name, which a
    waveform shows as well.
    """
    value = Value.cast(value)
    signal = Signal.like(value, name=name, init=0)
    m.d.comb += signal.eq(value)
    return signal


class Stages:
    """Spreads ``latency`` register stages over the cuts of a pipeline.

    The first stage goes to the first cut named, the second to the second, and so on; every stage beyond the
    last cut named goes to that last cut, where synthesis may retime it. Registers have no reset and no
    enable: nobody looks at what they hold before the first valid input, and both cost simulation speed.

    Parameters
    ----------
    m : Module
        Receives the registers, in domain ``sync``.
    latency : int
        Number of register stages in all.
    cuts : sequence of str
        Names of the cuts, the most useful first.
    """

    def __init__(self, m, *, latency, cuts):
        self._m = m
        self._depth = dict.fromkeys(cuts, 0)
        for index in range(latency):
            self._depth[cuts[min(index, len(cuts) - 1)]] += 1

    def cut(self, cut, **values):
        """Delays each of ``values`` by the stages of ``cut``; returns signals ``<cut>_<name>``, in order.

        With no stage at this cut they are combinational. Registers before the last have ``_before`` in their
        name, once for each stage that follows.
        """
        delayed = []
        for name, value in values.items():
            value = Value.cast(value)
            for following in reversed(range(self._depth[cut])):
                suffix = "_before" * following
                register = Signal.like(value, name=f"{cut}_{name}{suffix}", init=0, reset_less=True)
                self._m.d.sync += register.eq(value)
                value = register
            if not self._depth[cut]:
                value = named(self._m, f"{cut}_{name}", value)
            delayed.append(value)
        return delayed
