"""Machine mode: CSRs, traps, interrupts, counters; the timer beside them."""
