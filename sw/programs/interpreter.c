/* A small interpreter: byte code for a stack machine, dispatched by a switch; it counts prime numbers. */
#include "core.h"

enum { PUSH, LOAD, STORE, ADD, SUB, MUL, MOD, LESS, EQUAL, JUMP, JUMP_IF_NOT, HALT };

#define LIMIT 90

/* for (n = 2; n < LIMIT; ++n) { for (d = 2; n >= d * d; ++d) if (n % d == 0) goto next; ++count; next:; } */
enum { NUMBER, DIVISOR, PRIMES };
static const uint8_t code[] = {
    PUSH, 0, STORE, PRIMES,                          /*  0 */
    PUSH, 2, STORE, NUMBER,                          /*  4 */
    LOAD, NUMBER, PUSH, LIMIT, LESS,                 /*  8 */
    JUMP_IF_NOT, 63,                                 /* 13 */
    PUSH, 2, STORE, DIVISOR,                         /* 15 */
    LOAD, NUMBER, LOAD, DIVISOR, LOAD, DIVISOR, MUL, /* 19 */
    LESS, JUMP_IF_NOT, 31, JUMP, 47,                 /* 26 */
    LOAD, NUMBER, LOAD, DIVISOR, MOD,                /* 31 */
    JUMP_IF_NOT, 54,                                 /* 36 */
    PUSH, 1, LOAD, DIVISOR, ADD, STORE, DIVISOR,     /* 38 */
    JUMP, 19,                                        /* 45 */
    PUSH, 1, LOAD, PRIMES, ADD, STORE, PRIMES,       /* 47: a prime */
    PUSH, 1, LOAD, NUMBER, ADD, STORE, NUMBER,       /* 54: next */
    JUMP, 8,                                         /* 61 */
    LOAD, PRIMES, HALT,                              /* 63 */
};

static uint64_t run(const uint8_t *program)
{
    int64_t stack[16], variables[4] = {0};
    int64_t *top = stack;
    for (const uint8_t *pc = program;;) {
        switch (*pc++) {
        case PUSH: *top++ = *pc++; break;
        case LOAD: *top++ = variables[*pc++]; break;
        case STORE: variables[*pc++] = *--top; break;
        case ADD: --top; top[-1] += *top; break;
        case SUB: --top; top[-1] -= *top; break;
        case MUL: --top; top[-1] *= *top; break;
        case MOD: --top; top[-1] %= *top; break;
        case LESS: --top; top[-1] = top[-1] < *top; break;
        case EQUAL: --top; top[-1] = top[-1] == *top; break;
        case JUMP: pc = program + *pc; break;
        case JUMP_IF_NOT: pc = *--top ? pc + 1 : program + *pc; break;
        default: return (uint64_t)top[-1];
        }
    }
}

static uint64_t pass(void)
{
    return run(code);
}

int main(void)
{
    return measure("interpreter", 0, pass, 24);
}
