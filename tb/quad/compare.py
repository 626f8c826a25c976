"""Jobs for one quad, run under Verilator and compared with exact integers."""

import functools
from dataclasses import dataclass

import numpy as np

from golden.formats import Format
from golden.matmul import MODES
from tb.build import Options, build
from tb.quad import words
from tb.quad.bench import QuadBench
from tb.simulator import Simulator
from tb.stalls import FREE

__all__ = ["Comparison", "Jobs", "exhaustive", "integers", "random_sums", "run"]

_MODE_NUMBERS = {mode: number for number, mode in enumerate(MODES)}
_STEPS = {Format.MXFP4: 2, Format.MXFP8: 512}  # one over the smallest element


def integers(codes, element_format):
    """Element codes to integers: halves for E2M1, multiples of 2^-9 for E4M3, 0 for a NaN. int64."""
    values = element_format.table[codes] * _STEPS[element_format]
    return np.where(np.isnan(values), 0, values).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Jobs:
    """Products of one mode, each added to a partial sum.

    Members: ``mode``; ``activations``, uint8 [jobs]; ``weights``, uint8 [jobs, slots]; ``sums``, int64
    [jobs, slots], to which the products are added.
    """

    mode: str
    activations: np.ndarray
    weights: np.ndarray
    sums: np.ndarray

    def expected(self):
        """int64 [jobs, slots]."""
        x_format, w_format = MODES[self.mode]
        return self.sums + integers(self.activations, x_format)[:, None] * integers(self.weights, w_format)

    def beats(self):
        """uint32 [jobs, 4]: the payloads of tb.quad.bench.Job."""
        codes = np.zeros((len(self.activations), 5), np.uint64)
        codes[:, 0] = self.activations
        codes[:, 1:1 + self.weights.shape[1]] = self.weights
        low = sum(codes[:, byte] << np.uint64(8 * byte) for byte in range(5))
        psum = words.pack(self.sums, self.mode)
        low |= np.uint64(_MODE_NUMBERS[self.mode]) << np.uint64(40) | psum << np.uint64(42)
        return np.stack([low, psum >> np.uint64(22)], axis=1).view("<u4")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Outcome of one list of jobs; ``first`` is a sentence about the first wrong sum, or None."""

    mode: str
    compared: int
    mismatches: int
    first: str | None


def exhaustive():
    """Every activation code with every weight code, in every slot: a list of Jobs, one a mode."""
    result = []
    for mode, (x_format, w_format) in MODES.items():
        x_codes, w_codes = (1 << form.element_bits for form in (x_format, w_format))
        activations, first = (axis.reshape(-1) for axis in np.mgrid[0:x_codes, 0:w_codes])
        # Different codes stand in the slots of a job, and each code comes to stand in each slot.
        weights = (first[:, None] + 5 * np.arange(words.slots(mode))) % w_codes
        result.append(Jobs(mode=mode, activations=activations.astype(np.uint8),
                           weights=weights.astype(np.uint8), sums=np.zeros(weights.shape, np.int64)))
    return result


def random_sums(mode, count, seed):
    """``count`` jobs with large products of all signs on sums at and near the bounds of their segments."""
    rng = np.random.default_rng(seed)
    x_format, w_format = MODES[mode]
    slots = words.slots(mode)

    def codes(form, shape):
        magnitude = rng.choice([form.max_code, form.max_code - 1, 1, 0, *range(form.max_code + 1)], shape)
        return (magnitude | form.sign_mask * rng.integers(0, 2, shape)).astype(np.uint8)

    activations, weights = codes(x_format, count), codes(w_format, (count, slots))
    products = integers(activations, x_format)[:, None] * integers(weights, w_format)
    low, high = words.bounds(mode)
    near = rng.integers(0, 4, (count, slots))
    kind = rng.integers(0, 5, (count, slots))
    # The new sum at or near a bound; the old one; around zero, where carries and borrows run through; any.
    sums = np.select([kind == 0, kind == 1, kind == 2, kind == 3],
                     [high - near - products, low + near - products, near - 2 - products, near - 2],
                     rng.integers(low, high + 1, (count, slots)))
    sums = np.clip(sums, low - np.minimum(products, 0), high - np.maximum(products, 0))
    return Jobs(mode=mode, activations=activations, weights=weights, sums=sums)


@functools.cache
def _bench(product_latency):
    component = QuadBench(product_latency=product_latency)
    return build(component, name=component.module_name, options=Options(optimise="-O1"))


def run(jobs, *, product_latency=1, stalls=FREE, seed=1):
    """Run a list of Jobs one after the other.

    Returns
    -------
    list[Comparison]
        One for each of ``jobs``. Every slot of every job is compared, and its guard bits with zero.
    """
    inputs = np.concatenate([part.beats() for part in jobs])
    with Simulator(_bench(product_latency)) as simulator:
        result = simulator.run({"i": inputs}, {"o": len(inputs)}, stalls=stalls, seed=seed)
    psums = np.ascontiguousarray(result.outputs["o"]).view("<u8").reshape(-1)
    if len(psums) != len(inputs):
        raise ValueError(f"{len(inputs)} jobs gave {len(psums)} sums")
    ends = np.cumsum([len(part.activations) for part in jobs])[:-1]
    return [_compared(part, got) for part, got in zip(jobs, np.split(psums, ends), strict=True)]


def _compared(jobs, psums):
    expected, got = jobs.expected(), words.unpack(psums, jobs.mode)
    wrong = (got != expected) | (words.guards(psums, jobs.mode) != 0)[:, None]
    first = None
    if wrong.any():
        job, slot = np.argwhere(wrong)[0]
        first = (f"{jobs.mode}: job {job}, slot {slot}: activation code {jobs.activations[job]:#04x}, "
                 f"weight code {jobs.weights[job, slot]:#04x}, on {jobs.sums[job, slot]}: got "
                 f"{got[job, slot]} instead of {expected[job, slot]} (word {psums[job]:#018x})")
    return Comparison(mode=jobs.mode, compared=wrong.size, mismatches=int(wrong.sum()), first=first)
