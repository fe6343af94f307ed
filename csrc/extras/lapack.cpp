// One kernel that calls any LAPACK or Fortran BLAS routine on each matrix of a batch. Which routine and with what
// arguments is data made in Python, so no routine is named here. C++ because libraries are called by C signatures.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "blas.h"
#include "boundary.h"
#include "pool.h"

namespace rl {

namespace {

constexpr int kMaxArgs = 24;
constexpr int64_t kHeader = 3, kPerArg = 3;
constexpr size_t kKeep = size_t{1} << 26;   // larger scratch memory is given back after the call

enum ArgKind : int64_t {
  kOperand,     // a: which operand; b: bytes from one matrix to the next
  kImmediate,   // a, b: sixteen bytes, passed by reference
  kScratch,     // a: bytes of uninitialised memory
  kValue,       // a: passed by value (the hidden lengths of character arguments)
  kStrip,       // min(a, b - i * a) by reference: the size of strip i of a whole of b, the last of which is shorter
  kAffine,      // a + i * b by reference
};

struct Scratch {
  char* data = nullptr;
  size_t size = 0;
  ~Scratch() { free(data); }
  bool reserve(size_t bytes) {
    if (bytes <= size) return true;
    free(data);
    data = static_cast<char*>(aligned_alloc(64, (bytes + 63) / 64 * 64));
    size = data ? bytes : 0;
    return data != nullptr;
  }
};

thread_local Scratch scratch;

// Fortran passes everything by reference; more arguments than a routine takes are never looked at.
using Routine = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int64_t, int64_t);

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// params: routine, number of arguments, whether the library may use every thread; then kind, a, b of each argument.
void call_routine(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  const auto routine = reinterpret_cast<Routine>(params[0]);
  const int64_t count = std::min<int64_t>(params[1], kMaxArgs);
  use_blas_threads(params[2] ? num_threads() : 1);
  int64_t bytes = 0;
  for (int64_t k = 0; k < count; k++)
    if (params[kHeader + k * kPerArg] == kScratch) bytes += aligned(params[kHeader + k * kPerArg + 1]);
  if (!scratch.reserve(static_cast<size_t>(bytes))) {   // no interpreter here to raise in, and no result to give
    fprintf(stderr, "linalg: no memory for a workspace of %lld bytes\n", static_cast<long long>(bytes));
    abort();
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t a[kMaxArgs] = {}, counted[kMaxArgs];
    int64_t used = 0;
    for (int64_t k = 0; k < count; k++) {
      const int64_t* p = params + kHeader + k * kPerArg;
      if (p[0] == kOperand) a[k] = reinterpret_cast<int64_t>(ptrs[p[1]] + i * p[2]);
      else if (p[0] == kImmediate) a[k] = reinterpret_cast<int64_t>(p + 1);
      else if (p[0] == kValue) a[k] = p[1];
      else if (p[0] == kStrip || p[0] == kAffine) {
        counted[k] = p[0] == kStrip ? std::min(p[1], p[2] - i * p[1]) : p[1] + i * p[2];
        a[k] = reinterpret_cast<int64_t>(counted + k);
      }
      else {
        a[k] = reinterpret_cast<int64_t>(scratch.data + used);
        used += aligned(p[1]);
      }
    }
    routine(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
            a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
  }
  if (scratch.size > kKeep) {
    free(scratch.data);
    scratch.data = nullptr;
    scratch.size = 0;
  }
}

// find_routine(name) -> address of a symbol of the loaded BLAS; LookupError if it has none.
PyObject* find_routine(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  void* found = blas_symbol(text);
  if (!found)
    return PyErr_Format(PyExc_LookupError, "linalg: the BLAS library has no routine called %s", text), nullptr;
  return PyLong_FromVoidPtr(found);
}

PyObject* routine_kernel(PyObject*, PyObject*) { return PyLong_FromVoidPtr(reinterpret_cast<void*>(call_routine)); }

PyMethodDef functions[] = {
    {"find_routine", guarded<find_routine>, METH_O, "address of a routine of the loaded BLAS library"},
    {"routine_kernel", guarded<routine_kernel>, METH_NOARGS,
     "the kernel that calls a routine on each matrix of a batch"},
    {}};

}  // namespace

int init_lapack(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
