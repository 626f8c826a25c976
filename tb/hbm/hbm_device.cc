// The device model: a pseudo-channel an instance of its SystemVerilog module (tb/hbm/device.py), which calls
// it once a slot of two CK. A broken rule stops the run with a sentence. Between runs Python asks it by the
// name "hbm" (tb/hbm/backdoor.py): load, dump, faults, trace, statistics.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <sstream>

#include "bench.h"
#include "hbm_memory.h"
#include "hbm_rules.h"
#include "svdpi.h"

namespace hbm {
namespace {

// A line of the trace; tb/hbm/trace.py has the same layout.
struct Record {
    int64_t ck;
    uint8_t pc, bus, op, stack, bank, reserved;
    uint16_t value;
};
enum Bus : uint8_t { ROW = 0, COLUMN = 1, MARK = 2 };
enum Mark : uint8_t { RESET = 0, TEMPERATURE = 1, END = 2 };

struct Found {
    int pc;
    int64_t ck;
    std::string rule;
};

struct Shared {
    std::string text;  // of the settings
    Settings settings;
    bool collect = false;  // note broken rules and go on
    std::vector<Found> found;
    std::FILE* trace = nullptr;
};
Shared shared;

struct Channel {
    int64_t last[2] = {-1, -1};  // CK of the last command on each bus
};

struct Device {
    explicit Device(int index)
        : index(index), rules(shared.settings),
          memory(int64_t(rules.total()) * rules.rows) {}

    const int index;
    Rules rules;
    Memory memory;
    bool in_reset = false;
    int64_t slot = -1, cycle = -1, first_cycle = 0;
    int temperature = 0;
    int64_t pending_write = -1;
    struct Read {
        int64_t slot;
        uint8_t bytes[BURST];
    };
    std::deque<Read> reads;
    Read shown{};
    std::vector<Broken> broken;
    int64_t count[UNKNOWN + 1] = {};
    int64_t slots = 0;

