// Storage of a pseudo-channel: rows that were never written take no memory and read as zeros. A burst is 32
// bytes of data and a check byte for each of its four words of 64 bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "random.h"

namespace hbm {

constexpr int DATA = 32, WORDS = 4, BURST = DATA + WORDS, BURSTS = 32;  // bytes; bursts a row

struct Fault {
    uint64_t burst;
    uint32_t word;
    uint32_t wrong;  // bits of the word that are wrong now
};

class Memory {
public:
    explicit Memory(int64_t rows) : rows_(size_t(rows)) {}

    int64_t bursts() const { return int64_t(rows_.size()) * BURSTS; }

    void read(int64_t burst, uint8_t* out) const {
        const auto& row = rows_[size_t(burst / BURSTS)];
        if (row) std::memcpy(out, row->bytes[burst % BURSTS], BURST);
        else std::memset(out, 0, BURST);
    }

    void write(int64_t burst, const uint8_t* in) {
        std::memcpy(at(burst), in, BURST);
        if (wrong_.empty()) return;
        for (int word = 0; word < WORDS; ++word) wrong_.erase(burst * WORDS + word);
    }

    // Inverts bit 0..63 of the data or 64..71 of the check bits of a word.
    void flip(int64_t burst, int word, int bit) {
        uint8_t* bytes = at(burst);
        uint8_t& byte = bit < 64 ? bytes[word * 8 + bit / 8] : bytes[DATA + word];
        byte ^= uint8_t(1 << (bit & 7));
        Wrong& wrong = wrong_[burst * WORDS + word];
        if (bit < 64) wrong.data ^= uint64_t(1) << bit;
        else wrong.check ^= uint8_t(1 << (bit & 7));
        if (wrong.count() == 0) wrong_.erase(burst * WORDS + word);
    }

    // From outside: a new beginning also for words that had as many faults as they may have.
    void load(int64_t burst, const uint8_t* in) {
        write(burst, in);
        for (int word = 0; word < WORDS; ++word) spent_.erase(burst * WORDS + word);
    }

    // Before a read: perhaps a fault in its burst. A word never gets more than two wrong bits, because a code
    // of minimum distance four promises to detect no more. A word that had two may have been written back as
    // known to be bad; once it was written it gets a single one more, which must not make it look good.
    void strike(int64_t burst) {
        if (!random_.below(rate_)) return;
        const int word = int(random_.next64() % WORDS);
        const auto found = wrong_.find(burst * WORDS + word);
        const int before = found == wrong_.end() ? 0 : found->second.count();
        const auto spent = spent_.find(burst * WORDS + word);
        if (spent != spent_.end()) {
            if (bits_ > 1 || before > 0 || spent->second) return;
            spent->second = true;
        } else if (before + bits_ > 2) {
            return;
        } else if (before + bits_ == 2) {
            spent_[burst * WORDS + word] = false;
        }
        const int first = int(random_.next64() % 72);
        flip(burst, word, first);
        if (bits_ == 2) flip(burst, word, (first + 1 + int(random_.next64() % 71)) % 72);
        const auto now = wrong_.find(burst * WORDS + word);
        const int after = now == wrong_.end() ? 0 : now->second.count();
        faults.push_back({uint64_t(burst), uint32_t(word), uint32_t(after)});
    }

    // Counts the words of a burst, about to be read, that have one wrong bit, and those that have more.
    void look(int64_t burst) {
        if (wrong_.empty()) return;
        for (int word = 0; word < WORDS; ++word) {
            const auto found = wrong_.find(burst * WORDS + word);
            if (found == wrong_.end()) continue;
            if (found->second.count() == 1) ++read_single;
            else ++read_double;
        }
    }

    void set_faults(uint64_t rate, int bits, uint64_t seed) {
        rate_ = rate;
        bits_ = bits;
        random_.seed(seed);
    }

    int64_t wrong_words() const { return int64_t(wrong_.size()); }

    std::vector<Fault> faults;  // injected so far
    int64_t read_single = 0, read_double = 0;

private:
    struct Row {
        uint8_t bytes[BURSTS][BURST] = {};
    };
    struct Wrong {
        uint64_t data = 0;
        uint8_t check = 0;
        int count() const { return __builtin_popcountll(data) + __builtin_popcount(check); }
    };

    uint8_t* at(int64_t burst) {
        auto& row = rows_[size_t(burst / BURSTS)];
        if (!row) row = std::make_unique<Row>();
        return row->bytes[burst % BURSTS];
    }

    std::vector<std::unique_ptr<Row>> rows_;
    std::unordered_map<int64_t, bool> spent_;   // words that had two wrong bits: whether they had one more
    std::unordered_map<int64_t, Wrong> wrong_;  // bits that differ from what was written, by word
    bench::Random random_;
    uint64_t rate_ = 0;
    int bits_ = 1;
};

}  // namespace hbm
