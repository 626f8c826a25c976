// The free-running test bench: buffers, streams, and the decision when a run ends. One of them a process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol.h"
#include "random.h"

namespace bench {

struct Buffer {
    uint8_t* data = nullptr;
    int64_t size = 0;
};

// What a model of a device (C++ that comes with a component) answers between runs. `body` is what Python
// sent; true with the answer, or false with a sentence, in `answer`.
using Call = bool (*)(const char* body, int64_t size, std::string& answer);

// Calls by name; a model adds its own before main().
std::map<std::string, Call>& calls();

// What a source and a sink have in common.
struct Stream {
    bool is_source = false;
    int64_t words = 0;  // of 32 bits, a beat
    Plan plan{};
    StreamStatus status{};
    Random random;
    int64_t holding = 0;  // cycles the harness still keeps valid (source) or ready (sink) low
    bool held_once = false;

    // source
    std::vector<Segment> segments;
    size_t segment = 0;
    int64_t beat = 0;  // next one within the segment
    bool presenting = false;
    const uint8_t* next = nullptr;  // payload to load, nullptr: poison
    const uint8_t* shown = nullptr;
    bool poisoned = false;

    // sink
    bool was_waiting = false;  // valid without ready in the cycle before
    bool ready = false;
    std::vector<uint32_t> waited;  // the payload that waited

    int64_t beat_bytes() const { return words * 4; }
    bool stall();  // one decision of the stall pattern
};

struct Bench {
    std::vector<Buffer> buffers;
    std::vector<Stream> streams;
    Header header{};
    Status status{};
    std::string error;
    std::string answer;  // to the last call
    std::string stopped;  // the sentence of the device that stopped the run

    uint64_t cycle = 0;  // number of the cycle that runs now; counts from the start of the process
    bool running = false;
    int64_t reset_left = 0;
    int64_t unfinished = 0;  // sinks and sources that `done` still waits for
    int64_t settle_left = -1;
    double deadline = 0;
    double begun = 0;
    int lifeline = -1;  // a socket to the client; when it closes, the process ends
    bool abandoned = false;

    static constexpr int64_t EVENTS = 256;
    std::vector<Event> events = std::vector<Event>(EVENTS);
    int64_t event_count = 0;

    bool begin(const void* request, int64_t size);
    // Called between two cycles; true when the run has ended.
    bool tick();
    void moved(Stream& stream, const void* payload);
    void finish(Outcome outcome);
    void fault(Stream& stream, Outcome outcome, Violation violation);
    // A model of a device stops the run; of several sentences the first is the one to report.
    void stop(const std::string& sentence);

private:
    bool watch_wall_clock();
};

extern Bench the_bench;

double wall_clock();

}  // namespace bench
