// Products of one row with a matrix that lies by its columns: a kernel that reads the matrix once, as fast as memory
// gives it (rushlight/devices/cuda/single_row.py). cuBLAS, whose kernels have 8 rows at the least, takes half as long
// again.
#include <bit>

#include "boundary.h"
#include "cuda/device.h"

namespace rl::cuda {

namespace {

constexpr int64_t kLeast = 1 << 16, kWarpEach = 3000;   // elements of a matrix that are worth it; columns from which a
                                                        // warp for each fills a unit

bool is_whole(const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

// The kernel, which the product's maker is asked for once; null where there is none.
Kernel* single_of(Kernel* kernel) {
  if (kernel->is_asked) return kernel->single;
  PyGILState_STATE gil = PyGILState_Ensure();
  kernel->is_asked = true;
  PyObject* answer = PyObject_CallNoArgs(kernel->maker);
  if (answer) kernel->single = static_cast<Kernel*>(PyLong_AsVoidPtr(answer));
  Py_XDECREF(answer);
  PyErr_Clear();
  PyGILState_Release(gil);
  return kernel->single;
}

}  // namespace

// Parameters as those of `launch_product`; operands are row, matrix, result and, with one, the bias.
bool launch_single_row(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l, int* status) {
  const int64_t* p = l.params;
  bool fits = p[0] == 1 && p[11] == 1 && kernel->maker != Py_None && !p[4] && p[7] && p[2] % 8 == 0 && p[6] % 8 == 0 &&
              p[1] * p[2] >= kLeast && p[2] < INT32_MAX && std::bit_cast<double>(p[12]) == 1 &&
              std::bit_cast<double>(p[13]) == 0 && is_whole(l.operands[0]) && is_whole(l.operands[1]);
  Kernel* single = fits ? single_of(kernel) : nullptr;
  if (!single) return false;
  bool biased = l.num_operands == 4;
  int64_t parts = p[1] >= kWarpEach ? 1 : p[1] >= kWarpEach / 2 ? 2 : 4;
  int64_t params[] = {p[1], p[2], p[6], parts, biased};
  void* operands[] = {l.operands[0], l.operands[1], l.operands[2], l.operands[biased ? 3 : 2]};
  int32_t constants[4] = {};
  RushlightLaunch own = l;
  own.kernel = single;
  own.operands = operands, own.num_operands = 4, own.constant_bytes = constants;
  own.params = params, own.num_params = 5;
  own.begin = 0, own.end = (p[1] + 4 / parts - 1) / (4 / parts);
  *status = launch_blocks(single, unit, stream, own);
  return true;
}

}  // namespace rl::cuda
