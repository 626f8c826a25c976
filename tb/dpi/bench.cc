// Beginning and end of a run, watchdogs, and the C interface that Python calls through ctypes.
#include "bench.h"

#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace bench {

Bench the_bench;

std::map<std::string, Call>& calls() {
    static std::map<std::string, Call> known;
    return known;
}

double wall_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

bool Stream::stall() {
    if (holding > 0) {
        --holding;
        return true;
    }
    if (status.beats == plan.hold_beat && !held_once) {
        held_once = true;
        holding = plan.hold_cycles - 1;
        return plan.hold_cycles > 0;
    }
    if (!random.below(plan.stall_threshold)) return false;
    if (random.below(plan.long_threshold)) holding = plan.long_cycles - 1;
    return true;
}

bool Bench::begin(const void* request, int64_t size) {
    const auto* bytes = static_cast<const uint8_t*>(request);
    if (size < int64_t(sizeof(Header))) {
        error = "request shorter than its header";
        return false;
    }
    std::memcpy(&header, bytes, sizeof(Header));
    const auto* plans = reinterpret_cast<const Plan*>(bytes + sizeof(Header));
    const auto* segments = reinterpret_cast<const Segment*>(plans + header.streams);
    if (header.streams != int64_t(streams.size()) ||
        size != int64_t(sizeof(Header) + header.streams * sizeof(Plan) + header.segments * sizeof(Segment))) {
        error = "request does not fit the streams of this bench";
        return false;
    }
    const bool reset = header.reset_cycles > 0;
    for (size_t i = 0; i < streams.size(); ++i) {
        Stream& stream = streams[i];
        if (stream.presenting && !reset) {
            error = "source " + std::to_string(i) + " still waits with a beat of the run before: reset";
            return false;
        }
        std::memcpy(&stream.plan, &plans[i], sizeof(Plan));
        stream.status = StreamStatus{};
        stream.status.first = stream.status.last = -1;
        stream.random.seed(stream.plan.seed);
        stream.holding = 0;
        stream.held_once = false;
        stream.segments.clear();
        stream.segment = 0;
        stream.beat = 0;
        if (reset) {
            stream.presenting = stream.was_waiting = stream.ready = stream.poisoned = false;
        }
        const Plan& plan = stream.plan;
        if (!stream.is_source) {
            stream.status.planned = std::max<int64_t>(plan.expected, 0);
            if (plan.buffer >= 0 && plan.expected > 0) {
                const int64_t end = std::max(plan.offset + plan.expected * stream.beat_bytes(),
                                             plan.stamps + plan.expected * int64_t(sizeof(int64_t)));
                if (plan.buffer >= int64_t(buffers.size()) || plan.offset < 0 || plan.stamps < 0 ||
                    plan.stamps % 8 != 0 || end > buffers[plan.buffer].size) {
                    error = "sink " + std::to_string(i) + " would write outside its buffer";
                    return false;
                }
            }
        }
    }
    for (int64_t i = 0; i < header.segments; ++i) {
        const Segment& s = segments[i];
        if (s.stream < 0 || s.stream >= header.streams || !streams[s.stream].is_source || s.buffer < 0 ||
            s.buffer >= int64_t(buffers.size())) {
            error = "segment " + std::to_string(i) + " names a stream or a buffer that does not exist";
            return false;
        }
        if (s.beats <= 0 || s.repeat <= 0) continue;
        Stream& stream = streams[s.stream];
        const int64_t last = s.offset + (s.beats - 1) * s.stride;
        if (s.offset < 0 || std::min(s.offset, last) < 0 ||
            std::max(s.offset, last) + stream.beat_bytes() > buffers[s.buffer].size) {
            error = "segment " + std::to_string(i) + " reads outside its buffer";
            return false;
        }
        stream.segments.push_back(s);
        stream.status.planned += s.beats * s.repeat;
    }
    unfinished = 0;
    for (const Stream& stream : streams) {
        if (stream.is_source ? (header.drain && stream.status.planned > 0)
                             : (stream.plan.required && stream.plan.expected > 0))
            ++unfinished;
    }
    status = Status{};
    status.stream = status.fault = status.last_move = -1;
    status.start = int64_t(cycle) + header.reset_cycles;
    status.end = status.start;
    reset_left = header.reset_cycles;
    settle_left = -1;
    event_count = 0;
    begun = wall_clock();
    deadline = header.wall_seconds > 0 ? begun + header.wall_seconds : 0;
    running = true;
    return true;
}

void Bench::moved(Stream& stream, const void* payload) {
    StreamStatus& s = stream.status;
    Event& event = events[event_count++ & (EVENTS - 1)];
    event.cycle = int64_t(cycle);
    event.beat = s.beats;
    event.stream = int32_t(&stream - streams.data());
    event.word = 0;
    std::memcpy(&event.word, payload, stream.words > 1 ? 8 : 4);
    if (s.beats == 0) s.first = int64_t(cycle);
    s.last = int64_t(cycle);
    ++s.beats;
    status.last_move = int64_t(cycle);
    const bool counts = stream.is_source ? header.drain : stream.plan.required;
    if (counts && s.beats == s.planned && --unfinished == 0) {
        status.end = int64_t(cycle) + 1;
        settle_left = header.settle_cycles;
    }
}

