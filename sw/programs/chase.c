/* Pointer chase through a ring of lines in random order: each load waits for the one before. -DLINES=N:
   few lines stay in the L1 (latency of a hit), many do not (latency of the memory). */
#include "core.h"

#ifndef LINES
#define LINES 2048
#endif
#ifndef STEPS
#define STEPS 2048
#endif

struct line {
    struct line *next;
    uint64_t rest[7];
};

static struct line lines[LINES] __attribute__((aligned(64)));

/* Sattolo's shuffle: one ring. */
static void prepare(void)
{
    uint64_t state = 99;
    for (long i = 0; i < LINES; ++i)
        lines[i].next = &lines[i];
    for (long i = LINES - 1; i > 0; --i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        long other = (long)((state >> 33) % (uint64_t)i);
        struct line *kept = lines[i].next;
        lines[i].next = lines[other].next;
        lines[other].next = kept;
    }
}

static uint64_t pass(void)
{
    struct line *at = lines;
    for (long i = 0; i < STEPS; i += 8) {
        at = at->next;
        at = at->next;
        at = at->next;
        at = at->next;
        at = at->next;
        at = at->next;
        at = at->next;
        at = at->next;
    }
    return (STEPS % LINES ? at != lines : at == lines) ? 1 : 0;
}

int main(void)
{
    return measure("chase", prepare, pass, 1);
}
