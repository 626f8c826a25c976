/* Reads an array from memory by doublewords. */
#define STREAM "read"
#include "stream.h"

static uint64_t total;

static uint64_t pass(void)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (long i = 0; i < WORDS; i += 8) {
        a += source[i] + source[i + 1];
        b += source[i + 2] + source[i + 3];
        c += source[i + 4] + source[i + 5];
        d += source[i + 6] + source[i + 7];
    }
    total = a + b + c + d;
    return 1;
}

static int check(void)
{
    return total != (uint64_t)WORDS * (WORDS - 1) / 2 * 3 + (uint64_t)WORDS * 5;
}

int main(void)
{
    return measure_stream(pass, check);
}
