// The twister for every kind of processor. See twister.h, and twister_lanes.h for the loops.
#include "twister.h"

#include <cstring>

#include "processor.h"

namespace rl::random {

namespace {

constexpr uint32_t kUpperBit = 0x80000000u;
constexpr uint32_t kMatrix = 0x9908b0dfu;

bool toss_one(Coin coin, const uint32_t* pair) { return coin(tempered_word(pair[0]), tempered_word(pair[1])); }

}  // namespace

uint32_t tempered_word(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

namespace {

namespace four {
#define RL_LANES 4
#define RL_TARGET
#include "twister_lanes.h"
#undef RL_LANES
#undef RL_TARGET
}  // namespace four

#if defined(__x86_64__)
namespace eight {
#define RL_LANES 8
#define RL_TARGET [[gnu::target("avx2")]]
#include "twister_lanes.h"
#undef RL_LANES
#undef RL_TARGET
}  // namespace eight

namespace sixteen {
#define RL_LANES 16
#define RL_TARGET [[gnu::target("avx512f")]]
#include "twister_lanes.h"
#undef RL_LANES
#undef RL_TARGET
}  // namespace sixteen
#endif

Twister choose() {
#if defined(__x86_64__)
  if (has_avx512f()) return {sixteen::advance, sixteen::temper, sixteen::toss_by_first, 16};
  if (has_avx2_and_fma()) return {eight::advance, eight::temper, eight::toss_by_first, 8};
#endif
  return {four::advance, four::temper, four::toss_by_first, 4};
}

}  // namespace

const Twister& twister_here() {
  static const Twister chosen = choose();
  return chosen;
}

void Twister::renew(uint32_t* state) const {
  // The shifted operand is last block's words up to word 227 and this block's behind it, at least 227 words apart, far
  // beyond any vectors. The first new words, repeated behind the last old ones, make that a plain step too.
  constexpr int kSplit = kWords - kShift;
  const int whole = kSplit / lanes * lanes;
  advance(state, state, whole, kShift);
  std::memcpy(state + kWords, state, kOverhang * sizeof(uint32_t));
  advance(state + whole, state + whole, lanes, kShift);
  advance(state + whole + lanes, state + whole + lanes, kWords - whole - lanes, -kSplit);
}

void Twister::toss(Coin coin, uint32_t one, const uint32_t* state, int64_t count, uint32_t* heads) const {
  if (!toss_by_first(coin, one, state, count, heads)) return;
  for (int64_t i = 0; i < count; ++i) heads[i] = toss_one(coin, state + 2 * i) ? one : 0;
}

}  // namespace rl::random
