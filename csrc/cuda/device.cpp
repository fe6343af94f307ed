// The CUDA device's table: memory, copies, launches, streams and events through the driver, which is opened when it is
// first asked for. Kernels are made in Python (rushlight/devices/cuda), one variant for each class of geometry, when a
// launch first needs one.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <bit>

#include "boundary.h"
#include "cuda/device.h"
#include "cuda/queue.h"
#include "cuda/start.h"
#include "unlocked.h"

namespace rl {

namespace {

using namespace cuda;

constexpr int kMostUnits = 64;
constexpr int kMostThreadsOfBlock = 0, kLocalBytes = 3, kRegisters = 4;   // as the driver numbers what it knows of a kernel
constexpr int kOutOfMemory = 2, kNotReady = 600, kDeinitialized = 4, kNoContext = 201;
constexpr int kRefused = 999;            // "unknown error": what a library did not do is not the driver's to say
constexpr int kProductParams = 14;
// Errors after which a context is of no use: illegal addresses and instructions, time-outs, failed asserts.
constexpr int kFaults[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};

struct Driver {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*retain)(Handle*, int);
  int (*set_current)(Handle);
  int (*allocate)(uint64_t*, size_t);
  int (*free)(uint64_t);
  int (*memory)(size_t*, size_t*);
  int (*from_host)(uint64_t, const void*, size_t, Handle);
  int (*to_host)(void*, uint64_t, size_t, Handle);
  int (*within)(uint64_t, uint64_t, size_t, Handle);
  int (*between)(uint64_t, Handle, uint64_t, Handle, size_t, Handle);
  int (*attribute)(int*, int, Handle);
  int (*allocate_async)(uint64_t*, size_t, Handle);
  int (*free_async)(uint64_t, Handle);
  int (*new_stream)(Handle*, unsigned, int);
  int (*synchronize)(Handle);
  int (*new_event)(Handle*, unsigned);
  int (*record)(Handle, Handle);
  int (*wait)(Handle, Handle, unsigned);
  int (*finish)(Handle);
  int (*query)(Handle);
  int (*forget)(Handle);
  int (*elapsed)(float*, Handle, Handle);
  int (*error_name)(int, const char**);
  int (*error_text)(int, const char**);
} driver;

Handle contexts[kMostUnits];
int num_units = 0;
bool is_forked = false;       // the parent had started CUDA: this process cannot use it
void* opened = nullptr;
thread_local PyObject* named = nullptr;   // where launches are only named: the list of variants they lack
thread_local int current = -1;
thread_local char message[512];

int failed(const char* what, int code) {
  const char *name = nullptr, *text = nullptr;
  driver.error_name(code, &name);
  driver.error_text(code, &text);
  bool is_fault = std::find(std::begin(kFaults), std::end(kFaults), code) != std::end(kFaults);
  const char* lost = is_fault ? ". The device's memory is lost to this process: start it anew" : "";
  snprintf(message, sizeof(message), "%s: %s (%s)%s", what, text ? text : "unknown error", name ? name : "?", lost);
  return code == kOutOfMemory ? RUSHLIGHT_OUT_OF_MEMORY : RUSHLIGHT_FAILED;
}

inline int done(const char* what, int code) {
  return __builtin_expect(code == 0, 1) ? RUSHLIGHT_OK : failed(what, code);
}

// Takes the driver a while, in which other threads can use Python.
int make_context(int unit) {
  Handle found = nullptr;
  int code;
  if (PyGILState_Check()) {
    Unlocked others_run;
    code = driver.retain(&found, unit);
  } else {
    code = driver.retain(&found, unit);
  }
  if (!code) contexts[unit] = found;
  return code;
}

inline int enter(int unit) {
  if (__builtin_expect(current == unit, 1)) return RUSHLIGHT_OK;
  if (is_forked)
    return snprintf(message, sizeof(message),
                    "Cannot re-initialize CUDA in forked subprocess: it was started before the fork. Start processes "
                    "with the 'spawn' method, or fork before CUDA is used"),
           RUSHLIGHT_FAILED;
  if (unit < 0 || unit >= num_units)
    return snprintf(message, sizeof(message), "there is no unit %d", unit), RUSHLIGHT_FAILED;
  if (!contexts[unit])
    if (int code = make_context(unit)) return failed("context", code);
  if (int code = driver.set_current(contexts[unit])) return failed("context", code);
  current = unit;
  return RUSHLIGHT_OK;
}

// For calls that come behind all that was queued: they say too what went wrong there.
int settle(int unit) {
  drain();
  const char* what = nullptr;
  if (int code = queue_error(&what)) return failed(what, code);
  return enter(unit);
}

uint64_t place(const void* address) { return reinterpret_cast<uint64_t>(address); }

// --- memory ----------------------------------------------------------------------------------------------------------

int allocate(void*, int unit, size_t nbytes, void** address) {
  if (int status = settle(unit)) return status;
  uint64_t at = 0;
  size_t free = 0, all = 0;
  if (asks_first && !driver.memory(&free, &all) && nbytes > free) return failed("allocate", kOutOfMemory);
  int status = done("allocate", driver.allocate(&at, nbytes));
  *address = reinterpret_cast<void*>(at);
  return status;
}

int release(void*, int unit, void* address, size_t) {
  if (int status = settle(unit)) return status;
  int code = driver.free(place(address));
  return code == kDeinitialized ? RUSHLIGHT_OK : done("free", code);   // at exit the driver may be gone first
}

int copy(void*, int unit, void* stream, int way, void* target, const void* source, size_t nbytes) {
  if (int status = settle(unit)) return status;
  if (way == RUSHLIGHT_FROM_HOST)
    return done("copy from the host", driver.from_host(place(target), source, nbytes, stream));
  if (way == RUSHLIGHT_TO_HOST) return done("copy to the host", driver.to_host(target, place(source), nbytes, stream));
  return done("copy", driver.within(place(target), place(source), nbytes, stream));
}

int copy_between(void*, int unit, void* stream, void* target, int source_unit, const void* source, size_t nbytes) {
  if (int status = settle(source_unit)) return status;
  if (int status = settle(unit)) return status;
  return done("copy",
              driver.between(place(target), contexts[unit], place(source), contexts[source_unit], nbytes, stream));
}

// --- launches --------------------------------------------------------------------------------------------------------

constexpr int kMostOperands = 32, kSplitDims = 6;
constexpr int kColumnThreads = 512;   // codegen/nvptx/columns.py: WARPS
constexpr int kColumnRows = 32;       // that are worth warps of their own
// Every kernel is compiled for the threads of its blocks (devices/cuda/kernels.py). Up to these there are all registers
// that a thread can name, 255; of 512 threads each has 128 at most.
constexpr int kNarrowThreads = 256;
constexpr uint64_t kNarrow = 1 << 10;  // in the key of a variant: blocks of no more than these
constexpr int kFewSpilled = 64;        // bytes that cost less than half of the threads would

// The function of a variant, made by the kernel's `variant(unit, key)` where it is new.
Variant* find_variant(Kernel* kernel, int unit, uint64_t key) {
  for (Variant& v : kernel->variants)
    if (v.key == key && v.unit == unit) return &v;
  PyGILState_STATE gil = PyGILState_Ensure();
  if (named) {
    static Variant none{0, 0, nullptr, 1, 1};
    PyObject* lacks = Py_BuildValue("OiK", kernel->maker, unit, static_cast<unsigned long long>(key));
    bool done = lacks && !PyList_Append(named, lacks);
    Py_XDECREF(lacks);
    PyGILState_Release(gil);
    return done ? &none : nullptr;
  }
  Variant made{key, unit, nullptr, 1, 1};
  made.shared = static_cast<unsigned>(kernel->shared);
  PyObject* answer = PyObject_CallMethod(kernel->maker, "variant", "iK", unit, static_cast<unsigned long long>(key));
  if (answer) {
    unsigned long long function = 0;
    const char* name = "a kernel";
    if (PyArg_ParseTuple(answer, "Kii|s", &function, &made.elements, &made.times, &name))
      made.function = reinterpret_cast<Handle>(function), made.called = name;
    Py_DECREF(answer);
  }
  PyGILState_Release(gil);
  current = -1;   // Python may have chosen another context
  if (!made.function || enter(unit)) return nullptr;
  int registers = 0;
  driver.attribute(&made.most, kMostThreadsOfBlock, made.function);
  driver.attribute(&made.spilled, kLocalBytes, made.function);
  driver.attribute(&registers, kRegisters, made.function);
  made.called += ", " + std::to_string(registers) + " registers a thread";
  kernel->variants.push_back(made);
  return &kernel->variants.back();
}

// A variant whose blocks have up to `threads` threads; the one of narrower blocks where so many leave a thread too few
// registers: none that launches, or more than a little of it in memory, which is less of it there then.
Variant* find_fitting(Kernel* kernel, int unit, uint64_t key, int threads) {
  Variant* wide = find_variant(kernel, unit, key);
  if (!wide || named || threads <= kNarrowThreads) return wide;
  bool launches = wide->most >= threads;
  if (launches && wide->spilled <= kFewSpilled) return wide;
  Variant* narrow = find_variant(kernel, unit, key | kNarrow);
  return narrow && launches && narrow->spilled >= wide->spilled ? wide : narrow;
}

int run(Variant* variant, int64_t blocks, int threads, int unit, void* stream, const Arguments& arguments) {
  return named ? RUSHLIGHT_OK : start_kernel(variant, blocks, threads, unit, stream, arguments);
}

int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Quotients by `by` of numbers under 2^31, as (high half of n * magic + n) >> shift.
void set_divisor(uint32_t by, uint32_t* words) {
  uint32_t shift = by > 1 ? 32 - std::countl_zero(by - 1) : 0;
  words[0] = by;
  words[1] = static_cast<uint32_t>(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - by)) / by + 1);
  words[2] = shift;
  words[3] = 0;
}

