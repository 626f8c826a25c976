// What a pseudo-channel of the device remembers of its commands, and the rules that a new command must obey.
// Independent of tb/hbm/checker.py, which looks at whole traces and takes its rules from a table; both name a
// rule alike (tb/hbm/rules.json has the names and values). Times are in CK.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace hbm {

enum Op : uint8_t { NONE, ACT, PRE, PREA, REFPB, REFAB, MRS, RD, RDA, WR, WRA, UNKNOWN };

inline const char* name_of(Op op) {
    static const char* const names[] = {"NOP",   "ACT", "PRE", "PREA", "REFPB", "REFAB",
                                        "MRS",   "RD",  "RDA", "WR",   "WRA",   "an unknown operation"};
    return names[op];
}

// Settings by name, from "name=value" pairs; times come in fs or, with the suffix "ck", in CK.
class Settings {
public:
    explicit Settings(const std::string& text = "") {
        for (size_t at = 0; at < text.size();) {
            const size_t end = std::min(text.find(' ', at), text.size());
            const size_t equals = text.find('=', at);
            values_[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
            at = end + 1;
        }
    }

    int64_t number(const std::string& name) const { return std::stoll(get(name)); }

    // Minima are rounded up, the refresh interval down.
    int64_t ck(const std::string& name) const {
        const std::string& text = get(name);
        const int64_t value = std::stoll(text);
        if (text.find("ck") != std::string::npos) return value;
        const int64_t period = number("ck_fs");
        return name == "tREFI" ? value / period : (value + period - 1) / period;
    }

private:
    const std::string& get(const std::string& name) const {
        const auto found = values_.find(name);
        if (found == values_.end()) throw std::runtime_error("HBM device: no setting " + name);
        return found->second;
    }

    std::map<std::string, std::string> values_;
};

struct Command {
    Op op = NONE;
    int stack = 0;
    int bank = 0;   // within its stack ID; the register of MRS
    int value = 0;  // row, column, or what MRS writes
};

// A command that was given, with its place among all banks (-1: all of them).
struct Event {
    Op op = NONE;
    int bank = -1;
    int64_t ck = -1;
    explicit operator bool() const { return op != NONE; }
};

struct Broken {
    const char* rule;
    Event before;          // the earlier command, where the rule is about two
    int64_t required = 0;  // CK between them, or a bound
    std::string told;      // what is wrong, where it is no distance
};

class Rules {
public:
    explicit Rules(const Settings& s)
        : stacks(int(s.number("stack_ids"))), groups(int(s.number("bank_groups"))),
          banks(int(s.number("banks"))), rows(int(s.number("rows"))), postponed(int(s.number("postponed"))),
          init(s.ck("tINIT")), cl(s.ck("CL")), cwl(s.ck("CWL")), burst(s.ck("BL")), rcd_read(s.ck("tRCDRD")),
          rcd_write(s.ck("tRCDWR")), rp(s.ck("tRP")), ras(s.ck("tRAS")), rc(s.ck("tRC")),
          ccd_s(s.ck("tCCD_S")), ccd_l(s.ck("tCCD_L")), ccd_r(s.ck("tCCD_R")),
          rrd_s(s.ck("tRRD_S")), rrd_l(s.ck("tRRD_L")),
          faw(s.ck("tFAW")), rtp(s.ck("tRTP")), wr(s.ck("tWR")), wtr_s(s.ck("tWTR_S")), wtr_l(s.ck("tWTR_L")),
          rtw(s.ck("tRTW")), refi(s.ck("tREFI")), rfc_ab(s.ck("tRFCab")), rfc_pb(s.ck("tRFCpb")),
          rrefd(s.ck("tRREFD")), mrd(s.ck("tMRD")), ecc(int(s.number("ecc"))) {
        reset();
    }

    void reset() {
        bank_.assign(total(), Bank{});
        group_.assign(size_t(stacks * groups), Group{});
        last_mode_ = last_read_ = refresh_all_ = last_refresh_ = other_refresh_ = Event{};
        std::fill(activates_, activates_ + 4, Event{});
        activate_count_ = 0;
        written_ = 0;
        started_ = false;
        progress_ = 0;
        fallen_ = 0;
        next_due_ = 0;
        due = served = worst_debt = 0;
    }

    int total() const { return stacks * banks; }
    bool is_open(int bank) const { return bank_[size_t(bank)].open; }
    int row_of(int bank) const { return bank_[size_t(bank)].row; }
    // Slots of two CK from a read command to its data.
    int64_t read_slots() const { return (cl + burst + 1) / 2; }

