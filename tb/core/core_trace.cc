// The trace sink of the core's bench (tb/core/trace.py): commit records, and when a run ends.
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "bench.h"
#include "svdpi.h"

namespace core_trace {
namespace {

// RECORD of golden/riscv/record.py.
#pragma pack(push, 1)
struct Record {
    uint64_t order;
    uint32_t insn;
    uint64_t pc_rdata, pc_wdata;
    uint8_t trap, intr;
    uint64_t cause;
    uint8_t rd_addr;
    uint64_t rd_wdata, mem_addr;
    uint8_t mem_rmask, mem_wmask;
    uint64_t mem_rdata, mem_wdata;
    uint64_t cycle;
};
#pragma pack(pop)
static_assert(sizeof(Record) == 81);

enum Event { EXIT = 0, CHUNK = 1, LIMIT = 2 };

struct Model {
    std::map<int, std::string> waits;
    bool keep = false;
    int64_t chunk = 0, max_cycles = 1000000, hang_cycles = 20000;

    std::vector<Record> records;
    int64_t cycle = 0, committed = 0, quiet = 0, paused = 0;
    bool shown = false;
    int event = 0;
    uint64_t last_pc = 0;
    uint32_t last_word = 0;

    void reset() {
        records.clear();
        cycle = committed = quiet = paused = 0;
        shown = false;
    }

    // Bit 0: report the head, nothing is committed. Bits 1, 2..3: an event.
    int step(bool any, bool exited, bool taken) {
        ++cycle;
        if (taken) {
            shown = false;
            return 0;  // the run ends with this beat; a second one would be of the next run
        }
        quiet = any ? 0 : quiet + 1;
        if (!shown) {
            shown = true;
            if (exited) event = EXIT;
            else if (cycle >= max_cycles) event = LIMIT;
            else if (chunk && committed - paused >= chunk) event = CHUNK, paused = committed;
            else shown = false;
        }
        const bool hung = quiet == hang_cycles && !shown;
        return int(hung) | int(shown) << 1 | event << 2;
    }

    std::string name_of(int reason) const {
        const auto found = waits.find(reason);
        return found == waits.end() ? "reason " + std::to_string(reason) : found->second;
    }

    void hung(bool valid, uint64_t pc, int age, int reason) {
        char text[300];
        std::string last = "nothing was committed before";
        if (committed) {
            std::snprintf(text, sizeof text, "the last of %lld instructions was 0x%08x at 0x%llx",
                          (long long)committed, last_word, (unsigned long long)last_pc);
            last = text;
        }
        std::string head = "its reorder buffer is empty";
        if (valid) {
            std::snprintf(text, sizeof text, "the head of its reorder buffer is age %d, pc 0x%llx", age,
                          (unsigned long long)pc);
            head = text;
        }
        bench::the_bench.stop("the core is stuck: nothing was committed for " + std::to_string(quiet) +
                              " cycles; " + head + ", waiting for: " + name_of(reason) + "; " + last + ".");
    }
};

Model model;

bool call(const char* body, int64_t size, std::string& answer) {
    std::istringstream words(std::string(body, size_t(size)));
    std::string verb;
    words >> verb;
    if (verb == "configure") {
        words >> model.chunk >> model.keep >> model.max_cycles >> model.hang_cycles;
    } else if (verb == "records") {
        answer.assign(reinterpret_cast<const char*>(model.records.data()),
                      model.records.size() * sizeof(Record));
        model.records.clear();
    } else if (verb == "counts") {
        const int64_t values[] = {model.cycle, model.committed};
        answer.assign(reinterpret_cast<const char*>(values), sizeof values);
    } else {
        answer = "the trace sink does not know how to " + verb;
        return false;
    }
    return true;
}

const bool known = (bench::calls()["core_trace"] = call, true);

}  // namespace
}  // namespace core_trace

using core_trace::model;

extern "C" {

void core_trace_waits(const char* names) {
    std::istringstream list(names);
    std::string pair;
    while (std::getline(list, pair, ';')) {
        const size_t at = pair.find('=');
        model.waits[std::atoi(pair.c_str())] = pair.substr(at + 1);
    }
}

// Bits in: reset, something was committed, the program has ended, the event was taken.
int core_trace_step(int flags) {
    if (flags & 1) {
        model.reset();
        return 0;
    }
    return model.step(flags & 2, flags & 4, flags & 8);
}

void core_trace_hung(int valid, long long pc, int age, int waits) {
    model.hung(valid, uint64_t(pc), age, waits);
}

void core_trace_record(long long order, int insn, long long pc_rdata, long long pc_wdata, int trap, int intr,
                       long long cause, int rd_addr, long long rd_wdata, long long mem_addr, int mem_rmask,
                       int mem_wmask, long long mem_rdata, long long mem_wdata) {
    ++model.committed;
    model.last_pc = uint64_t(pc_rdata);
    model.last_word = uint32_t(insn);
    if (!model.keep) return;
    model.records.push_back({uint64_t(order), uint32_t(insn), uint64_t(pc_rdata), uint64_t(pc_wdata),
                             uint8_t(trap), uint8_t(intr), uint64_t(cause), uint8_t(rd_addr),
                             uint64_t(rd_wdata), uint64_t(mem_addr), uint8_t(mem_rmask), uint8_t(mem_wmask),
                             uint64_t(mem_rdata), uint64_t(mem_wdata), uint64_t(model.cycle)});
}

}
