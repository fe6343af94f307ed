// Pointwise loops over short rows, a block of them as one long row.
#include "plan.h"
#include "pointwise_loop.h"
#include "pool.h"
#include "unlocked.h"

#include <algorithm>
#include <cstring>

namespace rl {

namespace {

constexpr int64_t kLaid = 127;        // bytes of a row up to which it is copied rather than read where it lies
constexpr int64_t kTiled = 256;       // the same of rows that are copied once for all blocks
constexpr int64_t kFewRows = 8;       // rows up to which blocks do not pay
constexpr int64_t kBlock = 512;       // elements of a block, at most
constexpr int64_t kBuffer = 32768;    // bytes that the operands of a block may take

enum class Way : uint8_t { Direct, Single, Tiled, Laid };

struct Blocks {
  const Loop* loop;
  Kernel kernel;
  int64_t rows;                       // of a block
  Way ways[kMaxOperands];
};

// Direct: as dense as the block. Single: one element. Tiled: every row is the same. Laid: rows are put side by side.
Way way_of(const Loop& loop, int k) {
  bool is_same = true, is_dense = true;
  int64_t step = loop.sizes[0] * loop.item[k];
  for (int d = 1; d < loop.ndim; d++) {
    is_same &= loop.strides[k][d] == 0;
    is_dense &= loop.strides[k][d] == step;
    step *= loop.sizes[d];
  }
  bool is_row = loop.strides[k][0] == loop.item[k];
  if (is_same && !is_row) return Way::Single;
  if (is_same) return Way::Tiled;
  return is_dense && is_row ? Way::Direct : Way::Laid;
}

// Exactly `bytes` bytes, in pieces that overlap.
template <int Piece>
inline void copy_pieces(char* to, const char* from, int64_t bytes) {
  for (int64_t at = 0; at + Piece < bytes; at += Piece) memcpy(to + at, from + at, Piece);
  memcpy(to + bytes - Piece, from + bytes - Piece, Piece);
}

inline void copy_row(char* to, const char* from, int64_t bytes) {
  if (bytes >= 16) return copy_pieces<16>(to, from, bytes);
  if (bytes >= 8) return copy_pieces<8>(to, from, bytes);
  if (bytes >= 4) return copy_pieces<4>(to, from, bytes);
  if (bytes >= 2) return copy_pieces<2>(to, from, bytes);
  *to = *from;
}

void copy_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows, int64_t bytes) {
  for (int64_t r = 0; r < rows; r++) copy_row(to + r * to_step, from + r * from_step, bytes);
}

typedef uint64_t Vector __attribute__((vector_size(16)));

// One vector per row, repeated; writes up to 16 bytes past the last row.
template <class Read>
inline void repeat_vectors(char* to, const char* from, int64_t from_step, int64_t rows, int64_t bytes, Read read) {
  if (bytes <= 16) {
    for (int64_t r = 0; r < rows; r++, to += bytes, from += from_step) {
      Vector v = read(from);
      memcpy(to, &v, 16);
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++, to += bytes, from += from_step) {
    Vector v = read(from);
    memcpy(to, &v, 16);
    memcpy(to + 16, &v, 16);
    for (int64_t at = 32; at < bytes; at += 16) memcpy(to + at, &v, 16);
  }
}

// One element per row, repeated.
template <class T>
void repeat_rows(char* to, const char* from, int64_t from_step, int64_t rows, int64_t bytes) {
  constexpr uint64_t kOnes = ~uint64_t{0} / static_cast<T>(~T{0});   // 1 in every place of a word
  repeat_vectors(to, from, from_step, rows, bytes, [](const char* place) {
    T value;
    memcpy(&value, place, sizeof(T));
    return Vector{value * kOnes, value * kOnes};
  });
}

// The same for elements of 16 bytes.
void repeat_pairs(char* to, const char* from, int64_t from_step, int64_t rows, int64_t bytes) {
  repeat_vectors(to, from, from_step, rows, bytes, [](const char* place) {
    Vector value;
    memcpy(&value, place, 16);
    return value;
  });
}

void lay_rows(char* to, const char* from, const Loop& loop, int k, int64_t rows) {
  int64_t bytes = loop.sizes[0] * loop.item[k], step = loop.strides[k][1];
  if (loop.strides[k][0]) return copy_rows(to, bytes, from, step, rows, bytes);
  switch (loop.item[k]) {
    case 1: return repeat_rows<uint8_t>(to, from, step, rows, bytes);
    case 2: return repeat_rows<uint16_t>(to, from, step, rows, bytes);
    case 4: return repeat_rows<uint32_t>(to, from, step, rows, bytes);
    case 8: return repeat_rows<uint64_t>(to, from, step, rows, bytes);
    default: return repeat_pairs(to, from, step, rows, bytes);
  }
}

// visit(place, first, count) for stretches of rows along dim 1: `place` is where operand k has the first of them.
template <class Visit>
void walk_rows(const Loop& loop, int k, int64_t row, int64_t rows, Visit visit) {
  for (int64_t done = 0; done < rows;) {
    int64_t rest = row + done, start = rest % loop.sizes[1];
    int64_t count = std::min(loop.sizes[1] - start, rows - done);
    char* place = loop.ptrs[k] + start * loop.strides[k][1];
    rest /= loop.sizes[1];
    for (int d = 2; d < loop.ndim; d++) {
      place += rest % loop.sizes[d] * loop.strides[k][d];
      rest /= loop.sizes[d];
    }
    visit(place, done, count);
    done += count;
  }
}

void run_blocks(void* context, int64_t begin, int64_t end) {
  auto& blocks = *static_cast<Blocks*>(context);
  const Loop& loop = *blocks.loop;
  alignas(64) char buffer[kBuffer + kMaxOperands * 64];
  char* ptrs[kMaxOperands];
  char* own[kMaxOperands];
  int64_t params[1 + 2 * kMaxOperands] = {0};
  char* next = buffer;
  for (int k = 0; k < loop.num; k++) {
    own[k] = next;
    if (blocks.ways[k] >= Way::Tiled) next += blocks.rows * loop.sizes[0] * loop.item[k] + 64;
    params[1 + k] = blocks.ways[k] == Way::Single ? 0 : loop.item[k];
    ptrs[k] = blocks.ways[k] == Way::Single ? loop.ptrs[k] : own[k];
    int64_t bytes = loop.sizes[0] * loop.item[k];
    if (blocks.ways[k] == Way::Tiled)
      copy_rows(own[k], bytes, loop.ptrs[k], 0, std::min(blocks.rows, end - begin), bytes);
  }
  for (int64_t row = begin; row < end; row += blocks.rows) {
    int64_t rows = std::min(blocks.rows, end - row);
    for (int k = 0; k < loop.num; k++) {
      int64_t bytes = loop.sizes[0] * loop.item[k];
      if (blocks.ways[k] == Way::Direct) ptrs[k] = loop.ptrs[k] + row * bytes;
      if (blocks.ways[k] == Way::Laid && k < loop.num_in)
        walk_rows(loop, k, row, rows, [&](char* place, int64_t first, int64_t count) {
          lay_rows(own[k] + first * bytes, place, loop, k, count);
        });
    }
    params[0] = rows * loop.sizes[0];
    blocks.kernel(ptrs, params, 0, 1);
    for (int k = loop.num_in; k < loop.num; k++) {
      int64_t bytes = loop.sizes[0] * loop.item[k];
      if (blocks.ways[k] == Way::Laid)
        walk_rows(loop, k, row, rows, [&](char* place, int64_t first, int64_t count) {
          copy_rows(place, loop.strides[k][1], own[k] + first * bytes, bytes, count, bytes);
        });
    }
  }
}

int64_t rows_of(const Loop& loop) {
  int64_t rows = 1;
  for (int d = 1; d < loop.ndim; d++) rows *= loop.sizes[d];
  return rows;
}

}  // namespace

bool has_short_rows(const Loop& loop) {
  if (loop.ndim < 2 || loop.sizes[0] > kTiled || rows_of(loop) <= kFewRows) return false;
  for (int k = 0; k < loop.num; k++) {
    int64_t inner = loop.strides[k][0], bytes = loop.sizes[0] * loop.item[k];
    if (inner != loop.item[k] && (inner != 0 || k >= loop.num_in)) return false;
    Way way = way_of(loop, k);
    if (bytes > (way == Way::Laid ? kLaid : kTiled)) return false;
    if (k >= loop.num_in && way == Way::Tiled) return false;   // rows that are written over
  }
  return true;
}

void run_short_rows(const Loop& loop, Kernel kernel) {
  Blocks blocks{&loop, kernel, 0, {}};
  int64_t laid = 1;
  for (int k = 0; k < loop.num; k++) {
    blocks.ways[k] = way_of(loop, k);
    if (blocks.ways[k] >= Way::Tiled) laid += loop.item[k];
  }
  blocks.rows = std::max<int64_t>(1, std::min(kBlock, kBuffer / laid) / loop.sizes[0]);
  int64_t rows = rows_of(loop), grain = std::max<int64_t>(1, kGrain / loop.sizes[0]);
  if (rows <= grain) return run_blocks(&blocks, 0, rows);
  Unlocked others_run;
  parallel_for(rows, grain, run_blocks, &blocks);
}

}  // namespace rl
