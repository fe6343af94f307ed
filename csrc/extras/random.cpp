// The twister, generator state, and the order in which strided memory is visited. See random.h.
#include "random.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace rl::random {

Engine::Engine(uint64_t seed) : seed_(seed), next_(0), available_(0) {
  state_[0] = static_cast<uint32_t>(seed);
  for (int i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<uint32_t>(i);
  }
}

void Engine::refill() {
  twister_here().renew(state_);
  twister_here().temper(state_, words_, kWords);
  next_ = 0;
  available_ = kWords;
}

void Engine::toss_block(Coin coin, uint32_t one, uint32_t* heads) {
  const Twister& twister = twister_here();
  const int odd = available_;   // a last word, whose coin takes the first new one too
  const uint32_t first = odd ? next32() : 0;
  twister.renew(state_);
  twister.toss(coin, one, state_ + odd, kCoins - odd, heads + odd);
  next_ = kWords - odd;
  available_ = odd;
  if (!odd) return;
  heads[0] = coin(first, tempered_word(state_[0])) ? one : 0;
  words_[kWords - 1] = tempered_word(state_[kWords - 1]);
}

void Engine::pass_block() {
  twister_here().renew(state_);
  next_ = kWords - available_;
  words_[kWords - 1] = tempered_word(state_[kWords - 1]);
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
  twister_here().temper(state_, words_, kWords);
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

void Region::flatten() {
  for (Operand& operand : operands) operand.strides = {item_size(operand.kind)};
  sizes = {numel()};
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
