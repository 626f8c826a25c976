// Both ends of the design's streams, called once a cycle from sv/stream_source.sv and sv/stream_sink.sv.
#include "streams.h"

#include <cstring>

#include "bench.h"

using namespace bench;

namespace {

// The payload of the next beat of a source, or nullptr when all segments are sent.
const uint8_t* advance(Stream& stream) {
    if (stream.segment == stream.segments.size()) return nullptr;
    Segment& s = stream.segments[stream.segment];
    const uint8_t* payload = the_bench.buffers[s.buffer].data + s.offset + stream.beat * s.stride;
    if (++stream.beat == s.beats) {
        stream.beat = 0;
        if (--s.repeat == 0) ++stream.segment;
    }
    return payload;
}

}  // namespace

void source_payload(int id, svBitVecVal* payload) {
    Stream& stream = the_bench.streams[id];
    if (stream.next) {
        std::memcpy(payload, stream.next, stream.beat_bytes());
    } else {
        for (int64_t i = 0; i < stream.words; ++i) payload[i] = svBitVecVal(stream.random.next64());
    }
}

void sink_payload(int id, const svBitVecVal* payload) {
    Stream& stream = the_bench.streams[id];
    const int64_t bytes = stream.beat_bytes();
    if (stream.was_waiting && std::memcmp(stream.waited.data(), payload, bytes) != 0)
        the_bench.fault(stream, VIOLATION, CHANGED);
    if (!stream.ready) {
        ++stream.status.waiting;
        if (!stream.was_waiting) std::memcpy(stream.waited.data(), payload, bytes);
        stream.was_waiting = true;
        return;
    }
    stream.was_waiting = false;
    const Plan& plan = stream.plan;
    const int64_t beat = stream.status.beats;
    if (plan.expected >= 0 && beat >= plan.expected) {
        if (plan.surplus_fails) the_bench.fault(stream, SURPLUS, NONE);
    } else if (plan.buffer >= 0) {
        uint8_t* data = the_bench.buffers[plan.buffer].data;
        std::memcpy(data + plan.offset + beat * bytes, payload, bytes);
        reinterpret_cast<int64_t*>(data + plan.stamps)[beat] = int64_t(the_bench.cycle);
    }
    the_bench.moved(stream, payload);
}

extern "C" {

// Bit 0: valid in the next cycle. Bit 1: load a new payload with source_payload.
int tb_source_step(int id, svBit ready) {
    Stream& stream = the_bench.streams[id];
    stream.status.ready = ready;
    if (stream.presenting) {
        if (!ready) {
            ++stream.status.waiting;
            return 1;
        }
        the_bench.moved(stream, stream.shown);
        stream.presenting = false;
    } else if (ready) {
        ++stream.status.starving;
    }
    stream.next = nullptr;
    if (stream.segment != stream.segments.size() && !stream.stall()) {
        stream.next = stream.shown = advance(stream);
        stream.presenting = true;
        stream.poisoned = false;
        stream.status.valid = 1;
        return 3;
    }
    stream.status.valid = 0;
    const bool poison = stream.plan.idle_payload == POISON_EVERY_CYCLE ||
                        (stream.plan.idle_payload == POISON_ONCE && !stream.poisoned);
    stream.poisoned = true;
    return poison ? 2 : 0;
}

// Bit 0: ready in the next cycle. Bit 1: show the payload with sink_payload.
int tb_sink_step(int id, svBit valid, svBit ready) {
    Stream& stream = the_bench.streams[id];
    stream.status.valid = valid;
    stream.ready = ready;
    if (!valid) {
        if (ready) ++stream.status.starving;
        if (stream.was_waiting) the_bench.fault(stream, VIOLATION, WITHDRAWN);
        stream.was_waiting = false;
    }
    const bool next_ready = !stream.stall();
    stream.status.ready = next_ready;
    return (next_ready ? 1 : 0) | (valid ? 2 : 0);
}

}
