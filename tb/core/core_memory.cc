// The memory double of the core's bench (tb/core/memory.py): storage, order and timing of a demand port.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bench.h"
#include "random.h"
#include "svdpi.h"

namespace core_memory {
namespace {

constexpr int64_t LINE = 64, PAGE = 4096;
enum Status : uint64_t { OK = 0, POISON = 1, OUT_OF_RANGE = 2 };

// REQUEST of tb/core/memory.py.
struct Seen {
    int64_t taken, answered, line, write;
};

struct Answer {
    uint64_t tag, write, status;
    int64_t due, seen;
    uint8_t data[LINE];
};

struct Model {
    int64_t bytes = 0;
    std::unordered_map<int64_t, std::unique_ptr<uint8_t[]>> pages;
    std::unordered_set<int64_t> poisoned;

    int64_t latency = 80, jitter = 0, interval = 1, places = 64;
    uint64_t request_stall = 0, response_stall = 0, seed = 0;
    bench::Random random;

    std::deque<Answer> queues[4];
    int64_t waiting = 0, now = 0, free_at = 0;
    int64_t reads = 0, writes = 0, most = 0;
    bool shown = false;
    Answer answer{};
    int64_t watched = 0;
    std::vector<Seen> seen;

    uint8_t* page(int64_t number, bool make) {
        auto found = pages.find(number);
        if (found != pages.end()) return found->second.get();
        if (!make) return nullptr;
        auto& made = pages[number];
        made = std::make_unique<uint8_t[]>(PAGE);
        return made.get();
    }

    void copy_in(int64_t offset, const uint8_t* from, int64_t size) {
        while (size > 0) {
            const int64_t part = std::min(size, PAGE - offset % PAGE);
            std::memcpy(page(offset / PAGE, true) + offset % PAGE, from, size_t(part));
            offset += part, from += part, size -= part;
        }
    }

    void copy_out(int64_t offset, uint8_t* to, int64_t size) {
        while (size > 0) {
            const int64_t part = std::min(size, PAGE - offset % PAGE);
            const uint8_t* from = page(offset / PAGE, false);
            if (from) std::memcpy(to, from + offset % PAGE, size_t(part));
            else std::memset(to, 0, size_t(part));
            offset += part, to += part, size -= part;
        }
    }

    void reset() {
        for (auto& queue : queues) queue.clear();
        waiting = now = free_at = reads = writes = most = 0;
        shown = false;
        seen.clear();
        random.seed(seed);
    }

    void take(uint64_t write, uint64_t tag, int64_t line, uint64_t mask, const uint8_t* data) {
        Answer a{tag, write, OK, 0, -1, {}};
        ++(write ? writes : reads);
        if (line >= bytes / LINE) {
            a.status = OUT_OF_RANGE;
        } else if (write) {
            uint8_t* at = page(line * LINE / PAGE, true) + line * LINE % PAGE;
            for (int i = 0; i < LINE; ++i) {
                if (mask >> i & 1) at[i] = data[i];
            }
            if (mask == ~0ull) poisoned.erase(line);
        } else if (poisoned.count(line)) {
            a.status = POISON;
            std::memset(a.data, 0xA5, LINE);  // what is not to be used must not look right
        } else {
            copy_out(line * LINE, a.data, LINE);
        }
        free_at = std::max(free_at, now) + interval;
        const int64_t late = jitter ? int64_t(random.next64() % uint64_t(jitter + 1)) : 0;
        a.due = std::max(now + latency + late, free_at);
        if (int64_t(seen.size()) < watched) {
            a.seen = int64_t(seen.size());
            seen.push_back({now, -1, line, int64_t(write)});
        }
        queues[tag >> 6 & 3].push_back(a);
        most = std::max(most, ++waiting);
    }