// A pointwise kernel's geometry, coalesced, with at most kSplitDims dims.
struct Points {
  int num, ndim;
  void* operands[kMostOperands];
  const int32_t* constant_bytes;
  int64_t sizes[kSplitDims];
  int64_t strides[kMostOperands][kSplitDims];
};

bool suits_vectors(const Kernel* kernel, const Points& p) {
  if (kernel->vector <= 1 || (p.ndim > 1 && p.sizes[0] % kernel->vector) || p.sizes[0] < kernel->vector) return false;
  for (int k = 0; k < p.num; k++) {
    if (p.constant_bytes[k] || !p.strides[k][0]) continue;
    int item = kernel->itemsizes[k];
    int64_t align = std::min(16, item * kernel->vector);
    if (p.strides[k][0] != item || place(p.operands[k]) % align) return false;
    for (int d = 1; d < p.ndim; d++)
      if (p.strides[k][d] % align) return false;
  }
  return true;
}

bool is_small(const Points& p, int64_t total) {
  if (total >= INT32_MAX - (1 << 24)) return false;   // a block's end, too, is counted in 32 bits
  for (int k = 0; k < p.num; k++) {
    int64_t far = 0;
    for (int d = 0; d < p.ndim; d++) far += (p.sizes[d] - 1) * std::abs(p.strides[k][d]);
    if (!p.constant_bytes[k] && far >= INT32_MAX) return false;
  }
  return true;
}

