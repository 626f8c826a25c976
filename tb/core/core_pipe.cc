// The pipeline sink of the core's bench (tb/core/pipe.py): events of the instructions in flight.
#include <cstring>
#include <sstream>
#include <vector>

#include "bench.h"
#include "svdpi.h"

namespace core_pipe {
namespace {

// PIPE of tb/core/pipe.py.
struct Event {
    uint64_t cycle, pc;
    uint32_t word;
    uint16_t age, stage;
};
static_assert(sizeof(Event) == 24);

struct Model {
    int64_t limit = 0, cycle = 0;
    std::vector<Event> events;
};

Model model;

bool call(const char* body, int64_t size, std::string& answer) {
    std::istringstream words(std::string(body, size_t(size)));
    std::string verb;
    words >> verb;
    if (verb == "configure") {
        words >> model.limit;
        model.events.clear();
    } else if (verb == "events") {
        answer.assign(reinterpret_cast<const char*>(model.events.data()), model.events.size() * sizeof(Event));
        model.events.clear();
    } else {
        answer = "the pipeline sink does not know how to " + verb;
        return false;
    }
    return true;
}

const bool known = (bench::calls()["core_pipe"] = call, true);

}  // namespace
}  // namespace core_pipe

using core_pipe::model;

extern "C" {

int core_pipe_step(int rst) {
    if (rst) {
        model.cycle = 0;
        model.events.clear();
        return 0;
    }
    ++model.cycle;
    return int64_t(model.events.size()) < model.limit;
}

void core_pipe_event(int stage, int age, long long pc, int word) {
    model.events.push_back(
        {uint64_t(model.cycle), uint64_t(pc), uint32_t(word), uint16_t(age), uint16_t(stage)});
}

}