    int step(bool taken) {
        ++now;
        if (taken) shown = false;
        int flags = 0;
        if (!shown && waiting && !random.below(response_stall)) {
            std::deque<Answer>* best = nullptr;
            const uint64_t first = jitter ? random.next64() & 3 : 0;
            for (uint64_t i = 0; i < 4; ++i) {
                auto& queue = queues[(first + i) & 3];
                if (queue.empty() || queue.front().due > now) continue;
                if (!best || (!jitter && queue.front().due < best->front().due)) best = &queue;
            }
            if (best) {
                answer = best->front();
                best->pop_front();
                if (answer.seen >= 0) seen[size_t(answer.seen)].answered = now;
                --waiting;
                shown = true;
                flags |= 4;
            }
        }
        // A place is kept for the request that may be taken in the cycle that begins.
        if (waiting < places && !random.below(request_stall)) flags |= 1;
        return flags | (shown ? 2 : 0);
    }
};

Model model;

bool call(const char* body, int64_t size, std::string& answer) {
    const auto* end = static_cast<const char*>(std::memchr(body, '\n', size_t(size)));
    std::istringstream words(std::string(body, end ? size_t(end - body) : size_t(size)));
    const char* data = end ? end + 1 : body + size;
    const int64_t left = body + size - data;
    std::string verb;
    int64_t offset = -1, count = left;
    words >> verb;
    if (verb == "clear") {
        model.pages.clear();
        model.poisoned.clear();
        words >> model.bytes;
        return true;
    }
    if (verb == "configure") {
        words >> model.latency >> model.jitter >> model.interval >> model.request_stall >>
            model.response_stall >> model.places >> model.seed;
        model.random.seed(model.seed);
        return true;
    }
    if (verb == "counts") {
        const int64_t values[] = {model.reads, model.writes, model.most};
        answer.assign(reinterpret_cast<const char*>(values), sizeof values);
        return true;
    }
    if (verb == "watch") {
        words >> model.watched;
        return true;
    }
    if (verb == "requests") {
        answer.assign(reinterpret_cast<const char*>(model.seen.data()), model.seen.size() * sizeof(Seen));
        return true;
    }
    words >> offset;
    if (verb == "poison") {
        model.poisoned.insert(offset);
        return true;
    }
    if (verb == "dump") words >> count;
    if (offset < 0 || count < 0 || offset + count > model.bytes || (verb != "load" && verb != "dump")) {
        answer = "the memory of the core's bench cannot " + verb + " " + std::to_string(count) +
                 " bytes at " + std::to_string(offset);
        return false;
    }
    if (verb == "load") {
        model.copy_in(offset, reinterpret_cast<const uint8_t*>(data), count);
    } else {
        answer.resize(size_t(count));
        model.copy_out(offset, reinterpret_cast<uint8_t*>(&answer[0]), count);
    }
    return true;
}

const bool known = (bench::calls()["core_memory"] = call, true);

// `width` bits from bit `first` on.
uint64_t field(const svBitVecVal* words, int first, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; ++i) {
        value |= uint64_t(words[(first + i) / 32] >> (first + i) % 32 & 1) << i;
    }
    return value;
}

void put(svBitVecVal* words, int first, int width, uint64_t value) {
    for (int i = 0; i < width; ++i) {
        words[(first + i) / 32] |= svBitVecVal(value >> i & 1) << (first + i) % 32;
    }
}

}  // namespace
}  // namespace core_memory

using core_memory::model;

extern "C" {

// The fields of hw.hbm.port.Request and Response, from the lowest bit.
void core_memory_request(const svBitVecVal* words) {
    uint64_t data[8];
    for (int i = 0; i < 8; ++i) data[i] = core_memory::field(words, 105 + 64 * i, 64);
    model.take(core_memory::field(words, 0, 1), core_memory::field(words, 1, 8),
               int64_t(core_memory::field(words, 9, 32)), core_memory::field(words, 41, 64),
               reinterpret_cast<const uint8_t*>(data));
}

// Bit 0 in: reset; bit 1: the answer was taken. Out: ready, valid, a new answer is to be fetched.
int core_memory_step(int flags) {
    if (flags & 1) {
        model.reset();
        return 0;
    }
    return model.step(flags & 2);
}

void core_memory_response(svBitVecVal* words) {
    std::memset(words, 0, 17 * sizeof(svBitVecVal));
    core_memory::put(words, 0, 8, model.answer.tag);
    core_memory::put(words, 8, 1, model.answer.write);
    core_memory::put(words, 9, 2, model.answer.status);
    uint64_t data[8];
    std::memcpy(data, model.answer.data, sizeof data);
    for (int i = 0; i < 8; ++i) core_memory::put(words, 11 + 64 * i, 64, data[i]);
}

}