// The key of a variant: 4 bits of dims, 1 whether indices have 64 bits, 1 whether vectors; then 2 per operand: 0 a
// constant, 1 repeated along the first dim, 2 neighbours along it, 3 any stride.
int launch_points(Kernel* kernel, int unit, void* stream, const Points& p) {
  int64_t total = 1;
  for (int d = 0; d < p.ndim; d++) total *= p.sizes[d];
  if (!total) return RUSHLIGHT_OK;
  bool vectors = suits_vectors(kernel, p), small = is_small(p, total);
  uint64_t key = static_cast<uint64_t>(p.ndim) | (small ? 0 : 16) | (vectors ? 32 : 0);
  for (int k = 0; k < p.num; k++) {
    int64_t s = p.strides[k][0];
    uint64_t kind = p.constant_bytes[k] ? 0 : !s ? 1 : s == kernel->itemsizes[k] ? 2 : 3;
    if (k < 28) key |= kind << (6 + 2 * k);
  }
  Variant* variant = find_variant(kernel, unit, key);
  if (!variant) return RUSHLIGHT_PYTHON_ERROR;
  // [total, per dim but the last: size, magic number, shift; strides in bytes, by operand]
  int64_t geometry[1 + 2 * kSplitDims + kMostOperands * kSplitDims];
  int n = 0;
  geometry[n++] = total;
  for (int d = 0; d < p.ndim - 1; d++, n += 2) {
    int64_t size = d == 0 && vectors ? p.sizes[0] / kernel->vector : p.sizes[d];
    if (small) set_divisor(static_cast<uint32_t>(size), reinterpret_cast<uint32_t*>(&geometry[n]));
    else geometry[n] = size, geometry[n + 1] = 0;
  }
  for (int k = 0; k < p.num; k++)
    for (int d = 0; d < p.ndim; d++) geometry[n++] = p.strides[k][d] * (d == 0 && vectors ? kernel->vector : 1);
  Arguments arguments;
  alignas(16) char constants[kMostOperands][16];   // kernels take all 16 bytes
  for (int k = 0; k < p.num; k++) {
    if (p.constant_bytes[k]) memcpy(constants[k], p.operands[k], std::min(16, p.constant_bytes[k]));
    if (p.constant_bytes[k]) arguments.add(constants[k], sizeof(constants[k]));
    else arguments.add(&p.operands[k], sizeof(void*));
  }
  arguments.add(geometry, n * sizeof(int64_t));
  int64_t items = vectors ? std::max<int64_t>(1, total / kernel->vector) : total;
  int threads = items >= 128 * 132 ? 256 : 128;
  return run(variant, divided(items, static_cast<int64_t>(threads) * variant->times), threads, unit, stream,
             arguments);
}

// Dims beyond those that a variant knows, one launch each.
int walk_points(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l) {
  Points p;
  p.num = l.num_operands;
  p.ndim = std::min(std::max(l.ndim, 1), kSplitDims);
  p.constant_bytes = l.constant_bytes;
  int64_t outer = 1;
  for (int d = p.ndim; d < l.ndim; d++) outer *= l.sizes[d];
  for (int d = 0; d < p.ndim; d++) p.sizes[d] = d < l.ndim ? l.sizes[d] : 1;
  for (int k = 0; k < p.num; k++)
    for (int d = 0; d < p.ndim; d++) p.strides[k][d] = d < l.ndim ? l.strides[k * l.pitch + d] : 0;
  for (int64_t flat = 0; flat < outer; flat++) {
    int64_t rest = flat;
    for (int k = 0; k < p.num; k++) p.operands[k] = l.operands[k];
    for (int d = p.ndim; d < l.ndim; d++) {
      int64_t at = rest % l.sizes[d];
      rest /= l.sizes[d];
      for (int k = 0; k < p.num; k++)
        if (!l.constant_bytes[k]) p.operands[k] = static_cast<char*>(p.operands[k]) + at * l.strides[k * l.pitch + d];
    }
    if (int status = launch_points(kernel, unit, stream, p)) return status;
  }
  return RUSHLIGHT_OK;
}

