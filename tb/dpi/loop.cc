// The measure for the speed of a bench: the same design and streams in a plain C++ loop, no VPI, no Python.
//
// Usage: loop REQUEST INPUTS OUTPUTS OUTPUT_BYTES REPEATS CALLS IS_SOURCE:WORDS... ; runs the job REPEATS times,
// prints outcome and cycles of the last and the seconds of the fastest, and writes the buffer of outputs. CALLS
// has what is asked of devices before each: name, a zero, 8 bytes of length, body, and so on.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "bench.h"
#include "verilated.h"

namespace {

std::vector<uint8_t> read_file(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void call_devices(const std::vector<uint8_t>& calls) {
    for (size_t at = 0; at < calls.size();) {
        const std::string name(reinterpret_cast<const char*>(&calls[at]));
        at += name.size() + 1;
        int64_t size;
        std::memcpy(&size, &calls[at], sizeof size);
        at += sizeof size;
        std::string answer;
        if (!bench::calls().at(name)(reinterpret_cast<const char*>(calls.data() + at), size, answer)) {
            std::fprintf(stderr, "%s\n", answer.c_str());
            std::exit(1);
        }
        at += size_t(size);
    }
}

}  // namespace

double sc_time_stamp() { return 0; }

int main(int argc, char** argv) {
    if (argc < 8) return 2;
    const std::vector<uint8_t> request = read_file(argv[1]);
    std::vector<uint8_t> inputs = read_file(argv[2]);
    const std::vector<uint8_t> calls = read_file(argv[6]);
    std::vector<uint8_t> outputs(std::strtoull(argv[4], nullptr, 10));
    bench::Bench& b = bench::the_bench;
    for (int i = 7; i < argc; ++i) {
        bench::Stream stream;
        stream.is_source = argv[i][0] == '1';
        stream.words = std::strtoll(argv[i] + 2, nullptr, 10);
        stream.waited.resize(stream.words);
        b.streams.push_back(stream);
    }
    b.buffers.resize(2);
    b.buffers[0].data = inputs.data();
    b.buffers[0].size = int64_t(inputs.size());
    b.buffers[1].data = outputs.data();
    b.buffers[1].size = int64_t(outputs.size());
    auto top = std::make_unique<Vtop>("");
    double fastest = 1e30;
    for (long repeat = std::strtol(argv[5], nullptr, 10); repeat > 0; --repeat) {
        call_devices(calls);
        if (!b.begin(request.data(), int64_t(request.size()))) {
            std::fprintf(stderr, "%s\n", b.error.c_str());
            return 1;
        }
        top->rst = b.reset_left > 0;
        bool ended = false;
        while (!ended) {
            top->clk = 1;
            top->cycle = b.cycle + 1;
            top->eval();
            ended = b.tick();
            top->clk = 0;
            top->rst = b.reset_left > 0;
            top->eval();
        }
        fastest = std::min(fastest, b.status.seconds);
    }
    std::ofstream(argv[3], std::ios::binary).write(reinterpret_cast<char*>(outputs.data()), outputs.size());
    std::printf("%d %lld %.9f\n", b.status.outcome, (long long)(b.status.now - b.status.start),
                fastest);
    return b.status.outcome == bench::DONE ? 0 : 1;
}
