// Binary32 arithmetic of the column foot by the machine's own (round to nearest even is IEEE's and C++'s default).

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr uint32_t CANONICAL_NAN = 0x7FC00000;

uint32_t bits(float value) {
  if (value != value) return CANONICAL_NAN;
  uint32_t pattern;
  std::memcpy(&pattern, &value, 4);
  return pattern;
}

float number(uint32_t pattern) {
  float value;
  std::memcpy(&value, &pattern, 4);
  return value;
}

}  // namespace

extern "C" unsigned int float32_add(unsigned int a, unsigned int b) { return bits(number(a) + number(b)); }

// sum * 2^exponent, rounded once. A sum of at most 53 bits is exact in binary64, and so is its product with a
// power of two of ten exponent bits; the conversion to binary32 is the one rounding.
extern "C" unsigned int float32_round(long long sum, int exponent, unsigned char nan) {
  if (nan) return CANONICAL_NAN;
  if (sum == 0) return 0;
  const uint64_t pattern = static_cast<uint64_t>(1023 + exponent) << 52;
  double scale;
  std::memcpy(&scale, &pattern, 8);
  return bits(static_cast<float>(static_cast<double>(sum) * scale));
}
