// The twister's steps in vectors of RL_LANES words, for processors with RL_TARGET. Included once for each kind of
// processor, inside a namespace of its own, by twister.cpp.
//
// No templates and no include guard: a function must name its processor itself, since vectors that a function's
// processor does not have are taken apart before it is inlined into one that has them.
//
// Counts are whole vectors: every state is, and so is each of the parts it is renewed in.

#define RL_INLINE RL_TARGET [[gnu::always_inline]] inline

using Words = uint32_t __attribute__((vector_size(4 * RL_LANES)));
using Signed = int32_t __attribute__((vector_size(4 * RL_LANES)));

RL_INLINE Words load(const uint32_t* at) {
  Words words;
  std::memcpy(&words, at, sizeof words);
  return words;
}

RL_INLINE void store(uint32_t* at, Words words) { std::memcpy(at, &words, sizeof words); }

RL_INLINE Words twisted(Words high, Words low) {
  const Words mixed = ((high ^ low) & kUpperBit) ^ low;   // one instruction where there is a bitwise choice
  return (mixed >> 1) ^ (reinterpret_cast<Words>((low & 1u) != 0) & kMatrix);
}

RL_INLINE Words even_words(const uint32_t* at) {
  const Words low = load(at), high = load(at + RL_LANES);
  Words even;
  for (uint32_t i = 0; i < RL_LANES; ++i) even[i] = 2 * i;
#if defined(__clang__)   // which makes one shuffle of it
  for (int i = 0; i < RL_LANES / 2; ++i) even[i] = low[2 * i], even[i + RL_LANES / 2] = high[2 * i];
  return even;
#else
  return __builtin_shuffle(low, high, even);
#endif
}

constexpr int kVectors = 6;   // so many side by side that none waits for its own last step

// Every step for all vectors before the next step, as the processor should see them.
RL_INLINE void temper_all(Words* y, int vectors) {
  for (int u = 0; u < vectors; ++u) y[u] ^= y[u] >> 11;
  for (int u = 0; u < vectors; ++u) y[u] ^= (y[u] << 7) & 0x9d2c5680u;
  for (int u = 0; u < vectors; ++u) y[u] ^= (y[u] << 15) & 0xefc60000u;
  for (int u = 0; u < vectors; ++u) y[u] ^= y[u] >> 18;
}

RL_INLINE void temper_vectors(const uint32_t* state, uint32_t* words, int vectors) {
  Words y[kVectors];
  for (int u = 0; u < vectors; ++u) y[u] = load(state + RL_LANES * u);
  temper_all(y, vectors);
  for (int u = 0; u < vectors; ++u) store(words + RL_LANES * u, y[u]);
}

RL_TARGET void temper(const uint32_t* state, uint32_t* words, int64_t count) {
  int64_t i = 0;
  for (; i + kVectors * RL_LANES <= count; i += kVectors * RL_LANES) temper_vectors(state + i, words + i, kVectors);
  for (; i < count; i += RL_LANES) temper_vectors(state + i, words + i, 1);
}

RL_INLINE void advance_vectors(const uint32_t* from, uint32_t* to, int64_t apart, int vectors) {
  Words next[kVectors];
  for (int u = 0; u < vectors; ++u) {
    const uint32_t* at = from + RL_LANES * u;
    next[u] = load(at + apart) ^ twisted(load(at), load(at + 1));
  }
  for (int u = 0; u < vectors; ++u) store(to + RL_LANES * u, next[u]);
}

RL_TARGET void advance(const uint32_t* from, uint32_t* to, int64_t count, int64_t apart) {
  int64_t i = 0;
  for (; i + 4 * RL_LANES <= count; i += 4 * RL_LANES) advance_vectors(from + i, to + i, apart, 4);
  for (; i < count; i += RL_LANES) advance_vectors(from + i, to + i, apart, 1);
}

// Which of the first words do not decide.
RL_INLINE Words toss_vectors(Coin coin, uint32_t one, const uint32_t* state, uint32_t* heads, int vectors) {
  Words top[kVectors], equal = {};
  for (int u = 0; u < vectors; ++u) top[u] = even_words(state + 2 * RL_LANES * u);
  temper_all(top, vectors);
  for (int u = 0; u < vectors; ++u) {
    top[u] &= Coin::kFirst;
    // Both are below 2^22, so that a signed comparison, which every processor has, is the unsigned one.
    const auto below = reinterpret_cast<Signed>(top[u]) < static_cast<int32_t>(coin.high);
    store(heads + RL_LANES * u, reinterpret_cast<Words>(below) & one);
    equal |= reinterpret_cast<Words>(top[u] == coin.high);
  }
  return equal;
}

// Coins by the first words of pairs; whether these did not decide all of them.
RL_TARGET bool toss_by_first(Coin coin, uint32_t one, const uint32_t* state, int64_t count, uint32_t* heads) {
  Words equal = {};
  int64_t i = 0;
  for (; i + kVectors * RL_LANES <= count; i += kVectors * RL_LANES) {
    equal |= toss_vectors(coin, one, state + 2 * i, heads + i, kVectors);
  }
  for (; i + RL_LANES <= count; i += RL_LANES) equal |= toss_vectors(coin, one, state + 2 * i, heads + i, 1);
  for (; i < count; ++i) heads[i] = toss_one(coin, state + 2 * i) ? one : 0;
  bool undecided = false;
  for (int lane = 0; lane < RL_LANES; ++lane) undecided |= equal[lane] != 0;
  return undecided;
}

#undef RL_INLINE