// A pointwise kernel as a step of a plan: parameters n0, inner strides, outer strides; then, for each further dim, its
// size and the strides along it. Dims that turn out to be one are joined.
int launch_rows_of_points(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l) {
  Points p;
  p.num = l.num_operands;
  p.constant_bytes = l.constant_bytes;
  p.ndim = 0;
  for (int k = 0; k < p.num; k++) p.operands[k] = l.operands[k];
  int given = 2 + std::max(0, l.num_params - 1 - 2 * p.num) / (1 + p.num);
  if (given > kSplitDims) return snprintf(message, sizeof(message), "a kernel has too many dims"), RUSHLIGHT_FAILED;
  for (int d = 0; d < given; d++) {
    const int64_t* strides = l.params + (d < 2 ? 1 + d * p.num : 2 + 2 * p.num + (d - 2) * (1 + p.num));
    int64_t size = d == 0 ? l.params[0] : d == 1 ? l.end - l.begin : strides[-1];
    int last = p.ndim - 1;
    bool joined = d > 0;
    for (int k = 0; k < p.num && joined && size != 1; k++) joined = strides[k] == p.strides[k][last] * p.sizes[last];
    if (joined) { p.sizes[last] *= size; continue; }
    for (int k = 0; k < p.num; k++) p.strides[k][p.ndim] = strides[k];
    p.sizes[p.ndim++] = size;
  }
  return launch_points(kernel, unit, stream, p);
}

// Threads of a block that works on a row, by how long that is.
int row_threads(const Kernel* kernel, const RushlightLaunch& l, int elements) {
  int64_t length = kernel->row_param >= 0 && kernel->row_param < l.num_params ? l.params[kernel->row_param] : 1024;
  int64_t each = divided(std::max<int64_t>(1, length), elements);
  return static_cast<int>(std::min<int64_t>(
      kernel->most_threads,
      std::max<int64_t>(32, std::bit_ceil(static_cast<uint64_t>(divided(each, elements > 1 ? 2 : 4))))));
}

// The variant of rows: 1 where they start where vectors may (what multiplies them is whole vectors, and so are the
// first elements of operands that go in vectors), 2 where single elements come first, 0 for single elements throughout.
uint64_t row_variant(const Kernel* kernel, const RushlightLaunch& l) {
  if (kernel->vector <= 1) return 0;
  for (int k = 0; k < l.num_operands; k++)
    if (kernel->itemsizes[k] && (l.constant_bytes[k] || place(l.operands[k]) % 16)) return 0;
  for (int number : kernel->multiples)
    if (number >= l.num_params || l.params[number] % kernel->vector) return kernel->peels ? 2 : 0;
  return 1;
}

// Rows kept in registers, by `threads` threads of `vectors` vectors each; 0 vectors where they are not.
struct Kept {
  int vectors, threads;
  bool exact;
  bool is_narrow() const { return threads <= kNarrowThreads; }
  uint64_t key() const {
    return 8 | (exact ? 1 : 0) | (threads == 32 ? 2 : 0) | (static_cast<uint64_t>(vectors) << 4) |
           (is_narrow() ? kNarrow : 0);
  }
};

// Many rows: one warp for each where its registers suffice, then blocks of few threads with several vectors each, which
// are as many loads under way without many threads that wait for each other. Few rows: as many threads as there are.
Kept keep_row(const Kernel* kernel, const RushlightLaunch& l) {
  if (!kernel->holds || kernel->row_param < 0 || kernel->row_param >= l.num_params) return {};
  int64_t length = l.params[kernel->row_param], all = length / kernel->vector;
  if (length % kernel->vector || !all || divided(all, kernel->holds) > kernel->most_threads) return {};
  bool many = l.end - l.begin >= 1024;
  if (many && all % 32 == 0 && all / 32 <= kernel->holds) return {static_cast<int>(all / 32), 32, true};
  for (int each : {4, 3, 2, 6, 5, 8, 7, 1}) {
    if (each > kernel->holds || all % (32 * each) || all / each > kernel->most_threads) continue;
    if (!many && each > 1 && all / each < 256) continue;
    return {each, static_cast<int>(all / each), true};
  }
  int each = std::min(kernel->holds, many ? 4 : 1);
  while (divided(all, each) > kernel->most_threads) each++;
  return {each, static_cast<int>(divided(divided(all, each), 32) * 32), false};
}

