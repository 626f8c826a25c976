// SplitMix64: one independent, seeded generator a stream, so that no stream's stalls depend on another's.
#pragma once

#include <cstdint>

namespace bench {

class Random {
public:
    void seed(uint64_t value) { state = value; }

    uint64_t next64() {
        uint64_t z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    // True with probability threshold / 2^32.
    bool below(uint64_t threshold) { return threshold != 0 && (next64() >> 32) < threshold; }

private:
    uint64_t state = 0;
};

}  // namespace bench
