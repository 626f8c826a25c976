"""Reading of wave files (FST, VCD): names, widths and values of signals over time in clock cycles."""

from pathlib import Path

import pywellen

__all__ = ["PERIOD", "Wave"]

PERIOD = 1000  # time units (ps) a clock cycle; cycle n lasts from n * PERIOD to the next (dpi/main.cc)


class Wave:
    """An open wave file.

    Parameters
    ----------
    path : path

    Raises
    ------
    ValueError
        It is not there or not a wave file.
    """

    def __init__(self, path):
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"wave file {path} does not exist")
        try:
            self._waveform = pywellen.Waveform(str(path))
            variables = self._waveform.all_vars()
        except Exception as error:  # pywellen raises its own and Rust's errors
            raise ValueError(f"{path} cannot be read as a wave file: {error}") from None
        self._variables = {variable.full_name: variable for variable in variables}

    @property
    def names(self):
        """Full names of all signals, in the order of the file."""
        return list(self._variables)

    def width(self, name):
        """Bits of the signal ``name``, or None where it has no bits (a string)."""
        return self._variable(name).bitwidth

    def is_parameter(self, name):
        """Whether ``name`` is a constant of the source text."""
        return "param" in str(self._variable(name).type).lower()

    def changes(self, name):
        """List of (time, value) of ``name``; values are int, or str where there are unknown bits."""
        return list(self._variable(name).signal)

    def value(self, name, cycle):
        """Value of ``name`` during ``cycle``, or None before the file begins."""
        return self._variable(name).signal.value_at(cycle * PERIOD + PERIOD // 4)

    def _variable(self, name):
        try:
            return self._variables[name]
        except KeyError:
            raise ValueError(f"wave file {self.path} has no signal {name!r}") from None