    // Time goes on by one slot; refreshes fall due. Call before the commands of the slot.
    void advance(int temperature, std::vector<Broken>& broken) {
        if (!started_) return;
        progress_ += int64_t(2) << std::min(temperature, 2);
        while (progress_ >= next_due_) {
            Bank& bank = bank_[size_t(fallen_ % total())];
            ++due;
            worst_debt = std::max(worst_debt, int64_t(++bank.debt));
            if (bank.debt > postponed)
                broken.push_back({"refresh_late", {NONE, int(fallen_ % total()), -1}, postponed,
                                  std::to_string(bank.debt) + " refreshes of it are due"});
            ++fallen_;
            next_due_ = (fallen_ + 1) * refi / total();
        }
    }

    int debt() const {
        int sum = 0;
        for (const Bank& bank : bank_) sum += std::max(bank.debt, 0);
        return sum;
    }

    // Checks a command and takes it as given, legal or not. `at` is its bank among all banks.
    void give(const Command& c, int at, int64_t now, std::vector<Broken>& broken) {
        now_ = now;
        broken_ = &broken;
        const bool outside = (addresses_bank(c.op) && c.stack >= stacks) || (c.op == ACT && c.value >= rows);
        if (c.op == UNKNOWN || outside) {
            tell("command", "it does not exist or its address is outside the device");
            return;
        }
        if (now < init) tell("init", "start-up takes until CK " + std::to_string(init));
        need("tMRD", last_mode_, mrd);
        need("tRFCab", refresh_all_, rfc_ab);
        if (c.op == MRS) return mode_register(c);
        if (written_ != 7) tell("mode_registers", "not all mode registers are written");
        if (!started_ && c.op != REFAB) tell("first_refresh", "no all-bank refresh was before it");
        switch (c.op) {
            case ACT: activate(c, at); break;
            case PRE: precharge(PRE, at); break;
            case PREA:
                for (int bank = 0; bank < total(); ++bank) precharge(PREA, bank);
                break;
            case REFPB: refresh_bank(at); break;
            case REFAB: refresh_all(); break;
            case RD: case RDA: case WR: case WRA: column(c, at); break;
            default: break;
        }
    }

    static bool addresses_bank(Op op) { return op == ACT || op == PRE || op == REFPB || op >= RD; }

    int64_t due = 0, served = 0, worst_debt = 0;

    int stacks, groups, banks, rows, postponed;

private:
    struct Bank {
        bool open = false;
        int row = 0;
        int debt = 0;
        Event activate, read, write, read_auto, write_auto, precharge, refresh;
    };
    struct Group {
        Event column, write, activate;
    };

    void need(const char* rule, const Event& before, int64_t distance) {
        if (before && now_ - before.ck < distance) broken_->push_back({rule, before, distance, ""});
    }

    void tell(const char* rule, const std::string& told) { broken_->push_back({rule, Event{}, 0, told}); }

    int group_of(int at) const { return at / banks * groups + at % banks % groups; }

    void mode_register(const Command& c) {
        const int64_t right[] = {cl, cwl, ecc};
        if (c.bank > 2 || c.value != right[c.bank] || (written_ >> c.bank & 1)) {
            tell("mode_registers", "register " + std::to_string(c.bank) + " = " + std::to_string(c.value) +
                                       " is not what this device needs, or is written again");
        }
        if (c.bank <= 2) written_ |= 1 << c.bank;
        last_mode_ = {MRS, -1, now_};
    }

    // What ACT and the refreshes ask of the bank that they need closed.
    void rested(const Bank& bank) {
        need("tRP", bank.precharge, rp);
        need("tRP_RDA", bank.read_auto, rtp + rp);
        need("tRP_WRA", bank.write_auto, cwl + burst + wr + rp);
        need("tRP_RAS", bank.activate, ras + rp);
        need("tRFCpb", bank.refresh, rfc_pb);
    }

    void activate(const Command& c, int at) {
        Bank& bank = bank_[size_t(at)];
        if (bank.open) tell("activate_open", "row " + std::to_string(bank.row) + " is open");
        rested(bank);
        need("tRC", bank.activate, rc);
        const int mine = group_of(at);
        for (int g = 0; g < stacks * groups; ++g) {
            if (g == mine) need("tRRD_L", group_[size_t(g)].activate, rrd_l);
            else need("tRRD_S", group_[size_t(g)].activate, rrd_s);
        }
        need("tFAW", activates_[activate_count_ & 3], faw);
        need_refresh_spacing(at);
        bank.open = true;
        bank.row = c.value;
        bank.activate = {ACT, at, now_};
        group_[size_t(mine)].activate = bank.activate;
        activates_[activate_count_++ & 3] = bank.activate;
    }

