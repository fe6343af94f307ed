// Products with a bias on CUDA devices by cuBLASLt: c = a @ b + bias in one kernel, where cuBLAS would read a copy of
// the bias per row. Which algorithm serves a geometry is asked once.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "boundary.h"
#include "cuda/device.h"
#include "tensor.h"

namespace rl {

namespace {

using cuda::Handle;

// What the library answers about an algorithm, as its interface lays it out.
struct Found {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

struct Light {
  int (*create)(Handle*) = nullptr;
  int (*new_product)(Handle*, int, int) = nullptr;
  int (*set_product)(Handle, int, const void*, size_t) = nullptr;
  int (*new_matrix)(Handle*, int, uint64_t, uint64_t, int64_t) = nullptr;
  int (*new_preference)(Handle*) = nullptr;
  int (*set_preference)(Handle, int, const void*, size_t) = nullptr;
  int (*choose)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Found*, int*) = nullptr;
  int (*multiply)(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*, const void*,
                  Handle, void*, Handle, const void*, void*, size_t, Handle) = nullptr;
} light;

constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;   // cublasLtMatmulDescAttributes_t
constexpr int kBias = 4;                                                           // cublasLtEpilogue_t
constexpr int kMostWorkspace = 1;   // cublasLtMatmulPreferenceAttributes_t
constexpr size_t kWorkspace = 32 << 20;

// One geometry: its description (whose bias is set for each call, under a lock) and the algorithm for it.
struct Plan {
  Handle product = nullptr, a = nullptr, b = nullptr, c = nullptr;
  Found found{};
  bool serves = false;
};

std::mutex lock, multiplying;      // of what is known, and of the bias that a description holds for one call
std::map<std::array<int64_t, 13>, Plan> plans;
Handle handles[64];
struct Space { int unit; void* stream; void* address; };
std::vector<Space> spaces;       // of the library's own, one for each stream

void* space_of(int unit, void* stream) {
  for (Space& one : spaces)
    if (one.unit == unit && one.stream == stream) return one.address;
  void* made = cuda::reserve(unit, kWorkspace);
  if (made) spaces.push_back({unit, stream, made});
  return made;
}

// The library counts down columns: it is asked for the transposed product, whose rows have the bias.
Plan* find_plan(Handle handle, const std::array<int64_t, 13>& key, const int64_t* p, int type, int compute) {
  auto [at, is_new] = plans.try_emplace(key);
  Plan& plan = at->second;
  if (!is_new) return &plan;
  int scale = type == 1 ? 1 : 0, epilogue = kBias, turned_a = static_cast<int>(p[7]), turned_b = static_cast<int>(p[4]);
  Handle preference = nullptr;
  int failed = light.new_product(&plan.product, compute, scale);
  if (failed) return &plan;
  failed |= light.set_product(plan.product, kTransposeA, &turned_a, sizeof(int));
  failed |= light.set_product(plan.product, kTransposeB, &turned_b, sizeof(int));
  failed |= light.set_product(plan.product, kEpilogue, &epilogue, sizeof(int));
  uint64_t m = p[0], n = p[1], k = p[2];
  failed |= light.new_matrix(&plan.a, type, turned_a ? k : n, turned_a ? n : k, p[6]);
  failed |= light.new_matrix(&plan.b, type, turned_b ? m : k, turned_b ? k : m, p[3]);
  failed |= light.new_matrix(&plan.c, type, n, m, p[9]);
  failed |= light.new_preference(&preference);
  if (failed) return &plan;
  failed |= light.set_preference(preference, kMostWorkspace, &kWorkspace, sizeof(kWorkspace));
  int count = 0;
  failed |= light.choose(handle, plan.product, plan.a, plan.b, plan.c, plan.c, preference, 1, &plan.found, &count);
  plan.serves = !failed && count > 0 && plan.found.status == 0;
  return &plan;
}

int alignment(const void* address) {
  uint64_t at = reinterpret_cast<uint64_t>(address);
  return static_cast<int>(std::min<uint64_t>(256, at & (~at + 1)));
}

}  // namespace

namespace cuda {

bool serves_biased(int type, int compute, int unit, void* stream, const RushlightLaunch& l, Biased* found) {
  const int64_t* p = l.params;
  if (!light.create || p[11] != 1) return false;
  std::lock_guard<std::mutex> held(lock);
  if (!handles[unit] && light.create(&handles[unit])) return false;
  int least = 256;
  for (int k = 0; k < 4; k++) least = std::min(least, alignment(l.operands[k]));
  std::array<int64_t, 13> key{unit, type, compute, least, p[0], p[1], p[2], p[3], p[4], p[6], p[7], p[9], 0};
  if (least < 16) return false;
  Plan* plan = find_plan(handles[unit], key, p, type, compute);
  void* space = plan->serves ? space_of(unit, stream) : nullptr;
  *found = {plan, space, handles[unit], type};
  return space != nullptr;
}

bool launch_biased(const Biased& biased, void* stream, void* const* operands) {
  auto* plan = static_cast<Plan*>(biased.plan);
  std::lock_guard<std::mutex> held(multiplying);
  if (light.set_product(plan->product, kBiasPointer, &operands[3], sizeof(void*))) return false;
  double wide[2] = {1.0, 0.0};
  float single[2] = {1.0f, 0.0f};
  const void* one = biased.type == 1 ? static_cast<void*>(&wide[0]) : &single[0];
  const void* zero = biased.type == 1 ? static_cast<void*>(&wide[1]) : &single[1];
  return !light.multiply(biased.handle, plan->product, one, operands[1], plan->a, operands[0], plan->b, zero,
                         operands[2], plan->c, operands[2], plan->c, plan->found.algorithm, biased.space, kWorkspace,
                         stream);
}

}  // namespace cuda

namespace {

// cuda_blas_light(path): opens the library; OSError where it is not one.
PyObject* py_light(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  void* library = text ? dlopen(text, RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!library) return text ? PyErr_Format(PyExc_OSError, "cuda: no cuBLASLt: %s", dlerror()) : nullptr, nullptr;
  Light found;
  struct { void** place; const char* name; } all[] = {
      {reinterpret_cast<void**>(&found.create), "cublasLtCreate"},
      {reinterpret_cast<void**>(&found.new_product), "cublasLtMatmulDescCreate"},
      {reinterpret_cast<void**>(&found.set_product), "cublasLtMatmulDescSetAttribute"},
      {reinterpret_cast<void**>(&found.new_matrix), "cublasLtMatrixLayoutCreate"},
      {reinterpret_cast<void**>(&found.new_preference), "cublasLtMatmulPreferenceCreate"},
      {reinterpret_cast<void**>(&found.set_preference), "cublasLtMatmulPreferenceSetAttribute"},
      {reinterpret_cast<void**>(&found.choose), "cublasLtMatmulAlgoGetHeuristic"},
      {reinterpret_cast<void**>(&found.multiply), "cublasLtMatmul"}};
  for (auto& entry : all)
    if (!(*entry.place = dlsym(library, entry.name)))
      return PyErr_Format(PyExc_OSError, "cuda: this cuBLASLt has no %s", entry.name), nullptr;
  light = found;
  Py_RETURN_NONE;
}

// cuda_light_run(numbers, stream, left, right, out, *(attribute, tensor or None)): a product that
// devices/cuda/light.py described, queued on a stream. `numbers` are addresses: the library's handle, the description, the layouts of the
// library's a, b, c and d, the algorithm, the factors 1 and 0; then the bytes the algorithm needs for itself, and whether
// the result is of another type than sums (then none is read).
PyObject* py_light_run(PyObject*, PyObject* const* args, Py_ssize_t count) {
  constexpr int kNumbers = 10;
  if (count < 5 || count % 2 == 0 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != kNumbers ||
      !is_tensor(args[2]) || !is_tensor(args[3]) || !is_tensor(args[4]))
    return PyErr_SetString(PyExc_TypeError, "cuda_light_run: expected ten numbers, a stream, three tensors and pairs"),
           nullptr;
  void* stream = PyLong_AsVoidPtr(args[1]);
  uint64_t p[kNumbers];
  for (int i = 0; i < kNumbers; i++) p[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(args[0], i));
  if (PyErr_Occurred()) return nullptr;
  auto at = [&](int i) { return reinterpret_cast<Handle>(p[i]); };
  Tensor *left = as_tensor(args[2]), *right = as_tensor(args[3]), *out = as_tensor(args[4]);
  int64_t space = static_cast<int64_t>(p[8]);
  Ref own;
  if (space && !(own = Ref(as_object(tensor_empty(&space, nullptr, 1, DType::U8, out->device))))) return nullptr;
  std::lock_guard<std::mutex> held(multiplying);
  for (Py_ssize_t i = 5; i < count; i += 2) {
    const void* address = is_tensor(args[i + 1]) ? as_tensor(args[i + 1])->data() : nullptr;
    if (light.set_product(at(1), static_cast<int>(PyLong_AsLong(args[i])), &address, sizeof(address)))
      return PyErr_SetString(PyExc_RuntimeError, "cublasLt: a product takes no such address"), nullptr;
  }
  int status = light.multiply(at(0), at(1), at(7), right->data(), at(2), left->data(), at(3),
                              reinterpret_cast<char*>(p[7]) + 4, p[9] ? nullptr : out->data(), at(4), out->data(), at(5),
                              at(6), space ? as_tensor(own.p)->data() : nullptr, p[8], stream);
  if (status) return PyErr_Format(PyExc_RuntimeError, "cublasLt: a product does not run (%d)", status), nullptr;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"cuda_blas_light", guarded<py_light>, METH_O, "cuda_blas_light(path): open cuBLASLt for products with a bias"},
    {"cuda_light_run", guarded_method<py_light_run>(), METH_FASTCALL,
     "cuda_light_run(numbers, stream, left, right, out, *pairs): queue a product of narrow numbers"},
    {}};

}  // namespace

int init_cuda_blas_light(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
