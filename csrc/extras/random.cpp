// The twister, generator state, and the order in which strided memory is visited. See random.h.
#include "random.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace rl::random {

namespace {

constexpr int kShift = 397;
constexpr uint32_t kUpperBit = 0x80000000u;

// Four words at a time. Written out because a compiler keeps twisting and tempering in loops of their own, and mixes
// the upper bit in with three instructions where one does.
using Four = uint32_t __attribute__((vector_size(16)));

inline Four load(const uint32_t* words) {
  Four four;
  std::memcpy(&four, words, sizeof four);
  return four;
}

inline void store(uint32_t* words, Four four) { std::memcpy(words, &four, sizeof four); }

inline Four even_words(Four low, Four high) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(low, high, 0, 2, 4, 6);
#else   // GCC before 12
  return Four{low[0], low[2], high[0], high[2]};
#endif
}

inline Four twist(Four high, Four low) {
  const Four mixed = ((high ^ low) & kUpperBit) ^ low;
  return (mixed >> 1) ^ (reinterpret_cast<Four>((low & 1u) != 0) & 0x9908b0dfu);
}

template <class Words>
inline Words tempered(Words y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace

Engine::Engine(uint64_t seed) : seed_(seed), next_(0), available_(0) {
  state_[0] = static_cast<uint32_t>(seed);
  for (int i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<uint32_t>(i);
  }
}

void Engine::temper() {
  for (int i = 0; i < kWords; i += 4) store(words_ + i, tempered(load(state_ + i)));
}

// `count` words from `first` on, of which the new ones `apart` words on (or back) are part: tempered at once, and four
// vectors at a time, whose instructions wait for nothing but their own.
template <bool tempers>
inline void Engine::advance(int first, int count, int apart) {
  uint32_t* state = state_ + first;
  uint32_t* words = words_ + first;
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    Four next[4];
    for (int u = 0; u < 4; ++u) {
      const uint32_t* at = state + i + 4 * u;
      next[u] = load(at + apart) ^ twist(load(at), load(at + 1));
    }
    for (int u = 0; u < 4; ++u) store(state + i + 4 * u, next[u]);
    for (int u = 0; tempers && u < 4; ++u) store(words + i + 4 * u, tempered(next[u]));
  }
  for (; i < count; i += 4) {
    const Four next = load(state + i + apart) ^ twist(load(state + i), load(state + i + 1));
    store(state + i, next);
    if (tempers) store(words + i, tempered(next));
  }
}

template <bool tempers>
void Engine::renew() {
  // The shifted operand is last block's words up to word 227 and this block's behind it, at least 227 words apart, far
  // beyond any vector. The first new words, repeated behind the last old ones, make that a plain step too.
  constexpr int kSplit = kWords - kShift, kWhole = kSplit / 4 * 4;
  advance<tempers>(0, kWhole, kShift);
  std::memcpy(state_ + kWords, state_, sizeof(Four));
  advance<tempers>(kWhole, 4, kShift);
  advance<tempers>(kWhole + 4, kWords - kWhole - 4, -kSplit);
  next_ = 0;
  available_ = kWords;
}

void Engine::refill() { renew<true>(); }

