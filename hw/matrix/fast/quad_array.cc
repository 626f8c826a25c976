// Simulation-only description of QuadArray (hw/matrix/array.py): the same bits at the same clock edges.
//
// Everything of row r moves east together, a column a cycle: an activation, the swap and the weight beat that
// enter row r at edge t meet column q at edge t + 1 + q. Seen from the west edge, what a row does is
// therefore the same for all its columns, and this description does all columns of a row at once, at edge t,
// with column q that much ahead of the RTL:
//
// * a partial sum is a word of an accumulator row, which stays in its place; "moving down" is that row r of
//   edge t adds into the accumulator row ("wave") of edge t - r;
// * a row whose activation is zero has nothing to do;
// * the words at the foot are read from the waves on a diagonal, 33 + product_latency + q edges later.
//
// What enters unskewed are the mode and the reset. Until they change, the columns ahead have assumed right.
// At the edge of a change, the steps that looked beyond it are taken again from a copy of the state, now with
// the mode of each column at its time. So there is no input for which this description is not exact.
//
// Words are those of hw/matrix/quad.py: 60 bits, cut into fields by guard bits.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // whatever the design around it is compiled with
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "svdpi.h"

#if defined(__x86_64__) && defined(__gnu_linux__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif
#define INLINE [[gnu::always_inline]] inline
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are returned by inlined functions only