int launch_nest(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l) {
  if (l.end <= l.begin) return RUSHLIGHT_OK;
  Arguments arguments;
  void* operands[kMostArguments];
  if (l.num_operands + l.num_params + 2 > kMostArguments)
    return snprintf(message, sizeof(message), "a kernel has too many arguments"), RUSHLIGHT_FAILED;
  uint64_t key = row_variant(kernel, l);
  if (key && kernel->form == kThreads && (kernel->row_param < 0 || l.params[kernel->row_param] < kColumnRows)) key = 0;
  Kept kept = key == 1 && kernel->form == kRows ? keep_row(kernel, l) : Kept{};
  Variant* variant = kept.vectors ? find_variant(kernel, unit, kept.key()) : nullptr;
  if (variant && (kept.threads > variant->most || (!kept.is_narrow() && variant->spilled > kFewSpilled)))
    kept = Kept{};   // registers do not suffice: the row is read again
  int most = kernel->form == kRows ? kernel->most_threads : key ? kColumnThreads : kNarrowThreads;
  if (!kept.vectors) variant = find_fitting(kernel, unit, key, most);
  if (!variant) return RUSHLIGHT_PYTHON_ERROR;
  if (named) return RUSHLIGHT_OK;
  int status = RUSHLIGHT_OK;
  for (int k = 0; k < l.num_operands; k++) {
    operands[k] = l.operands[k];
    if (l.constant_bytes[k]) {   // tables that came with the step: a copy on the stream, which the stream also ends
      drain();
      uint64_t at = 0;
      status = done("constants", driver.allocate_async(&at, l.constant_bytes[k], stream));
      if (!status) status = done("constants", driver.from_host(at, l.operands[k], l.constant_bytes[k], stream));
      if (status) return status;
      operands[k] = reinterpret_cast<void*>(at);
    }
    arguments.add(&operands[k], sizeof(void*));
  }
  Map maps[kMostMaps];
  for (int k = 0; k < kernel->maps; k++) {
    if ((status = set_map(&maps[k], l.params + k * kMapWords, operands[k]))) return status;
    arguments.add(&maps[k], sizeof(Map));
  }
  for (int k = kernel->maps * kMapWords; k < l.num_params; k++) arguments.add(&l.params[k], sizeof(int64_t));
  int64_t begin = l.begin, end = l.end, extent = end - begin;
  arguments.add(&begin, sizeof(begin));
  arguments.add(&end, sizeof(end));
  if (kernel->form == kRows) {
    int threads = kept.vectors    ? kept.threads
                  : kernel->maps ? kernel->most_threads
                                 : std::min(row_threads(kernel, l, variant->elements), variant->most);
    if (!kept.vectors && variant->key & kNarrow) threads = std::min(threads, kNarrowThreads);
    status = run(variant, std::min<int64_t>(extent, INT32_MAX), threads, unit, stream, arguments);
  } else if (key) {   // tiles of columns
    int threads = variant->key & kNarrow ? kNarrowThreads : kColumnThreads;
    status = run(variant, divided(extent, 32 * variant->elements), threads, unit, stream, arguments);
  } else {
    int threads = extent >= 256 * 132 ? 256 : extent >= 64 * 132 ? 128 : 64;
    status = run(variant, std::min<int64_t>(divided(extent, threads), INT32_MAX), threads, unit, stream, arguments);
  }
  for (int k = 0; k < l.num_operands; k++)
    if (l.constant_bytes[k]) drain(), driver.free_async(place(operands[k]), stream);
  return status;
}

// Tensors of a table, as many a launch as there are rows: operands are those of one tensor after another, parameters
// the numbers, then the tensors' elements (codegen/nvptx/many.py).
int launch_many(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l) {
  int each = static_cast<int>(kernel->itemsizes.size()), count = l.num_operands / each, numbers = l.num_params - count;
  uint64_t any = 0;
  for (int k = 0; k < l.num_operands; k++) any |= place(l.operands[k]);
  Variant* variant = find_variant(kernel, unit, any % 16 == 0);
  if (!variant) return RUSHLIGHT_PYTHON_ERROR;
  int64_t table[512];
  Arguments arguments;
  arguments.add(table, sizeof(table));
  for (int k = 0; k < numbers; k++) arguments.add(&l.params[k], sizeof(int64_t));
  for (int first = 0; first < count; first += kernel->row_param) {
    int rows = std::min(count - first, kernel->row_param), n = 1;
    int64_t blocks = 0;
    table[0] = rows;
    for (int r = first; r < first + rows; r++) {
      for (int k = 0; k < each; k++) table[n++] = static_cast<int64_t>(place(l.operands[r * each + k]));
      table[n++] = l.params[numbers + r];
      table[n++] = blocks += divided(l.params[numbers + r], kernel->vector);
    }
    if (!blocks) continue;
    if (int status = run(variant, blocks, kernel->most_threads, unit, stream, arguments)) return status;
  }
  return RUSHLIGHT_OK;
}

