/* The frame of a benchmark: a warm-up pass, then a measured one. */
#include <stdio.h>

#include "core.h"

int measure(const char *name, void (*prepare)(void), pass_t *pass, uint64_t expected)
{
    uint64_t results[2], cycles = 0, instructions = 0;

    for (int i = 0; i < 2; ++i) {
        if (prepare)
            prepare();
        uint64_t instret = READ_CSR(minstret);
        uint64_t cycle = READ_CSR(mcycle);
        results[i] = pass();
        cycles = READ_CSR(mcycle) - cycle;
        instructions = READ_CSR(minstret) - instret;
    }
    printf("%s %lu %lu\n", name, (unsigned long)cycles, (unsigned long)instructions);
    for (int i = 0; i < 2; ++i) {
        if (results[i] != expected) {
            printf("%s: pass %d computed 0x%lx, expected 0x%lx\n", name, i, (unsigned long)results[i],
                   (unsigned long)expected);
            return 1;
        }
    }
    return 0;
}
