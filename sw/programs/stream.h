/* Frame of the streams: arrays far larger than the caches, so that the pass goes to memory; -DBYTES=N. */
#pragma once

#include <stdio.h>

#include "core.h"

#ifndef BYTES
#define BYTES 131072
#endif
#define WORDS ((long)(BYTES / 8))

static volatile uint64_t source_[WORDS] __attribute__((aligned(4096)));
static volatile uint64_t target_[WORDS] __attribute__((aligned(4096)));
#define source ((uint64_t *)source_)
#define target ((uint64_t *)target_)

static inline int measure_stream(pass_t *pass, int (*check)(void))
{
    for (long i = 0; i < WORDS; ++i)
        source[i] = 3 * (uint64_t)i + 5;
    __asm__ volatile("" : : : "memory");
    events_begin();
    uint64_t instret = READ_CSR(minstret), cycle = READ_CSR(mcycle);
    pass();
    __asm__ volatile("" : : : "memory");
    cycle = READ_CSR(mcycle) - cycle;
    instret = READ_CSR(minstret) - instret;
    events_end();
    printf(STREAM " %lu %lu\n", (unsigned long)cycle, (unsigned long)instret);
    events_print(STREAM);
    if (check()) {
        printf(STREAM ": the data are wrong\n");
        return 1;
    }
    return 0;
}
