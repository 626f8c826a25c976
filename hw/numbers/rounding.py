"""Steps that every conversion to a floating-point format shares."""

from amaranth.hdl import Cat, Mux, Signal

__all__ = ["normalise", "round_nearest_even"]


def normalise(m, value, *, limit=None, max_shift=None, name="normalise"):
    """Shifts ``value`` left until its top bit is set.

    A logarithmic shifter on whole words: each step tests the top bits of the word and moves the word, which
    costs a simulator three operations a step and needs no leading-zero counter in front of the shifter.

    Parameters
    ----------
    value : Value, unsigned
        What to shift. The shift is at most ``max_shift`` (default: its width minus 1), rounded up to 2^n - 1.
    limit : Value, unsigned or None
        The shift never exceeds this, so that an exponent stops at its minimum.

    Returns
    -------
    (Signal, Value)
        The shifted word and the shift taken.
    """
    width = len(value)
    steps = (width - 1 if max_shift is None else max_shift).bit_length()
    if limit is not None:
        # Once a step was within the limit and not needed, the rest is smaller than what remains of the limit.
        free = limit[steps:].any() if len(limit) > steps else None
    shift = []
    for step in reversed(range(steps)):
        distance = 1 << step
        take = ~value[max(width - distance, 0):].any()
        if limit is not None:
            within = limit[step] if step < len(limit) else None
            allowed = free if within is None else within if free is None else within | free
            still_free = None if allowed is None else allowed & ~take
            take = 0 if allowed is None else take & allowed
            if still_free is not None and within is not None:
                free = still_free if free is None else free | still_free
        taken = Signal(name=f"{name}_by_{distance}")
        word = Signal(width, name=f"{name}_{distance}")
        m.d.comb += [
            taken.eq(take),
            word.eq(Mux(taken, value << distance, value)),
        ]
        value = word
        shift.append(taken)
    return value, Cat(*reversed(shift))


def round_nearest_even(kept, guard, sticky):
    """Rounds ``kept`` by the bits below it: ``guard`` is worth half, ``sticky`` says that more follows.

    ``kept`` may be an exponent field above a fraction: a carry out of the fraction then does what it should,
    from the largest subnormal to the smallest normal and from the largest finite number to infinity.
    Returns one bit more than ``kept``.
    """
    return kept + (guard & (sticky | kept[0]))