    int64_t ck() const { return slot * 2 + (index & 1); }
};

std::vector<std::unique_ptr<Device>> devices;
std::vector<Channel> channels;

Device& device(int index) {
    if (index >= int(devices.size())) {
        devices.resize(size_t(index) + 1);
        channels.resize(size_t(index) / 2 + 1);
    }
    auto& found = devices[size_t(index)];
    if (!found) found = std::make_unique<Device>(index);
    return *found;
}

void trace(const Device& d, Bus bus, uint8_t op, int stack, int bank, int value) {
    if (!shared.trace) return;
    const Record record{d.ck(), uint8_t(d.index), bus, op, uint8_t(stack), uint8_t(bank), 0, uint16_t(value)};
    std::fwrite(&record, sizeof(record), 1, shared.trace);
}

std::string place(const Device& d, int bank) {
    if (bank < 0) return "";
    return " SID " + std::to_string(bank / d.rules.banks) + " bank " + std::to_string(bank % d.rules.banks);
}

std::string at_ck(int64_t ck) { return " at CK " + std::to_string(ck); }

std::string ns(int64_t ck) {
    char text[32];
    const double period = double(shared.settings.number("ck_fs")) * 1e-6;
    std::snprintf(text, sizeof text, " (%.1f ns)", double(ck) * period);
    return text;
}

std::string sentence(const Device& d, const Command& c, int bank, const std::vector<Broken>& broken) {
    const Broken& first = broken.front();
    std::string text = "HBM device " + std::to_string(d.index) + ": rule " + first.rule + " is broken: ";
    if (c.op == NONE) text += place(d, first.before.bank).substr(1) + at_ck(d.ck()) + ": " + first.told;
    else text += std::string(name_of(c.op)) + place(d, bank) + at_ck(d.ck());
    if (c.op != NONE && !first.told.empty()) text += ": " + first.told;
    if (first.before) {
        text += " comes " + std::to_string(d.ck() - first.before.ck) + " CK" + ns(d.ck() - first.before.ck) +
                " after " + name_of(first.before.op) + place(d, first.before.bank) + at_ck(first.before.ck) +
                "; at least " + std::to_string(first.required) + " CK" + ns(first.required) + " are required";
    } else if (first.required) {
        text += ", at most " + std::to_string(first.required) + " may be";
    }
    std::string others;
    for (const Broken& other : broken) {
        if (std::string(other.rule) != first.rule && others.find(other.rule) == std::string::npos)
            others += std::string(others.empty() ? "" : ", ") + other.rule;
    }
    return text + (others.empty() ? "" : "; so is " + others) + ".";
}

void report(Device& d, const Command& c, int bank) {
    if (d.broken.empty()) return;
    if (shared.collect) {
        for (const Broken& b : d.broken) shared.found.push_back({d.index, d.ck(), b.rule});
    } else {
        bench::the_bench.stop(sentence(d, c, bank, d.broken));
    }
    d.broken.clear();
}

void give(Device& d, Bus bus, const Command& c) {
    ++d.count[c.op];
    trace(d, bus, uint8_t(c.op), c.stack, c.bank, c.value);
    const int bank = Rules::addresses_bank(c.op) && c.op != UNKNOWN ? c.stack * d.rules.banks + c.bank : -1;
    int64_t& last = channels[size_t(d.index) / 2].last[bus];
    if (last == d.ck()) d.broken.push_back({"bus", Event{}, 0, "another command is on this bus"});
    last = d.ck();
    d.rules.give(c, bank, d.ck(), d.broken);
    report(d, c, bank);
}

int64_t burst_of(const Device& d, const Command& c) {
    const int bank = c.stack * d.rules.banks + c.bank;
    if (c.stack >= d.rules.stacks || !d.rules.is_open(bank)) return -1;
    return (int64_t(bank) * d.rules.rows + d.rules.row_of(bank)) * BURSTS + c.value;
}

// Slots come at their rate: never more than two early or late against tile cycles of their own period.
void watch_rate(Device& d) {
    const int64_t tile = shared.settings.number("tile_fs"), slot = 2 * shared.settings.number("ck_fs");
    const int64_t early = d.slot * slot - (d.cycle - d.first_cycle) * tile;
    if (shared.collect || tile == 0 || std::abs(early) <= 2 * slot) return;
    bench::the_bench.stop("HBM device " + std::to_string(d.index) + ": slot " + std::to_string(d.slot) +
                          " comes " + std::to_string(early / 1000) +
                          " ps before its time, more than two slots.");
}

void reset(Device& d) {
    if (d.in_reset) return;
    d.in_reset = true;
    d.rules.reset();
    d.reads.clear();
    d.pending_write = -1;
    d.slot = d.cycle = -1;
    d.temperature = 0;
    d.slots = 0;
    std::fill(d.count, d.count + UNKNOWN + 1, 0);
    channels[size_t(d.index) / 2] = Channel{};
    trace(d, MARK, RESET, 0, 0, 0);
}

int step(Device& d, int64_t cycle, uint32_t row, uint32_t column, int temperature) {
    d.in_reset = false;
    if (cycle != d.cycle) {  // two modules of one number share a slot, and so the buses
        if (d.slot < 0) d.first_cycle = cycle;
        d.cycle = cycle;
        ++d.slot;
        ++d.slots;
        if (temperature != d.temperature) {
            d.temperature = temperature;
            trace(d, MARK, TEMPERATURE, 0, 0, temperature);
        }
        watch_rate(d);
        d.rules.advance(temperature, d.broken);
        report(d, Command{}, -1);
    }
    int flags = 0;
    if (column & 7) {
        static const Op ops[] = {NONE, RD, RDA, WR, WRA, UNKNOWN, UNKNOWN, UNKNOWN};
        const Command c{ops[column & 7], int(column >> 3 & 3), int(column >> 5 & 15), int(column >> 9 & 31)};
        const int64_t burst = burst_of(d, c);
        give(d, COLUMN, c);
        if (c.op == RD || c.op == RDA) {
            Device::Read read{d.slot + d.rules.read_slots() - 1, {}};
            if (burst >= 0) {
                d.memory.strike(burst);
                d.memory.look(burst);
                d.memory.read(burst, read.bytes);
            }
            d.reads.push_back(read);
        } else if (c.op != UNKNOWN && burst >= 0) {
            d.pending_write = burst;
            flags |= 2;
        }
    }
    if (row & 7) {
        static const Op ops[] = {NONE, ACT, PRE, PREA, REFPB, REFAB, MRS, UNKNOWN};
        give(d, ROW, {ops[row & 7], int(row >> 3 & 3), int(row >> 5 & 15), int(row >> 9 & 65535)});
    }
    if (!d.reads.empty() && d.reads.front().slot <= d.slot) {
        d.shown = d.reads.front();
        d.reads.pop_front();
        flags |= 1;
    }
    return flags;
}

// -- what Python asks between runs -----------------------------------------------------------------------

std::string statistics() {
    std::ostringstream out;
    out << "[";
    for (size_t i = 0; i < devices.size(); ++i) {
        if (!devices[i]) continue;
        const Device& d = *devices[i];
        out << (i ? ", " : "") << "{\"device\": " << i << ", \"slots\": " << d.slots;
        for (int op = ACT; op < UNKNOWN; ++op) out << ", \"" << name_of(Op(op)) << "\": " << d.count[op];
        out << ", \"refreshes_due\": " << d.rules.due << ", \"refreshes_served\": " << d.rules.served
            << ", \"refreshes_owed\": " << d.rules.debt() << ", \"worst_debt\": " << d.rules.worst_debt
            << ", \"faults\": " << d.memory.faults.size() << ", \"read_single\": " << d.memory.read_single
            << ", \"read_double\": " << d.memory.read_double
            << ", \"wrong_words\": " << d.memory.wrong_words() << "}";
    }
    out << "]";
    return out.str();
}

void close_trace() {
    if (!shared.trace) return;
    for (const auto& d : devices) {
        if (d) trace(*d, MARK, END, 0, 0, 0);
    }
    std::fclose(shared.trace);
    shared.trace = nullptr;
}

bool bursts_of(const Device& d, std::istringstream& words, const char* data, int64_t size, int64_t each,
               std::vector<int64_t>& bursts, std::string& answer) {
    int64_t count = 0;
    words >> count;
    if (count < 0 || size != count * (8 + each)) {
        answer = "the HBM device got " + std::to_string(size) + " bytes for " + std::to_string(count) +
                 " bursts";
        return false;
    }
    bursts.resize(size_t(count));
    std::memcpy(bursts.data(), data, size_t(count) * 8);
    for (const int64_t burst : bursts) {
        if (burst < 0 || burst >= d.memory.bursts()) {
            answer = "burst " + std::to_string(burst) + " is outside the HBM device of " +
                     std::to_string(d.memory.bursts()) + " bursts";
            return false;
        }
    }
    return true;
}

bool call(const char* body, int64_t size, std::string& answer) {
    const auto* end = static_cast<const char*>(std::memchr(body, '\n', size_t(size)));
    std::istringstream words(std::string(body, end ? size_t(end - body) : size_t(size)));
    const char* data = end ? end + 1 : body + size;
    const int64_t left = body + size - data;
    std::string verb;
    words >> verb;
    if (verb == "statistics") {
        answer = statistics();
        return true;
    }
    if (verb == "trace") {
        close_trace();
        std::string path;
        std::getline(words >> std::ws, path);
        if (!path.empty() && !(shared.trace = std::fopen(path.c_str(), "wb"))) {
            answer = "the HBM device cannot write the trace " + path;
            return false;
        }
        for (const auto& d : devices) {  // a reset that follows is recorded, whatever was before
            if (d) d->in_reset = false;
        }
        return true;
    }
    if (verb == "configure") {  // other timings, from the next reset on
        std::string text;
        std::getline(words >> std::ws, text);
        shared.settings = Settings(text);
        for (const auto& d : devices) {
            if (d) d->rules = Rules(shared.settings);
        }
        return true;
    }
    if (verb == "collect") {
        words >> shared.collect;
        shared.found.clear();
        return true;
    }
    if (verb == "violations") {
        for (const Found& f : shared.found) {
            answer += std::to_string(f.pc) + " " + std::to_string(f.ck) + " " + f.rule + "\n";
        }
        shared.found.clear();
        return true;
    }
    int index = -1;
    words >> index;
    if (index < 0 || index > 255) {
        answer = "the HBM device does not know how to " + verb;
        return false;
    }
    Device& d = device(index);
    std::vector<int64_t> bursts;
    if (verb == "load") {
        if (!bursts_of(d, words, data, left, BURST, bursts, answer)) return false;
        const auto* bytes = reinterpret_cast<const uint8_t*>(data) + bursts.size() * 8;
        for (size_t i = 0; i < bursts.size(); ++i) d.memory.load(bursts[i], bytes + i * BURST);
        return true;
    }
    if (verb == "dump") {
        if (!bursts_of(d, words, data, left, 0, bursts, answer)) return false;
        answer.resize(bursts.size() * BURST);
        for (size_t i = 0; i < bursts.size(); ++i)
            d.memory.read(bursts[i], reinterpret_cast<uint8_t*>(&answer[i * BURST]));
        return true;
    }
    if (verb == "flip") {
        int64_t burst = -1;
        int word = -1, bit = -1;
        words >> burst >> word >> bit;
        if (burst < 0 || burst >= d.memory.bursts() || word < 0 || word >= WORDS || bit < 0 || bit >= 72) {
            answer = "no bit " + std::to_string(bit) + " of word " + std::to_string(word) + " of burst " +
                     std::to_string(burst) + " is in the HBM device";
            return false;
        }
        d.memory.flip(burst, word, bit);
        return true;
    }
    if (verb == "faults") {
        uint64_t rate = 0, seed = 0;
        int bits = 1;
        words >> rate >> bits >> seed;
        d.memory.set_faults(rate, bits, seed);
        return true;
    }
    if (verb == "injected") {
        const auto& faults = d.memory.faults;
        answer.assign(reinterpret_cast<const char*>(faults.data()), faults.size() * sizeof(Fault));
        return true;
    }
    answer = "the HBM device does not know how to " + verb;
    return false;
}

const bool known = (bench::calls()["hbm"] = call, true);

}  // namespace
}  // namespace hbm