void Bench::fault(Stream& stream, Outcome outcome, Violation violation) {
    if (status.outcome != RUNNING) return;  // the first fault is the one to report
    status.outcome = outcome;
    status.violation = violation;
    status.stream = int32_t(&stream - streams.data());
    status.fault = int64_t(cycle);
}

void Bench::stop(const std::string& sentence) {
    if (status.outcome != RUNNING) return;
    status.outcome = DEVICE;
    status.fault = int64_t(cycle);
    stopped = sentence;
}

void Bench::finish(Outcome outcome) {
    if (status.outcome == RUNNING) status.outcome = outcome;
    if (outcome != DONE) status.end = int64_t(cycle);
    status.now = int64_t(cycle);
    status.events = int32_t(std::min(event_count, EVENTS));
    status.seconds = wall_clock() - begun;
    for (Stream& stream : streams) {
        stream.status.held = stream.holding > 0;
    }
    running = false;
}

// Looked at every 64 cycles only: reading the clock would cost a small design more than its own evaluation.
bool Bench::watch_wall_clock() {
    const double now = wall_clock();
    static double next_poll = 0;
    if (lifeline >= 0 && now > next_poll) {
        next_poll = now + 0.1;
        // The client sends nothing while a run is on: whatever arrives means that it is gone or gives up.
        pollfd p{lifeline, POLLIN, 0};
        if (poll(&p, 1, 0) > 0) abandoned = true;
    }
    return deadline > 0 && now > deadline;
}

bool Bench::tick() {
    ++cycle;
    if (reset_left > 0) {
        --reset_left;
        return false;
    }
    if (status.outcome != RUNNING) {
        finish(Outcome(status.outcome));
        return true;
    }
    if (settle_left >= 0 && settle_left-- == 0) {
        finish(DONE);
        return true;
    }
    const int64_t quiet = int64_t(cycle) - std::max(status.last_move, status.start);
    if (settle_left < 0 && quiet > header.watchdog) {
        finish(HUNG);
        return true;
    }
    if (int64_t(cycle) - status.start >= header.max_cycles) {
        finish(LIMIT);
        return true;
    }
    if ((cycle & 63) == 0) {
        if (watch_wall_clock()) finish(WALL);
        if (abandoned) finish(WALL);
        return !running;
    }
    return false;
}

}  // namespace bench

using namespace bench;

extern "C" {

int32_t tb_layout(int32_t which) {
    const int32_t sizes[] = {sizeof(Header), sizeof(Plan),         sizeof(Segment),
                             sizeof(Status), sizeof(StreamStatus), sizeof(Event)};
    return which < 6 ? sizes[which] : -1;
}

void tb_stream(int32_t is_source, int64_t words) {
    Stream stream;
    stream.is_source = is_source;
    stream.words = words;
    stream.waited.resize(words);
    the_bench.streams.push_back(stream);
}

void tb_lifeline(int32_t fd) { the_bench.lifeline = fd; }

// Maps `size` bytes of a file at `offset` (a multiple of the page size) as buffer `id`; 0, or -1 on failure.
int32_t tb_map(int32_t id, int32_t fd, int64_t offset, int64_t size, int32_t writable) {
    if (id < 0) return -1;
    if (id >= int32_t(the_bench.buffers.size())) the_bench.buffers.resize(id + 1);
    Buffer& buffer = the_bench.buffers[id];
    if (buffer.data) munmap(buffer.data, buffer.size);
    buffer = Buffer{};
    if (size == 0) return 0;
    void* data = mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, offset);
    if (data == MAP_FAILED) return -1;
    buffer.data = static_cast<uint8_t*>(data);
    buffer.size = size;
    return 0;
}

int32_t tb_begin(const void* request, int64_t size) { return the_bench.begin(request, size) ? 0 : -1; }

const char* tb_error() { return the_bench.error.c_str(); }

// Asks the model that is known by `name`; the length of its answer, or -1 less the length of a sentence. The
// call "stopped" gives the sentence with which a device stopped the last run.
int64_t tb_call(const char* name, const char* body, int64_t size) {
    static const std::string unknown = "no device of that name is in this bench";
    std::string& answer = the_bench.answer;
    answer.clear();
    if (std::strcmp(name, "stopped") == 0) {
        answer = the_bench.stopped;
        return int64_t(answer.size());
    }
    const auto found = calls().find(name);
    const bool known = found != calls().end();
    if (!known) answer = unknown;
    if (known && found->second(body, size, answer)) return int64_t(answer.size());
    return -1 - int64_t(answer.size());
}

const char* tb_answer() { return the_bench.answer.data(); }

int32_t tb_abandoned() { return the_bench.abandoned; }

// Status, then a StreamStatus a stream, then the last events, oldest first; returns the number of bytes.
int64_t tb_status(void* out, int64_t size) {
    auto* p = static_cast<uint8_t*>(out);
    Bench& b = the_bench;
    const int64_t needed =
        sizeof(Status) + b.streams.size() * sizeof(StreamStatus) + b.status.events * sizeof(Event);
    if (needed > size) return -1;
    std::memcpy(p, &b.status, sizeof(Status));
    p += sizeof(Status);
    for (const Stream& stream : b.streams) {
        std::memcpy(p, &stream.status, sizeof(StreamStatus));
        p += sizeof(StreamStatus);
    }
    for (int64_t i = b.event_count - b.status.events; i < b.event_count; ++i) {
        std::memcpy(p, &b.events[i & (Bench::EVENTS - 1)], sizeof(Event));
        p += sizeof(Event);
    }
    return needed;
}

}
