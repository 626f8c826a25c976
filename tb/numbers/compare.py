"""Random vectors through the Verilated pipelines, compared bit for bit with NumPy and golden."""

import functools
from dataclasses import dataclass

import numpy as np

from golden import binary32
from golden.formats import Format, quantise
from tb.build import Options, build
from tb.numbers.bench import SUM_WIDTHS, NumbersBench
from tb.numbers.vectors import ADDITION_CLASSES, BLOCK_CLASSES, SUM_CLASSES, additions, blocks, class_of, sums
from tb.simulator import Simulator
from tb.stalls import FREE

__all__ = ["Comparison", "compare"]

OUTPUT_BYTES = 33  # of the quantiser: 32 bytes of codes, the scale


@dataclass(frozen=True, kw_only=True)
class Job:
    """Vectors of one operation: what goes in, what must come out, and how to say it."""

    operation: str
    inputs: np.ndarray  #: uint32 [count, words a beat]
    expected: np.ndarray  #: uint8 [count, bytes of the output]
    classes: dict

    def describe(self, index, got):
        """Sentence about the wrong vector ``index``."""
        words = " ".join(f"{word:08x}" for word in self.inputs[index])
        return (f"{self.operation}: vector {index} of class '{class_of(self.classes, index)}', input words "
                f"{words}, gave {got[::-1].tobytes().hex()} instead of "
                f"{self.expected[index][::-1].tobytes().hex()}")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Outcome of one operation; ``first`` is a sentence about the first wrong vector, or None."""

    operation: str
    compared: int
    mismatches: int
    first: str | None
    cycles: int


def compare(*, additions, conversions, quantisations, latency=2, seed=1, stalls=FREE):
    """Run and compare.

    Parameters
    ----------
    additions : int
        Pairs of binary32.
    conversions : int
        Block sums of each width.
    quantisations : int
        Blocks of 32 values, half of them to each format.
    latency : int
        Of every pipeline.
    seed : int
        Of vectors and stalls.
    stalls : tb.stalls.Stalls
        On every stream.

    Returns
    -------
    list[Comparison]
        One for each operation. Every output of a run is compared; a run that gives fewer or more fails.
    """
    jobs = _jobs(additions, conversions, quantisations, seed)
    with Simulator(_bench(latency)) as simulator:
        result = simulator.run(
            {f"{job.operation}_i": job.inputs for job in jobs},
            {f"{job.operation}_o": len(job.inputs) for job in jobs},
            stalls=stalls, seed=seed,
        )
    return [_compared(job, result) for job in jobs]


@functools.cache
def _bench(latency):
    component = NumbersBench(latency=latency)
    # The run takes seconds and the quantiser is large: -O1 saves more in the build than it costs there.
    return build(component, name=component.module_name, options=Options(optimise="-O1"))


def _compared(job, result):
    got = result.outputs[f"{job.operation}_o"][:, : job.expected.shape[1]]
    if got.shape != job.expected.shape:
        raise ValueError(f"{job.operation}: got outputs of shape {got.shape}; expected {job.expected.shape}")
    wrong = np.flatnonzero((got != job.expected).any(axis=1))
    first = job.describe(int(wrong[0]), got[wrong[0]]) if len(wrong) else None
    return Comparison(operation=job.operation, compared=len(got), mismatches=len(wrong), first=first,
                      cycles=result.streams[f"{job.operation}_o"].last + 1)


def _jobs(addition_count, conversion_count, quantisation_count, seed):
    # A generator for each operation: the vectors of one do not depend on how many another has.
    keys = ["add", *SUM_WIDTHS, "quantise"]
    random = dict(zip(keys, np.random.default_rng(seed).spawn(len(keys)), strict=True))
    jobs = []
    if addition_count:
        jobs.append(_addition_job(random["add"], addition_count))
    if conversion_count:
        jobs += [_conversion_job(random[width], conversion_count, width) for width in SUM_WIDTHS]
    if quantisation_count:
        jobs.append(_quantisation_job(random["quantise"], quantisation_count))
    return jobs


def _bytes(words):
    return words.astype("<u4").view(np.uint8).reshape(len(words), -1)


def _addition_job(rng, count):
    pairs = additions(rng, count)
    expected = binary32.bits(binary32.add(*binary32.from_bits(pairs.T)))
    return Job(operation="add", inputs=pairs, expected=_bytes(expected), classes=ADDITION_CLASSES)


def _conversion_job(rng, count, width):
    values, exponents, nan = sums(rng, count, width)
    expected = binary32.bits(binary32.sum_to_float32(values, exponents, nan))
    beats = ((values & ((1 << width) - 1)) | ((exponents & 0x3FF) << width)
             | (nan.astype(np.int64) << (width + 10))).astype("<u8")
    words = beats.view("<u4").reshape(count, 2)[:, : -(-(width + 11) // 32)]
    return Job(operation=f"sum{width}", inputs=np.ascontiguousarray(words), expected=_bytes(expected),
               classes=SUM_CLASSES)


def _quantisation_job(rng, count):
    values = blocks(rng, count)
    is_mxfp8 = rng.integers(0, 2, count).astype(bool)
    expected = np.zeros((count, OUTPUT_BYTES), np.uint8)
    for chosen, mx_format in ((~is_mxfp8, Format.MXFP4), (is_mxfp8, Format.MXFP8)):
        tensor = quantise(values[chosen].view(np.float32), mx_format)
        packed = tensor.pack()[:, 0]
        expected[np.flatnonzero(chosen)[:, None], np.arange(packed.shape[1])] = packed
        expected[chosen, -1] = tensor.scales[:, 0]
    words = np.concatenate([values, is_mxfp8[:, None].astype(np.uint32)], axis=1)
    return Job(operation="quantise", inputs=words, expected=expected, classes=BLOCK_CLASSES)
