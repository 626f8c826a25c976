// The host device of the core's bench (tb/core/host.py): console, exit code, injected interrupts.
#include <cstring>
#include <sstream>

#include "bench.h"
#include "random.h"
#include "svdpi.h"

namespace core_host {
namespace {

constexpr int MIP[3] = {11, 3, 7};  // bits of external, software, timer

struct Model {
    uint64_t rates[3] = {}, stall = 0, seed = 0;
    bench::Random random;

    std::string console;
    bool exited = false;
    uint64_t code = 0;
    bool busy = false, valid = false, fault = false, ready = false;
    int settling = 0;
    bool lines[3] = {};
    int64_t injected[3] = {};

    void reset() {
        random.seed(seed);
        console.clear();
        exited = busy = valid = fault = ready = false;
        for (int i = 0; i < 3; ++i) lines[i] = false, injected[i] = 0;
    }

    void take(bool write, uint64_t address, uint64_t data, uint64_t mask) {
        const uint64_t at = address & 0xFFF8;
        uint64_t bytes = 0;
        for (int i = 0; i < 8; ++i) {
            if (mask >> i & 1) bytes |= 0xFFull << 8 * i;
        }
        busy = true;
        settling = 2;  // the core has seen the lines fall when it is answered
        ready = false;
        fault = !write && at > 24;
        if (!write) return;
        if (at == 0 && (mask & 1)) console.push_back(char(data));
        if (at == 8 && !exited) exited = true, code = data & bytes;
        if (at == 24) {
            for (int i = 0; i < 3; ++i) {
                if (data & bytes & 1ull << MIP[i]) lines[i] = false;
            }
        }
    }

    int step(bool taken) {
        if (taken) valid = busy = false;
        if (busy && !valid && (settling == 0 || settling-- == 0)) valid = !random.below(stall);
        ready = !busy && !random.below(stall);
        int flags = int(ready) | int(valid) << 1 | int(exited) << 5;
        for (int i = 0; i < 3; ++i) {
            if (!lines[i] && random.below(rates[i])) lines[i] = true, ++injected[i];
            flags |= int(lines[i]) << (2 + i);
        }
        return flags;
    }
};

Model model;

bool call(const char* body, int64_t size, std::string& answer) {
    std::istringstream words(std::string(body, size_t(size)));
    std::string verb;
    words >> verb;
    if (verb == "configure") {
        words >> model.rates[0] >> model.rates[1] >> model.rates[2] >> model.stall >> model.seed;
        model.random.seed(model.seed);
    } else if (verb == "console") {
        answer.swap(model.console);
        model.console.clear();
    } else if (verb == "exit") {
        if (model.exited) answer.assign(reinterpret_cast<const char*>(&model.code), sizeof model.code);
    } else if (verb == "injected") {
        answer.assign(reinterpret_cast<const char*>(model.injected), sizeof model.injected);
    } else {
        answer = "the host device does not know how to " + verb;
        return false;
    }
    return true;
}

const bool known = (bench::calls()["core_host"] = call, true);

uint64_t field(const svBitVecVal* words, int first, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; ++i) {
        value |= uint64_t(words[(first + i) / 32] >> (first + i) % 32 & 1) << i;
    }
    return value;
}

}  // namespace
}  // namespace core_host

using core_host::model;

extern "C" {

// The fields of hw.core.memory.port.MmioRequest, from the lowest bit.
void core_host_request(const svBitVecVal* words) {
    using core_host::field;
    model.take(field(words, 0, 1), field(words, 1, 40), field(words, 43, 64), field(words, 107, 8));
}

// Bit 0 in: reset; bit 1: the answer was taken. Out: ready, valid, external, software, timer, exited.
int core_host_step(int flags) {
    if (flags & 1) {
        model.reset();
        return 0;
    }
    return model.step(flags & 2);
}

int core_host_fault() { return model.fault; }

}
