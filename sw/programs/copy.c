/* Copies an array in memory by doublewords: reads and writes at the rate of the memory. */
#define STREAM "copy"
#include "stream.h"

static uint64_t pass(void)
{
    for (long i = 0; i < WORDS; i += 8) {
        uint64_t a = source[i], b = source[i + 1], c = source[i + 2], d = source[i + 3];
        uint64_t e = source[i + 4], f = source[i + 5], g = source[i + 6], h = source[i + 7];
        target[i] = a;
        target[i + 1] = b;
        target[i + 2] = c;
        target[i + 3] = d;
        target[i + 4] = e;
        target[i + 5] = f;
        target[i + 6] = g;
        target[i + 7] = h;
    }
    return 1;
}

static int check(void)
{
    for (long i = 0; i < WORDS; i += 37) {
        if (target[i] != source[i])
            return 1;
    }
    return 0;
}

int main(void)
{
    return measure_stream(pass, check);
}
