"""Where the register stages of a pipeline go."""

from amaranth.hdl import Signal, Value

__all__ = ["Stages", "check_latency"]


def check_latency(latency):
    """Returns ``latency``, or raises ``ValueError`` unless it is an integer of 0 or more."""
    if not isinstance(latency, int) or isinstance(latency, bool) or latency < 0:
        raise ValueError(f"latency must be an integer of 0 or more, not {latency!r}")
    return latency


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
        """Delays each of ``values`` by the stages of ``cut``; returns signals of the same names, in order.

        With no stage at this cut the signals are combinational, and serve to name the values in a waveform.
        """
        delayed = []
        for name, value in values.items():
            value = Value.cast(value)
            for stage in range(self._depth[cut]):
                register = Signal.like(value, name=f"{name}_q{stage}", init=0, reset_less=True)
                self._m.d.sync += register.eq(value)
                value = register
            if not self._depth[cut]:
                wire = Signal.like(value, name=name, init=0)
                self._m.d.comb += wire.eq(value)
                value = wire
            delayed.append(value)
        return delayed
