"""Steps that every conversion to a floating-point format shares."""

from amaranth.hdl import C, Cat, Mux

from .stages import named

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
        The shift never exceeds this, so that an exponent stops at its minimum; at least as wide as the shift.

    Returns
    -------
    (Signal, Value)
        The shifted word and the shift taken.
    """
    width = len(value)
    steps = (width - 1 if max_shift is None else max_shift).bit_length()
    shift = []
    if limit is not None:
        # Once a step was allowed and not needed, all later ones together stay within what is left of it.
        free = named(m, f"{name}_free", limit[steps:].any())
    for step in reversed(range(steps)):
        distance = 1 << step
        take = ~value[width - distance :].any()
        if limit is not None:
            allowed = named(m, f"{name}_allows_{distance}", limit[step] | free)
        taken = named(m, f"{name}_by_{distance}", take if limit is None else take & allowed)
        if limit is not None:
            free = named(m, f"{name}_free_below_{distance}", free | (allowed & ~taken))
        moved = Cat(C(0, distance), value[: width - distance])
        value = named(m, f"{name}_{distance}", Mux(taken, moved, value))
        shift.append(taken)
    return value, Cat(*reversed(shift))


def round_nearest_even(kept, guard, sticky):
    """Rounds ``kept`` by the bits below it: ``guard`` is worth half, ``sticky`` says that more follows.

    ``kept`` may be an exponent field above a fraction: a carry out of the fraction then does what it should,
    from the largest subnormal to the smallest normal and from the largest finite number to infinity.
    Returns one bit more than ``kept``.
    """
    return kept + (guard & (sticky | kept[0]))