extern "C" {

void hbm_device_configure(const char* text) {
    if (hbm::shared.text.empty()) {
        hbm::shared.text = text;
        hbm::shared.settings = hbm::Settings(text);
    } else if (hbm::shared.text != text) {
        bench::the_bench.stop("HBM devices of different settings are in one bench.");
    }
}

void hbm_device_reset(int index) { hbm::reset(hbm::device(index)); }

// Bit 0: read data for the next slot are to be fetched. Bit 1: the write data of this slot are wanted.
int hbm_device_step(int index, long long cycle, unsigned row, unsigned column, int temperature) {
    return hbm::step(hbm::device(index), cycle, row, column, temperature);
}

void hbm_device_write(int index, const svBitVecVal* data, const svBitVecVal* check) {
    hbm::Device& d = hbm::device(index);
    uint8_t bytes[hbm::BURST];
    std::memcpy(bytes, data, hbm::DATA);
    std::memcpy(bytes + hbm::DATA, check, hbm::WORDS);
    d.memory.write(d.pending_write, bytes);
}

void hbm_device_read(int index, svBitVecVal* data, svBitVecVal* check) {
    const hbm::Device& d = hbm::device(index);
    std::memcpy(data, d.shown.bytes, hbm::DATA);
    std::memcpy(check, d.shown.bytes + hbm::DATA, hbm::WORDS);
}

}
