"""Jobs of awkward shapes: sizes on both sides of every boundary, nothing at all, and the longest sums."""

import numpy as np

from golden.matmul import MODES

from .operands import KINDS, largest_job, random_job

__all__ = ["SIZES", "corner_jobs", "mixed_jobs"]

SIZES = (1, 3, 31, 32, 33, 63, 64, 65, 161, 172)


def mixed_jobs(mode, seed):
    """One hundred jobs: every pair of sizes for (M, N), (N, K) and (M, K). Every fourth one has a C."""
    rng = np.random.default_rng([seed, list(MODES).index(mode)])
    count = len(SIZES)
    jobs = []
    for i in range(count):
        for j in range(count):
            # A Latin square: (i + j) mod 10 makes each pair of axes meet in each combination.
            m, n, k = SIZES[i], SIZES[j], SIZES[(i + j) % count]
            kind = KINDS[(i + 3 * j) % len(KINDS)]
            jobs.append(random_job(rng, m, n, k, mode, kind=kind, c=(i + j) % 4 == 3))
    return jobs


def corner_jobs(mode, seed, *, m=5, n=7, longest=16_384):
    """M, N or K of 0 with and without C; special values of C; the largest sums of both signs, long in K."""
    rng = np.random.default_rng([seed, 100 + list(MODES).index(mode)])
    jobs = [random_job(rng, *shape, mode, c=c) for c in (False, True)
            for shape in ((m, n, 0), (0, n, 40), (m, 0, 40), (0, 0, 0), (1, 1, 0), (0, n, 0), (m, 0, 0))]
    jobs += [random_job(rng, m, n, 33, mode, kind=kind, c=True) for kind in KINDS]
    jobs.append(largest_job(2, 2, longest, mode))
    return jobs