namespace {

// Coins by the first words of `count` pairs; whether these did not decide all of them.
bool toss(Coin coin, uint32_t one, const uint32_t* words, int count, uint32_t* heads) {
  constexpr int kPart = 24, kFours = kPart / 4;   // so many vectors that none waits for its own last step
  Four equal = {};
  int i = 0;
  for (; i + kPart <= count; i += kPart) {
    Four top[kFours];
    for (int u = 0; u < kFours; ++u) {
      const uint32_t* at = words + 2 * (i + 4 * u);
      top[u] = even_words(load(at), load(at + 4));
    }
    for (int u = 0; u < kFours; ++u) top[u] ^= top[u] >> 11;
    for (int u = 0; u < kFours; ++u) top[u] ^= (top[u] << 7) & 0x9d2c5680u;
    for (int u = 0; u < kFours; ++u) top[u] ^= (top[u] << 15) & 0xefc60000u;
    for (int u = 0; u < kFours; ++u) top[u] = (top[u] ^ (top[u] >> 18)) & Coin::kFirst;
    for (int u = 0; u < kFours; ++u) {
      store(heads + i + 4 * u, reinterpret_cast<Four>(top[u] < coin.high) & one);
      equal |= reinterpret_cast<Four>(top[u] == coin.high);
    }
  }
  for (; i < count; ++i) heads[i] = coin(tempered(words[2 * i]), tempered(words[2 * i + 1])) ? one : 0;
  uint64_t halves[2];
  std::memcpy(halves, &equal, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

}  // namespace

void Engine::toss_block(Coin coin, uint32_t one, uint32_t* heads) {
  const int odd = available_;   // a last word, whose coin takes the first new one too
  const uint32_t first = odd ? next32() : 0;
  renew<false>();
  if (toss(coin, one, state_ + odd, kCoins - odd, heads + odd)) {
    for (int i = odd; i < kCoins; ++i) {
      const uint32_t* pair = state_ + 2 * i - odd;
      heads[i] = coin(tempered(pair[0]), tempered(pair[1])) ? one : 0;
    }
  }
  skip(kWords - odd);
  if (!odd) return;
  heads[0] = coin(first, tempered(state_[0])) ? one : 0;
  words_[kWords - 1] = tempered(state_[kWords - 1]);
}

void Engine::take(uint32_t* out, size_t count) {
  while (count > 0) {
    if (available_ == 0) refill();
    const size_t n = std::min(count, static_cast<size_t>(available_));
    std::memcpy(out, words_ + next_, n * sizeof(uint32_t));
    next_ += static_cast<int>(n);
    available_ -= static_cast<int>(n);
    out += n;
    count -= n;
  }
}

bool Engine::restore(uint64_t seed, const uint64_t* state, int64_t left, uint64_t next) {
  if (left < 1 || left > kWords || next > kWords || next + static_cast<uint64_t>(left) - 1 > kWords) return false;
  seed_ = seed;
  for (int i = 0; i < kWords; ++i) state_[i] = static_cast<uint32_t>(state[i]);
  next_ = static_cast<int>(next);
  available_ = static_cast<int>(left) - 1;
  temper();
  return true;
}

namespace {

// Field for field what PyTorch writes; the padding is kept zero so equal states are equal bytes.
struct StateBytes {
  uint64_t initial_seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t state[Engine::kWords];
  double normal_x;
  double normal_y;
  double normal_rho;
  int32_t normal_is_valid;
  int32_t padding;
  float next_float_normal;
  uint8_t next_float_normal_is_valid;
  uint8_t tail[3];
};
static_assert(sizeof(StateBytes) == kStateBytes);

}  // namespace

// Made at first use and never destroyed: generators outlive static objects at exit.
struct Living {
  std::mutex mutex;
  std::vector<Generator*> generators;
};

static void before_fork();
static void after_fork();

static Living& living() {
  static Living* all = [] {
    pthread_atfork(before_fork, after_fork, after_fork);
    return new Living;
  }();
  return *all;
}

static void before_fork() {
  living().mutex.lock();
  for (Generator* g : living().generators) g->mutex.lock();
}

static void after_fork() {
  for (Generator* g : living().generators) g->mutex.unlock();
  living().mutex.unlock();
}

Generator::Generator() {
  Living& all = living();
  const std::lock_guard lock(all.mutex);
  all.generators.push_back(this);
}

Generator::~Generator() {
  Living& all = living();
  const std::lock_guard lock(all.mutex);
  std::erase(all.generators, this);
}

void Generator::manual_seed(uint64_t seed) {
  const std::lock_guard lock(mutex);
  engine = Engine(seed);
  next_float_normal.reset();
  next_double_normal.reset();
}

void Generator::write_state(unsigned char* bytes) {
  const std::lock_guard lock(mutex);
  StateBytes out;
  std::memset(&out, 0, sizeof out);
  out.initial_seed = engine.seed();
  out.left = engine.left();
  out.seeded = 1;
  out.next = static_cast<uint64_t>(engine.next());
  std::copy_n(engine.state(), Engine::kWords, out.state);
  if (next_double_normal) {
    out.normal_is_valid = 1;
    out.normal_y = *next_double_normal;
  }
  if (next_float_normal) {
    out.next_float_normal_is_valid = 1;
    out.next_float_normal = *next_float_normal;
  }
  std::memcpy(bytes, &out, sizeof out);
}

bool Generator::read_state(const unsigned char* bytes) {
  StateBytes in;
  std::memcpy(&in, bytes, sizeof in);
  const std::lock_guard lock(mutex);
  if (in.seeded == 0 || !engine.restore(in.initial_seed, in.state, in.left, in.next)) return false;
  next_double_normal.reset();
  next_float_normal.reset();
  if (in.normal_is_valid) next_double_normal = in.normal_y;
  if (in.next_float_normal_is_valid) next_float_normal = in.next_float_normal;
  return true;
}

Kind kind_of(std::string_view code) {
  constexpr std::string_view names[] = {"u8", "u16", "u32", "u64", "i8", "i16", "i32",
                                        "i64", "b1", "f16", "bf16", "f32", "f64"};
  for (size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == code) return static_cast<Kind>(i);
  }
  return Kind::unknown;
}

namespace {

int64_t item_size(Kind kind) {
  static constexpr int64_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 2, 4, 8};
  return sizes[static_cast<int>(kind)];
}

}  // namespace

