// MT19937's recurrence over arrays of words, with the widest vectors of the running processor. Internal to random.cpp
// and sample.cpp, which decide who draws what.
#pragma once

#include <cstdint>

namespace rl::random {

// A coin takes two draws, and the low 53 bits of both decide: heads where they are below a threshold. The first draw
// alone decides unless its 21 bits are the threshold's, so the second is rarely looked at.
struct Coin {
  static constexpr uint32_t kFirst = (1u << 21) - 1;
  uint32_t high, low;   // of the threshold

  bool operator()(uint32_t first, uint32_t second) const {
    const uint32_t top = first & kFirst;
    return (top < high) | ((top == high) & (second < low));
  }
};

struct Twister {
  static constexpr int kWords = 624, kShift = 397;
  static constexpr int kOverhang = 16;   // words behind a state that `renew` uses: the widest vector

  // to[i] from words i, i + 1 and i + apart of `from`, for i < count, in this order: `to` may be ahead of `from` in the
  // same array, or the same, while what is read again was written at least 4 vectors before. Counts are whole vectors.
  void (*advance)(const uint32_t* from, uint32_t* to, int64_t count, int64_t apart);
  void (*temper)(const uint32_t* state, uint32_t* words, int64_t count);
  bool (*toss_by_first)(Coin coin, uint32_t one, const uint32_t* state, int64_t count, uint32_t* heads);
  int lanes;

  // The next state in place of this one.
  void renew(uint32_t* state) const;
  // `one` for heads and 0 for tails, from `count` pairs of words that are not tempered yet.
  void toss(Coin coin, uint32_t one, const uint32_t* state, int64_t count, uint32_t* heads) const;
};

uint32_t tempered_word(uint32_t y);
const Twister& twister_here();

}  // namespace rl::random
