// Tables exchanged with Python (tb/protocol.py holds the same layouts as NumPy dtypes; the sizes of both are
// compared when a simulation starts). Little-endian, no implicit padding, times in clock cycles.
#pragma once

#include <cstdint>

namespace bench {

enum Outcome : int32_t {
    RUNNING = 0,
    DONE = 1,       // every sink that must has its beats (and the sources are drained, where asked)
    HUNG = 2,       // no stream moved for `watchdog` cycles
    LIMIT = 3,      // `max_cycles` reached
    WALL = 4,       // `wall_seconds` reached
    VIOLATION = 5,  // a stream of the design broke the ready/valid protocol
    SURPLUS = 6,    // a stream gave more beats than it may
    DEVICE = 7,     // a model of a device beside the design stopped the run, with a sentence
};

enum Violation : int32_t { NONE = 0, WITHDRAWN = 1, CHANGED = 2 };

enum IdlePayload : int32_t { KEEP = 0, POISON_ONCE = 1, POISON_EVERY_CYCLE = 2 };

struct Header {
    uint64_t seed;
    int64_t max_cycles;
    int64_t watchdog;
    double wall_seconds;
    int64_t reset_cycles;
    int64_t settle_cycles;
    int32_t drain;
    int32_t streams;
    int32_t segments;
    int32_t reserved;
};

struct Plan {
    uint64_t seed;              // of this stream: depends on its name and on the run's seed
    uint64_t stall_threshold;   // a stall begins when a random 32-bit number is below it
    uint64_t long_threshold;    // and a stall is a long one when the next number is below this
    int64_t long_cycles;
    int64_t hold_beat;          // before this beat the stream stands still once, for hold_cycles; -1: never
    int64_t hold_cycles;
    int64_t expected;           // sinks: beats; -1: unlimited and unrecorded
    int64_t offset;             // sinks: where in `buffer` the first beat goes
    int64_t stamps;             // sinks: where in `buffer` the cycle number (int64) of each beat goes
    int32_t buffer;             // sinks: -1: count only
    int32_t required;           // sinks: whether `done` waits for `expected`
    int32_t idle_payload;       // sources
    int32_t surplus_fails;      // sinks: whether a beat beyond `expected` ends the run
};

struct Segment {
    int32_t stream;
    int32_t buffer;
    int64_t offset;
    int64_t beats;
    int64_t stride;  // bytes from one beat to the next
    int64_t repeat;  // how many times the segment is sent
};

struct Status {
    int32_t outcome;
    int32_t stream;  // the stream a violation or a surplus is about, else -1
    int32_t violation;
    int32_t events;
    int64_t start;      // number of the first cycle of the run
    int64_t end;        // number of the cycle after the last one that counts
    int64_t now;        // number of the next cycle (settle cycles included)
    int64_t last_move;  // cycle of the last transfer on any stream, -1: none yet
    int64_t fault;      // cycle of the violation or surplus, else -1
    double seconds;     // wall clock
};

struct StreamStatus {
    int64_t beats;    // transferred in this run
    int64_t planned;  // sources: beats queued; sinks: beats expected
    int64_t first;    // cycle of the first transfer, -1: none
    int64_t last;
    int64_t waiting;   // cycles with valid and no ready
    int64_t starving;  // cycles with ready and no valid
    int32_t valid;     // at the end
    int32_t ready;
    int32_t held;  // the harness itself is stalling at the end
    int32_t reserved;
};

struct Event {
    int64_t cycle;
    int64_t beat;
    uint64_t word;  // the first 8 bytes of the payload
    int32_t stream;
    int32_t reserved;
};

}  // namespace bench
