// Matrix products through the BLAS the package brings, opened at run time. Kernels here follow the generated kernels'
// ABI, so plans replay them like any other. C++ because a BLAS takes its arguments by a C signature of its own.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "blas.h"
#include "boundary.h"
#include "pool.h"
#include "types.h"

namespace rl {

namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

using Gemm32 = void (*)(int, int, int, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t,
                        float, float*, int64_t);
using Gemm64 = void (*)(int, int, int, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*,
                        int64_t, double, double*, int64_t);
using GemmComplex = void (*)(int, int, int, int64_t, int64_t, int64_t, const void*, const void*, int64_t, const void*,
                             int64_t, const void*, void*, int64_t);

Gemm32 sgemm;
Gemm64 dgemm;
GemmComplex cgemm, zgemm;
void (*set_threads)(int);
std::atomic<int> blas_threads{0};
void* loaded;

// params: m n k lda ldb ldc trans_a trans_b, batch strides of a b c in bytes, alpha and beta as bits of doubles, total
// rows and columns
struct Args {
  int64_t m, n, k, lda, ldb, ldc, trans_a, trans_b, batch_a, batch_b, batch_c;
  double alpha, beta;
  int64_t total_rows;    // not 0: one matrix cut into strips of m rows, the last one shorter
  int64_t total_cols;    // not 0: one matrix cut into strips of n columns, the last one shorter
};

int order(int64_t transposed) { return transposed ? kTrans : kNoTrans; }

// The BLAS runs on one thread: our pool shares the work, since its own threads spin when a core is taken by others.
void use_one_thread() { use_blas_threads(1); }

template <typename Body>
void each_matrix(char** ptrs, const int64_t* params, int64_t begin, int64_t end, Body body) {
  Args args;
  memcpy(&args, params, sizeof(args));
  use_one_thread();
  const int64_t rows = args.m, cols = args.n;
  for (int64_t i = begin; i < end; i++) {
    if (args.total_rows) args.m = std::min(rows, args.total_rows - i * rows);
    if (args.total_cols) args.n = std::min(cols, args.total_cols - i * cols);
    body(args, ptrs[0] + i * args.batch_a, ptrs[1] + i * args.batch_b, ptrs[2] + i * args.batch_c);
  }
}

void gemm_f32(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  each_matrix(ptrs, params, begin, end, [](const Args& p, char* a, char* b, char* c) {
    sgemm(kRowMajor, order(p.trans_a), order(p.trans_b), p.m, p.n, p.k, static_cast<float>(p.alpha),
          reinterpret_cast<float*>(a), p.lda, reinterpret_cast<float*>(b), p.ldb, static_cast<float>(p.beta),
          reinterpret_cast<float*>(c), p.ldc);
  });
}

void gemm_f64(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  each_matrix(ptrs, params, begin, end, [](const Args& p, char* a, char* b, char* c) {
    dgemm(kRowMajor, order(p.trans_a), order(p.trans_b), p.m, p.n, p.k, p.alpha, reinterpret_cast<double*>(a), p.lda,
          reinterpret_cast<double*>(b), p.ldb, p.beta, reinterpret_cast<double*>(c), p.ldc);
  });
}

void gemm_c64(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  each_matrix(ptrs, params, begin, end, [](const Args& p, char* a, char* b, char* c) {
    float alpha[2] = {static_cast<float>(p.alpha), 0}, beta[2] = {static_cast<float>(p.beta), 0};
    cgemm(kRowMajor, order(p.trans_a), order(p.trans_b), p.m, p.n, p.k, alpha, a, p.lda, b, p.ldb, beta, c, p.ldc);
  });
}

void gemm_c128(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  each_matrix(ptrs, params, begin, end, [](const Args& p, char* a, char* b, char* c) {
    double alpha[2] = {p.alpha, 0}, beta[2] = {p.beta, 0};
    zgemm(kRowMajor, order(p.trans_a), order(p.trans_b), p.m, p.n, p.k, alpha, a, p.lda, b, p.ldb, beta, c, p.ldc);
  });
}

template <typename F>
bool find(void* library, const char* prefix, const char* name, const char* suffix, F* slot) {
  char full[128];
  PyOS_snprintf(full, sizeof(full), "%s%s%s", prefix, name, suffix);
  *slot = reinterpret_cast<F>(dlsym(library, full));
  return *slot != nullptr;
}

// load_blas(path, prefix, suffix) -> {dtype code: kernel address}; the library must use 64-bit integers.
PyObject* load_blas(PyObject*, PyObject* args) {
  const char *path, *prefix, *suffix;
  if (!PyArg_ParseTuple(args, "sss", &path, &prefix, &suffix)) return nullptr;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return PyErr_Format(PyExc_OSError, "matmul: cannot load the BLAS library: %s", dlerror()), nullptr;
  bool found =
      find(library, prefix, "cblas_sgemm", suffix, &sgemm) && find(library, prefix, "cblas_dgemm", suffix, &dgemm) &&
      find(library, prefix, "cblas_cgemm", suffix, &cgemm) && find(library, prefix, "cblas_zgemm", suffix, &zgemm);
  if (!found)
    return PyErr_Format(PyExc_OSError, "matmul: %s lacks the gemm functions %scblas_?gemm%s", path, prefix, suffix),
           nullptr;
  find(library, prefix, "openblas_set_num_threads", suffix, &set_threads);
  loaded = library;
  return Py_BuildValue("{s:N,s:N,s:N,s:N}", "f32", PyLong_FromVoidPtr(reinterpret_cast<void*>(gemm_f32)), "f64",
                       PyLong_FromVoidPtr(reinterpret_cast<void*>(gemm_f64)), "c64",
                       PyLong_FromVoidPtr(reinterpret_cast<void*>(gemm_c64)), "c128",
                       PyLong_FromVoidPtr(reinterpret_cast<void*>(gemm_c128)));
}

// Tile registers need the system's permission, once per process; false where processor or system has none.
PyObject* request_tiles(PyObject*, PyObject*) {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  bool present = (d & kAmxBf16) && (d & kAmxTile);
  return PyBool_FromLong(present && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0);
#else
  Py_RETURN_FALSE;
#endif
}

PyMethodDef functions[] = {
    {"request_tiles", guarded<request_tiles>, METH_NOARGS,
     "whether bfloat16 tile products can be used; asks the system"},
    {"load_blas", guarded<load_blas>, METH_VARARGS, "load_blas(path, prefix, suffix): gemm kernels by dtype code"},
    {}};

}  // namespace

void use_blas_threads(int n) {
  if (set_threads && blas_threads.exchange(n) != n) set_threads(n);
}

void* blas_symbol(const char* name) { return loaded ? dlsym(loaded, name) : nullptr; }

int init_blas(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
