// Block programs: a kernel of the usual ABI whose parameters are a small program of calls to other kernels (matrix products,
// generated loops) on blocks of its operands and on scratch memory of the running thread. Python writes the program once per
// plan (op/blocks.py documents the words); this replays it. C++ because each call costs nanoseconds here.
#include "blocks.h"
#include "boundary.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "plan.h"

namespace rl {

namespace {

constexpr int kMaxVars = 8, kMaxCallOperands = 16, kMaxCallParams = 32;
enum Word : int64_t { kLoop = 0, kWhen = 1, kCall = 2 };

// Memory of a thread that grows to what its programs ask for and is kept: block programs run again and again.
struct Scratch {
  char* data = nullptr;
  int64_t bytes = 0;
  ~Scratch() { std::free(data); }
  char* reserve(int64_t wanted) {
    if (wanted > bytes) {
      std::free(data);
      bytes = (wanted + 4095) / 4096 * 4096;
      data = static_cast<char*>(std::aligned_alloc(4096, static_cast<size_t>(bytes)));
      if (!data) std::abort();   // kernels cannot raise
    }
    return data;
  }
};
thread_local Scratch scratch_memory;

struct Machine {
  char** ptrs;
  char* scratch;
  int64_t num_vars;
  int64_t vars[kMaxVars];

  // A value: 0 and a constant, or a count of forms (a constant and a factor per variable) of which the least counts.
  int64_t value(const int64_t*& p) const {
    int64_t forms = *p++;
    if (!forms) return *p++;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (; forms; forms--) {
      int64_t sum = *p++;
      for (int64_t k = 0; k < num_vars; k++) sum += *p++ * vars[k];
      if (sum < least) least = sum;
    }
    return least;
  }

  void call(const int64_t*& p) {
    auto kernel = reinterpret_cast<Kernel>(static_cast<intptr_t>(*p++));
    int64_t extent = value(p), num_operands = *p++;
    char* operands[kMaxCallOperands];
    for (int64_t k = 0; k < num_operands; k++) {
      int64_t which = *p++;
      operands[k] = (which < 0 ? scratch : ptrs[which]) + value(p);
    }
    int64_t num_params = *p++, params[kMaxCallParams];
    for (int64_t k = 0; k < num_params; k++) params[k] = value(p);
    if (extent > 0) kernel(operands, params, 0, extent);
  }

  void run(const int64_t* p, const int64_t* end) {
    while (p < end) {
      switch (*p++) {
        case kLoop: {
          int64_t var = *p++, length = *p++, count = value(p);
          for (int64_t k = 0; k < count; k++) {
            vars[var] = k;
            run(p, p + length);
          }
          p += length;
          break;
        }
        case kWhen: {
          int64_t length = *p++;
          if (value(p) > 0) run(p, p + length);
          p += length;
          break;
        }
        default:
          call(p);
      }
    }
  }
};

// params: words of the program, variables, scratch bytes, parallel variables, their extents; then the program.
void run_blocks(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  int64_t words = params[0], parallel = params[3];
  Machine machine{ptrs, scratch_memory.reserve(params[2]), params[1], {}};
  const int64_t* extents = params + 4;
  const int64_t* program = extents + parallel;
  for (int64_t i = begin; i < end; i++) {
    int64_t rest = i;
    for (int64_t k = parallel - 1; k >= 0; k--) {
      machine.vars[k] = rest % extents[k];
      rest /= extents[k];
    }
    machine.run(program, program + words);
  }
}

PyObject* block_kernel(PyObject*, PyObject*) { return PyLong_FromVoidPtr(reinterpret_cast<void*>(run_blocks)); }

PyObject* block_limits(PyObject*, PyObject*) { return Py_BuildValue("(iii)", kMaxVars, kMaxCallOperands, kMaxCallParams); }

PyMethodDef functions[] = {{"block_kernel", guarded<block_kernel>, METH_NOARGS, "address of the kernel that replays block programs"},
                           {"block_limits", guarded<block_limits>, METH_NOARGS, "most variables, operands of a call, parameters of a call"}, {}};

}  // namespace

int init_blocks(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
