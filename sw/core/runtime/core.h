/* What programs for the slice core use: devices, control registers, and the frame of a measurement. */
#pragma once

#include <stdint.h>

#define HOST 0x10000000ul
#define HOST_CONSOLE (*(volatile uint8_t *)(HOST + 0))
#define HOST_EXIT (*(volatile uint64_t *)(HOST + 8))
#define HOST_WITHDRAW (*(volatile uint64_t *)(HOST + 24))

#define CLINT 0x02000000ul
#define CLINT_MSIP (*(volatile uint32_t *)(CLINT + 0))
#define CLINT_MTIMECMP (*(volatile uint64_t *)(CLINT + 0x4000))
#define CLINT_MTIME (*(volatile uint64_t *)(CLINT + 0xBFF8))

#define READ_CSR(name) \
    ({ uint64_t value_; __asm__ volatile("csrr %0, " #name : "=r"(value_) : : "memory"); value_; })
#define WRITE_CSR(name, value) __asm__ volatile("csrw " #name ", %0" : : "r"((uint64_t)(value)) : "memory")

static inline void host_put(char character)
{
    HOST_CONSOLE = (uint8_t)character;
}

/* The compiler knows nothing about a value that has been through here. */
#define OPAQUE(value) __asm__ volatile("" : "+r"(value) : : "memory")

/* A pass of a benchmark: sets its data up itself, returns what it has computed. */
typedef uint64_t pass_t(void);

/* What is counted beside cycles and instructions from begin to end: branches and JALR, mispredicted ones, loads
   that missed the L1 (each try), instruction fetches that missed, and the cycles that committed nothing because
   of the front end, execution, a load, a store. Printed in this order after "name events". */
void events_begin(void);
void events_end(void);
void events_print(const char *name);

/* Runs a pass to warm the caches up, then measures a second one. Prints "name cycles instructions"
   and the events; returns 0 if both computed `expected`, else 1: what main() returns. */
int measure(const char *name, void (*prepare)(void), pass_t *pass, uint64_t expected);