namespace {

using Word = std::uint64_t;
using Words = Word __attribute__((vector_size(32), aligned(8), may_alias));  // of four columns
using Halves = std::uint32_t __attribute__((vector_size(16), aligned(4), may_alias));

constexpr int ROWS = 32;
constexpr int LANES = sizeof(Words) / sizeof(Word);
constexpr int INTERVAL = 128;  // steps between two copies of the state
constexpr int HISTORY = 2 * INTERVAL;
constexpr int COLUMNS_MAX = 64;
static_assert(COLUMNS_MAX + 2 <= INTERVAL);

constexpr int STRIDE = 15;
constexpr Word ALL = (Word{1} << 4 * STRIDE) - 1;
constexpr int SHIFT_AT = 60;  // the weight's shift stands above its magnitudes

struct Mode {
  bool wide_activations, wide_weights;
  bool operator==(const Mode& other) const {
    return wide_activations == other.wide_activations && wide_weights == other.wide_weights;
  }
  Word guards() const {
    if (wide_weights) return 1;
    return wide_activations ? 1 | Word{1} << 30 : 1 | Word{1} << 15 | Word{1} << 30 | Word{1} << 45;
  }
};

struct Inputs {
  std::uint8_t activations[36], weights[40 + 8];  // packed; a field is read with what follows it
  std::uint8_t low, high, quad, swap, reset;
  Mode mode;
};

struct Activation {
  unsigned significand, shift;
  Word negate;
  explicit Activation(unsigned word)
      : significand(word & 15), shift(word >> 4 & 15), negate(word >> 8 & 1 ? ALL : 0) {}
};

Word load64(const std::uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Fields r of the packed arrays.
unsigned activation_word(const Inputs& in, int r) {
  const std::uint8_t* at = in.activations + 9 * r / 8;
  return (at[0] | at[1] << 8) >> r % 8 & 0x1FF;
}
std::uint32_t weight_word(const Inputs& in, int r) {
  return load64(in.weights + r / 4 * 5) >> r % 4 * 10 & 0x3FF;
}

// Bit r is set where activation r has a significand.
std::uint32_t nonzero(const std::uint8_t* activations) {
  constexpr Word FIRSTS = 0x0040201008040201;  // bits 0, 9, ... 54
  constexpr Word GATHER = 0x0101010101010100;  // brings bit 9 i to bit 56 + i
  std::uint32_t rows = 0;
  for (int c = 0; c < 4; c++) {
    const Word seven = load64(activations + 9 * c);
    const Word eighth = load64(activations + 9 * c + 1) >> 55 & 15;
    const Word any = (seven | seven >> 1 | seven >> 2 | seven >> 3) & FIRSTS;
    const std::uint32_t eight = (any * GATHER >> 56 & 127) | (eighth != 0) << 7;
    rows |= eight << 8 * c;
  }
  return rows;
}

// What is known of a row of weights and its activation: DEEP, only slot 0 is in use; PAIR, only slots 0 and 1
// are, and no weight has a shift of its own; FOUR, no own shifts, significand and shift below 4; ANY, nothing.
enum class Kind { DEEP, PAIR, FOUR, ANY };

// The products of both halves of a word, where they fit.
INLINE Word times(Word halves, unsigned factor) { return halves * factor; }
INLINE Words times(const Words& halves, unsigned factor) {
  using Halves8 = std::uint32_t __attribute__((vector_size(32)));
  return reinterpret_cast<Words>(reinterpret_cast<Halves8>(halves) * factor);
}

// Magnitudes in their fields, from weights and one activation (T is one column or several).
template <Kind KIND, class T>
INLINE T magnitudes(const T& weight, unsigned significand, unsigned shift) {
  constexpr Word SLOT = 15;
  if constexpr (KIND == Kind::FOUR) {
    const T low = times(weight & (SLOT << 1 | SLOT << 16), significand);
    const T high = times(weight >> 31 & (SLOT | SLOT << 15), significand);
    return (low | high << 31) << shift;
  }
  const T first = times(weight & SLOT << 1, significand);
  const T total = (weight >> SHIFT_AT) + Word{shift};
  if constexpr (KIND == Kind::DEEP) return first << total;
  const T second = times(weight >> 31 & SLOT, significand);
  if constexpr (KIND == Kind::PAIR) return first << shift | second << (shift + 31);
  const T third = times(weight & SLOT << 16, significand & 3);
  const T fourth = times(weight >> 46 & SLOT, significand & 3) << 46;
  return first << total | second << (total & Word{15}) << 31 | (third | fourth) << (total & Word{3});
}

// The word below a quad from the word above it.
template <Kind KIND, class T>
INLINE T added(const T& psum, const T& weight, const T& sign, const Activation& activation, Word guards) {
  const T product = magnitudes<KIND>(weight, activation.significand, activation.shift);
  const T term = product ^ sign ^ activation.negate;
  return ((psum | (term & guards)) + term) & (ALL & ~guards);
}

// Active weights from shadow weights.
template <class T>
INLINE void activated(const T& shadow, Mode mode, T& weight, T& sign) {
  T slot[4], negative[4];  // as the RTL's shadow registers
  for (int j = 0; j < 4; j++) {
    slot[j] = shadow >> 5 * j & Word{15};
    negative[j] = shadow >> (5 * j + 4) & Word{1};
  }
  weight = slot[0] << 1 | (mode.wide_weights ? slot[1] << SHIFT_AT : slot[1] << 31);
  if (!mode.wide_activations) weight |= slot[2] << 16 | slot[3] << 46;
  const T upper = mode.wide_weights ? negative[0] : negative[1];
  const T ones = negative[0] | (mode.wide_activations ? negative[0] : negative[2]) << STRIDE |
                 upper << 2 * STRIDE | (mode.wide_activations ? upper : negative[3]) << 3 * STRIDE;
  sign = (ones << STRIDE) - ones;
}

struct State {
  // [row][column] of weights, [wave][column] of sums; columns are padded to full vectors.
  std::vector<Word> weight, sign, sums;
  std::vector<std::uint32_t> shadow;  // slots 0 to 3, 5 bits each
  // Bit r is for row r: a swap, a load arrives.
  std::uint32_t swaps = 0, lows = 0, highs = 0;
  // Bit r: some weight of row r has a shift of its own, slot 1 in use, slots 2 or 3 in use, signs that differ
  // between lanes 0 and 1 or 2 and 3, or between any.
  enum Trait { SHIFTED, SECOND, ODD, SPLIT_PAIRS, SPLIT_ALL, TRAITS };
  std::uint32_t rows_with[TRAITS] = {};
  std::uint8_t quad[ROWS] = {};  // of the load that came at edge t, at t % ROWS
  unsigned __int128 touched = 0;  // bit n: something was added into the wave of n edges ago

  bool has(Trait trait, int r) const { return rows_with[trait] >> r & 1; }

  // Traits, as bits, decide only how much is computed: one too many is never wrong.
  void note(int r, unsigned traits) {
    for (int i = 0; i < TRAITS; i++)
      rows_with[i] = (rows_with[i] & ~(std::uint32_t{1} << r)) | (traits >> i & 1) << r;
  }
};

INLINE unsigned any(const Words& words) {
  Word all = 0;
  for (int i = 0; i < LANES; i++) all |= words[i];
  return all != 0;
}

template <Kind KIND>
INLINE void add_row(Words* sums, const Words* weight, const Words* sign, int n, const Activation& activation,
                    Mode mode) {
  for (int i = 0; i < n; i++)
    sums[i] = added<KIND>(sums[i], weight[i], sign[i], activation, mode.guards());
}

// Adds the products of ``rows`` into the waves of step t, in every column.
VECTORISED void multiply(State& state, const Inputs& in, std::uint32_t rows, std::int64_t t, int columns,
                         std::int64_t wave_mask) {
  for (; rows; rows &= rows - 1) {
    const int r = __builtin_ctz(rows);
    const Activation activation(activation_word(in, r));
    auto* sums = reinterpret_cast<Words*>(&state.sums[((t - r) & wave_mask) * columns]);
    const auto* weight = reinterpret_cast<const Words*>(&state.weight[r * columns]);
    const auto* sign = reinterpret_cast<const Words*>(&state.sign[r * columns]);
    const int n = columns / LANES;
    const bool second = state.has(State::SECOND, r), odd = state.has(State::ODD, r);
    if (!second && !odd)
      add_row<Kind::DEEP>(sums, weight, sign, n, activation, in.mode);
    else if (state.has(State::SHIFTED, r))
      add_row<Kind::ANY>(sums, weight, sign, n, activation, in.mode);
    else if (activation.significand < 4 && activation.shift < 4)
      add_row<Kind::FOUR>(sums, weight, sign, n, activation, in.mode);
    else if (!odd)
      add_row<Kind::PAIR>(sums, weight, sign, n, activation, in.mode);
    else
      add_row<Kind::ANY>(sums, weight, sign, n, activation, in.mode);
  }
}

// Makes the shadow weights of row r active in every column, and notes what kinds of weights they are.
VECTORISED void swap_row(State& state, Mode mode, int r, int columns) {
  const auto* shadow = reinterpret_cast<const Halves*>(&state.shadow[r * columns]);
  auto* weight = reinterpret_cast<Words*>(&state.weight[r * columns]);
  auto* sign = reinterpret_cast<Words*>(&state.sign[r * columns]);
  Words all{}, pairs{}, halves{};
  for (int i = 0; i < columns / LANES; i++) {
    activated(__builtin_convertvector(shadow[i], Words), mode, weight[i], sign[i]);
    all |= weight[i];
    pairs |= sign[i] ^ sign[i] >> STRIDE;
    halves |= sign[i] ^ sign[i] >> 2 * STRIDE;
  }
  const unsigned split_pairs = any(pairs & (Word{1} | Word{1} << 2 * STRIDE));
  state.note(r, any(all >> SHIFT_AT) << State::SHIFTED | any(all & Word{15} << 31) << State::SECOND |
                    any(all & (Word{15} << 16 | Word{15} << 46)) << State::ODD |
                    split_pairs << State::SPLIT_PAIRS |
                    (split_pairs | any(halves & Word{1})) << State::SPLIT_ALL);
}

class Array {
 public:
  Array(int quads, int product_latency)
      : quads_(quads), latency_(product_latency), columns_((quads + LANES - 1) / LANES * LANES),
        history_(HISTORY) {
    std::int64_t waves = 1;
    while (waves < ROWS + 2 + quads) waves *= 2;
    wave_mask_ = waves - 1;
    for (auto* words : {&state_.weight, &state_.sign}) words->assign(ROWS * columns_, 0);
    state_.shadow.assign(ROWS * columns_, 0);
    state_.sums.assign(waves * columns_, 0);
  }

  // One clock edge: ``in`` stood at the inputs before it, ``psum`` stands at the output after it.
  void edge(const Inputs& in, svBitVecVal* psum) {
    history_[now_ % HISTORY] = in;
    const bool first = now_ == 0;
    const bool tokens = in.swap | in.low | in.high;
    if (tokens) last_token_ = now_;
    if (!first && !(in.mode == at(now_ - 1).mode)) rewind();
    else if (in.reset && !first && now_ - last_token_ < ROWS + COLUMNS_MAX) rewind();
    forward();
    now_++;
    foot(psum);
  }

 private:
  const Inputs& at(std::int64_t t) const { return history_[t % HISTORY]; }

  // Takes again, with what is known now, the steps before ``now_`` which looked at it or beyond.
  void rewind() {
    const std::int64_t end = now_;
    const std::int64_t wanted = end - quads_ - latency_;
    std::int64_t begin = (end - 1) / INTERVAL * INTERVAL;
    if (begin > wanted && begin > 0) begin -= INTERVAL;
    state_ = copies_[begin / INTERVAL % 2];
    for (now_ = begin; now_ < end; now_++) forward(end);
  }

  void forward() { forward(now_); }

  // Step ``now_``, where modes and resets up to edge ``known`` are known.
  void forward(std::int64_t known) {
    const std::int64_t t = now_;
    if (t % INTERVAL == 0) copies_[t / INTERVAL % 2] = state_;
    const Inputs& in = at(t);
    std::fill_n(&state_.sums[(t & wave_mask_) * columns_], columns_, 0);
    state_.touched <<= 1;
    state_.swaps = in.reset ? 0 : state_.swaps << 1 | in.swap;
    state_.lows = in.reset ? 0 : state_.lows << 1 | in.low;
    state_.highs = in.reset ? 0 : state_.highs << 1 | in.high;
    state_.quad[t % ROWS] = in.quad;
    // In the RTL, products, swap and load of an edge all see the registers before it: in this order.
    const int alike = columns_alike(t, known);
    if (alike >= quads_ + latency_) {
      // A zero adds nothing, and may be skipped, if no guard bit of this mode is set in the sums. None is: the
      // step before had the same mode, or went by column, in which every row ends with the guards of its time
      // clear; and that time is within the edges that are alike.
      std::uint32_t rows = nonzero(in.activations);
      if (in.mode.wide_weights) rows |= state_.rows_with[State::SPLIT_ALL];
      else if (in.mode.wide_activations) rows |= state_.rows_with[State::SPLIT_PAIRS];
      state_.touched |= rows;
      if (rows) multiply(state_, in, rows, t, columns_, wave_mask_);
      for (auto swapped = state_.swaps; swapped; swapped &= swapped - 1)
        swap_row(state_, in.mode, __builtin_ctz(swapped), columns_);
      load(in, t, quads_);
    } else {
      step_by_column(in, t, known);
    }
  }

  // Number of edges after t, up to all that matter, at which the mode is that of step t and no reset comes.
  int columns_alike(std::int64_t t, std::int64_t known) const {
    int n = 0;
    while (n < quads_ + latency_) {
      const std::int64_t x = t + 1 + n;
      if (x > known) return quads_ + latency_;
      if (at(x).reset || !(at(x).mode == at(t).mode)) break;
      n++;
    }
    return n;
  }

  // The same as in forward(), each column with the mode of its own time, and cut off by a reset.
  void step_by_column(const Inputs& in, std::int64_t t, std::int64_t known) {
    const auto mode = [&](std::int64_t x) { return at(std::min(x, known)).mode; };
    state_.touched |= ~std::uint32_t{0};
    int alive = 0;
    while (alive < quads_ && !(t + alive + 1 <= known && at(t + alive + 1).reset)) alive++;
    if (alive < quads_) alive++;  // the column that acts at the edge of the reset still does
    for (int r = 0; r < ROWS; r++) {
      const Activation activation(activation_word(in, r));
      Word* sums = &state_.sums[((t - r) & wave_mask_) * columns_];
      for (int q = 0; q < quads_; q++) {
        const int i = r * columns_ + q;
        const Word guards = mode(t + 1 + q + latency_).guards();
        sums[q] = added<Kind::ANY>(sums[q], state_.weight[i], state_.sign[i], activation, guards);
        if (state_.swaps >> r & 1 && q < alive)
          activated<Word>(state_.shadow[i], mode(t + 1 + q), state_.weight[i], state_.sign[i]);
      }
      if (state_.swaps >> r & 1) state_.note(r, ~0u);
    }
    load(in, t, alive);
  }

  // Writes the weight beat of step t into the shadow weights of the columns that loads ask for.
  void load(const Inputs& in, std::int64_t t, int alive) {
    for (auto rows = state_.lows | state_.highs; rows; rows &= rows - 1) {
      const int r = __builtin_ctz(rows);
      const int q = state_.quad[(t - r) & (ROWS - 1)];
      if (q >= alive) continue;
      const std::uint32_t slots = (state_.lows >> r & 1) | (state_.highs >> r & 1) << 10;
      std::uint32_t& shadow = state_.shadow[r * columns_ + q];
      shadow = (shadow & ~(slots * 0x3FF)) | slots * weight_word(in, r);
    }
  }

  // The words at the feet of the columns, packed.
  void foot(svBitVecVal* psum) const {
    constexpr int BITS = 4 * STRIDE;
    const int n = (BITS * quads_ + 31) / 32;
    std::fill_n(psum, n, 0);
    const int above = ROWS + latency_;
    auto columns = static_cast<Word>(state_.touched >> above) & (~Word{0} >> (COLUMNS_MAX - quads_));
    for (; columns; columns &= columns - 1) {
      const int q = __builtin_ctzll(columns);
      const std::int64_t wave = now_ - 1 - above - q;
      const Word word = state_.sums[(wave & wave_mask_) * columns_ + q];
      const int at = BITS * q / 32, bit = BITS * q % 32;
      const auto placed = static_cast<unsigned __int128>(word) << bit;
      psum[at] |= static_cast<svBitVecVal>(placed);
      psum[at + 1] |= static_cast<svBitVecVal>(placed >> 32);
      if (bit > 4) psum[at + 2] |= static_cast<svBitVecVal>(placed >> 64);
    }
  }

  int quads_, latency_, columns_;
  std::int64_t wave_mask_;
  std::int64_t now_ = 0;  // the edge that comes next
  std::int64_t last_token_ = -HISTORY;
  State state_;
  State copies_[2];
  std::vector<Inputs> history_;
};

void step(void* handle, svBit rst, svBit wide_activations, svBit wide_weights, const svBitVecVal* activations,
          const svBitVecVal* weights, svBitVecVal load, svBit swap, svBitVecVal* psum) {
  Inputs in;
  std::memcpy(in.activations, activations, sizeof in.activations);
  std::memcpy(in.weights, weights, sizeof in.weights);
  in.low = load & 1;
  in.high = load >> 1 & 1;
  in.quad = load >> 2 & 63;
  in.swap = swap & 1;
  in.reset = rst & 1;
  in.mode = {static_cast<bool>(wide_activations & 1), static_cast<bool>(wide_weights & 1)};
  static_cast<Array*>(handle)->edge(in, psum);
}

}  // namespace

// An imported function has one signature in a design, widths included: one step function a number of columns.
#define STEP(n)                                                                                              \
  void quad_array_##n##_step(void* handle, svBit rst, svBit wide_activations, svBit wide_weights,            \
                             const svBitVecVal* activations, const svBitVecVal* weights,                     \
                             const svBitVecVal* load, svBit swap, svBitVecVal* psum) {                       \
    step(handle, rst, wide_activations, wide_weights, activations, weights, *load, swap, psum);              \
  }
#define STEPS(tens) \
  STEP(tens##0) STEP(tens##1) STEP(tens##2) STEP(tens##3) STEP(tens##4) \
  STEP(tens##5) STEP(tens##6) STEP(tens##7) STEP(tens##8) STEP(tens##9)

extern "C" {
void* quad_array_create(int quads, int product_latency) { return new Array(quads, product_latency); }
void quad_array_destroy(void* handle) { delete static_cast<Array*>(handle); }
STEPS() STEPS(1) STEPS(2) STEPS(3) STEPS(4) STEPS(5) STEPS(6)
}
