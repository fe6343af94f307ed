// Dense pieces put side by side. A generated kernel is made for so many pieces of such ranks, and programs join any
// number of them: compiling for each number takes a thousand times as long as copying the bytes.
// Python says which ops join (`set_join`), so that no name of theirs is known here.
//
// Holds the interpreter lock, but while it copies much.
#include "join.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pool.h"
#include "profile.h"
#include "unlocked.h"

namespace rl {

PyObject* joins_along;
PyObject* joins_anew;

namespace {

constexpr int64_t kThin = 16;          // bytes of a row under which few pieces are better woven by a kernel of vectors
constexpr int64_t kThinRows = 64, kFewPieces = 8;
constexpr int64_t kChunk = 128 << 10;  // bytes of the result that are worth a thread's while
constexpr int64_t kMost = int64_t{1} << 40;   // elements beyond which Python says what memory there is
constexpr int64_t kNear = 16 << 10;    // bytes of the result that are written before the next piece is looked at

// A row is what lies densely: the dims from the joined one on. Rows of the result follow one another.
struct Piece {
  Tensor* from;
  int64_t bytes;                       // of a row
  int64_t at;                          // where its row begins in the result's
};

struct Join {
  std::vector<Piece> pieces;
  char* to;
  int64_t rows = 1, pitch = 0;         // rows of the result, and the bytes of one
  int outer = 0;                       // dims that number the rows
};

inline void copy_bytes(char* to, const char* from, int64_t bytes) {
  switch (bytes) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    case 16: memcpy(to, from, 16); return;
    default: memcpy(to, from, static_cast<size_t>(bytes));
  }
}

// visit(place, row, count, step): stretches of a piece's rows `begin` to `end` that are `step` bytes apart.
template <class Visit>
void walk_rows(const Join& join, const Piece& piece, int64_t begin, int64_t end, Visit visit) {
  const Tensor* t = piece.from;
  int64_t item = itemsize(t->dtype);
  if (!join.outer) return visit(t->data(), begin, end - begin, int64_t{0});
  int64_t size = t->sizes()[join.outer - 1], step = t->strides()[join.outer - 1] * item;
  for (int64_t row = begin; row < end;) {
    int64_t start = row % size, rest = row / size, place = start * step;
    for (int d = join.outer - 2; d >= 0; d--) {
      place += rest % t->sizes()[d] * t->strides()[d] * item;
      rest /= t->sizes()[d];
    }
    int64_t count = std::min(size - start, end - row);
    visit(t->data() + place, row, count, step);
    row += count;
  }
}

void copy_rows(void* context, int64_t begin, int64_t end) {
  auto& join = *static_cast<Join*>(context);
  int64_t block = std::max<int64_t>(1, kNear / join.pitch);
  for (int64_t from = begin; from < end; from += block) {
    int64_t until = std::min(end, from + block);
    for (const Piece& piece : join.pieces)
      walk_rows(join, piece, from, until, [&](const char* place, int64_t row, int64_t count, int64_t step) {
        char* to = join.to + row * join.pitch + piece.at;
        for (int64_t r = 0; r < count; r++) copy_bytes(to + r * join.pitch, place + r * step, piece.bytes);
      });
  }
}

// The one row there is, from byte `begin` to `end`.
void copy_span(void* context, int64_t begin, int64_t end) {
  auto& join = *static_cast<Join*>(context);
  auto piece = std::upper_bound(join.pieces.begin(), join.pieces.end(), begin,
                                [](int64_t at, const Piece& p) { return at < p.at + p.bytes; });
  for (; piece != join.pieces.end() && piece->at < end; ++piece) {
    int64_t first = std::max(begin, piece->at), last = std::min(end, piece->at + piece->bytes);
    copy_bytes(join.to + first, piece->from->data() + (first - piece->at), last - first);
  }
}

void run(Join& join) {
  if (join.rows > 1) {
    int64_t grain = std::max<int64_t>(1, kChunk / join.pitch);
    if (join.rows <= grain) return copy_rows(&join, 0, join.rows);
    Unlocked others_run;
    return parallel_for(join.rows, grain, copy_rows, &join);
  }
  if (join.pitch <= kChunk) return copy_span(&join, 0, join.pitch);
  Unlocked others_run;
  parallel_for(join.pitch, kChunk, copy_span, &join);
}

// An empty tensor of one dim joins anything, adding nothing.
bool is_skipped(const Tensor* t) { return t->ndim == 1 && !t->sizes()[0]; }

bool fits(const Tensor* t, const Tensor* model, int dim) {   // `dim`: the one that may differ, or -1
  if (t->ndim != model->ndim) return false;
  for (int d = 0; d < t->ndim; d++)
    if (d != dim && t->sizes()[d] != model->sizes()[d]) return false;
  return true;
}

// Whether the dims of a row lie densely in memory.
bool has_dense_rows(const Join& join, const Tensor* t) {
  int64_t step = 1;
  for (int d = t->ndim - 1; d >= join.outer; d--) {
    if (t->sizes()[d] != 1 && t->strides()[d] != step) return false;
    step *= t->sizes()[d];
  }
  return true;
}

// The pieces of a list, of one type on this processor; false where the plan has to look.
bool gather(PyObject* list, bool anew, std::vector<Tensor*>& found) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  found.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PySequence_Fast_ITEMS(list)[i];
    if (!is_tensor(item)) return false;
    Tensor* t = as_tensor(item);
    if (t->device.type != kCPU || t->storage->device.type != kCPU || (t->keys & kKeyBits)) return false;
    if (t->dtype != as_tensor(PySequence_Fast_ITEMS(list)[0])->dtype) return false;
    if (!anew && is_skipped(t)) continue;
    found.push_back(t);
  }
  return !found.empty() && found[0]->ndim < 32;
}