int64_t Region::numel() const {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

bool Region::is_contiguous() const {
  int64_t expected = item_size(operands[0].kind);
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && operands[0].strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

namespace {

// Positive: `inner` must move outwards past `outer`. Negative: they are in order. Zero: the operands do not say.
int compare_dims(const Region& region, size_t inner, size_t outer) {
  for (const Operand& operand : region.operands) {
    const int64_t a = operand.strides[inner];
    const int64_t b = operand.strides[outer];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (region.sizes[inner] > region.sizes[outer]) return 1;
  }
  return 0;
}

// Appends dimension `d` of `from` outside the dimensions `to` has, as part of its last one where memory allows.
void append_dim(Region& to, const Region& from, size_t d) {
  const size_t count = to.operands.size();
  bool merges = !to.sizes.empty();
  for (size_t k = 0; merges && k < count && to.sizes.back() != 1 && from.sizes[d] != 1; ++k) {
    merges = to.sizes.back() * to.operands[k].strides.back() == from.operands[k].strides[d];
  }
  for (size_t k = 0; k < count; ++k) {
    const int64_t stride = from.operands[k].strides[d];
    if (!merges) to.operands[k].strides.push_back(stride);
    else if (to.sizes.back() == 1) to.operands[k].strides.back() = stride;
  }
  if (merges) to.sizes.back() *= from.sizes[d];
  else to.sizes.push_back(from.sizes[d]);
}

}  // namespace

void Region::normalise() {
  const size_t ndim = sizes.size();
  if (ndim == 1) return;
  if (operands.size() == 1 && is_contiguous()) {
    sizes = {numel()};
    operands[0].strides = {item_size(operands[0].kind)};
    return;
  }
  std::vector<size_t> order(ndim);  // innermost first
  for (size_t i = 0; i < ndim; ++i) order[i] = ndim - 1 - i;
  // Insertion sort, because compare_dims is no total order: a pair the operands do not rank is skipped over.
  for (size_t i = 1; i < ndim; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int verdict = compare_dims(*this, order[j], order[moving]);
      if (verdict < 0) break;
      if (verdict == 0) continue;
      std::swap(order[j], order[moving]);
      moving = j;
    }
  }
  Region ordered;
  for (const Operand& operand : operands) ordered.operands.push_back({operand.data, operand.kind, {}});
  for (const size_t d : order) append_dim(ordered, *this, d);
  if (ndim == 0) {
    ordered.sizes.push_back(1);
    for (Operand& operand : ordered.operands) operand.strides.push_back(0);
  }
  *this = std::move(ordered);
}

}  // namespace rl::random
