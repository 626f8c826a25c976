"""Programs for the slice core: compiler, start-up code, C library, and what an executable file holds."""
