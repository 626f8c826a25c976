/* Fills an array in memory by doublewords. */
#define STREAM "fill"
#include "stream.h"

static uint64_t pass(void)
{
    uint64_t value = 0x0123456789ABCDEF;
    OPAQUE(value);
    for (long i = 0; i < WORDS; i += 8) {
        target[i] = value;
        target[i + 1] = value;
        target[i + 2] = value;
        target[i + 3] = value;
        target[i + 4] = value;
        target[i + 5] = value;
        target[i + 6] = value;
        target[i + 7] = value;
    }
    return 1;
}

static int check(void)
{
    for (long i = 0; i < WORDS; i += 37) {
        if (target[i] != 0x0123456789ABCDEF)
            return 1;
    }
    return 0;
}

int main(void)
{
    return measure_stream(pass, check);
}
