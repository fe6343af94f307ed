// Matrix products on CUDA devices by cuBLAS, as steps of plans: a kernel of form kProduct, whose parameters say how the
// matrices lie.
#include <dlfcn.h>

#include "boundary.h"
#include "cuda/device.h"
#include "cuda/queue.h"

namespace rl {

namespace {

using cuda::Handle;

struct Blas {
  int (*create)(Handle*) = nullptr;
  int (*set_stream)(Handle, Handle) = nullptr;
  int (*gemm)(Handle, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, int, int,
              long long, const void*, void*, int, int, long long, int, int, int) = nullptr;
} blas;

bool allow_tf32 = false;

// A handle belongs to a thread and a unit, and remembers its stream.
struct Own {
  Handle handle = nullptr;
  Handle stream = nullptr;
};
thread_local Own own[64];

constexpr int kSingle = 0, kDouble = 1, kComplexDouble = 5;           // cudaDataType
constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77;    // cublasComputeType

}  // namespace

namespace cuda {

int compute_of(int type) {
  if (type == kDouble || type == kComplexDouble) return kCompute64;
  return type == kSingle && allow_tf32 ? kComputeTf32 : kCompute32;
}

// params: m n k, then line, turned, step of a, of b; line and step of c; how many; alpha and beta by their bits as
// doubles.
int launch_product(const Kernel* kernel, int unit, void* stream, void* const* operands, const int64_t* p,
                   const char** why) {
  Own& mine = own[unit];
  if (!mine.handle && blas.create(&mine.handle)) return *why = "cuBLAS does not start", RUSHLIGHT_FAILED;
  if (mine.stream != stream || !stream) {
    if (blas.set_stream(mine.handle, stream)) return *why = "cuBLAS does not take the stream", RUSHLIGHT_FAILED;
    mine.stream = stream;
  }
  int type = kernel->vector;
  double factors[2][2] = {};
  float single[2][2] = {};
  for (int i = 0; i < 2; i++)
    memcpy(&factors[i][0], &p[12 + i], sizeof(double)), single[i][0] = static_cast<float>(factors[i][0]);
  bool wide = type == kDouble || type == kComplexDouble;
  const void *alpha = wide ? static_cast<void*>(factors[0]) : single[0],
             *beta = wide ? static_cast<void*>(factors[1]) : single[1];
  auto n = [&](int i) { return static_cast<int>(p[i]); };
  // The library counts down columns: it is asked for the transposed product.
  int status =
      blas.gemm(mine.handle, n(7), n(4), n(1), n(0), n(2), alpha, operands[1], type, n(6), p[8], operands[0], type,
                n(3), p[5], beta, operands[2], type, n(9), p[10], n(11), compute_of(type), -1);
  if (status) *why = "cuBLAS refused a product";
  return status ? RUSHLIGHT_FAILED : RUSHLIGHT_OK;
}

}  // namespace cuda

namespace {

// cuda_blas(path): opens the library; OSError where it is not one.
PyObject* py_blas(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  void* library = text ? dlopen(text, RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!library) return text ? PyErr_Format(PyExc_OSError, "cuda: no cuBLAS: %s", dlerror()) : nullptr, nullptr;
  blas.create = reinterpret_cast<decltype(blas.create)>(dlsym(library, "cublasCreate_v2"));
  blas.set_stream = reinterpret_cast<decltype(blas.set_stream)>(dlsym(library, "cublasSetStream_v2"));
  blas.gemm = reinterpret_cast<decltype(blas.gemm)>(dlsym(library, "cublasGemmStridedBatchedEx"));
  if (!blas.create || !blas.set_stream || !blas.gemm)
    return PyErr_SetString(PyExc_OSError, "cuda: this cuBLAS has no cublasGemmStridedBatchedEx"), nullptr;
  Py_RETURN_NONE;
}

PyObject* py_allow_tf32(PyObject*, PyObject* allowed) {
  int truth = PyObject_IsTrue(allowed);
  if (truth < 0) return nullptr;
  cuda::drain();      // products that were asked for before are done as they were
  allow_tf32 = truth;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"cuda_blas", guarded<py_blas>, METH_O, "cuda_blas(path): open cuBLAS for products in plans"},
    {"cuda_allow_tf32", guarded<py_allow_tf32>, METH_O,
     "cuda_allow_tf32(allowed): whether float32 products may be rounded to TF32"},
    {}};

}  // namespace

int init_cuda_blas(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