// A product as a job: its numbers, its operands, and what the library does it with where it has a bias.
struct QueuedProduct {
  int64_t params[kProductParams];
  void* operands[4];
  const Kernel* kernel;
  Biased biased;
};

int start_product(Job& job) {
  auto* p = reinterpret_cast<QueuedProduct*>(job.bytes);
  const char* why = "";
  if (p->biased.plan) return launch_biased(p->biased, job.stream, p->operands) ? 0 : kRefused;
  return launch_product(p->kernel, job.unit, job.stream, p->operands, p->params, &why) ? kRefused : 0;
}

bool queue_product(const Kernel* kernel, int unit, void* stream, const RushlightLaunch& l, const Biased& biased) {
  Job* job = queue_room();
  if (!job) return false;
  auto* p = new (job->bytes) QueuedProduct{{}, {}, kernel, biased};
  std::copy(l.params, l.params + kProductParams, p->params);
  std::copy(l.operands, l.operands + l.num_operands, p->operands);
  job->call = start_product, job->what = "matrix product", job->joins = false, job->stream = stream, job->unit = unit;
  queue_push();
  return true;
}

// Rows that are the bias, to which the product is added.
int launch_onto_bias(const Kernel* kernel, int unit, void* stream, const RushlightLaunch& l, const char** why) {
  int32_t constants[2] = {};
  int64_t item = kernel->copy->itemsizes[0];
  Points p{2, 2, {l.operands[3], l.operands[2]}, constants, {l.params[1], l.params[0]}, {}};
  p.strides[0][0] = p.strides[1][0] = item;
  p.strides[1][1] = l.params[9] * item;
  if (int status = launch_points(kernel->copy, unit, stream, p)) return status;
  drain();
  int64_t params[kProductParams];
  std::copy(l.params, l.params + kProductParams, params);
  params[13] = std::bit_cast<int64_t>(1.0);
  return launch_product(kernel, unit, stream, l.operands, params, why);
}

// A matrix product, to which a bias (the fourth operand) is added.
int launch_matrices(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l, const char** why) {
  bool has_bias = l.num_operands == 4;
  if (int status = 0; launch_single_row(kernel, unit, stream, l, &status)) return status;
  note_product(static_cast<double>(l.params[0]) * l.params[1] * l.params[2] * l.params[11]);
  Biased biased{};
  if (has_bias && !serves_biased(kernel->vector, compute_of(kernel->vector), unit, stream, l, &biased))
    return drain(), launch_onto_bias(kernel, unit, stream, l, why);
  if (queue_is_on && queue_product(kernel, unit, stream, l, biased)) return RUSHLIGHT_OK;
  if (!has_bias) return launch_product(kernel, unit, stream, l.operands, l.params, why);
  return launch_biased(biased, stream, l.operands) ? RUSHLIGHT_OK : launch_onto_bias(kernel, unit, stream, l, why);
}

int launch(void*, int unit, void* stream, const RushlightLaunch* what) {
  if (int status = enter(unit)) return status;
  auto* kernel = static_cast<Kernel*>(what->kernel);
  if (kernel->form == kProduct && !named) {
    const char* why = "";
    int status = launch_matrices(kernel, unit, stream, *what, &why);
    if (status && *why) snprintf(message, sizeof(message), "%s", why);
    return status;
  }
  if (kernel->form == kTransform && !named) {
    const char* why = "";
    int status = launch_transform(stream, *what, &why);
    if (status && *why) snprintf(message, sizeof(message), "%s", why);
    return status;
  }
  if (kernel->form == kProduct || kernel->form == kTransform) return RUSHLIGHT_OK;
  if (kernel->form == kMany) return launch_many(kernel, unit, stream, *what);
  if (kernel->form != kPoints) return launch_nest(kernel, unit, stream, *what);
  if (what->num_operands > kMostOperands)
    return snprintf(message, sizeof(message), "a kernel has too many operands"), RUSHLIGHT_FAILED;
  return what->ndim < 0 ? launch_rows_of_points(kernel, unit, stream, *what) : walk_points(kernel, unit, stream, *what);
}

// --- streams
// ------------------------------------------------------------------------------------------------------------

int synchronize(void*, int unit, void* stream) {
  int status = settle(unit);
  return status ? status : done("synchronize", driver.synchronize(stream));
}

int new_stream(void*, int unit, int priority, void** stream) {
  if (int status = settle(unit)) return status;
  return done("new_stream", driver.new_stream(stream, 1, priority));  // 1: it does not wait for the first queue
}

int record(void*, int unit, void* stream, void** event) {
  if (int status = settle(unit)) return status;
  if (int status = done("record", driver.new_event(event, 0))) return status;
  return done("record", driver.record(*event, stream));
}

int wait(void*, int unit, void* stream, void* event) {
  int status = settle(unit);
  return status ? status : done("wait", driver.wait(stream, event, 0));
}

int finish(void*, int unit, void* event) {
  int status = settle(unit);
  return status ? status : done("finish", driver.finish(event));
}