    void precharge(Op op, int at) {
        Bank& bank = bank_[size_t(at)];
        need("tRFCpb", bank.refresh, rfc_pb);
        if (!bank.open) return;
        need("tRAS", bank.activate, ras);
        need("tRTP", bank.read, rtp);
        need("tWR", bank.write, cwl + burst + wr);
        bank.open = false;
        bank.precharge = {op, at, now_};
    }

    // tRREFD, from the last refresh of a bank other than `at`.
    void need_refresh_spacing(int at) {
        need("tRREFD", last_refresh_.bank == at ? other_refresh_ : last_refresh_, rrefd);
    }

    void refresh_bank(int at) {
        Bank& bank = bank_[size_t(at)];
        if (bank.open) tell("refresh_open", "row " + std::to_string(bank.row) + " is open");
        rested(bank);
        for (int g = 0; g < stacks * groups; ++g) {
            if (g == group_of(at)) need("tRRD_L_REF", group_[size_t(g)].activate, rrd_l);
            else need("tRRD_S_REF", group_[size_t(g)].activate, rrd_s);
        }
        need_refresh_spacing(at);
        bank.refresh = {REFPB, at, now_};
        if (last_refresh_.bank != at) other_refresh_ = last_refresh_;
        last_refresh_ = bank.refresh;
        serve(bank);
    }

    void refresh_all() {
        for (int at = 0; at < total(); ++at) {
            Bank& bank = bank_[size_t(at)];
            if (bank.open) tell("refresh_open", "row " + std::to_string(bank.row) + " of bank " +
                                                    std::to_string(at) + " is open");
            rested(bank);
        }
        refresh_all_ = {REFAB, -1, now_};
        if (started_) {
            for (Bank& bank : bank_) serve(bank);
        } else {
            started_ = true;
            next_due_ = refi / total();
        }
    }

    // More than `postponed` refreshes in advance are not credited.
    void serve(Bank& bank) {
        if (!started_) return;
        ++served;
        bank.debt = std::max(bank.debt - 1, -postponed);
    }

    void column(const Command& c, int at) {
        Bank& bank = bank_[size_t(at)];
        const bool reads = c.op == RD || c.op == RDA;
        if (!bank.open) tell("column_closed", "its bank is closed");
        need("tRFCpb", bank.refresh, rfc_pb);
        if (reads) need("tRCDRD", bank.activate, rcd_read);
        else need("tRCDWR", bank.activate, rcd_write);
        const int mine = group_of(at);
        for (int g = 0; g < stacks * groups; ++g) {
            const Group& group = group_[size_t(g)];
            const int64_t data = cwl + burst;
            if (g == mine) need("tCCD_L", group.column, ccd_l);
            else if (g / groups == mine / groups) need("tCCD_S", group.column, ccd_s);
            else need("tCCD_R", group.column, ccd_r);
            if (!reads) continue;
            if (g == mine) need("tWTR_L", group.write, data + wtr_l);
            else need("tWTR_S", group.write, data + wtr_s);
        }
        if (!reads) need("tRTW", last_read_, rtw);
        const Event event{c.op, at, now_};
        group_[size_t(mine)].column = event;
        if (reads) last_read_ = event;
        else group_[size_t(mine)].write = event;
        if (c.op == RD) bank.read = event;
        if (c.op == WR) bank.write = event;
        if (c.op == RDA) bank.read_auto = event;
        if (c.op == WRA) bank.write_auto = event;
        if (c.op == RDA || c.op == WRA) bank.open = false;
    }

    int64_t init, cl, cwl, burst, rcd_read, rcd_write, rp, ras, rc, ccd_s, ccd_l, ccd_r, rrd_s, rrd_l,
        faw, rtp, wr, wtr_s, wtr_l, rtw, refi, rfc_ab, rfc_pb, rrefd, mrd, ecc;

    std::vector<Bank> bank_;
    std::vector<Group> group_;
    Event last_mode_, last_read_, refresh_all_;
    Event last_refresh_, other_refresh_;  // the last REFPB, and the last one of a bank other than its own
    Event activates_[4];
    int64_t activate_count_ = 0;
    int written_ = 0;       // mode registers, a bit each
    bool started_ = false;  // the first all-bank refresh was given
    int64_t progress_ = 0;  // CK since then, twice or four times as quick at high temperature
    int64_t fallen_ = 0;    // refreshes that fell due
    int64_t next_due_ = 0;
    int64_t now_ = 0;
    std::vector<Broken>* broken_ = nullptr;
};

}  // namespace hbm
