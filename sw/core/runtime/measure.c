/* The frame of a benchmark: a warm-up pass, then a measured one; and the events that are counted meanwhile. */
#include <stdio.h>

#include "core.h"

/* Numbers of the events: docs/core-csrs.md. All counters but mcycle and minstret stand still outside. */
void events_begin(void)
{
    WRITE_CSR(mcountinhibit, ~7ul);
    WRITE_CSR(mhpmevent3, 11); /* branches */
    WRITE_CSR(mhpmevent4, 12); /* mispredicts */
    WRITE_CSR(mhpmevent5, 17); /* load_miss */
    WRITE_CSR(mhpmevent6, 16); /* icache_miss */
    WRITE_CSR(mhpmevent7, 1);  /* no_commit_frontend */
    WRITE_CSR(mhpmevent8, 2);  /* no_commit_execute */
    WRITE_CSR(mhpmevent9, 3);  /* no_commit_load */
    WRITE_CSR(mhpmevent10, 4); /* no_commit_store */
    WRITE_CSR(mhpmcounter3, 0);
    WRITE_CSR(mhpmcounter4, 0);
    WRITE_CSR(mhpmcounter5, 0);
    WRITE_CSR(mhpmcounter6, 0);
    WRITE_CSR(mhpmcounter7, 0);
    WRITE_CSR(mhpmcounter8, 0);
    WRITE_CSR(mhpmcounter9, 0);
    WRITE_CSR(mhpmcounter10, 0);
    WRITE_CSR(mcountinhibit, 0);
}

void events_end(void)
{
    WRITE_CSR(mcountinhibit, ~7ul);
}

void events_print(const char *name)
{
    uint64_t counts[] = {READ_CSR(mhpmcounter3), READ_CSR(mhpmcounter4), READ_CSR(mhpmcounter5),
                         READ_CSR(mhpmcounter6), READ_CSR(mhpmcounter7), READ_CSR(mhpmcounter8),
                         READ_CSR(mhpmcounter9), READ_CSR(mhpmcounter10)};

    printf("%s events", name);
    for (int i = 0; i < 8; ++i)
        printf(" %lu", (unsigned long)counts[i]);
    printf("\n");
}

int measure(const char *name, void (*prepare)(void), pass_t *pass, uint64_t expected)
{
    uint64_t results[2], cycles = 0, instructions = 0;

    for (int i = 0; i < 2; ++i) {
        if (prepare)
            prepare();
        events_begin();
        uint64_t instret = READ_CSR(minstret);
        uint64_t cycle = READ_CSR(mcycle);
        results[i] = pass();
        cycles = READ_CSR(mcycle) - cycle;
        instructions = READ_CSR(minstret) - instret;
        events_end();
    }
    printf("%s %lu %lu\n", name, (unsigned long)cycles, (unsigned long)instructions);
    events_print(name);
    for (int i = 0; i < 2; ++i) {
        if (results[i] != expected) {
            printf("%s: pass %d computed 0x%lx, expected 0x%lx\n", name, i, (unsigned long)results[i],
                   (unsigned long)expected);
            return 1;
        }
    }
    return 0;
}