// Whether the result lies in rows. Only where every piece has its channels last does it not, and the strides of rows
// never say that.
bool lies_in_rows(const std::vector<Tensor*>& tensors) {
  if (tensors[0]->ndim != 4 && tensors[0]->ndim != 5) return true;
  return std::any_of(tensors.begin(), tensors.end(), [](Tensor* t) {
    int64_t rows[5];
    contiguous_strides(t->sizes(), t->ndim, rows);
    return std::equal(rows, rows + t->ndim, t->strides());
  });
}

// How the pieces lie; false where no row of theirs is dense, or a kernel weaves them better.
bool lay_out(Join& join, const std::vector<Tensor*>& tensors) {
  int64_t item = itemsize(tensors[0]->dtype);
  for (int d = 0; d < join.outer; d++) join.rows *= tensors[0]->sizes()[d];
  int64_t narrowest = kThin;
  join.pieces.reserve(tensors.size());
  for (Tensor* t : tensors) {
    if (!has_dense_rows(join, t)) return false;
    int64_t bytes = item;
    for (int d = join.outer; d < t->ndim; d++) bytes *= t->sizes()[d];
    if (bytes) join.pieces.push_back({t, bytes, join.pitch}), narrowest = std::min(narrowest, bytes);
    join.pitch += bytes;
  }
  return narrowest >= kThin || join.rows < kThinRows || tensors.size() > kFewPieces;
}

}  // namespace

PyObject* join_tensors(Overload* op, PyObject** args) {
  if (!(PyTuple_Check(args[0]) || PyList_Check(args[0])) || !PyLong_CheckExact(args[1]) || is_recording()) return nullptr;
  bool anew = op->definition == joins_anew;
  std::vector<Tensor*> tensors;
  if (!PySequence_Fast_GET_SIZE(args[0]) || !gather(args[0], anew, tensors)) return nullptr;
  const Tensor* model = tensors[0];
  int overflow, ndim = model->ndim + anew;
  int64_t dim = PyLong_AsLongLongAndOverflow(args[1], &overflow);
  if (overflow || dim < -ndim || dim >= ndim) return nullptr;
  if (dim < 0) dim += ndim;
  int64_t sizes[kMaxDims], joined = 0;
  for (Tensor* t : tensors) {
    if (!fits(t, model, anew ? -1 : static_cast<int>(dim))) return nullptr;
    if (!tensor_readable(t, PyUnicode_AsUTF8(op->name))) return nullptr;
    joined += anew ? 1 : t->sizes()[dim];
  }
  std::copy(model->sizes(), model->sizes() + dim, sizes);
  std::copy(model->sizes() + dim + !anew, model->sizes() + model->ndim, sizes + dim + 1);
  sizes[dim] = joined;
  Join join;
  join.outer = static_cast<int>(dim);
  int64_t numel = checked_numel(sizes, ndim);
  if (numel < 0 || numel > kMost || !lies_in_rows(tensors) || !lay_out(join, tensors)) return nullptr;
  Tensor* result = tensor_empty(sizes, nullptr, ndim, model->dtype, Device{});
  if (!result || !result->numel) return as_object(result);
  join.to = result->data();
  run(join);
  return as_object(result);
}

}  // namespace rl
