// Random numbers on the CPU: the Mersenne twister, the generator object and the samplers.
//
// Why C++: the promise is "same seed, same numbers as PyTorch". The twister is one sequential stream, and every
// sampler draws from it a data-dependent number of times in a fixed order. The loop generator emits independent,
// chunked iterations, so it cannot express that; no library consumes the stream in PyTorch's order either.
//
// What enters: a Generator and raw strided memory. What leaves: that memory filled, the generator advanced.
// Nothing here allocates tensors, checks arguments a user wrote, or knows about autograd: Python does.
//
// Locking: samplers take Generator::mutex themselves and neither need nor touch the interpreter lock, unless
// a comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "twister.h"

typedef struct _object PyObject;

namespace rl::random {

// MT19937, produced a block at a time: one vectorised pass advances the 624-word state and tempers it.
class Engine {
 public:
  static constexpr int kWords = Twister::kWords;

  explicit Engine(uint64_t seed);

  uint32_t next32() {
    if (available_ == 0) refill();
    --available_;
    return words_[next_++];
  }

  // Two draws, the first in the high half.
  uint64_t next64() {
    const uint64_t high = next32();
    return high << 32 | next32();
  }

  // The next draws where they lie, `count` of them and at least one; `skip` says how many were used.
  const uint32_t* ready(int64_t* count) {
    if (available_ == 0) refill();
    *count = available_;
    return words_ + next_;
  }
  void skip(int64_t count) { next_ += static_cast<int>(count), available_ -= static_cast<int>(count); }

  // Copies the next `count` draws; the bulk form of next32.
  void take(uint32_t* out, size_t count);

  // As many coins as a block has pairs of words, `one` for heads and 0 for tails: only when less than a pair of the
  // present block is left. Half of the words are not even tempered, which takes longer than to make them.
  static constexpr int kCoins = kWords / 2;
  void toss_block(Coin coin, uint32_t one, uint32_t heads[kCoins]);
  int64_t available() const { return available_; }
  // As toss_block, for coins that another thread tosses.
  void pass_block();

  uint64_t seed() const { return seed_; }
  const uint32_t* state() const { return state_; }
  // PyTorch's two cursors: `left` - 1 words remain before a refill, starting at word `next`.
  int left() const { return available_ + 1; }
  int next() const { return next_; }
  // False, with nothing changed, when the cursors do not describe a position inside the block.
  bool restore(uint64_t seed, const uint64_t* state, int64_t left, uint64_t next);

 private:
  void refill();

  uint64_t seed_;
  int next_;
  int available_;
  uint32_t state_[kWords + Twister::kOverhang];   // and the first words again, for vectors that reach over the end
  uint32_t words_[kWords];
};

constexpr size_t kStateBytes = 5056;  // PyTorch's byte layout of a CPU generator's state
constexpr uint64_t kDefaultSeed = 67280421310721;

// Every generator is known to the handlers of fork: a child made while another thread draws must find no locked mutex
// and no half-advanced engine.
struct Generator {
  Generator();
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  std::mutex mutex;
  Engine engine{kDefaultSeed};
  // Box-Muller makes normals in pairs; the second waits here for the next scalar normal draw.
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

  void manual_seed(uint64_t seed);
  void write_state(unsigned char* bytes);        // kStateBytes of them
  bool read_state(const unsigned char* bytes);   // false, with nothing changed, if they are no valid state
};

enum class Kind { u8, u16, u32, u64, i8, i16, i32, i64, b1, f16, bf16, f32, f64, unknown };
Kind kind_of(std::string_view code);

// One strided operand of a sampler; strides in bytes.
struct Operand {
  char* data;
  Kind kind;
  std::vector<int64_t> strides;
};

// Operands of one shape. The first is written; the rest (parameters per element) are read.
struct Region {
  std::vector<int64_t> sizes;
  std::vector<Operand> operands;

  int64_t numel() const;
  // Orders and merges dimensions the way PyTorch's element iterator does: the fastest moving dimension becomes
  // the one with the smallest stride of the written operand. This order is observable: it decides which element
  // receives which draw.
  void normalise();
  bool is_contiguous() const;  // row-major as given; ask before normalise()
  void flatten();              // of dense rows: one row
};

// Every function below fills region.operands[0]; each returns an error message or nullptr.
using Error = const char*;
Error uniform(Generator&, Region&, double from, double to);
Error normal(Generator&, Region&, double mean, double std);
Error log_normal(Generator&, Region&, double mean, double std);
Error cauchy(Generator&, Region&, double median, double sigma);
Error exponential(Generator&, Region&, double rate);
Error geometric(Generator&, Region&, double p);
Error bernoulli(Generator&, Region&, double p, double one);  // `one` with probability p, else 0
Error bernoulli_tensor(Generator&, Region&);              // operands: out, p
Error random_range(Generator&, Region&, uint64_t range, int64_t base);
Error random_bits64(Generator&, Region&);                 // the whole int64 range
Error random_full(Generator&, Region&);                   // 0 .. largest value the dtype counts exactly
Error permutation(Generator&, Region&);                   // 1-D
Error poisson(Generator&, Region&);                       // operands: out, rate
Error standard_gamma(Generator&, Region&);                // operands: out, alpha
Error dirichlet(Generator&, Region&);                     // operands: out (f64, contiguous), alpha; rows add to one
Error binomial(Generator&, Region&);                      // operands: out, count, probability
Error rrelu(Generator&, Region&, double lower, double upper);  // operands: out, noise, input; all contiguous
// operands: out (i64, rows x samples), weights (rows x categories, its own sizes in `categories`)
Error multinomial(Generator&, Region&, int64_t categories);

}  // namespace rl::random

namespace rl {
// Adds `Generator` and `sample` to the module; 0, or -1 with a Python error set.
int init_random(PyObject* module);
}  // namespace rl