int query(void*, int unit, void* event, int* reached) {
  if (int status = settle(unit)) return status;
  int code = driver.query(event);
  *reached = code == 0;
  return code == kNotReady ? RUSHLIGHT_OK : done("query", code);
}

int forget(void*, int unit, void* event) {
  int status = settle(unit);
  if (!status) driver.forget(event);
  return RUSHLIGHT_OK;
}

int elapsed(void*, int unit, void* start, void* end, double* milliseconds) {
  if (int status = settle(unit)) return status;
  float found = 0;
  int status = done("elapsed_time", driver.elapsed(&found, start, end));
  *milliseconds = found;
  return status;
}

const char* last_error(void*) { return message; }

RushlightDevice table = {RUSHLIGHT_DEVICE_VERSION, 1, nullptr, allocate, release, copy, launch, synchronize, new_stream,
                         record, wait, finish, query, forget, elapsed, copy_between, last_error};

// --- what Python sets up
// --------------------------------------------------------------------------------------------------

bool find_functions(void* library) {
  struct { void** place; const char* name;
  } all[] = {
#define FUNCTION(member, name) {reinterpret_cast<void**>(&driver.member), name}
      FUNCTION(init, "cuInit"),
      FUNCTION(count, "cuDeviceGetCount"),
      FUNCTION(retain, "cuDevicePrimaryCtxRetain"),
      FUNCTION(set_current, "cuCtxSetCurrent"),
      FUNCTION(allocate, "cuMemAlloc_v2"),
      FUNCTION(free, "cuMemFree_v2"),
      FUNCTION(memory, "cuMemGetInfo_v2"),
      FUNCTION(from_host, "cuMemcpyHtoDAsync_v2"),
      FUNCTION(to_host, "cuMemcpyDtoHAsync_v2"),
      FUNCTION(within, "cuMemcpyDtoDAsync_v2"),
      FUNCTION(between, "cuMemcpyPeerAsync"),
      FUNCTION(attribute, "cuFuncGetAttribute"),
      FUNCTION(allocate_async, "cuMemAllocAsync"),
      FUNCTION(free_async, "cuMemFreeAsync"),
      FUNCTION(new_stream, "cuStreamCreateWithPriority"),
      FUNCTION(synchronize, "cuStreamSynchronize"),
      FUNCTION(new_event, "cuEventCreate"),
      FUNCTION(record, "cuEventRecord"),
      FUNCTION(wait, "cuStreamWaitEvent"),
      FUNCTION(finish, "cuEventSynchronize"),
      FUNCTION(query, "cuEventQuery"),
      FUNCTION(forget, "cuEventDestroy_v2"),
      FUNCTION(elapsed, "cuEventElapsedTime"),
      FUNCTION(error_name, "cuGetErrorName"),
      FUNCTION(error_text, "cuGetErrorString")};
#undef FUNCTION
  for (auto& entry : all)
    if (!(*entry.place = dlsym(library, entry.name)))
      return PyErr_Format(PyExc_RuntimeError, "cuda: the driver has no %s: it is too old", entry.name), false;
  return true;
}

// cuda_open(path): (units, address of the table). OSError where there is no driver, RuntimeError where it does not
// start.
PyObject* py_open(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (!text) return nullptr;
  if (!num_units) {
    void* library = opened = dlopen(text, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return PyErr_Format(PyExc_OSError, "cuda: no driver: %s", dlerror()), nullptr;
    if (!find_functions(library)) return nullptr;
    if (!find_launches())
      return PyErr_SetString(PyExc_RuntimeError, "cuda: the driver has no cuLaunchKernel: it is too old"), nullptr;
    int found = 0;
    int code;
    {
      Unlocked others_run;
      code = driver.init(0);
    }
    if (code)
      return failed("the driver does not start", code), PyErr_SetString(PyExc_RuntimeError, message), nullptr;
    if (int code = driver.count(&found))
      return failed("devices", code), PyErr_SetString(PyExc_RuntimeError, message), nullptr;
    num_units = std::min(found, kMostUnits);
    find_address_space(&table);
    flush_launches = [] {      // somebody else is about to queue work
      note_long_work();
      drain();
    };
    pthread_atfork(nullptr, nullptr, [] {
      current = -1;
      is_forked = true;
      forget_queue();
    });
  }
  return Py_BuildValue("iN", num_units, PyLong_FromVoidPtr(&table));
}

PyObject* py_is_forked(PyObject*, PyObject*) { return PyBool_FromLong(is_forked); }

// cuda_enter(unit): the unit's context becomes the thread's; its address.
PyObject* py_enter(PyObject*, PyObject* number) {
  int unit = static_cast<int>(PyLong_AsLong(number));
  if (PyErr_Occurred()) return nullptr;
  current = -1;
  if (settle(unit)) return PyErr_SetString(PyExc_RuntimeError, message), nullptr;
  return PyLong_FromVoidPtr(contexts[unit]);
}

bool read_numbers(PyObject* given, std::vector<int>& numbers) {
  Ref items(PySequence_Fast(given, "cuda_kernel: expected numbers"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.p); i++)
    numbers.push_back(static_cast<int>(PyLong_AsLong(PySequence_Fast_GET_ITEM(items.p, i))));
  return !PyErr_Occurred();
}

// cuda_overlap(wanted): whether kernels are started early, all of which must wait for those before them then; False
// where the driver cannot.
PyObject* py_overlap(PyObject*, PyObject* wanted) {
  int truth = PyObject_IsTrue(wanted);
  if (truth < 0) return nullptr;
  overlaps = truth && can_overlap();
  return PyBool_FromLong(overlaps);
}

// cuda_queue(wanted): whether launches are made by a thread of their own.
PyObject* py_queue(PyObject*, PyObject* wanted) {
  int truth = PyObject_IsTrue(wanted);
  if (truth < 0) return nullptr;
  make_batches(truth);
  return PyBool_FromLong(set_queue(truth && !is_forked, [](int unit) { return enter(unit) ? kNoContext : 0; }));
}

// cuda_capturing(now): work is captured from here on, and not run; or no longer.
PyObject* py_capturing(PyObject*, PyObject* now) {
  int truth = PyObject_IsTrue(now);
  if (truth < 0) return nullptr;
  set_capturing(truth);
  Py_RETURN_NONE;
}

// cuda_named(call): what a call would launch, as [(maker, unit, key of a variant)] where that is new: nothing runs.
PyObject* py_named(PyObject*, PyObject* call) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  PyObject* before = named;
  named = list.p;
  Ref result(PyObject_CallNoArgs(call));
  named = before;
  return result ? list.release() : nullptr;
}

