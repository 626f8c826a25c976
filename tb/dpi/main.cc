// The simulation loop. It replaces the main program of cocotb: same order of regions as long as Python has
// something to wait for, and, while a run is on, a plain loop over clock edges that calls no VPI at all,
// until the bench says that the run has ended. Python is woken by one toggle of `wakeup`.
//
// Time: cycle n lasts from n * 1000 ps, where the clock rises, to the next rising edge. What a stream shows
// in cycle n is transferred by the edge that ends it, and counts as a transfer in cycle n.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "Vtop.h"
#include "bench.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

extern "C" {
void vlog_startup_routines_bootstrap(void);
}

namespace {

constexpr uint64_t PERIOD = 1000;
constexpr uint64_t NEVER = ~0ull;

uint64_t main_time = 0;
volatile sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

// The wave file, if one is open: written from `first` to `last` cycle, never above `limit` bytes.
struct Wave {
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> file;
#endif
    std::string path;
    int64_t first = 0;
    int64_t last = 0;
    int64_t limit = 0;
    bool truncated = false;

    bool covers(int64_t cycle) const { return !path.empty() && cycle >= first && cycle <= last; }

    void dump(uint64_t time) {
#if VM_TRACE
        file->dump(time);
#endif
    }

    void close() {
#if VM_TRACE
        if (!path.empty()) file->close();
#endif
        path.clear();
    }

    void watch_size(int64_t cycle) {
        if (path.empty() || (cycle & 4095) != 0) return;
        struct stat info;
        if (stat(path.c_str(), &info) == 0 && info.st_size > limit) {
            truncated = true;
            close();
        }
    }
} wave;

Vtop* top = nullptr;

bool settle_value_callbacks() {
    const bool called = VerilatedVpi::callValueCbs();
    bool again = called;
    while (again) again = VerilatedVpi::callValueCbs();
    return called;
}

// One time step in the order of IEEE 1800-2017 section 4.4, with all VPI regions.
void full_step() {
    do {
        do {
            top->eval_step();
            VerilatedVpi::clearEvalNeeded();
            VerilatedVpi::doInertialPuts();
            settle_value_callbacks();
        } while (VerilatedVpi::evalNeeded());
        VerilatedVpi::callCbs(cbReadWriteSynch);
        VerilatedVpi::doInertialPuts();
        settle_value_callbacks();
    } while (VerilatedVpi::evalNeeded());
    top->eval_end_step();
    VerilatedVpi::callCbs(cbReadOnlySynch);
}

// Clock edges until the run has ended.
template <bool TRACED>
void free_run() {
    bench::Bench& b = bench::the_bench;
    top->rst = b.reset_left > 0;
    bool ended = false;
    while (!ended && !interrupted) {
        // This edge ends cycle b.cycle and begins the next one.
        const int64_t begun = int64_t(b.cycle) + 1;
        main_time = begun * PERIOD;
        top->clk = 1;
        top->cycle = begun;
        top->eval();
        const bool dump = TRACED && wave.covers(begun);
        if (dump) wave.dump(main_time);
        ended = b.tick();
        main_time += PERIOD / 2;
        top->clk = 0;
        top->rst = b.reset_left > 0;
        top->eval();
        if (dump) {
            wave.dump(main_time);
            wave.watch_size(begun);
        }
    }
}

}  // namespace

double sc_time_stamp() { return double(main_time); }

extern "C" {

// Opens `path` (a traced build only) for the cycles first..last counted from the present one, in which
// simulated time stands still, so that the file begins with the cycle after it; 0, or -1.
int32_t tb_wave_open(const char* path, int64_t first, int64_t last, int64_t limit) {
#if VM_TRACE
    wave.close();
    wave.first = int64_t(bench::the_bench.cycle) + first;
    wave.last = last < 0 ? INT64_MAX : int64_t(bench::the_bench.cycle) + last;
    wave.limit = limit;
    wave.truncated = false;
    wave.file->open(path);
    if (!wave.file->isOpen()) return -1;
    wave.path = path;
    return 0;
#else
    return -1;
#endif
}

// Completes the file; 1 when it was cut at its size limit.
int32_t tb_wave_close() {
    wave.close();
    return wave.truncated;
}

uint64_t tb_cycle() { return bench::the_bench.cycle; }

}

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    auto model = std::make_unique<Vtop>("");
    top = model.get();
    Verilated::fatalOnVpiError(false);  // cocotb asks for objects that need not exist
#if VM_TRACE
    Verilated::traceEverOn(true);
    wave.file = std::make_unique<VerilatedFstC>();
    model->trace(wave.file.get(), 99);
#endif
    model->eval();  // initial blocks run at time 0, where hierarchical models insist on being made
    vlog_startup_routines_bootstrap();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    settle_value_callbacks();
    // After Python has installed its own handlers.
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);

    bench::Bench& b = bench::the_bench;
    while (!Verilated::gotFinish() && !interrupted) {
        if (b.running) {
            if (wave.path.empty()) {
                free_run<false>();
            } else {
                free_run<true>();
            }
            if (interrupted) break;
            top->wakeup = !top->wakeup;
        }
        full_step();
        if (b.running) continue;  // Python was woken and has begun the next run already
        const uint64_t next = VerilatedVpi::cbNextDeadline();
        if (next == NEVER) break;
        main_time = next;
        VerilatedVpi::callCbs(cbNextSimTime);
        settle_value_callbacks();
        VerilatedVpi::callTimedCbs();
        settle_value_callbacks();
    }
    wave.close();
    model->final();
    VerilatedVpi::callCbs(cbEndOfSimulation);
    // Interrupted is not an error of the design; everything is written, nothing is left to tear down.
    std::fflush(nullptr);
    std::_Exit(Verilated::threadContextp()->errorCount() > 0 ? 1 : interrupted ? 130 : 0);
}