// cuda_kernel(maker, form, vector, itemsizes, row_param, multiples, most_threads, peels, holds, copy=0, maps=0, shared=0): the
// address of a kernel, which stays.
PyObject* py_kernel(PyObject*, PyObject* args) {
  PyObject *maker, *itemsizes, *multiples;
  int form, vector, row_param, most_threads, peels, holds, maps = 0, shared = 0;
  unsigned long long copy = 0;
  if (!PyArg_ParseTuple(args, "OiiOiOipi|Kii", &maker, &form, &vector, &itemsizes, &row_param, &multiples, &most_threads,
                        &peels, &holds, &copy, &maps, &shared))
    return nullptr;
  auto* kernel = new Kernel{Py_NewRef(maker), form, vector, {}, row_param, {}, most_threads, peels != 0, holds,
                            reinterpret_cast<Kernel*>(copy), maps, shared, {}};
  if (!read_numbers(itemsizes, kernel->itemsizes) || !read_numbers(multiples, kernel->multiples)) return nullptr;
  return PyLong_FromVoidPtr(kernel);
}

PyMethodDef functions[] = {
    {"cuda_open", guarded<py_open>, METH_O,
     "cuda_open(path): how many units the driver has, and the address of their table"},
    {"cuda_is_forked", guarded<py_is_forked>, METH_NOARGS, "whether CUDA was started before this process was forked"},
    {"cuda_enter", guarded<py_enter>, METH_O, "cuda_enter(unit): make a unit's context this thread's; its address"},
    {"cuda_overlap", guarded<py_overlap>, METH_O,
     "cuda_overlap(wanted): whether kernels are started early and wait by themselves; False where that cannot be"},
    {"cuda_queue", guarded<py_queue>, METH_O,
     "cuda_queue(wanted): whether launches are made by a thread of their own, while ops go on"},
    {"cuda_capturing", guarded<py_capturing>, METH_O, "cuda_capturing(now): whether work is captured, not run"},
    {"cuda_named", guarded<py_named>, METH_O,
     "cuda_named(call): the variants of kernels that a call needs and that are new; nothing runs"},
    {"cuda_kernel", guarded<py_kernel>, METH_VARARGS,
     "cuda_kernel(maker, form, vector, itemsizes, row_param, multiples, most_threads, peels, holds, copy=0, maps=0, "
     "shared=0): a kernel's address"},
    {}};

}  // namespace

bool cuda::asks_first = false;

int cuda::launch_blocks(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l) {
  return launch_nest(kernel, unit, stream, l);
}

int cuda::make_current(int unit) { return settle(unit); }

int cuda::status_of(const char* what, int code) { return done(what, code); }

void* cuda::find_function(const char* name) { return opened ? dlsym(opened, name) : nullptr; }

int cuda::launch_graph(int unit, void* graph, void* stream) {
  if (int status = settle(unit)) return status;
  static auto launch = reinterpret_cast<int (*)(Handle, Handle)>(find_function("cuGraphLaunch"));
  return done("replay", launch(graph, stream));
}

void* cuda::reserve(int unit, size_t nbytes) {
  void* made = nullptr;
  return allocate(nullptr, unit, nbytes, &made) ? nullptr : made;
}

int init_cuda(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
